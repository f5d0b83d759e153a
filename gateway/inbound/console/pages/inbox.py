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
from gateway.inbound.told.words import cut
from gateway.model.asked import RISKS
from gateway.model.review import Waiting
from gateway.ports import UnreadableRecord
from gateway.runtime.book import Book
from gateway.runtime.explain import stored_in
from gateway.runtime.story import CorruptLedger

ROWS = 50
"""Questions of one page."""
MAX_ARGUMENTS = 220
"""Characters of what a question is about."""
MAX_VALUE = 80
"""Of them, for a list or an object."""
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
    rows = [Row(one, *await _what(site, one)) for one in page.rows]
    return site.page(
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


async def _what(site: Site, one: Waiting) -> tuple[tuple[Piece, ...], bool]:
    if one.about == "run":
        return (), True
    try:
        return brief(await _arguments(site.book, one))
    except (CorruptLedger, UnreadableRecord):  # one damaged run hides no other
        return brief(None)


async def _arguments(book: Book, one: Waiting) -> Mapping[str, Any] | None:
    run = await book.state_of(one.run)
    attempt, asked = run.attempts.get(one.name), run.approvals.get(one.name)
    if attempt is not None:
        return await stored_in(book.ledger, attempt.intent.arguments)
    return None if asked is None else await stored_in(book.ledger, asked.arguments)


def brief(arguments: Any) -> tuple[tuple[Piece, ...], bool]:
    """Arguments in one line, the short ones first, so that what is cut off is the end of the longest; and whether that
    is all of them.
    """
    if not arguments:
        return (Piece("no arguments" if arguments is not None else "its arguments cannot be shown"),), arguments == {}
    values = {name: _in_short(value) for name, value in arguments.items()}
    parts = (f"{name}: {value}" for name, value in sorted(values.items(), key=lambda each: len(each[1])))
    line = " · ".join(parts).replace("\n", " ↵ ")
    whole = len(line) <= MAX_ARGUMENTS and all(len(_spelled(value)) <= MAX_VALUE for value in _others(arguments))
    return marked(cut(line, MAX_ARGUMENTS)), whole


def _others(arguments: Mapping[str, Any]) -> Iterable[Any]:
    return (value for value in arguments.values() if not isinstance(value, str))


def _in_short(value: Any) -> str:
    return value if isinstance(value, str) else cut(_spelled(value), MAX_VALUE)


def _spelled(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def cards_of(rows: Iterable[Row]) -> Sequence[Card]:
    """In the order of the first of each."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        group = row.waiting.group if row.waiting.about == "approval" and row.waiting.group else row.waiting.name
        found.setdefault(group, []).append(row)
    return [Card(tuple(each)) for each in found.values()]
