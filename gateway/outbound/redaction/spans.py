"""Where in a text something stands that is not to be shown, and the text without it."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_PLACEHOLDER = re.compile(r"\[redacted [a-z0-9_]{1,64} #[0-9]{1,9}, [0-9]{1,9} characters\]")


class Span(NamedTuple):
    """A stretch of a text, in the unit of whoever found it: characters, or bytes of its UTF-8."""

    start: int
    end: int
    kind: str
    """What it is, in lower case: `github_token`, `email`."""


def in_characters(spans: Sequence[Span], body: bytes) -> list[Span]:
    """Spans in bytes, in order and apart, as spans in the characters of the text whose UTF-8 `body` is. Linear."""
    at = place = 0
    moved: list[Span] = []
    for span in spans:
        start = place + len(body[at : span.start].decode(errors="replace"))
        at, place = span.end, start + len(body[span.start : span.end].decode(errors="replace"))
        moved.append(Span(start, place, span.kind))
    return moved


def merged(spans: Sequence[Span]) -> list[Span]:
    """In order, and what overlaps as one, under the name of the one that begins first, of those the longest."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        if found and span.start < found[-1].end:
            if span.end > found[-1].end:
                found[-1] = found[-1]._replace(end=span.end)
        else:
            found.append(span)
    return found


def replaced(text: str, spans: Sequence[Span], placeholder: Callable[[str, str], str]) -> str:
    """The text with each span put as (its kind, what stood there) is told."""
    parts, at = list[str](), 0
    for span in spans:
        parts += text[at : span.start], placeholder(span.kind, text[span.start : span.end])
        at = span.end
    return "".join((*parts, text[at:]))


def placeholder(kind: str, number: int, length: int) -> str:
    """What stands in the place of a secret."""
    return f"[redacted {kind} #{number}, {length} characters]"


def is_placeholder(text: str) -> bool:
    """Whether it is the whole of one, so that what was redacted once is not redacted again."""
    return _PLACEHOLDER.fullmatch(text) is not None
