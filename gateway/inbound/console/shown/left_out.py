"""(parts as they are drawn) -> how much of the arguments is not: whoever agrees is to know it beside the button."""

from collections.abc import Iterator, Sequence

from gateway.inbound.console.shown.kinds import Edit, Part, Values
from gateway.inbound.console.shown.tree import Node


def left_out(parts: Sequence[Part]) -> tuple[int, bool]:
    """Characters in the middle of long texts, and whether there is more that is not drawn at all."""
    nodes = [node for part in parts if isinstance(part, Values) for one in part.nodes for node in _all(one)]
    wholes = [part.whole for part in parts if not isinstance(part, Values | Edit)] + [node.whole for node in nodes]
    edits = [part for part in parts if isinstance(part, Edit)]
    lines = sum(row.left_out for part in edits for row in part.change.rows if row.sign != "…")
    characters = lines + sum(one.left_out for one in wholes if one is not None)
    undrawn = any(part.change.left_out for part in edits) or any(node.left_out for node in nodes)
    return characters, undrawn


def _all(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _all(child)
