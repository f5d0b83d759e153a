"""What waits for a person: by consequence and age, and together what may be answered together."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gateway.inbound.console.pages.site import Site
from gateway.inbound.console.shown.layers import Piece
from gateway.inbound.console.shown.tree import marked
from gateway.inbound.console.visitor import reviewer_of
from gateway.inbound.told.words import counted, cut
from gateway.model.asked import RISKS
from gateway.model.review import Waiting
from gateway.model.tool import Tool
from gateway.ports import UnreadableRecord
from gateway.runtime.book import Book
from gateway.runtime.story import CorruptLedger, Long, short_in

ROWS = 50
"""Questions of one page."""
MAX_ARGUMENTS = 220
"""Characters of what a question is about."""
MAX_VALUE = 80
"""Of them, for one value: what is longer is cut in its middle."""
MAX_TOGETHER = 20
"""Questions that are answered by one form."""


@dataclass(frozen=True, slots=True)
class Row:
    """A question, and in a few words what exactly it is about."""

    waiting: Waiting
    what: tuple[Piece, ...]
    whole: bool = True
    """Whether all of it is shown here: what is cut must be opened, and is not answered with others."""

    @property
    def href(self) -> str:
        """Its page, behind the root."""
        return place_of(self.waiting)


@dataclass(frozen=True, slots=True)
class Card:
    """Questions that may be answered together; most often one."""

    rows: tuple[Row, ...]

    @property
    def together(self) -> Sequence[str]:
        """Names of those that may be answered by one form, as far as one form goes."""
        return [row.waiting.name for row in self.rows if row.whole][:MAX_TOGETHER]

    @property
    def first(self) -> Waiting:
        """All of them are alike in what this tells."""
        return self.rows[0].waiting


def place_of(waiting: Waiting) -> str:
    """The page of a question."""
    rooms = {"approval": "approvals", "attempt": "attempts", "run": "escalations"}
    return f"/{rooms[waiting.about]}/{waiting.name}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which questions; all where nothing is said."""

    text: str
    tool: str
    risk: str

    @property
    def all(self) -> bool:
        """Whether nothing is said."""
        return not (self.text or self.tool or self.risk)

    def fits(self, one: Waiting) -> bool:
        """Whether it is wanted."""
        told = (one.tool, one.transition, one.reason, one.consequence, one.principal, one.run, one.workflow, one.name)
        return (
            self.risk in {"", one.risk}
            and self.tool.lower() in (one.tool or "").lower()
            and self.text.lower() in " ".join(part or "" for part in told).lower()
        )


async def inbox(site: Site, request: Request) -> Response:
    """The page."""
    query, by = request.query_params, reviewer_of(request)
    wanted = Wanted(query.get("text", "").strip(), query.get("tool", "").strip(), query.get("risk", ""))
    fits = None if wanted.all else wanted.fits
    page = await site.desk.inbox(by, limit=ROWS, after=query.get("after"), wanted=fits)
    orders = _orders((await site.upstreams.offered())[0])
    rows = [Row(one, *await _what(site, one, orders.get(one.tool or "", ()))) for one in page.rows]
    return await site.page(
        request,
        "inbox.html",
        cards=cards_of(rows),
        total=page.total,
        next=page.next,
        wanted=wanted,
        risks=list(reversed(RISKS)),
        names=json.dumps([one.name for one in page.rows]),
        max_together=MAX_TOGETHER,
    )


def _orders(tools: Iterable[Tool]) -> Mapping[str, Sequence[str]]:
    """By tool, its arguments: those that it must have first, then as it names them."""
    found: dict[str, Sequence[str]] = {}
    for one in tools:
        schema = one.definition.get("inputSchema")
        said = schema if isinstance(schema, dict) else {}
        required, named = said.get("required"), said.get("properties")
        names = [*(required if isinstance(required, list) else ()), *(named if isinstance(named, dict) else ())]
        found[one.name] = list(dict.fromkeys(map(str, names)))
    return found


async def _what(site: Site, one: Waiting, order: Sequence[str]) -> tuple[tuple[Piece, ...], bool]:
    if one.about == "run":
        return (), True
    try:
        return brief(await _arguments(site.book, one), order)
    except (CorruptLedger, UnreadableRecord):  # one damaged run hides no other
        return brief(None)


async def _arguments(book: Book, one: Waiting) -> Any:
    run = await book.state_of(one.run)
    attempt, asked = run.attempts.get(one.name), run.approvals.get(one.name)
    if attempt is not None:
        return await short_in(book.ledger, attempt.intent.arguments)
    return None if asked is None else await short_in(book.ledger, asked.arguments)


def brief(arguments: Any, order: Sequence[str] = ()) -> tuple[tuple[Piece, ...], bool]:
    """Arguments in one line: what the tool must have first, then the others as they stand, and how many more; and
    whether that is all of them.
    """
    match arguments:
        case Long():
            return marked(f"{cut(arguments.head, MAX_ARGUMENTS)} ({arguments.size_bytes:,} bytes)"), False
        case dict() if arguments:
            line, whole = _line(arguments, order)
            return marked(line), whole
        case _:
            says = "no arguments" if arguments is not None else "its arguments cannot be shown"
            return (Piece(says),), arguments is not None


def _line(arguments: Mapping[str, Any], order: Sequence[str]) -> tuple[str, bool]:
    names = [*(name for name in order if name in arguments), *(name for name in arguments if name not in order)]
    values = {name: _spelled(arguments[name]) for name in names}
    line = " · ".join(f"{name}: {value}" for name, value in values.items())
    others = (name for name in names if not isinstance(arguments[name], str))
    if len(line) <= MAX_ARGUMENTS and all(len(values[name]) <= MAX_VALUE for name in others):
        return line, True
    told: list[str] = []
    for name in names:
        part = f"{_middle(name)}: {_middle(values[name])}"
        if told and len(" · ".join((*told, part))) > MAX_ARGUMENTS:
            return f"{' · '.join(told)} … and {counted(len(names) - len(told), 'more argument')}", False
        told.append(part)
    return " · ".join(told), False


def _spelled(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("\n", " ↵ ")


def _middle(text: str) -> str:
    """Its two ends."""
    half = MAX_VALUE // 2
    return text if len(text) <= MAX_VALUE else f"{text[:half]}…{text[-half:]}"


def cards_of(rows: Iterable[Row]) -> Sequence[Card]:
    """In the order of the first of each."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        group = row.waiting.group if row.waiting.about == "approval" and row.waiting.group else row.waiting.name
        found.setdefault(group, []).append(row)
    return [Card(tuple(each)) for each in found.values()]
