"""(a long text) -> its head and its tail, its size and its digest. Nothing is cut without saying how much."""

from dataclasses import dataclass
from hashlib import sha256

HEAD = 6_000
TAIL = 1_500
"""Characters that are shown of a longer text: some eighty lines and some twenty."""
LINES = 160
"""A text of more lines than that is long too."""


@dataclass(frozen=True, slots=True)
class Whole:
    """How much there is of a text that is shown in part."""

    characters: int
    size_bytes: int
    lines: int
    sha256: str
    left_out: int
    """Characters in the middle."""
    at: str
    """Where in the arguments it stands, as a JSON pointer."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A text, or its two ends."""

    head: str
    tail: str = ""
    whole: Whole | None = None


def cut(text: str, at: str, *, head: int = HEAD, tail: int = TAIL) -> Cut:
    """The text, whole where it is short."""
    if len(text) <= head + tail + tail // 2 and text.count("\n") <= LINES:
        return Cut(text)
    front, back = _lines(text[:head], LINES), text[len(text) - tail :]
    if len(front) + len(back) >= len(text):
        return Cut(text)
    body = text.encode("utf-8", "surrogatepass")
    left = len(text) - len(front) - len(back)
    whole = Whole(len(text), len(body), text.count("\n") + 1, sha256(body).hexdigest(), left, at)
    return Cut(front, back, whole)


def _lines(text: str, most: int) -> str:
    lines = text.splitlines(keepends=True)
    return text if len(lines) <= most else "".join(lines[:most])
