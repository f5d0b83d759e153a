"""What waits for people, by consequence and then by age: read from the ledger's own list, and kept between two looks.

The list (`Ledger.tracked`) says what waits; what each is about is read once, some at a time, so that whoever else is
served waits for none of it. Nothing here grows with what was answered.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from operator import itemgetter
from typing import Any, TypeAlias

from gateway.kernel.reduce import CorruptLedger
from gateway.model.asked import RISKS, Risk
from gateway.model.canonical import digest
from gateway.model.events import ApprovalRequested
from gateway.model.record import Record
from gateway.model.review import Page, Reviewer, Waiting
from gateway.model.run import Attempt, Run, Tracked
from gateway.ports import UnreadableRecord
from gateway.runtime import named
from gateway.runtime.book import Book
from gateway.runtime.policies import PolicyMissing

LISTED = ("awaiting", "unknown", "escalated")
"""States of what is listed that wait for a person."""
Wanted: TypeAlias = Callable[[Waiting], bool]
"""Which rows somebody wants to see."""
_Placed: TypeAlias = tuple[str, Waiting]
"""A row, and before it where it stands in the order."""

LOOK_S = 1.0
"""Between two looks at the list, however many ask."""
SLICE = 50
"""New rows between two turns of the event loop: some milliseconds."""


class Inbox:
    """What waits, as of the last look. One for each process."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._ledger = book.ledger
        self._rows: dict[str, Waiting] = {}
        self._states: dict[str, str] = {}
        self._order: Sequence[Waiting] = ()
        self._places: Sequence[str] = ()
        """Of the rows in `_order`, as `_place` has them. Both are replaced, never changed: a page may still be read."""
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()
        self.version = 0
        """Grows with every change that a look has shown."""

    def stale(self) -> None:
        """The next who asks looks anew."""
        self._looked_at = float("-inf")

    async def look(self) -> Sequence[Waiting]:
        """All that waits, in order, as it was a moment ago.

        Raises: LedgerUnavailable.
        """
        async with self._looking:
            now, before = self._book.clock.monotonic(), self._looked_at
            if now - before >= LOOK_S:
                self._looked_at = now  # first: what becomes stale meanwhile is looked at anew
                try:
                    await self._renew()
                except BaseException:
                    self._looked_at = before
                    raise
        return self._order

    async def page(self, by: Reviewer, limit: int, after: str | None, wanted: Wanted | None = None) -> Page:
        """What the reviewer may see of it and wants to, from beyond that row.

        Raises: LedgerUnavailable.
        """
        order, places = await self.look(), self._places
        mine = [at for at, one in enumerate(order) if by.sees(one.tenant, one.name) and (wanted is None or wanted(one))]
        start = 0 if after is None else bisect_left(mine, bisect_right(places, after))
        shown = mine[start : start + limit]
        rows = [await self._counted(order[at]) for at in shown]
        more = start + limit < len(mine)
        return Page(tuple(rows), len(mine), places[shown[-1]] if more and shown else None)

    def known(self, name: str) -> Waiting | None:
        """The row of that name, as of the last look."""
        return self._rows.get(name)

    async def run_of(self, approval: str) -> str | None:
        """The run in which that question was asked; None if the ledger has no such question.

        Raises: LedgerUnavailable.
        """
        known = self._rows.get(approval)
        return known.run if known is not None else await named.run_of(self._ledger, approval)

    # --- a look -------------------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        listed = {one.attempt: one for one in await self._ledger.tracked(states=LISTED)}
        gone = {name for name, state in self._states.items() if name not in listed or listed[name].state != state}
        new = [one for name, one in listed.items() if name in gone or name not in self._states]
        if gone or new:
            self._change(gone, [await self._made(part) async for part in _slices(new)], new)

    def _change(self, gone: Collection[str], made: Iterable[Sequence[_Placed]], new: Iterable[Tracked]) -> None:
        rows = [pair for part in made for pair in part]
        for name in gone:
            del self._rows[name], self._states[name]
        self._rows |= {row.name: row for _, row in rows}
        self._states |= {one.attempt: one.state for one in new}
        kept = [pair for pair in zip(self._places, self._order, strict=True) if pair[1].name not in gone]
        placed = sorted([*kept, *rows], key=itemgetter(0))
        self._places, self._order = [place for place, _ in placed], [row for _, row in placed]
        self.version += 1

    async def _made(self, new: Sequence[Tracked]) -> Sequence[_Placed]:
        """Their rows, each with its place."""
        asked = await named.requests_of(self._ledger, [one.attempt for one in new if one.state == "awaiting"])
        found = [(one, asked.get(one.attempt)) for one in new]
        rows = [await (self._of_run(one) if it is None else self._asked(one, it)) for one, it in found]
        return [(_place(row), row) for row in rows]

    async def _asked(self, one: Tracked, record: Record) -> Waiting:
        event = record.event
        if not isinstance(event, ApprovalRequested) or event.by is None:
            return await self._of_run(one)
        workflow = await self._workflow(event)
        terms, stage = event.terms, event.terms.stages[0] if event.terms.stages else None
        role, needed = (event.role, event.quorum) if stage is None else (stage.role, stage.quorum)
        alike = [record.run, event.tool, event.rule, terms.risk, event.compensates]
        return Waiting(
            about="approval",
            name=event.approval,
            run=record.run,
            workflow=workflow,
            tenant=event.by.tenant,
            principal=event.by.id,
            tool=event.tool,
            transition=event.rule,
            reason=event.reason,
            because=event.because,
            risk=terms.risk,
            consequence=terms.consequence,
            asked_at=record.at,
            expires_at=event.expires_at,
            roles=() if role is None else (role,),
            needed=needed,
            people=sum(one.quorum for one in terms.stages) or event.quorum,
            group=digest(alike, b"")[-16:],
            action=event.action,
            reasons=terms.reasons,
        )

    async def _workflow(self, event: ApprovalRequested) -> str:
        try:
            return (await self._book.policies.of(event.policy)).policy.workflow
        except PolicyMissing:
            return ""

    async def _of_run(self, one: Tracked) -> Waiting:
        """What must be read from the whole run: no question, or one as an earlier version recorded it."""
        try:
            run = await self._book.fresh_state_of(one.run)
        except (CorruptLedger, UnreadableRecord) as error:
            return _unreadable(one, str(error))
        return await self._row(one, run)

    async def _row(self, one: Tracked, run: Run) -> Waiting:
        common: dict[str, Any] = {
            "name": one.attempt,
            "run": run.id,
            "workflow": run.workflow,
            "tenant": run.principal.tenant if run.principal is not None else "",
            "principal": run.principal.id if run.principal is not None else "",
        }
        if one.attempt in run.attempts:
            return await self._unknown(run.attempts[one.attempt], common)
        asked = run.approvals.get(one.attempt)
        if asked is not None:
            return Waiting(
                **common,
                about="approval",
                tool=asked.tool,
                transition=asked.rule,
                reason="",
                risk=asked.terms.risk,
                consequence=asked.terms.consequence,
                asked_at=asked.requested_at,
                expires_at=asked.expires_at,
                roles=() if asked.role is None else (asked.role,),
                needed=asked.quorum,
                people=asked.needed,
                group=asked.id,
                action=asked.action,
            )
        over = run.stopped
        return Waiting(
            **common,
            about="run",
            tool=None,
            transition=None,
            reason=over.reason if over is not None else "",
            risk="high",
            consequence="the run is over and waits for a person",
            asked_at=run.last_at or _NEVER,
            group=one.attempt,
        )

    async def _unknown(self, attempt: Attempt, common: Mapping[str, Any]) -> Waiting:
        intent = attempt.intent
        risk: Risk = "high" if intent.effect == "destructive" else "medium"
        return Waiting(
            **common,
            about="attempt",
            tool=intent.tool,
            transition=intent.transition,
            reason="whether it happened is not known",
            risk=risk,
            consequence=f"a {intent.effect} call; equal calls are held in every run until it is settled",
            asked_at=attempt.at,
            group=attempt.id,
        )

    async def _counted(self, row: Waiting) -> Waiting:
        """With who has agreed by now, where several must."""
        if row.about != "approval":
            return row
        try:
            run = await self._book.fresh_state_of(row.run) if row.people > 1 else None
        except (CorruptLedger, UnreadableRecord):
            return row
        approval = run.approvals.get(row.name) if run is not None else None
        waits = approval.waits_for if approval is not None else None
        if waits is None:
            return row
        stage, agreed = waits
        return replace(row, roles=() if stage.role is None else (stage.role,), agreed=agreed, needed=stage.quorum)


async def _slices(new: Iterable[Tracked]) -> AsyncIterator[Sequence[Tracked]]:
    """So many at a time; whoever else is served has its turn between."""
    rest = iter(new)
    while part := [*islice(rest, SLICE)]:
        yield part
        await asyncio.sleep(0)


_NEVER = datetime.fromtimestamp(0, UTC)


def _place(row: Waiting) -> str:
    """Where the row stands in the order; of two, the one that is less comes first."""
    return f"{len(RISKS) - RISKS.index(row.risk)} {row.asked_at.isoformat(timespec='microseconds')} {row.name}"


def _unreadable(one: Tracked, trouble: str) -> Waiting:
    """It waits, and nobody can read what it is about. Only who sees all tenants is told."""
    return Waiting(
        about="approval" if one.state == "awaiting" else "attempt" if one.state == "unknown" else "run",
        name=one.attempt,
        run=one.run,
        workflow="",
        tenant="",
        principal="",
        tool=None,
        transition=None,
        reason=f"it cannot be read, and `counterfoil verify` says more: {trouble}",
        risk="high",
        consequence="",
        asked_at=_NEVER,
        group=one.attempt,
    )
