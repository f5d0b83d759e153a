"""What the doctor found: how one thing is, and what to do."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """How one thing is."""

    state: State
    about: str
    """A word or two."""
    says: str
    """What was seen. No secret."""
    do: str = ""
    """What to do about it."""


def ok(about: str, says: str) -> Finding:
    """It is as it should be."""
    return Finding("ok", about, says)


def warning(about: str, says: str, do: str = "") -> Finding:
    """It may be meant so, and whoever runs this should know."""
    return Finding("warning", about, says, do)


def wrong(about: str, says: str, do: str = "") -> Finding:
    """It does not work, or does not guard."""
    return Finding("wrong", about, says, do)
