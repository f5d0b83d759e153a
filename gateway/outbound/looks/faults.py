"""What keeps a look from seeing, and what must not be told of what it saw."""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

LEAST_SECRET = 6
"""Characters; what is shorter would be found everywhere."""

HIDDEN = "[hidden]"


class CannotLook(Exception):
    """It cannot be found out. The message goes to agents and into the ledger: half a sentence, and no secret."""


_OURS = frozenset({"junit", "headers"})
"""Parts of what was seen whose keys are ours, as those of the whole; keys elsewhere are of whoever was looked at."""

_PLAIN = frozenset({"kind", "digest", "revision"})
"""Parts whose texts are ours."""


def spellings(secrets: Iterable[str]) -> tuple[str, ...]:
    """Each of the secrets as it is, as JSON escapes it and as URLs do, the longest first."""
    found: set[str] = set()
    for one in secrets:
        if len(one) >= LEAST_SECRET:
            found |= {one, json.dumps(one)[1:-1], json.dumps(one, ensure_ascii=False)[1:-1]}
            found |= {quote(one, safe=safe, errors="surrogateescape") for safe in ("", "/")}
    return tuple(sorted(found, key=lambda one: (-len(one), one)))


def hide(text: str, spelled: Iterable[str]) -> str:
    """The text without any of these, as `spellings` gives them, and without NUL."""
    for one in spelled:
        text = text.replace(one, HIDDEN)
    return text.replace("\0", "\ufffd")  # which no condition and not every ledger can take


def discreet(seen: Mapping[str, Any], secrets: Iterable[str]) -> dict[str, Any]:
    """What was seen without any of the secrets, in whichever text of it they stand; keys that are ours stay."""
    spelled = spellings(secrets)
    return {name: one if name in _PLAIN else _hiding(one, spelled, ours=name in _OURS) for name, one in seen.items()}


def _hiding(value: Any, spelled: tuple[str, ...], *, ours: bool = False) -> Any:
    if isinstance(value, str):
        return hide(value, spelled)
    if isinstance(value, dict):
        return {(key if ours else hide(key, spelled)): _hiding(one, spelled) for key, one in value.items()}
    if isinstance(value, list):
        return [_hiding(one, spelled) for one in value]
    return value
