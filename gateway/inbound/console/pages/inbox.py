"""What waits for a person: by consequence and age, and together what may be answered together."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gateway.inbound.console.pages.site import Site, linked
from gateway.inbound.console.paths import CONNECTIONS, ROOT
from gateway.inbound.console.shown.layers import Piece
from gateway.inbound.console.shown.tree import marked
from gateway.inbound.console.visitor import reviewer_of
from gateway.inbound.told.words import counted, cut
from gateway.model.approval import Approval
from gateway.model.asked import RISKS
from gateway.model.review import Reviewer, Waiting
from gateway.model.run import Run
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
    barred: str = ""
    """In few words, why it is not theirs to answer who reads this."""

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
    def reason(self) -> str:
        """That of all of them; nothing where they differ."""
        reasons = {row.waiting.reason for row in self.rows}
        return self.first.reason if len(reasons) == 1 else ""

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


@dataclass(frozen=True, slots=True)
class Listed:
    """Questions of one page: those that the reviewer can answer, and behind the last of them those of others."""

    rows: Sequence[Waiting]
    total: int
    others: int
    """Of the total, those of others; by the role that each wanted when it was asked."""
    next: str | None
    """The query of the next page."""


async def inbox(site: Site, request: Request) -> Response:
    """The page."""
    query, by = request.query_params, reviewer_of(request)
    if not by.reviews:
        return RedirectResponse(f"{ROOT}{CONNECTIONS}", 303)
    wanted = Wanted(query.get("text", "").strip(), query.get("tool", "").strip(), query.get("risk", ""))
    listed = await _listed(site, by, query, wanted)
    orders = _orders((await site.upstreams.offered())[0])
    rows = [await _row(site, one, orders.get(one.tool or "", ()), by) for one in listed.rows]
    theirs, others = [row for row in rows if not row.barred], [row for row in rows if row.barred]
    moved = len(others) - sum(not is_for(one, by) for one in listed.rows)  # by what was answered since it was asked
    return await site.page(
        request,
        "inbox.html",
        cards=[*cards_of(theirs), *cards_of(others)],
        total=listed.total,
        others=listed.others + moved,
        next=listed.next,
        further="after" in query or "others" in query,
        wanted=wanted,
        risks=list(reversed(RISKS)),
        names=json.dumps([one.name for one in await _known(site, by, listed)]),
        max_together=MAX_TOGETHER,
    )


async def _known(site: Site, by: Reviewer, listed: Listed) -> Sequence[Waiting]:
    """The first of all, in the order in which news of them come."""
    return (await site.desk.inbox(by, limit=ROWS)).rows if listed.others and listed.next else listed.rows


async def _listed(site: Site, by: Reviewer, query: Mapping[str, str], wanted: Wanted) -> Listed:
    further = query.get("others")
    limit = 1 if further else ROWS
    mine = await site.desk.inbox(
        by, limit=limit, after=query.get("after"), wanted=lambda one: is_for(one, by) and wanted.fits(one)
    )
    shown = () if further else mine.rows
    rest = await site.desk.inbox(
        by, limit=max(1, ROWS - len(shown)), after=further, wanted=lambda one: not is_for(one, by) and wanted.fits(one)
    )
    total = mine.total + rest.total
    if mine.next is not None and not further:
        return Listed(shown, total, rest.total, linked(query, after=mine.next))
    more = None if rest.next is None else linked(query, after=None, others=rest.next)
    return Listed([*shown, *rest.rows], total, rest.total, more)


def is_for(one: Waiting, by: Reviewer) -> bool:
    """Whether they have a role that is wanted."""
    return not one.roles or not by.roles.isdisjoint(one.roles)


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


async def _row(site: Site, one: Waiting, order: Sequence[str], by: Reviewer) -> Row:
    if one.about == "run":
        return Row(one, ())
    try:
        run = await site.book.state_of(one.run)
        told = await _arguments(site.book, run, one)
        if isinstance(told, Long):
            shown: Any = told._replace(head=site.masks.redact_text(told.head))
        else:
            shown = await asyncio.to_thread(site.masks.redact, told)
        what, whole = brief(shown, order)
        return Row(one, what, whole and shown == told, _barred(one, run.approvals.get(one.name), by))
    except (CorruptLedger, UnreadableRecord):  # one damaged run hides no other
        return Row(one, *brief(None), _barred(one, None, by))


def _barred(one: Waiting, asked: Approval | None, by: Reviewer) -> str:
    stage = None if asked is None else asked.waits_for
    if asked is not None and (by.tenant, by.id) in asked.agreed:
        return "you have answered"
    roles = one.roles if stage is None else () if stage[0].role is None else (stage[0].role,)
    return "" if not roles or not by.roles.isdisjoint(roles) else f"for {', '.join(roles)}"


async def _arguments(book: Book, run: Run, one: Waiting) -> Any:
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
