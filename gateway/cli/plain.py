"""Untrusted text on a terminal: nothing in it may act, hide, or pass for something else."""

import unicodedata
from datetime import datetime

from rich import box
from rich.table import Table

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control, format (zero width, bidi, tags), surrogate, private, unassigned, line and paragraph separators."""

GONE = "(erased or changed)"
"""In the place of a payload that is cited and cannot be shown."""


def visible(text: str, *, keep: str = "") -> str:
    r"""The text with every character that would act or hide spelled out as `\u{…}`."""
    return "".join(
        char if char in keep or unicodedata.category(char) not in _UNSEEN else f"\\u{{{ord(char):x}}}" for char in text
    )


def plain_table(title: str | None = None) -> Table:
    """A table without lines, which fits into 80 columns as well as it can."""
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))


def counted(number: int, what: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def cut(text: str, length: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def ago(then: datetime, now: datetime) -> str:
    """`12 s ago`, `5 min ago`, `3 h ago`, `2 d ago`."""
    seconds = max(0, int((now - then).total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def seconds(value: float | None) -> str:
    """A duration as people read it; empty for None."""
    if value is None:
        return ""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
