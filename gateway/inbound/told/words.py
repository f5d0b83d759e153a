"""Untrusted text for people: nothing in it may act, hide, or pass for something else. And how numbers are said."""

from datetime import datetime

from gateway.model.unseen import spelled_out

GONE = "(erased, changed or encrypted)"
"""In the place of a payload that is cited and cannot be shown."""


def visible(text: str, *, keep: str = "") -> str:
    r"""The text with every character that would act, hide or look like nothing spelled out as `\u{…}`."""
    return spelled_out(text, keep=keep)


def counted(number: int, what: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def cut(text: str, length: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def ago(then: datetime, now: datetime) -> str:
    """`12 s ago`, `5 min ago`, `3 h ago`, `2 d ago`."""
    return f"{lasting((now - then).total_seconds())} ago"


def lasting(spell_s: float) -> str:
    """`12 s`, `5 min`, `3 h`, `2 d`; nothing is negative."""
    whole = max(0, int(spell_s))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if whole >= size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def seconds(value: float | None) -> str:
    """A duration as people read it; empty for None."""
    if value is None:
        return ""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
