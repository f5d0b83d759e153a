"""What keeps a look from seeing, and what must not be told of what it saw."""

from collections.abc import Iterable
from typing import Any

LEAST_SECRET = 6
"""Characters; what is shorter would be found everywhere."""

HIDDEN = "[hidden]"


class CannotLook(Exception):
    """It cannot be found out. The message goes to agents and into the ledger: half a sentence, and no secret."""


def discreet(value: Any, secrets: Iterable[str]) -> Any:
    """The JSON value without any of the secrets, in whichever text of it they stand, and without NUL."""
    hidden = [one for one in secrets if len(one) >= LEAST_SECRET]
    return _hiding(value, sorted(hidden, key=len, reverse=True))


def _hiding(value: Any, hidden: list[str]) -> Any:
    if isinstance(value, str):
        for one in hidden:
            value = value.replace(one, HIDDEN)
        return value.replace("\0", "\ufffd")  # which no condition and not every ledger can take
    if isinstance(value, dict):
        return {_hiding(key, hidden): _hiding(one, hidden) for key, one in value.items()}
    if isinstance(value, list):
        return [_hiding(one, hidden) for one in value]
    return value
