"""How long, as people type it: `90`, `30s`, `30m`, `12h`, `7d`."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import typer

UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
LONGEST_S = 100 * 366 * 86_400.0
"""Beyond it nobody means anything, and calendars end."""
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s?([a-z]*)")


def duration(text: str) -> float:
    """In seconds."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in UNITS or not 0 < float(found[1]) * UNITS[found[2]] <= LONGEST_S:
        raise typer.BadParameter(f"`{text}` is no duration: `30s`, `30m`, `12h` or `7d` is wanted")
    return float(found[1]) * UNITS[found[2]]


EPOCH, NEVER = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def moment(text: str) -> datetime:
    """A time: so long ago (`7d`), or a date or time as ISO 8601 has it, in UTC where it names no offset."""
    with suppress(typer.BadParameter):
        return datetime.now(UTC) - timedelta(seconds=duration(text))
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(f"`{text}` is no time: `7d`, `2026-11-30` or `2026-11-30T12:00` is wanted") from None
    told = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    if not EPOCH <= told <= NEVER:
        raise typer.BadParameter(f"`{text}` is no time of a ledger: from {EPOCH:%Y} to {NEVER:%Y}")
    return told
