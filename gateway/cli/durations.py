"""How long, as people type it: `90`, `30s`, `30m`, `12h`, `7d`."""

import re

import typer

UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s?([a-z]*)")


def duration(text: str) -> float:
    """In seconds."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in UNITS or float(found[1]) <= 0:
        raise typer.BadParameter(f"`{text}` is no duration: `30s`, `30m`, `12h` or `7d` is wanted")
    return float(found[1]) * UNITS[found[2]]
