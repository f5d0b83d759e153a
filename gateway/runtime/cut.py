"""A JSON value, small enough to be told: its shape is kept, long texts lose their middle, long lists their end."""

from collections.abc import Mapping
from typing import Any

from gateway.model.canonical import dump

LONGEST = ((2_000, 50), (500, 20), (120, 8))
"""Characters of a text and entries of a list or object that are kept; each is tried until the whole is small enough."""


def cut(value: Any, most: int) -> tuple[Any, bool]:
    """The value in at most so many characters of JSON, and whether something of it is missing; None if it has too many
    parts for that.
    """
    if len(dump(value)) <= most:
        return value, False
    for texts, entries in LONGEST:
        shorter = _cut(value, texts, entries)
        if len(dump(shorter)) <= most:
            return shorter, True
    return None, True


def _cut(value: Any, texts: int, entries: int) -> Any:
    if isinstance(value, str) and len(value) > texts:
        # The end of a text is where tests and servers say what went wrong.
        return f"{value[: texts // 4]} … {value[-(texts - texts // 4) :]}"
    if isinstance(value, list):
        return [_cut(one, texts, entries) for one in value[:entries]]
    if isinstance(value, Mapping):
        return {key: _cut(one, texts, entries) for key, one in list(value.items())[:entries]}
    return value
