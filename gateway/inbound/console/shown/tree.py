"""(any JSON value) -> a tree in which each value says what it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.inbound.console.shown.layers import Piece
from gateway.inbound.console.shown.letters import shown
from gateway.inbound.console.shown.links import addresses
from gateway.inbound.console.shown.long import Cut, Whole, cut

MAX_NODES = 400
"""Values of one tree that are drawn; the exact JSON has them all."""
MAX_DEPTH = 12
MAX_SHOWN = 40_000
"""Characters of all texts of one tree together; beyond them each is shown by its very beginning."""
BEGINNING = 100
MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Node:
    """A value, under its name."""

    name: tuple[Piece, ...]
    kind: str
    """`text`, `number`, `yes or no`, `nothing`, `list` or `object`."""
    value: tuple[Piece, ...] = ()
    tail: tuple[Piece, ...] = ()
    whole: Whole | None = None
    """Where of a text only both ends are shown."""
    children: tuple["Node", ...] = ()
    count: int = 0
    """Of what is in a list or an object."""
    left_out: int = 0
    """How many of these are not drawn."""
    block: bool = False
    """A text that needs lines of its own."""


class _Room:
    def __init__(self) -> None:
        self.left = MAX_NODES
        self.characters = MAX_SHOWN

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def cut(self, text: str, at: str) -> Cut:
        """As much of the text as there is room for."""
        part = cut(text, at) if self.characters > 0 else cut(text, at, head=BEGINNING, tail=0)
        self.characters -= len(part.head) + len(part.tail)
        return part


def tree(values: Mapping[str, Any], at: str = "") -> tuple[Node, ...]:
    """A node for each value; `at` is where they stand in the arguments, as a JSON pointer."""
    room = _Room()
    return tuple(_node(name, value, f"{at}/{pointed(name)}", room, 0) for name, value in values.items() if room.take())


def pointed(name: str) -> str:
    """A name as a part of a JSON pointer [RFC 6901]."""
    return name.replace("~", "~0").replace("/", "~1")


def named(name: str) -> tuple[Piece, ...]:
    """An argument's name; of a very long one its beginning, and how much more there is."""
    more = len(name) - MAX_NAME
    told = shown(name[:MAX_NAME], strict=True)
    return told if more <= 0 else (*told, Piece(f"… ({more:,} more characters)"))


def _node(name: str, value: Any, at: str, room: _Room, depth: int) -> Node:
    said = named(name)
    match value:
        case None:
            return Node(said, "nothing", (Piece("null"),))
        case bool():
            return Node(said, "yes or no", (Piece("true" if value else "false"),))
        case int() | float():
            return Node(said, "number", (Piece(str(value)),))
        case str():
            return _text(said, room.cut(value, at))
        case Mapping():
            return _inner(said, "object", [(str(key), one) for key, one in value.items()], at, room, depth)
        case _:
            return _inner(said, "list", [(str(place), one) for place, one in enumerate(value)], at, room, depth)


def _text(name: tuple[Piece, ...], part: Cut) -> Node:
    block = part.whole is not None or "\n" in part.head or len(part.head) > 120  # noqa: PLR2004 - about a line
    return Node(name, "text", marked(part.head), marked(part.tail), part.whole, block=block)


def marked(text: str) -> tuple[Piece, ...]:
    """A text with what is odd in it, and its addresses."""
    return shown(text, addresses(text), strict="://" in text)


def _inner(name: tuple[Piece, ...], kind: str, values: list[tuple[str, Any]], at: str, room: _Room, depth: int) -> Node:
    deep = depth >= MAX_DEPTH
    children = () if deep else tuple(_children(values, at, room, depth + 1))
    return Node(name, kind, children=children, count=len(values), left_out=len(values) - len(children))


def _children(values: list[tuple[str, Any]], at: str, room: _Room, depth: int) -> Iterator[Node]:
    for name, value in values:
        if not room.take():
            return
        yield _node(name, value, f"{at}/{pointed(name)}", room, depth)
