"""Rows of a database as JSON, bounded."""

import base64
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

from gateway.outbound.looks.faults import CannotLook

MAX_ROWS = 200
MAX_BYTES = 256 * 1024
"""Of all cells together, by their texts."""


def named_once(place: str, columns: Sequence[str]) -> None:
    """Each column has a name of its own.

    Raises: CannotLook, where one would stand in another's place.
    """
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise CannotLook(f"the query of `{place}` gives two columns of the name `{twice[:64]}`")


def as_seen(rows: Sequence[Mapping[str, Any]], *, more: bool) -> dict[str, Any]:
    """The rows as far as they are few and small enough; `truncated` where that is not all."""
    told: list[dict[str, Any]] = []
    left = MAX_BYTES
    for row in rows[:MAX_ROWS]:
        plain = {str(name): _plain(value) for name, value in row.items()}
        left -= sum(len(name) + len(str(value)) for name, value in plain.items())
        if left < 0:
            break
        told.append(plain)
    return {"rows": told, "count": len(told), "truncated": more or len(told) < len(rows)}


def _plain(value: Any) -> Any:
    """Numbers that JSON has stay numbers; exact decimals, times, ids and the like are their texts; bytes are base64."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat().replace("+00:00", "Z")
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(bytes(value)).decode()
        case list() | tuple():
            return [_plain(one) for one in value]
        case _:
            return str(value)
