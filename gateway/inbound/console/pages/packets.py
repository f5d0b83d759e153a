"""One question on one screen: what exactly, why, what follows, how that is known, and the forms that answer."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gateway.inbound.console.pages.long_values import pointed, whole
from gateway.inbound.console.pages.site import Missing, Site
from gateway.inbound.console.pages.site import at as told_at
from gateway.inbound.console.shown import left_out, parts_of
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
from gateway.runtime.story import escalated

ROOMS = {"approval": "approvals", "attempt": "attempts", "run": "escalations"}
"""Where the pages are, by what is asked about."""
MAX_SEARCHED = 500_000
"""Characters of all arguments that are looked through for odd ones."""
MAX_FOUND = 5_000
"""Odd characters after which it is not looked for more."""
AT_ONCE = 4_000
"""Characters that are looked through in one turn."""
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
    masked: bool
    """Whether secrets in what it asks for are masked."""
    masked_before: bool
    """Whether secrets in what was asked before are masked."""
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
    def again(self) -> bool:
        """Whether it is asked again: a question that waits, or that was granted, was about something of its own."""
        return self.packet.before is not None and self.packet.before.again

    @property
    def handed_over(self) -> bool:
        """Whether the run is over and waits for a person to take it over."""
        return self.packet.about == "run" and escalated(self.run)

    @property
    def cut(self) -> int:
        """How many characters of the arguments are not on the page."""
        left, undrawn = left_out(self.parts)
        whole = self.exact_cut.whole if self.exact_cut is not None else None
        return left + (whole.left_out if undrawn and whole is not None and not left else 0)

    def usable(self, now: datetime) -> bool:
        """Whether it is a yes by which a call may still be made."""
        return self.approval is not None and self.run.stopped is None and self.approval.usable(now)

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
        if role is None or role in by.roles:
            return ""
        # Who came by the link that a gateway prints keeps its file.
        gives = f": `console: {{local_roles: [{role}]}}` in gateway.yaml gives it to you" if by.via == "local" else ""
        return f"it wants somebody in the role `{role}`, which you have not{gives}"

    @property
    def whole(self) -> bool:
        """Whether its arguments are shown to their end, and nothing of them is masked."""
        to_the_end = self.exact_cut is None or self.exact_cut.whole is None
        return self.packet.arguments is not None and to_the_end and not self.masked

    @property
    def reach(self) -> Sequence[tuple[str, str]]:
        """How far the yes that was given goes, where that is beyond this one call."""
        asked = self.approval
        until = None if asked is None or asked.decision is None else asked.until
        return _readable(reach_granted(self.packet, until))

    @property
    def offered(self) -> Sequence[tuple[str, str]]:
        """How far a yes may be said to go, at most."""
        return () if self.packet.offer is None else _readable(reach_asked(self.packet, None, None))

    @property
    def room(self) -> str:
        """Where its page is."""
        return ROOMS[self.packet.about]


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?\+\d\d:\d\d")


def _readable(reach: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """With its time as the pages write times; what policy says stays as it is."""
    return [(label, _TIME.sub(_at, text) if label == "how long" else text) for label, text in reach]


def _at(found: re.Match[str]) -> str:
    return told_at(datetime.fromisoformat(found[0]))


async def packet(site: Site, request: Request) -> Response:
    """The page; that it was looked at is recorded."""
    told = await told_of(site, request, request.path_params["name"])
    if told.packet.approval is not None and told.pending:
        await looked(site, request, told.packet.approval)
    return await show(site, request, told)


async def looked(site: Site, request: Request, approval: str) -> None:
    """It is recorded, if it can be; whoever looks is shown the question all the same."""
    if not is_look(request):
        return
    with suppress(LedgerUnavailable):
        await site.desk.looked(approval, reviewer_of(request))


async def show(site: Site, request: Request, told: Told, status: int = 200, **values: Any) -> Response:
    """The page of a packet, perhaps with a refusal on it."""
    answered = request.query_params.get("answered", "")
    answered = answered if _came_of(told, answered, reviewer_of(request)) else ""
    common: dict[str, Any] = {"refused": None, "said": {"decision": "", "reason": ""}, "answered": answered}
    return await site.page(
        request, "packet.html", status, told=told, served=site.now.timestamp(), **{**common, **values}
    )


def _came_of(told: Told, answered: str, by: Reviewer) -> bool:
    """Whether the ledger has that answer of theirs: an address can say anything."""
    asked = told.approval
    if asked is None:
        ended = {"acknowledged": told.run.acknowledged, "stop_run": told.run.stopped, "stopped": told.run.stopped}
        return ended[answered] is not None if answered in ended else bool(answered) and told.packet.state != "unknown"
    return is_theirs(asked, answered, by)


def is_theirs(asked: Approval, answered: str, by: Reviewer) -> bool:
    """Whether the ledger has that answer of theirs to the question, and it still stands."""
    if answered == "approved":
        return (by.tenant, by.id) in asked.agreed and asked.decision in {None, "approved"}
    return answered == asked.decision and answered in {"rejected", "returned", "revoked"} and asked.by == by.id


async def told_of(site: Site, request: Request, name: str) -> Told:
    """What its page shows.

    Raises: Missing.
    """
    by = reviewer_of(request)
    one, run = await site.desk.packet(name, by), await site.desk.run_for(name, by)
    if one is None or run is None:
        raise Missing(f"no question, attempt or run `{name}` is here for you")
    # What an agent wrote may be long, and no call shall wait for it.
    return await asyncio.to_thread(_told, one, run, partial(site.masked, request))


def _told(one: Packet, run: Run, masked: Callable[[Any], Any]) -> Told:
    earlier = None if one.before is None else one.before.arguments
    before, values = masked([earlier, one.arguments])  # together: what is the same secret has the same number
    text = "" if values is None else json.dumps(values, ensure_ascii=False, indent=2)
    short = cut(text, "")
    return Told(
        packet=one,
        run=run,
        parts=() if values is None or one.tool is None else parts_of(values),
        exact=shown(short.head, strict=True),
        exact_cut=short,
        odd=oddities(one.arguments),
        masked=values != one.arguments,
        masked_before=before != earlier,
        compared=None if before is None or values is None else compared(before, values),
        believed=tuple(believed(one)),
    )


def oddities(values: object) -> Sequence[tuple[str, int]]:
    """What hides in any text of these values, by name."""
    texts = _texts(values)
    found: Counter[str] = Counter()
    looked = 0
    for part in (text[at : at + AT_ONCE] for text in texts for at in range(0, len(text), AT_ONCE)):
        if looked >= MAX_SEARCHED or found.total() >= MAX_FOUND:
            break
        found.update(one.says for one in odd(part, strict=True))
        looked += len(part)
    beyond = sum(map(len, texts)) - looked
    told = sorted(found.items())[:MAX_ODD]
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
    """The whole of a value; nothing for no pointer gives the whole JSON."""
    name, at = request.path_params["name"], request.query_params.get("at", "")
    one = await site.desk.packet(name, reviewer_of(request))
    if one is None or one.arguments is None:
        raise Missing(f"no value of `{name}` can be shown")
    values = await asyncio.to_thread(site.masked, request, one.arguments)
    part, real = pointed(values, at), pointed(one.arguments, at)
    text = await asyncio.to_thread(_text, part)
    back = (f"/{ROOMS[one.about]}/{name}", name)
    return await whole(site, request, text, at=at or "all arguments", back=back, masked=part != real)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
