"""What all pages share: what they read from, how they are filled in, and what becomes of a reader's mistake."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gateway.inbound.console.connecting import Connecting
from gateway.inbound.console.pages.statics import VERSION
from gateway.inbound.console.paths import ROOT
from gateway.inbound.console.shown.layers import Piece
from gateway.inbound.console.shown.letters import shown
from gateway.inbound.console.visitor import csrf_of, reviewer_of
from gateway.inbound.told.words import ago, amount, counted, cut, lasting, seconds
from gateway.model.record import utc
from gateway.model.review import Reviewer
from gateway.ports import LedgerUnavailable, Redactor, Upstreams
from gateway.runtime.book import Book
from gateway.runtime.desk import Desk
from gateway.runtime.story import CorruptLedger

Handler = Callable[[Request], Awaitable[Response]]

MAX_FIELDS = 500


class Missing(Exception):
    """There is no such thing, or it is not theirs to see; which of the two is not said."""


class Wrong(Exception):
    """What was asked for cannot be meant."""


@dataclass(frozen=True, slots=True)
class Site:
    """What the pages of one process read from."""

    desk: Desk
    book: Book
    upstreams: Upstreams
    ready: Callable[[], tuple[bool, Mapping[str, Any]]]
    """As `/readyz` tells it."""
    masks: Redactor
    """What secrets are shown as, unless somebody asks to see them."""
    connecting: Connecting | None = None
    """How people connect accounts of theirs; None where no server is called with those."""

    def masked(self, request: Request, value: Any) -> Any:
        """What agents wrote, with its secrets masked; as it is for whoever asked for that (`?secrets=shown`).

        Personal data stays: whom a mail goes to is what a reviewer is asked about.
        """
        return value if request.query_params.get("secrets") == "shown" else self.masks.redact(value)

    @property
    def now(self) -> datetime:
        """By the ledger's clock."""
        return utc(self.book.clock.now())

    async def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """The template, filled in; with what every page needs. In a thread: calls of agents have the loop meanwhile."""
        common = {
            "root": ROOT,
            "version": VERSION,
            "by": reviewer_of(request),
            "csrf": csrf_of(request),
            "now": self.now,
            "path": request.url.path.removeprefix(ROOT) or "/",
            "query": request.query_params,
            "connects": self.connecting is not None,
        }
        body = await asyncio.to_thread(_filled, template, {**common, **values})
        return HTMLResponse(body, status)

    def guarded(self, handler: Handler) -> Handler:
        """The handler, whose reader is told in a page what went wrong."""

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except Missing as error:
                return await self.page(request, "trouble.html", 404, title="There is nothing here", says=str(error))
            except Wrong as error:
                return await self.page(request, "trouble.html", 400, title="That cannot be meant", says=str(error))
            except CorruptLedger as error:
                says = f"{error}; `counterfoil verify` says more"
                return await self.page(request, "trouble.html", 500, title="The ledger is damaged", says=says)
            except LedgerUnavailable as error:
                says = f"{error}; nothing was recorded, try again in a moment"
                return await self.page(request, "trouble.html", 503, title="The ledger cannot be asked now", says=says)

        return answer


def inside(request: Request) -> Reviewer:
    """Who asks, if they see more than one question, or than what is their own.

    Raises: Missing.
    """
    by = reviewer_of(request)
    if not by.reviews:
        raise Missing("you came in to connect accounts of your own; ask whoever runs this gateway to see more")
    if by.approval is not None:
        raise Missing("your link is for one question; ask for another link to see more")
    return by


def warm() -> None:
    """All templates are compiled, which takes a moment in which nothing else runs: before there is anything else."""
    for name in environment().list_templates():
        environment().get_template(name)


def _filled(template: str, values: Mapping[str, Any]) -> str:
    return environment().get_template(template).render(values)


@cache
def environment() -> Environment:
    """Every value is escaped, and one that is missing is an error."""
    made = Environment(
        loader=PackageLoader("gateway.inbound.console.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        letters=lambda text: shown(str(text)),
        words=words,
        shortened=shortened,
        json=spelled,
        plain=plain,
        exact=lambda text: shown(str(text), strict=True),
        ago=ago,
        counted=counted,
        cut=cut,
        lasting=lasting,
        seconds=seconds,
        amount=amount,
        units=units,
        left=left,
        at=at,
        moment=moment,
        pieces=drawn,
        linked=linked,
    )
    return made


def drawn(pieces: Iterable[Piece]) -> Markup:
    """Pieces as markup; the one place where some is made of them, and all that is theirs is escaped."""
    return Markup("").join(
        Markup('<span class="{}"{}>{}</span>').format(one.styles, _title(one.says), one.text)
        if one.styles or one.says
        else escape(one.text)
        for one in pieces
    )


def words(text: object) -> Markup:
    """A sentence, in which what stands in back-ticks is set as code."""
    parts = str(text).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(drawn(shown(part))) if at % 2 and at < len(parts) - 1 else drawn(shown(part))
        for at, part in enumerate(parts)
    )


MAX_LINE = 2_000
"""Characters of one line that somebody wrote in a timeline."""


def shortened(text: str) -> str:
    """The line, or how it begins and how much more there is."""
    more = len(text) - MAX_LINE
    return text if more <= 0 else f"{text[:MAX_LINE]}… ({more:,} more characters)"


def spelled(value: object, indent: int | None = None) -> str:
    """A value as JSON, letter by letter as it is."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def plain(value: object) -> str:
    """A value of `/readyz` in words."""
    match value:
        case None | [] | () | "":
            return "none"
        case Mapping():
            return ", ".join(f"{name} {plain(one)}" for name, one in value.items()) or "none"
        case list() | tuple():
            return "; ".join(map(plain, value))
        case _:
            return str(value)


def _title(says: str) -> Markup:
    return Markup(' title="{}"').format(says) if says else Markup("")


def units(amounts: Mapping[str, float]) -> str:
    """`1 call, 3 mutations`; what is nothing is left out."""
    told = (f"{amount(value)} {unit.removesuffix('s') if value == 1 else unit}" for unit, value in amounts.items())
    return ", ".join(one for one, value in zip(told, amounts.values(), strict=True) if value) or "nothing"


def left(until: datetime, now: datetime) -> str:
    """`2 h left`, or how long ago it ended."""
    spell_s = (until - now).total_seconds()
    return f"{lasting(spell_s)} left" if spell_s > 0 else f"ended {lasting(-spell_s)} ago"


def at(value: datetime) -> str:
    """A time for people, in UTC."""
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def moment(value: datetime | str) -> datetime:
    """A time that a packet tells as text."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def linked(query: Mapping[str, str], **changed: str | int | None) -> str:
    """The same query with other values, as it stands behind the `?`."""
    values = {name: str(value) for name, value in {**query, **changed}.items() if value not in {None, ""}}
    return urlencode(values)


async def fields_of(request: Request) -> Mapping[str, list[str]]:
    """What a form says.

    Raises: Wrong.
    """
    try:
        return parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Wrong("the form cannot be read") from None


def said(fields: Mapping[str, list[str]], name: str) -> str:
    """The field of that name; empty where it is missing."""
    return fields.get(name, [""])[0].strip()


def time_of(text: str, what: str) -> datetime | None:
    """A time as a form or a person writes it; in UTC where no offset is said.

    Raises: Wrong.
    """
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Wrong(f"`{cut(text, 40)}` is no time for `{what}`; write it as 2026-11-30T12:00") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
