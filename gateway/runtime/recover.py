"""Settles what is open and no longer awaited, at start and swept again, by the table of ARCHITECTURE.md, "Recovery".

An attempt is touched only once nobody holds a lease on it, and is claimed first, so that no two gateways settle the
same one and none settles what another still waits for. What an upstream says of an unknown attempt settles it; a "no"
only once this gateway has itself watched, by its monotonic clock, for as long as the upstream could act on the call.
What nobody can say stays unknown, and a person is asked.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gateway.kernel.recover import honours_key, judge_status, queried, query_arguments, query_of
from gateway.kernel.reduce import CorruptLedger
from gateway.kernel.registry import Registered
from gateway.kernel.rules import Rules
from gateway.model.canonical import parse
from gateway.model.events import Event
from gateway.model.policy import StatusQuery
from gateway.model.record import utc
from gateway.model.run import Attempt, AttemptState, Run, Tracked
from gateway.ports import LedgerUnavailable, UnreadableRecord, Upstreams
from gateway.runtime import trace
from gateway.runtime.book import Book
from gateway.runtime.engine import Engine
from gateway.runtime.leases import NOBODYS
from gateway.runtime.policies import PolicyMissing
from gateway.runtime.wire import stored

_LOG = logging.getLogger("counterfoil.recover")

TOGETHER = 32
"""Attempts that are settled side by side: their appends share commits, and calls are not kept waiting by a crowd."""

MOST_S = 600.0
"""The longest pause between two questions about one attempt, and between two sendings of it; the first is a lease time,
and each doubles it."""


@dataclass(slots=True)
class _Watch:
    """What this gateway has seen of an unsettled attempt, by its monotonic clock."""

    since: float
    """When it was first seen as it is, unknown and nobody's: whoever had it before may have sent it until then."""
    pause_s: float
    seen: tuple[datetime, datetime] | None = None
    """When it was sent and settles, by its events; None until its run was read."""
    due: float = 0.0
    """When it is looked at again, while it is unknown."""
    helpless: bool = False
    """Whether this gateway has no way to find out."""
    stuck: str = ""
    """What the last try to settle it met with, where that is no trouble of the whole ledger's."""
    unknown_since: float | None = None
    """When it was intended, in seconds since the epoch, once it was read as unknown."""


