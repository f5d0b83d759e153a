"""Undoes what must not stay: the gateway's own calls, proposed in the run that made the effect.

Such a call walks the one path of every call: judged by every check, recorded before it is sent, verified. It is made by
whichever gateway sees first that it is owed: the one whose verifier has just failed, or any that sweeps.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from weakref import WeakValueDictionary

from gateway.kernel import owing
from gateway.kernel.conditions import Undecided
from gateway.kernel.reduce import CorruptLedger
from gateway.kernel.rules import Rules, compensation_of
from gateway.kernel.undo import arguments_of
from gateway.model.alike import alike_digest
from gateway.model.canonical import canonical, digest_bytes, parse
from gateway.model.events import CompensationFailed, Effect, Event, IntentRecorded
from gateway.model.policy import Compensation
from gateway.model.proposal import Key, KeySource, Proposal
from gateway.model.record import utc
from gateway.model.run import Attempt, AttemptState, Run
from gateway.model.tool import Tool
from gateway.ports import LedgerUnavailable, UnreadableRecord, Upstreams, Withdrawal
from gateway.runtime.book import Book
from gateway.runtime.carry import Carrier
from gateway.runtime.flight import Flight
from gateway.runtime.leases import Leases
from gateway.runtime.policies import PolicyMissing
from gateway.runtime.wire import ANY_DEPTH

_LOG = logging.getLogger("counterfoil.undo")

MISSING_S = 300.0
"""How long a tool may be missing that is to undo something: servers start slowly, and come back. Then a person must."""

Judge = Callable[[Proposal, Tool | None, list[Run]], Awaitable[tuple[Sequence[Event], Run, Rules]]]


class Unneeded(Exception):
    """Another gateway was quicker, or nothing has changed since the last verdict: nothing is recorded."""


@dataclass(frozen=True, slots=True)
class _Due:
    """What is to be undone now, and by what."""

    run: Run
    attempt: Attempt
    since: datetime
    by: Compensation


class Undoer:
    """Makes the compensations that are owed. One for each process."""

    def __init__(self, book: Book, upstreams: Upstreams, carrier: Carrier, judge: Judge) -> None:
        self._book = book
        self._ledger = book.ledger
        self._upstreams = upstreams
        self._carrier = carrier
        self._judge = judge
        self._leases = Leases(book.clock, book.options.owner, book.options.lease_s)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By run: within this process one after another."""

    async def undo(self, run_id: str, *, anew: bool = False) -> int:
        """How many effects of the run were undone, or handed to a person; what waits for something is left as it is.

        Never raises: what cannot be done now is done by a sweep.
        """
        turn = self._turns.setdefault(run_id, asyncio.Lock())
        count = 0
        async with turn:
            try:
                if anew:  # others may have written to it since it was last seen here
                    await self._book.fresh_state_of(run_id)
                while await self._one(run_id):
                    count += 1
            except (CorruptLedger, PolicyMissing, UnreadableRecord) as error:
                _LOG.error("what run %s has to undo cannot be undone: %s", run_id, error)
            except LedgerUnavailable as error:
                _LOG.warning("what run %s has to undo waits for the ledger: %s", run_id, error)
        return count

    async def sweep(self) -> int:
        """As `undo`, for every run of which nobody else undoes anything now.

        Raises: LedgerUnavailable.
        """
        try:
            found = await self._ledger.tracked(states={"owed"})
        except LedgerUnavailable:
            self._leases.forget(())  # nobody could renew one meanwhile
            raise
        self._leases.forget(one.attempt for one in found)
        runs: dict[str, None] = {}
        for tracked in found:
            if self._leases.free(tracked) and await self._carrier.claim(tracked) is not None:
                runs[tracked.run] = None
        return sum([await self.undo(run_id, anew=True) for run_id in runs])

    async def _one(self, run_id: str) -> bool:
        """Whether the newest effect that is owed its compensation is undone, or is a person's business now."""
        run = await self._book.state_of(run_id)
        name = owing.due(run)
        if name is None:
            return False
        attempt, since = run.attempts[name], run.undo[name].owed_at
        rules = await self._book.policies.of(attempt.intent.policy)
        wanted = compensation_of(rules.policy, attempt.intent.tool, attempt.intent.transition)
        if wanted is None or since is None:
            return await self._give_up(run_id, name, "its policy names no call that undoes it any more")
        if not await self._serves(attempt):
            return False  # another gateway does, or this one will
        due = _Due(run, attempt, since, wanted)
        proposal = await self._proposal(due, rules)
        if isinstance(proposal, str):
            return await self._give_up(run_id, name, proposal)
        return await self._propose(due, proposal)

    async def _serves(self, attempt: Attempt) -> bool:
        tool = await self._upstreams.tool(attempt.intent.tool)
        return tool is not None and tool.upstream == attempt.intent.upstream

    async def _proposal(self, due: _Due, rules: Rules) -> Proposal | str:
        """The compensating call; or, in half a sentence, why it cannot be made."""
        intent, run = due.attempt.intent, due.run
        body = await self._ledger.payload(intent.arguments)
        seen = due.attempt.result
        answered = await self._ledger.payload(seen) if seen is not None else None
        if body is None or (seen is not None and answered is None):
            return "what was asked or answered was erased, and it says what is to be undone"
        result = parse(answered, max_depth=ANY_DEPTH) if answered is not None else None
        found = arguments_of(rules, due.by, parse(body), result, due.since)
        if isinstance(found, Undecided):
            return f"with what to call `{due.by.tool}` cannot be told: {found.reason}"
        if run.principal is None:
            return "its run belongs to nobody"
        spelled = canonical(found)
        return Proposal(
            run.id,
            run.principal,
            due.by.tool,
            found,
            digest_bytes(spelled, self._ledger.salt),
            alike_digest(found, self._ledger.salt),
            Key(KeySource.UNDO, due.attempt.id),
            spelled=spelled,
            compensates=due.attempt.id,
        )

    async def _propose(self, due: _Due, proposal: Proposal) -> bool:
        run_id, name = due.run.id, due.attempt.id
        tool = await self._upstreams.tool(due.by.tool)
        if tool is None and (utc(self._book.clock.now()) - due.since).total_seconds() < MISSING_S:
            return False
        rules = await self._book.policies.of(due.run.policy)
        if tool is not None and rules.ruled(tool).registered.effect is Effect.READ:
            return await self._give_up(run_id, name, f"`{tool.name}` only reads, and undoes nothing")
        try:
            (verdict, *_), run, _ = await self._judge(proposal, tool, [])
        except Unneeded:
            return False
        if isinstance(verdict, IntentRecorded) and tool is not None:
            flight = Flight(run_id, proposal.principal, Withdrawal())
            _, run, _ = await self._carrier.carry(proposal, tool, run.attempts[verdict.attempt], None, flight)
            if run.attempts[verdict.attempt].state is AttemptState.UNSENT:
                return False
        return name not in run.owed

    async def _give_up(self, run_id: str, attempt: str, reason: str) -> bool:
        def failed(run: Run, _rules: Rules, _now: datetime) -> Sequence[Event]:
            return (CompensationFailed(attempt=attempt, reason=reason),) if owing.due(run) == attempt else ()

        await self._book.say(run_id, failed)
        return True
