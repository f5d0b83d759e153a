"""Undoes what must not stay: the gateway's own calls, proposed in the run that made the effect.

Such a call walks the one path of every call: judged by every check, recorded before it is sent, verified. It is made by
whichever gateway sees first that it is owed: the one whose verifier has just failed, or any that sweeps.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
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
from gateway.model.run import Attempt, AttemptState, Run, Tracked
from gateway.model.tool import Tool
from gateway.ports import LedgerUnavailable, UnreadableRecord, Upstreams, Withdrawal
from gateway.runtime.book import Book
from gateway.runtime.carry import Carrier
from gateway.runtime.flight import Flight
from gateway.runtime.leases import NOBODYS, Leases
from gateway.runtime.policies import PolicyMissing
from gateway.runtime.wire import ANY_DEPTH

_LOG = logging.getLogger("counterfoil.undo")

MISSING_S = 300.0
"""For how long a tool that is to undo something may be missing under our eyes: servers start slowly, and come back.
Then a person must undo it."""

MOST_S = 300.0
"""The longest pause before a call that could not be sent is made again; the first is a lease time, each doubles it."""

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


@dataclass(slots=True)
class _Seen:
    """What this gateway has seen of the way to undo an attempt, by its monotonic clock."""

    missing_since: float | None = None
    """Since when the tool was missing whenever it was looked for."""
    pause_s: float = 0.0
    """How long it rested when its call could not be sent the last time."""
    due: float = 0.0
    """When that call is made again."""


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
        self._seen: dict[str, _Seen] = {}
        """By attempt that is to be undone."""

    async def undo(self, run_id: str) -> int:
        """How many effects of the run were undone, or handed to a person; what waits for something is left as it is.

        Never raises: what cannot be done now is done by a sweep.
        """
        turn = self._turns.setdefault(run_id, asyncio.Lock())
        count = 0
        async with turn:
            with _said(run_id):
                while await self._one(run_id):
                    count += 1
        return count

    async def sweep(self) -> int:
        """As `undo`, for every run of which nobody else undoes anything now.

        Raises: LedgerUnavailable.
        """
        try:
            found = await self._ledger.tracked(states={"owed"})
        except LedgerUnavailable:
            self.forget()  # nobody could renew a lease meanwhile, and we did not look for any tool
            raise
        self.forget(one.attempt for one in found)
        runs: dict[str, list[Tracked]] = {}
        for seen in found:
            if not self._carrier.waits_for(seen.attempt) and self._leases.free(seen):
                runs.setdefault(seen.run, []).append(seen)
        return sum([await self._claimed(run_id, free) for run_id, free in runs.items()])

    def forget(self, but: Iterable[str] = ()) -> None:
        """What was seen of others' leases, and of tools, counts only for these attempts."""
        kept = set(but)
        self._leases.forget(kept)
        self._seen = {name: seen for name, seen in self._seen.items() if name in kept}

    async def _claimed(self, run_id: str, free: list[Tracked]) -> int:
        """As `undo`, of a run of which these are owed; what is still owed then is nobody's, for others may do more."""
        count, mine = 0, list[str]()
        with _said(run_id):
            for seen in free:
                _, attempt = await self._carrier.attempt_of(run_id, seen.attempt)
                if await self._serves(attempt) and await self._carrier.claim(seen) is not None:
                    mine.append(attempt.id)
            if mine:
                count = await self.undo(run_id)
                await self._ledger.renew(self._book.options.owner, mine, NOBODYS)
        return count

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
        seen, now = self._seen.setdefault(name, _Seen()), self._book.clock.monotonic()
        if now < seen.due or _may_come(seen, tool, now):
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
            with self._carrier.working_on(name):
                _, run, _ = await self._carrier.carry(proposal, tool, run.attempts[verdict.attempt], None, flight)
            if run.attempts[verdict.attempt].state is AttemptState.UNSENT:
                seen.pause_s = min(max(2 * seen.pause_s, self._book.options.lease_s), MOST_S)
                seen.due = self._book.clock.monotonic() + seen.pause_s
                return False
        return name not in run.owed

    async def _give_up(self, run_id: str, attempt: str, reason: str) -> bool:
        def failed(run: Run, _rules: Rules, _now: datetime) -> Sequence[Event]:
            return (CompensationFailed(attempt=attempt, reason=reason),) if owing.due(run) == attempt else ()

        await self._book.say(run_id, failed)
        return True


def _may_come(seen: _Seen, tool: Tool | None, now: float) -> bool:
    """Whether the tool is missing, and not for so long yet that it is not waited for any more."""
    since = now if seen.missing_since is None else seen.missing_since
    seen.missing_since = since if tool is None else None
    return tool is None and now - since < MISSING_S


@contextmanager
def _said(run_id: str) -> Iterator[None]:
    """What keeps us from undoing it now is said, and goes no further."""
    try:
        yield
    except (CorruptLedger, PolicyMissing, UnreadableRecord) as error:
        _LOG.error("what run %s has to undo cannot be undone: %s", run_id, error)
    except LedgerUnavailable as error:
        _LOG.warning("what run %s has to undo waits for the ledger: %s", run_id, error)
