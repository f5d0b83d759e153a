"""What can be known of, and done to, one configuration file, whatever its syntax."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from gateway.model.flaws import Place


class Unusable(ValueError):
    """A file, or this machine, is not as it must be. The message is one line and says what to do."""


class Text(NamedTuple):
    """A text that stands in the file as a value."""

    start: int
    """Of its source, quotes included."""
    end: int
    place: Place
    value: str


class Edit(NamedTuple):
    """A span of the file, and what is to stand there instead."""

    start: int
    end: int
    instead: str


class Sheet(Protocol):
    """A parsed file."""

    @property
    def value(self) -> Any:
        """Its plain value."""

    @property
    def texts(self) -> Sequence[Text]:
        """Every text in it, in their order."""

    def fixed(self, place: Place) -> str | None:
        """Why the entry at the place cannot be cut out of the file; None if it can."""

    def moved(self, root: Place, names: Collection[str], name: str, entry: Mapping[str, Any]) -> str:
        """The file with all these entries of the mapping at `root` gone, and a new one where the last of them was."""


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with all the edits made; they do not overlap."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.instead + text[edit.end :]
    return text


def whole_lines(text: str, start: int, end: int) -> Edit:
    """The span cut out, with the lines that nothing else would be left of."""
    left = start - len(text[:start]) + len(text[:start].rstrip(" \t"))
    right = end + len(text[end:]) - len(text[end:].lstrip(" \t"))
    begins = left == 0 or text[left - 1] == "\n"
    broken = next((mark for mark in ("\r\n", "\n") if text.startswith(mark, right)), "")
    if begins and (broken or right == len(text)):
        return Edit(left, right + len(broken), "")
    return Edit(start, end if begins else right, "")


def line_column(text: str, index: int) -> str:
    """`line:column`, from 1, as messages place what they speak of."""
    return f"{text.count(chr(10), 0, index) + 1}:{index - text.rfind(chr(10), 0, index)}"
