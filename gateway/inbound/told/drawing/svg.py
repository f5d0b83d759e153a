"""A workflow as an SVG of its own: no script, no font, nothing fetched; light or dark as its reader is.

It may also stand within a page: its style binds nothing outside of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple
from xml.sax.saxutils import escape

from gateway.inbound.told.drawing.layout import Item, Laid, Layout, Link, lay
from gateway.inbound.told.drawing.lettering import width, wrapped
from gateway.inbound.told.drawing.path import Path
from gateway.inbound.told.drawing.workflow import Arrow, Drawing, Rule, State
from gateway.inbound.told.words import visible

MARGIN = 28.0
PAD = 14.0
CARD = 212.0
"""The width of a phase's text."""
LABEL = 176.0
"""The width of an arrow's text."""
COLUMN = 560.0
"""How long lists beside a small graph may be, below one another."""
PORT = 22.0
"""Between the ends of two arrows at one box."""
STRAIGHT = 9.0
"""How far an arrow leaves or meets a box before it bends, so that its head points at it."""

STYLE = """
.workflow { --paper:#ffffff; --card:#f6f8fa; --edge:#d0d7de; --ink:#1f2328; --soft:#59636e; --line:#6e7781;
  --good:#1a7f37; --good-card:#eaf7ee; --bad:#b3261e; --bad-card:#fdf0ef; --first:#0969da }
@media screen and (prefers-color-scheme: dark) { .workflow { --paper:#0d1117; --card:#161b22; --edge:#30363d;
  --ink:#e6edf3; --soft:#9198a1; --line:#8b949e; --good:#4ac26b; --good-card:#10261a; --bad:#ff8a80;
  --bad-card:#2c1517; --first:#58a6ff } }
.workflow text { font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
  fill:var(--ink) }
.workflow .title { font-size:19px; font-weight:650 } .workflow .name { font-size:14px; font-weight:650 }
.workflow .rule { font-size:12px; font-weight:600 } .workflow .soft { font-size:11.5px; fill:var(--soft) }
.workflow .good { font-size:11.5px; fill:var(--good); font-weight:600 }
.workflow .bad { font-size:11.5px; fill:var(--bad); font-weight:600 }
.workflow .took { font-size:11.5px; fill:var(--first); font-weight:600 }
.workflow .paper { fill:var(--paper) } .workflow .card { fill:var(--card); stroke:var(--edge); stroke-width:1 }
.workflow .card.first { stroke:var(--first); stroke-width:1.6 }
.workflow .card.success { fill:var(--good-card); stroke:var(--good) }
.workflow .card.end { fill:var(--bad-card); stroke:var(--bad) }
.workflow .card.anywhere { fill:none; stroke:var(--line); stroke-dasharray:5 4 }
.workflow .label { fill:var(--paper); stroke:var(--edge); stroke-width:1 }
.workflow .label.failure { stroke:var(--bad); stroke-dasharray:4 3 }
.workflow .arrow { fill:none; stroke:var(--line); stroke-width:1.5 }
.workflow .arrow.failure { stroke:var(--bad); stroke-dasharray:5 4 }
.workflow .card.taken, .workflow .label.taken { stroke:var(--first); stroke-width:2.4 }
.workflow .arrow.taken { stroke:var(--first); stroke-width:3.2 }
.workflow .rule-line { stroke:var(--edge); stroke-width:1 } .workflow .head { fill:var(--line) }
.workflow .head.failure { fill:var(--bad) } .workflow .head.taken { fill:var(--first) }
.workflow .dot { fill:var(--first) }
""".strip()


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text."""

    text: str
    style: str
    height: float
    ruled: bool = False
    """A thin line is drawn above it."""


_BOLD = 1.1
"""How much wider bold letters are."""
_SIZES = {"title": 19.0 * _BOLD, "name": 14.0 * _BOLD, "rule": 12.0 * _BOLD, "soft": 11.5}
_SIZES |= {"good": 11.5 * _BOLD, "bad": 11.5 * _BOLD, "took": 11.5 * _BOLD}
_HEIGHTS = {"title": 28.0, "name": 20.0, "rule": 17.0, "soft": 15.5, "good": 17.0, "bad": 17.0}
_HEIGHTS["took"] = 17.0


def as_svg(drawing: Drawing, path: Path | None = None) -> str:
    """The picture; with the way that a run took through it marked, if one is given."""
    taken = [0 if path is None else path.times(arrow, drawing.arrows) for arrow in drawing.arrows]
    cards = {state.name: _card(state, path) for state in drawing.states}
    labels = [_label(arrow, times) for arrow, times in zip(drawing.arrows, taken, strict=True)]
    links = [
        Link(arrow.source, arrow.target, *_size(lines)) for arrow, lines in zip(drawing.arrows, labels, strict=True)
    ]
    layout = lay({name: _size(lines) for name, lines in cards.items()}, links)
    panels = [panel for panel in (_panel("In any phase", drawing.anywhere), _panel("Never", drawing.never)) if panel]
    beside = _beside(panels, layout)
    across = max([layout.width, *(panel.x + panel.width for panel in beside)])
    head = _head(drawing, max(across, 420.0))
    top = MARGIN + sum(line.height for line in head) + 42.0
    down = max([layout.height, *(panel.y + panel.height for panel in beside)])
    whole, tall = max(across, 420.0) + 2 * MARGIN, top + down + MARGIN
    body = [
        *_text(head, MARGIN, MARGIN + 4.0),
        f'<g transform="translate({MARGIN:g} {top:g})">',
        *_picture(drawing, layout, cards, labels, _Marked(taken, path)),
        *(
            line
            for panel, at in zip(panels, beside, strict=True)
            for line in _box(panel, at.x, at.y, "card", across=at.width)
        ),
        "</g>",
    ]
    shape = f'viewBox="0 0 {whole:.0f} {tall:.0f}" width="{whole:.0f}" height="{tall:.0f}"'
    title, described = _safe(f"Workflow {drawing.name}"), _safe(_described(drawing) + _way(path))
    named = 'class="workflow" role="img" aria-labelledby="title desc"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {shape} {named}>',
            f'<title id="title">{title}</title>',
            f'<desc id="desc">{described}</desc>',
            f"<style>{STYLE}</style>",
            f"<defs>{_marker('head')}{_marker('head failure')}{_marker('head taken') if path else ''}</defs>",
            f'<rect class="paper" width="{whole:.0f}" height="{tall:.0f}" rx="10"/>',
            *body,
            "</svg>",
            "",
        ]
    )


def _described(drawing: Drawing) -> str:
    ways = [
        f"{arrow.source} to {arrow.target} by {', '.join(rule.name for rule in arrow.rules)}"
        + (" if it fails" if arrow.failure else "")
        for arrow in drawing.arrows
    ]
    phases = ", ".join(state.name for state in drawing.states)
    return f"{drawing.description} Phases: {phases}. {'; '.join(ways)}".strip()


# --- text in boxes --------------------------------------------------------------------------------------------------


def _lines(text: str, style: str, most: float, *, ruled: bool = False, lines: int = 4) -> list[Line]:
    found = wrapped(visible(text), _SIZES[style], most, lines)
    return [
        Line(one, style, _HEIGHTS[style] + (9.0 if ruled and not at else 0.0), ruled and not at)
        for at, one in enumerate(found)
    ]


def _rules(rules: Sequence[Rule], most: float, *, ruled: bool) -> Iterator[Line]:
    for at, rule in enumerate(rules):
        yield from _lines(rule.name, "rule", most, ruled=ruled or at > 0)
        for detail in rule.details:
            yield from _lines(detail, "soft", most, lines=3)


def _way(path: Path | None) -> str:
    return "" if path is None else f". The run went: {', '.join(path.phases)}"


def _card(state: State, path: Path | None) -> list[Line]:
    style = {"success": "good", "end": "bad"}.get(state.kind, "soft")
    return [
        *_lines(state.name, "name", CARD),
        *_lines("" if path is None else path.says(state.name), "took", CARD),
        *_lines(state.description, "soft", CARD),
        *_lines(state.says, style, CARD),
        *_rules(state.here, CARD, ruled=True),
    ]


def _label(arrow: Arrow, times: int) -> list[Line]:
    return [*_rules(arrow.rules, LABEL, ruled=False), *_lines(_taken(times), "took", LABEL)]


def _taken(times: int) -> str:
    return "" if not times else "taken" if times == 1 else f"taken {times} times"


def _panel(title: str, rules: Sequence[Rule]) -> list[Line]:
    return [*_lines(title, "name", CARD), *_rules(rules, CARD, ruled=True)] if rules else []


def _head(drawing: Drawing, most: float) -> list[Line]:
    said = f"A run ends in {drawing.success}." if drawing.success else ""
    return [
        *_lines(drawing.name, "title", most),
        *_lines(drawing.description, "soft", most),
        *_lines(said, "good", most),
    ]


def _size(lines: Sequence[Line]) -> tuple[float, float]:
    across = max((width(line.text, _SIZES[line.style]) for line in lines), default=0.0)
    return across + 2 * PAD, sum(line.height for line in lines) + 2 * PAD - 5.0


def _text(lines: Sequence[Line], left: float, top: float, across: float = 0.0) -> Iterator[str]:
    y = top
    for line in lines:
        if line.ruled:
            yield f'<path class="rule-line" d="M{left:.1f} {y + 4:.1f}h{across:.1f}"/>'
        y += line.height
        yield f'<text class="{line.style}" x="{left:.1f}" y="{y - 4.5:.1f}">{_safe(line.text)}</text>'


def _safe(text: str) -> str:
    return escape(visible(text), {'"': "&quot;"})


def _box(lines: Sequence[Line], x: float, y: float, style: str, *, across: float | None = None) -> Iterator[str]:
    wide, high = _size(lines)
    wide = across or wide
    yield f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="9"/>'
    yield from _text(lines, x + PAD, y + PAD - 2.0, wide - 2 * PAD)


# --- the graph ------------------------------------------------------------------------------------------------------


class _Marked(NamedTuple):
    """What is marked of the picture."""

    taken: Sequence[int]
    """How often each arrow was."""
    path: Path | None

    def arrow(self, at: int) -> str:
        """Words of its class."""
        return " taken" if self.taken[at] else ""

    def state(self, name: str) -> str:
        """Words of its class."""
        return " taken" if self.path is not None and name in self.path.phases else ""


def _picture(
    drawing: Drawing, layout: Layout, cards: dict[str, list[Line]], labels: Sequence[list[Line]], marked: _Marked
) -> Iterator[str]:
    ports = _ports(layout)
    for at, (arrow, laid) in enumerate(zip(drawing.arrows, layout.links, strict=True)):
        failure = (" failure" if arrow.failure else "") + marked.arrow(at)
        end = "start" if laid.back else "end"
        head = f"url(#head{'-taken' if marked.arrow(at) else '-failure' if failure else ''})"
        path = _path(laid, layout, *ports[at])
        yield f'<path class="arrow{failure}" d="{path}" marker-{end}="{head}"/>'
    for at, (arrow, laid, lines) in enumerate(zip(drawing.arrows, layout.links, labels, strict=True)):
        style = ("label failure" if arrow.failure else "label") + marked.arrow(at)
        yield from _box(lines, laid.label.x - laid.label.width / 2, laid.label.y, style)
    for state in drawing.states:
        box = layout.boxes[state.name]
        style = f"card {state.kind}{' first' if state.first else ''}{marked.state(state.name)}"
        yield f"<g><title>{_safe(': '.join(filter(None, (state.name, state.description))))}</title>"
        yield from _box(cards[state.name], box.x - box.width / 2, box.y, style)
        yield "</g>"
        if state.first:
            x = box.x - box.width / 2 + PAD + 4.0
            yield f'<circle class="dot" cx="{x:.1f}" cy="{box.y - 20:.1f}" r="5"/>'
            yield f'<path class="arrow" d="M{x:.1f} {box.y - 15:.1f}V{box.y - 2:.1f}" marker-end="url(#head)"/>'


def _ports(layout: Layout) -> list[tuple[float, float]]:
    """For each arrow where it leaves the upper box and where it meets the lower one, side by side by what is beyond."""
    above: dict[int, float] = {}
    below: dict[int, float] = {}
    for box in layout.boxes.values():
        leaving = sorted((one for one in layout.links if one.chain[0] is box), key=lambda one: one.chain[1].x)
        meeting = sorted((one for one in layout.links if one.chain[-1] is box), key=lambda one: one.chain[-2].x)
        for links, found in ((leaving, above), (meeting, below)):
            step = min(PORT, (box.width - 2 * PAD) / max(1, len(links)))
            for at, link in enumerate(links):
                found[id(link)] = box.x + (at - (len(links) - 1) / 2) * step
    return [(above[id(link)], below[id(link)]) for link in layout.links]


def _path(laid: Laid, layout: Layout, leaves: float, meets: float) -> str:
    upper, lower = laid.chain[0], laid.chain[-1]
    stops: list[tuple[float, Item]] = [
        (leaves, upper),
        *((item.x, item) for item in laid.chain[1:-1]),
        (meets, lower),
    ]
    start, end = upper.y + upper.height + (2.0 if laid.back else 0.0), lower.y - (0.0 if laid.back else 2.0)
    parts = [f"M{leaves:.1f} {start:.1f}"]
    for (x, one), (to, other) in pairwise(stops):
        bottom = max(layout.bands[one.layer][1], start + STRAIGHT) if one is upper else layout.bands[one.layer][1]
        top = min(layout.bands[other.layer][0], end - STRAIGHT) if other is lower else layout.bands[other.layer][0]
        middle = (bottom + top) / 2
        parts.append(f"V{bottom:.1f}C{x:.1f} {middle:.1f} {to:.1f} {middle:.1f} {to:.1f} {top:.1f}")
    return "".join([*parts, f"V{end:.1f}"])


def _marker(style: str) -> str:
    name = style.replace(" ", "-")
    return (
        f'<marker id="{name}" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path class="{style}" d="M0 1L9 5L0 9z"/></marker>'
    )


def _beside(panels: Sequence[list[Line]], layout: Layout) -> list[Item]:
    """Where lists stand beside the graph: below one another, or side by side where that would be too long."""
    sizes = [_size(lines) for lines in panels]
    wide, tall = max((size[0] for size in sizes), default=0.0), sum(size[1] + 16.0 for size in sizes)
    stacked = tall <= max(layout.height, COLUMN)
    found, x, y = list[Item](), layout.width + 2 * MARGIN, 0.0
    for size in sizes:
        found.append(Item(wide if stacked else size[0], size[1], x=x, y=y))
        x, y = (x, y + size[1] + 16.0) if stacked else (x + size[0] + 16.0, y)
    return found
