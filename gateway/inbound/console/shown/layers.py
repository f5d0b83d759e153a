"""(text, ranges of it that mean something) -> pieces, each with all that is meant where it stands.

What is untrusted is shown by this alone: no range makes markup, and each piece is escaped where it is filled in.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple


class Range(NamedTuple):
    """Characters that mean something."""

    start: int
    end: int
    style: str
    """A word of ours, which becomes a class."""
    says: str = ""
    """For who points at it, and for who cannot see it."""
    instead: str = ""
    """What is shown in its place, where it cannot be seen itself."""


class Piece(NamedTuple):
    """Characters that are shown alike."""

    text: str
    styles: str = ""
    """Words of ours, with spaces between."""
    says: str = ""


def pieces(text: str, *layers: Iterable[Range]) -> tuple[Piece, ...]:
    """The whole text in pieces; where ranges of several layers meet, the piece has the styles of all."""
    ranges = sorted((one for layer in layers for one in layer if one.start < one.end), key=lambda one: one.start)
    if not ranges:
        return (Piece(text),) if text else ()
    return tuple(_swept(text, ranges))


def _swept(text: str, ranges: Sequence[Range]) -> Iterator[Piece]:
    edges = sorted({0, len(text), *(one.start for one in ranges), *(one.end for one in ranges)})
    waiting, active = 0, list[Range]()
    for start, end in pairwise(edges):
        active = [one for one in active if one.end > start]
        while waiting < len(ranges) and ranges[waiting].start <= start:
            active.append(ranges[waiting])
            waiting += 1
        styles = " ".join(dict.fromkeys(one.style for one in active))
        says = "; ".join(dict.fromkeys(one.says for one in active if one.says))
        instead = next((one.instead for one in active if one.instead), "")
        yield Piece(instead or text[start:end], styles, says)


def within(ranges: Iterable[Range], start: int, end: int) -> Iterator[Range]:
    """Those that touch this stretch of the text, as places in it."""
    for one in ranges:
        if one.start < end and one.end > start:
            yield one._replace(start=max(0, one.start - start), end=min(end, one.end) - start)
