"""(a text before, and after) -> what differs, line by line and within the lines."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import NamedTuple

from gateway.inbound.console.shown.layers import Piece, Range
from gateway.inbound.console.shown.letters import shown

AROUND = 3
"""Equal lines that are shown beside what differs."""
MAX_ROWS = 400
"""Lines of one difference that are drawn."""
MAX_SHOWN = 40_000
"""Characters of all lines that are drawn, together."""
MAX_COMPARED = 4_000
"""Lines beyond which all of the one is shown as gone, and all of the other as new: comparing takes their product."""
MAX_LINE = 2_000
"""Characters of a line that is compared with another, and that are shown of it."""
MAX_WORK = 200_000
MAX_LINE_WORK = 4_000
"""Pairs of equal lines, and of equal words of a line, beyond which they are not compared."""
ALIKE = 0.35
"""Two lines with less in common are not compared word by word."""

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the difference."""

    sign: str
    """`+`, `-`, a space, or `…` for lines that are equal and left out."""
    old: int | None
    new: int | None
    text: tuple[Piece, ...]
    left_out: int = 0
    """Equal lines, for `…`; for others, characters at the end of the line."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two texts."""

    rows: tuple[Row, ...]
    added: int
    removed: int
    left_out: int = 0
    """Rows that are not drawn."""
    compared: bool = True
    """Whether it was looked for what is equal."""
    ending: str = ""
    """What differs at the very end, where no line shows it."""


def difference(before: str, after: str, share: int = 1) -> Difference:
    """What differs, with a few equal lines beside it; lines are counted from the beginning of these texts. So many
    differences share the room of a page.
    """
    old, new = _lines(before), _lines(after)
    compared = len(old) + len(new) <= MAX_COMPARED and work(old, new) <= MAX_WORK
    matcher = SequenceMatcher(None, old, new, autojunk=False) if compared else None
    blocks = matcher.get_opcodes() if matcher is not None else [("replace", 0, len(old), 0, len(new))]
    lines = _drawn(old, new, blocks)
    rows = tuple(line.row() for line in _fitting(islice(lines, MAX_ROWS // share), MAX_SHOWN // share))
    added = sum(to - start for tag, _, _, start, to in blocks if tag != "equal")
    removed = sum(to - start for tag, start, to, _, _ in blocks if tag != "equal")
    left_out = sum(1 for _ in _drawn(old, new, blocks)) - len(rows)
    return Difference(rows, added, removed, left_out, compared, _ending(before, after))


def _fitting(lines: "Iterable[_Line]", room: int) -> "Iterator[_Line]":
    for line in lines:
        yield line
        room -= min(len(line.text), MAX_LINE)
        if room <= 0:
            return


def _ending(before: str, after: str) -> str:
    if not before or not after or before.endswith("\n") == after.endswith("\n"):
        return ""
    return "the last line has no end any more" if before.endswith("\n") else "the last line has an end now"


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def work(one: Sequence[str], other: Sequence[str]) -> int:
    """How many pairs of equal parts there are: what comparing takes grows with it, and an agent chooses the texts."""
    counts = Counter(other)
    return sum(count * counts[part] for part, count in Counter(one).items())


class _Line(NamedTuple):
    """A line that will be drawn, if it is among the first."""

    sign: str
    old: int | None
    new: int | None
    text: str = ""
    beside: str | None = None
    """The line that it replaces, or that replaces it."""
    left_out: int = 0

    def row(self) -> Row:
        """With its letters and words marked."""
        if self.sign == "…":
            return Row("…", None, None, (), self.left_out)
        changed: tuple[Range, ...] = ()
        if self.beside:
            pair = (self.text, self.beside) if self.sign == "-" else (self.beside, self.text)
            changed = words(*pair)[0 if self.sign == "-" else 1]
        cut = self.text[:MAX_LINE]
        return Row(self.sign, self.old, self.new, shown(cut, changed, strict=True), len(self.text) - len(cut))


def _drawn(old: Sequence[str], new: Sequence[str], blocks: Sequence[tuple[str, int, int, int, int]]) -> Iterator[_Line]:
    for place, (tag, a, b, c, d) in enumerate(blocks):
        if tag == "equal":
            yield from _equal(old[a:b], a, c, first=place == 0, last=place == len(blocks) - 1)
            continue
        gone, come = old[a:b], new[c:d]
        for at, line in enumerate(gone):
            yield _Line("-", a + at + 1, None, line, come[at] if at < len(come) else None)
        for at, line in enumerate(come):
            yield _Line("+", None, c + at + 1, line, gone[at] if at < len(gone) else None)


def _equal(lines: Sequence[str], a: int, c: int, *, first: bool, last: bool) -> Iterator[_Line]:
    head, tail = (0 if first else AROUND), (0 if last else AROUND)
    left = len(lines) - head - tail
    for at, line in enumerate(lines):
        if left > 1 and head <= at < len(lines) - tail:
            if at == head:
                yield _Line("…", None, None, left_out=left)
            continue
        yield _Line(" ", a + at + 1, c + at + 1, line)


def words(before: str, after: str) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    """Which words of the one are not in the other, and of the other not in the one; nothing where they are unlike."""
    if before == after or max(len(before), len(after)) > MAX_LINE:
        return (), ()
    one, other = _WORDS.findall(before), _WORDS.findall(after)
    if work(one, other) > MAX_LINE_WORK:
        return (), ()
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    if matcher.ratio() < ALIKE:
        return (), ()
    blocks = matcher.get_opcodes()
    gone = [(a, b) for tag, a, b, _, _ in blocks if tag != "equal"]
    come = [(c, d) for tag, _, _, c, d in blocks if tag != "equal"]
    return _ranges(one, gone, "gone"), _ranges(other, come, "come")


def _ranges(parts: Sequence[str], spans: Sequence[tuple[int, int]], style: str) -> tuple[Range, ...]:
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + len(part))
    return tuple(Range(starts[a], starts[b], style) for a, b in spans if a < b)
