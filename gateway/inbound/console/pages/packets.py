"""One question on one screen: what exactly, why, what follows, how that is known, and the forms that answer."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gateway.inbound.console.pages.site import Missing, Site, Wrong, linked
from gateway.inbound.console.shown import parts_of
from gateway.inbound.console.shown.compared import Compared, compared
from gateway.inbound.console.shown.layers import Piece
from gateway.inbound.console.shown.letters import odd, shown
from gateway.inbound.console.shown.long import Cut, cut
from gateway.inbound.console.visitor import is_look, reviewer_of
from gateway.inbound.told.facts import believed
from gateway.inbound.told.reach import reach_asked, reach_granted
from gateway.model.approval import Approval
from gateway.model.packet import Packet
from gateway.model.review import Reviewer
from gateway.model.run import Run
from gateway.ports import LedgerUnavailable

PART = 50_000
"""Characters of a whole value on one page."""
MAX_SEARCHED = 500_000
"""Characters of all arguments that are looked through for odd ones."""
LARGE = 20_000
"""Arguments of so many characters are made ready in a thread, so that no call waits for it."""
MAX_ODD = 30
"""Kinds of odd characters that are named."""


@dataclass(frozen=True, slots=True)
class Told:
    """A packet, and what its page shows of it."""

    packet: Packet
    run: Run
    parts: Sequence[Any]
    exact: tuple[Piece, ...]
    exact_cut: Cut | None
    odd: Sequence[tuple[str, int]]
    """Characters that hide or look like others, each by its name with how often it is there."""
    compared: Compared | None
    """With what was asked before."""
    believed: Sequence[tuple[str, str]]

    @property
    def name(self) -> str:
        """By which answers name it."""
        one = self.packet
        return one.approval or one.attempt or one.run

    @property
    def approval(self) -> Approval | None:
        """The question itself, if it is one."""
        return None if self.packet.approval is None else self.run.approvals.get(self.packet.approval)

    @property
    def undoable(self) -> bool:
        """Whether policy names a call that would undo the attempt."""
        attempt = self.run.attempts.get(self.packet.attempt or "")
        return attempt is not None and attempt.intent.undo is not None

    @property
    def pending(self) -> bool:
        """Whether it is a question that may be answered."""
        return self.approval is not None and self.packet.state == "awaiting"

    def barred(self, by: Reviewer) -> str:
        """Why no answer of theirs would be taken, as far as that is known beforehand; the desk has the last word."""
        asked = self.approval
        stage = None if asked is None else asked.waits_for
        if asked is None or stage is None:
            return ""
        if (by.tenant, by.id) in asked.agreed:
            return "you have agreed, and another must; one no of anybody is enough for a no"
        if not asked.self_review and self.packet.principal == f"{by.tenant}/{by.id}":
            return "it is asked for you yourself, so that somebody else must answer"
        role = stage[0].role
        return "" if role is None or role in by.roles else f"it wants somebody in the role `{role}`, which you have not"

    @property
    def whole(self) -> bool:
        """Whether its arguments are shown to their end."""
        return self.packet.arguments is not None and (self.exact_cut is None or self.exact_cut.whole is None)

    @property
    def reach(self) -> Sequence[tuple[str, str]]:
        """How far the yes that was given goes, where that is beyond this one call."""
        asked = self.approval
        return reach_granted(self.packet, None if asked is None or asked.decision is None else asked.until)

    @property
    def offered(self) -> Sequence[tuple[str, str]]:
        """How far a yes may be said to go, at most."""
        return () if self.packet.offer is None else reach_asked(self.packet, None, None)

    @property
    def room(self) -> str:
        """Where its page is."""
        return {"approval": "approvals", "attempt": "attempts", "run": "escalations"}[self.packet.about]


async def packet(site: Site, request: Request) -> Response:
    """The page; that it was looked at is recorded."""
    told = await told_of(site, request, request.path_params["name"])
    if told.packet.approval is not None and told.pending:
        await looked(site, request, told.packet.approval)
    return show(site, request, told)


async def looked(site: Site, request: Request, approval: str) -> None:
    """It is recorded, if it can be; whoever looks is shown the question all the same."""
    if not is_look(request):
        return
    with suppress(LedgerUnavailable):
        await site.desk.looked(approval, reviewer_of(request))


def show(site: Site, request: Request, told: Told, status: int = 200, **values: Any) -> Response:
    """The page of a packet, perhaps with a refusal on it."""
    answered = request.query_params.get("answered", "")
    answered = answered if _came_of(told, answered, reviewer_of(request)) else ""
    common: dict[str, Any] = {"refused": None, "said": {"decision": "", "reason": ""}, "answered": answered}
    return site.page(request, "packet.html", status, told=told, served=site.now.timestamp(), **{**common, **values})


def _came_of(told: Told, answered: str, by: Reviewer) -> bool:
    """Whether the ledger has that answer of theirs: an address can say anything."""
    asked = told.approval
    if asked is None:
        ended = {"acknowledged": told.run.acknowledged, "stop_run": told.run.stopped, "stopped": told.run.stopped}
        return ended[answered] is not None if answered in ended else bool(answered) and told.packet.state != "unknown"
    mine = (by.tenant, by.id) in asked.agreed if answered == "approved" else asked.by == by.id
    return mine and answered in {"approved", asked.decision}


async def told_of(site: Site, request: Request, name: str) -> Told:
    """What its page shows.

    Raises: Missing.
    """
    by = reviewer_of(request)
    one, run = await site.desk.packet(name, by), await site.desk.run_for(name, by)
    if one is None or run is None:
        raise Missing(f"no question, attempt or run `{name}` is here for you")
    text = "" if one.arguments is None else json.dumps(one.arguments, ensure_ascii=False, indent=2)
    if len(text) > LARGE:
        return await asyncio.to_thread(_told, one, run, text)
    return _told(one, run, text)


def _told(one: Packet, run: Run, text: str) -> Told:
    before = None if one.before is None else one.before.arguments
    values, short = one.arguments, cut(text, "")
    return Told(
        packet=one,
        run=run,
        parts=() if values is None or one.tool is None else parts_of(values),
        exact=shown(short.head, strict=True),
        exact_cut=short,
        odd=oddities(values),
        compared=None if before is None or values is None else compared(before, values),
        believed=tuple(believed(one)),
    )


def oddities(values: object) -> Sequence[tuple[str, int]]:
    """What hides in any text of these values, by name."""
    texts, left = _texts(values), MAX_SEARCHED
    found: list[str] = []
    for text in texts:
        found += [one.says for one in odd(text[:left], strict=True)]
        left = max(0, left - len(text))
    told = [(says, len(list(same))) for says, same in groupby(sorted(found))][:MAX_ODD]
    beyond = sum(map(len, texts)) - MAX_SEARCHED
    return told if beyond <= 0 else [*told, (f"{beyond:,} characters that were not looked through", 1)]


def _texts(values: object) -> Sequence[str]:
    found, waiting = list[str](), [values]
    while waiting:
        match waiting.pop():
            case str() as text:
                found.append(text)
            case Mapping() as inner:
                waiting += [*inner, *inner.values()]
            case list() as inner:
                waiting += inner
            case _:
                pass
    return found


# --- a value that is too long for its packet's page -------------------------------------------------------------------


async def value(site: Site, request: Request) -> Response:
    """The whole of a value, in parts where it is very long; nothing for no pointer gives the whole JSON."""
    name, at = request.path_params["name"], request.query_params.get("at", "")
    one = await site.desk.packet(name, reviewer_of(request))
    if one is None or one.arguments is None:
        raise Missing(f"no value of `{name}` can be shown")
    text = _text(_pointed(one.arguments, at))
    parts = max(1, -(-len(text) // PART))
    part = _number(request.query_params.get("part", "1"), parts)
    piece = text[(part - 1) * PART : part * PART]
    links = {other: linked({"at": at}, part=other) for other in range(1, parts + 1)}
    values: dict[str, Any] = {
        "at": at or "all arguments",
        "text": shown(piece, strict=True),
        "part": part,
        "parts": links,
    }
    return site.page(request, "value.html", name=name, packet=one, size=len(text), **values)


def _number(text: str, most: int) -> int:
    if not text.isdecimal() or not 1 <= int(text[:9]) <= most:
        raise Wrong(f"there are {most} parts")
    return int(text)


def _pointed(values: Any, at: str) -> Any:
    for name in (part.replace("~1", "/").replace("~0", "~") for part in at.split("/")[1:]):
        match values:
            case Mapping() if name in values:
                values = values[name]
            case list() if name.isdecimal() and int(name) < len(values):
                values = values[int(name)]
            case _:
                raise Missing("there is no value at that place")
    return values


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