class Recovery:
    """What a gateway does for attempts that nobody waits for. One for each process."""

    def __init__(self, book: Book, engine: Engine, upstreams: Upstreams) -> None:
        self._book = book
        self._engine = engine
        self._carrier = engine.carrier
        self._upstreams = upstreams
        self._clock = book.clock
        self._watches: dict[str, _Watch] = {}
        self._left = 0
        self._questions = 0

    def state(self) -> dict[str, int]:
        """For `/readyz`: how many attempts the last sweep found unsettled, and how many only a person can settle."""
        return {"attempts": len(self._watches), "for_people": self._left}

    def unknown_for_s(self) -> Sequence[float]:
        """For each attempt whose outcome is unknown, how long ago it was intended. Callable from any thread."""
        now = self._clock.now()
        found = [watch.unknown_since for watch in list(self._watches.values())]
        return [max(0.0, now - since) for since in found if since is not None]

    def questions(self) -> int:
        """How many questions wait for people in the whole ledger, as last swept. Callable from any thread."""
        return self._questions

    def is_for_people(self, attempt: str) -> bool:
        """Whether this gateway knows no way to find out what became of it."""
        watch = self._watches.get(attempt)
        return watch is not None and watch.helpless

    async def keep(self) -> None:
        """Runs for ever: one sweep for each lease time."""
        while True:
            try:
                if count := await self.sweep():
                    _LOG.info("settled %d attempts that were left open", count)
            except LedgerUnavailable as error:
                self._book.health.refused(str(error))  # which says it once
            await self._clock.sleep(self._book.options.lease_s)

    async def sweep(self) -> int:
        """How many attempts were settled, or came to another state.

        Raises: LedgerUnavailable, when all that could be settled is.
        """
        try:
            listed = await self._book.ledger.tracked(states={"open", "unverified", "unknown", "awaiting"})
        except LedgerUnavailable:
            # Nobody could renew a lease meanwhile: what was seen of them counts for nothing.
            self._carrier.leases.forget(())
            self._engine.undoer.forget()
            self._watches.clear()
            raise
        found = [one for one in listed if one.state != "awaiting"]
        self._questions = len(listed) - len(found)
        names = {one.attempt for one in found}
        self._watches = {name: watch for name, watch in self._watches.items() if name in names}
        self._carrier.leases.forget(names)
        due = [one for one in found if self._is_due(one)]
        settled, failed = 0, list[LedgerUnavailable]()
        for start in range(0, len(due), TOGETHER):
            some = due[start : start + TOGETHER]
            came = await asyncio.gather(*map(self._settle, some), return_exceptions=True)
            for one, what in zip(some, came, strict=True):
                if isinstance(what, bool):
                    settled += what
                elif isinstance(what, LedgerUnavailable) and not isinstance(what, UnreadableRecord):
                    failed.append(what)
                else:
                    self._stuck(one, what)
        self._say_left()
        settled += await self._engine.undoer.sweep()
        if failed:
            raise failed[0]
        return settled

    def _say_left(self) -> None:
        """Once for each time that there are more of them."""
        before, self._left = self._left, sum(watch.helpless for watch in self._watches.values())
        if self._left > before:
            _LOG.warning(
                "attempts whose outcome is unknown and that this gateway cannot ask about: %d; `counterfoil reconcile` "
                "lists them for a person",
                self._left,
            )

    def _is_due(self, seen: Tracked) -> bool:
        """Whether nobody else may be at work on it, and it is time; it is watched from now on in any case."""
        now = self._clock.monotonic()
        watch = self._watches.setdefault(seen.attempt, self._watch())
        if self._carrier.waits_for(seen.attempt):
            self._carrier.leases.alive(seen.attempt)
            free = False
        else:
            free = self._carrier.leases.free(seen)
        if seen.state != "unknown" or not free:
            watch.since = now
        return free and (seen.state != "unknown" or now >= watch.due)

    def _watch(self) -> _Watch:
        return _Watch(self._clock.monotonic(), self._book.options.lease_s)

    async def _settle(self, seen: Tracked) -> bool:
        run, attempt = await self._carrier.attempt_of(seen.run, seen.attempt)
        if attempt.state is AttemptState.UNKNOWN:
            self._watches[attempt.id].unknown_since = attempt.at.timestamp()
            return await self._inquire(seen, run, attempt)
        if attempt.unverified:
            return await self._verify(seen, run, attempt)
        return await self._give_up(seen, run, attempt)

    def _stuck(self, seen: Tracked, why: BaseException) -> None:
        """It alone cannot be settled, whatever is wrong with it: said once, and tried again by every sweep."""
        watch, said = self._watches.setdefault(seen.attempt, self._watch()), f"{type(why).__name__}: {why}"
        watch.helpless = True
        if watch.stuck != said:
            known = isinstance(why, CorruptLedger | PolicyMissing | UnreadableRecord)
            _LOG.error("attempt %s cannot be settled: %s", seen.attempt, why, exc_info=None if known else why)
        watch.stuck = said

    async def _verify(self, seen: Tracked, run: Run, attempt: Attempt) -> bool:
        """Its verifier is asked again, if this gateway can: else another one serves what it has to be judged by."""
        if not await self._carrier.can_verify(seen.run, seen.attempt) or await self._carrier.claim(seen) is None:
            return False
        with self._carrier.working_on(seen.attempt), trace.settling(run, attempt):
            return (await self._carrier.verify_again(seen.run, seen.attempt)).attempts[seen.attempt].settled

    async def _give_up(self, seen: Tracked, run: Run, attempt: Attempt) -> bool:
        """Nobody waits for its answer any more: a read is abandoned, a write is unknown and held."""
        until = attempt.suspended_until
        waits = attempt.state is AttemptState.SUSPENDED and until is not None and until.timestamp() > self._clock.now()
        if attempt.settled or waits or await self._carrier.claim(seen) is None:
            return False
        with trace.settling(run, attempt):
            _ = await self._book.lose(run.id, attempt.id, "its gateway went away before an answer was recorded")
        return True

    # --- what is unknown --------------------------------------------------------------------------------------------

    async def _inquire(self, seen: Tracked, run: Run, attempt: Attempt) -> bool:
        """The upstream is asked, or gets the call again under its key, as far as policy says that it can be."""
        rules = await self._book.policies.of(run.policy)
        tool = await self._upstreams.tool(attempt.intent.tool)
        watch = self._watches[attempt.id]
        served = tool is not None and tool.healthy and tool.upstream == attempt.intent.upstream
        known = rules.ruled(tool).registered if tool is not None and served else None
        query = query_of(known) if known is not None else None
        body = await self._book.ledger.payload(attempt.intent.arguments)
        watch.helpless = known is None or body is None or (query is None and not honours_key(known))
        if known is None or body is None or watch.helpless:
            watch.due = self._clock.monotonic() + MOST_S  # nothing to do here; policy or servers may change
            return False
        settled = self._could_not_act(watch, attempt, known)
        again = settled and self._may_resend(watch, attempt, known)
        if query is None and not again:
            return False
        if await self._carrier.claim(seen) is None:
            return False
        with self._carrier.working_on(attempt.id), trace.settling(run, attempt):
            arguments = parse(body)
            if query is not None and await self._ask(query, run, attempt, arguments, rules, settled=settled):
                return True
            if again and await self._engine.resend(run, attempt, arguments):
                self._watches[attempt.id] = self._watch()
                return True
        await self._book.ledger.renew(self._book.options.owner, [attempt.id], NOBODYS)  # others may know more
        return False

    def _could_not_act(self, watch: _Watch, attempt: Attempt, known: Registered) -> bool:
        """Whether the upstream can no longer act on any sending of it; when it is looked at again is set on the way."""
        now = self._clock.monotonic()
        sent_at = attempt.sent_at or attempt.at
        if watch.seen not in {None, (sent_at, attempt.settles_at)}:
            watch.since = now  # it was sent again since
        watch.seen = sent_at, attempt.settles_at
        window_s = max((attempt.settles_at - sent_at).total_seconds(), attempt.intent.timeout_s + known.rule.grace_s)
        ends = watch.since + window_s
        watch.due = now + watch.pause_s if now >= ends else min(now + watch.pause_s, ends)
        watch.pause_s = min(2 * watch.pause_s, MOST_S)
        return now >= ends and self._clock.now() >= attempt.settles_at.timestamp()

    def _may_resend(self, watch: _Watch, attempt: Attempt, known: Registered) -> bool:
        """Whether the upstream honours its key, and it has rested for long enough since it was sent again."""
        rest_s = self._book.options.lease_s * 2 ** min(attempt.sent - 2, 16) if attempt.sent > 1 else 0.0
        return honours_key(known) and self._clock.monotonic() - watch.since >= min(rest_s, MOST_S)

    async def _ask(
        self,
        query: StatusQuery,
        run: Run,
        attempt: Attempt,
        arguments: dict[str, object],
        rules: Rules,
        *,
        settled: bool,
    ) -> bool:
        """Whether the upstream's answer settled it."""
        started = utc(self._clock.now())
        told = query_arguments(query, attempt, arguments, rules, started)
        answer = await self._carrier.looking.ask(query.probe.tool, told, query.timeout_s, rules)
        cited, payloads = stored(answer, self._book.ledger.salt)

        def said(state: Run, by: Rules, now: datetime) -> Sequence[Event]:
            found = judge_status(query, attempt, answer, arguments, by, now)
            return queried(state, attempt.id, found, cited, started_at=started, settled=settled)

        events, after, _ = await self._book.transact(run.id, said, payloads)
        if after.attempts[attempt.id].unverified:
            self._carrier.take_up(after, attempt.id)
        return bool(events) and after.attempts[attempt.id].state is not AttemptState.UNKNOWN
