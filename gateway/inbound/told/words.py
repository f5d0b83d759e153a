"""Untrusted text for people: nothing in it may act, hide, or pass for something else. And how numbers are said."""

from datetime import datetime

from gateway.model.unseen import spelled_out

GONE = "(erased, changed or encrypted)"
"""In the place of a payload that is cited and cannot be shown."""


def visible(text: str, *, keep: str = "") -> str:
    r"""The text with every character that would act, hide or look like nothing spelled out as `\u{…}`."""
    return spelled_out(text, keep=keep)


def whose(tenant: str, principal: str) -> str:
    """`acme/ann`, harmless; the name alone where the tenant is this machine's own, as that of `local:ann` is."""
    return visible(principal if tenant in {"", "local"} else f"{tenant}/{principal}")


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


def size(size_bytes: int) -> str:
    """`560 B`, `12.3 kB`, `4.0 MB`; of a thousand each."""
    for factor, unit in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes} B"


def spell(spell_s: float) -> str:
    """A duration of any length, with a digit more than `lasting`: `96 ms`, `12.0 s`, `5.2 min`, `3.1 h`, `2.0 d`."""
    for factor, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if spell_s >= 2 * factor:
            return f"{spell_s / factor:.1f} {unit}"
    return seconds(spell_s)


def amount(value: float) -> str:
    """`1,234.5`, without digits that say nothing; at most six of them stand behind the point."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")
