"""(boxes, arrows) -> where they are drawn. Layered, from top to bottom; labels of arrows are boxes among the others.

Each arrow is a chain of items, one in each layer that it passes, so that lines only bend between layers and cross no
box: phases stand in even layers, labels in odd ones. An arrow that leads back is laid as if it led forward, and drawn
the other way round.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter

GAP_X, GAP_Y = 28.0, 34.0
SWEEPS = 12
LINE = 10.0
"""The width of an arrow that only passes."""


@dataclass(eq=False, slots=True)
class Item:
    """Something in a layer: a phase, the label of an arrow, or an arrow that passes."""

    width: float
    height: float
    layer: int = 0
    x: float = 0.0
    """Of its middle."""
    y: float = 0.0
    """Of its top."""
    above: list["Item"] = field(default_factory=list)
    below: list["Item"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Link:
    """An arrow to be laid."""

    source: str
    target: str
    width: float
    height: float
    """Of its label."""


@dataclass(frozen=True, slots=True)
class Laid:
    """An arrow, laid: from the upper phase through every layer to the lower one."""

    chain: tuple[Item, ...]
    label: Item
    back: bool
    """It points upwards."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is."""

    boxes: Mapping[str, Item]
    links: tuple[Laid, ...]
    bands: tuple[tuple[float, float], ...]
    """Top and bottom of each layer."""
    width: float
    height: float


def lay(sizes: Mapping[str, tuple[float, float]], links: Sequence[Link]) -> Layout:
    """Lay boxes of these sizes, the first of them on top, and the arrows between them."""
    boxes = {name: Item(*size) for name, size in sizes.items()}
    turned = _turned(list(sizes), links)
    _layer(boxes, links, turned)
    laid = tuple(_chain(boxes, link, back=link in turned) for link in links)
    layers = _layers([*boxes.values(), *(item for one in laid for item in one.chain[1:-1])])
    for at in range(SWEEPS):
        _order(layers, down=at % 2 == 0)
    for at in range(SWEEPS):
        _place(layers, down=at % 2 == 0)
    return _measured(boxes, laid, layers)


def _turned(names: Sequence[str], links: Sequence[Link]) -> set[Link]:
    """Arrows that lead back to where a walk from the first box is still on its way."""
    turned: set[Link] = set()
    done: set[str] = set()
    for start in names:
        way: list[tuple[str, list[Link]]] = []
        if start not in done:
            way.append((start, [link for link in links if link.source == start]))
        while way:
            name, left = way[-1]
            if not left:
                done.add(name)
                way.pop()
                continue
            link = left.pop(0)
            if any(link.target == earlier for earlier, _ in way):
                turned.add(link)
            elif link.target not in done:
                way.append((link.target, [one for one in links if one.source == link.target]))
    return turned


def _ends(link: Link, turned: set[Link]) -> tuple[str, str]:
    return (link.target, link.source) if link in turned else (link.source, link.target)


def _layer(boxes: Mapping[str, Item], links: Sequence[Link], turned: set[Link]) -> None:
    for _ in boxes:  # as many rounds as the longest way has steps
        for link in links:
            upper, lower = _ends(link, turned)
            boxes[lower].layer = max(boxes[lower].layer, boxes[upper].layer + 2)


def _chain(boxes: Mapping[str, Item], link: Link, *, back: bool) -> Laid:
    upper, lower = (boxes[name] for name in ((link.target, link.source) if back else (link.source, link.target)))
    label = Item(link.width, link.height, upper.layer + 1)
    passing = [Item(LINE, 0.0, layer) for layer in range(upper.layer + 2, lower.layer)]
    chain = (upper, label, *passing, lower)
    for one, other in pairwise(chain):
        one.below.append(other)
        other.above.append(one)
    return Laid(chain, label, back)


def _layers(items: Iterable[Item]) -> list[list[Item]]:
    found: dict[int, list[Item]] = {}
    for item in items:
        found.setdefault(item.layer, []).append(item)
    return [found[layer] for layer in sorted(found)]


def _order(layers: list[list[Item]], *, down: bool) -> None:
    """Each layer by the mean place of its neighbours in the one before."""
    for layer in layers if down else reversed(layers):
        place = {id(item): at for row in layers for at, item in enumerate(row)}
        means = []
        for at, item in enumerate(layer):
            near = item.above if down else item.below
            means.append(sum(place[id(one)] for one in near) / len(near) if near else float(at))
        layer[:] = [item for _, item in sorted(zip(means, layer, strict=True), key=itemgetter(0))]


def _place(layers: list[list[Item]], *, down: bool) -> None:
    """Each item as near as it can be to the middle of its neighbours, in the order of its layer."""
    for layer in layers if down else reversed(layers):
        wanted = []
        for item in layer:
            near = (item.above if down else item.below) or item.above or item.below
            wanted.append(sum(one.x for one in near) / len(near) if near else item.x)
        _spread(layer, wanted)


def _spread(layer: Sequence[Item], wanted: Sequence[float]) -> None:
    """The least squares of what is wanted, with no two closer than they may be: pooled where they would be."""
    offsets, offset = [0.0], 0.0
    for left, right in pairwise(layer):
        offset += (left.width + right.width) / 2 + GAP_X
        offsets.append(offset)
    pools: list[tuple[float, int]] = []
    for want, before in zip(wanted, offsets, strict=True):
        mean, count = want - before, 1
        while pools and pools[-1][0] > mean:
            other, many = pools.pop()
            mean, count = (mean * count + other * many) / (count + many), count + many
        pools.append((mean, count))
    at = 0
    for mean, count in pools:
        for _ in range(count):
            layer[at].x = mean + offsets[at]
            at += 1


def _measured(boxes: Mapping[str, Item], laid: tuple[Laid, ...], layers: list[list[Item]]) -> Layout:
    left = min(item.x - item.width / 2 for layer in layers for item in layer)
    top, bands = 0.0, []
    for layer in layers:
        height = max(item.height for item in layer)
        for item in layer:
            item.x -= left
            item.y = top + (height - item.height) / 2
        bands.append((top, top + height))
        top += height + GAP_Y
    width = max(item.x + item.width / 2 for layer in layers for item in layer)
    return Layout(boxes, laid, tuple(bands), width, top - GAP_Y)
