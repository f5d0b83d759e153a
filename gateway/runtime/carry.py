"""What is sent, and what becomes of its answer: dispatch once, record the receipt, verify. The intent is on disk.

Whatever was begun here is carried to its end whether or not somebody still waits for it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from gateway.kernel.claims import by_answer
from gateway.kernel.evidence import question
from gateway.kernel.noise import step_alike
from gateway.kernel.reduce import CorruptLedger
from gateway.kernel.registry import told_by
from gateway.kernel.rules import Rules
from gateway.kernel.verify import failure_of, observe
from gateway.model.events import AttemptResent, AttemptResumed, Effect, Event, IntentRecorded
from gateway.model.proposal import Proposal
from gateway.model.run import Attempt, Run, Tracked
from gateway.model.tool import Answer, NotSent, Tool
from gateway.ports import Caller, Conflict, Dispatch, LedgerUnavailable, Looks, Upstreams
from gateway.runtime import trace
from gateway.runtime.book import Book
from gateway.runtime.flight import Answered, Flight, Moment, Unrecorded
from gateway.runtime.leases import Leases
from gateway.runtime.looking import NOWHERE, Looking
from gateway.runtime.verifying import Verifying
from gateway.runtime.wire import arguments_of, keyed, stored

_LOG = logging.getLogger("counterfoil.engine")

LAST_WORDS_S = 1.0
"""How long a shutdown waits for the ledger to take what is left; recovery settles the rest."""

FIRST_PAUSE_S = 0.2
"""Between the first tries to record an answer; later ones wait twice as long each, up to 5 s."""


class Carrier:
    """Carries attempts from their intent to their evidence. One for each process."""

    def __init__(self, book: Book, upstreams: Upstreams, looks: Looks = NOWHERE) -> None:
        self._book = book
        self._ledger = book.ledger
        self._policies = book.policies
        self._clock = book.clock
        self._options = book.options
        self._upstreams = upstreams
        self.looking = Looking(book.ledger, upstreams, looks)
        self.verifying = Verifying(book, self.looking)
        self.leases = Leases(book.clock, book.options.owner, book.options.lease_s)
        self._working: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.decided: dict[str, Moment] = {}
        """When calls that are about to be sent were decided, by attempt id."""
        self.open: dict[str, Flight] = {}
        """Calls under way, by attempt id."""
        self.kept: dict[str, Answered] = {}
        """Answers that the ledger has not taken yet, by attempt id; what is lost with us, is unknown."""
        self.owed: Callable[[str], Any] = lambda _run: None
        """Told of a run that has something to undo. Returns at once."""

    # --- one attempt ------------------------------------------------------------------------------------------------

    async def carry(
        self, proposal: Proposal, tool: Tool, attempt: Attempt, caller: Caller | None, flight: Flight
    ) -> tuple[Answer | None, Run, Rules]:
        """Dispatch once, record the answer, verify it. The intent, or the next round of it, is on disk.

        The answer is None where another one is recorded: only that one is told.

        Without a caller it is the gateway's own: recovery that sends it again, or what undoes another call.

        Raises: Unrecorded.
        """
        started, name = self._clock.monotonic(), attempt.id
        self.open[name], flight.attempt = flight, name
        try:
            answer = await self._dispatch(proposal, tool, attempt, caller)
            elapsed = self._clock.monotonic() - started
            answered = Answered(proposal.run, name, answer, tool, proposal.arguments, elapsed)
            try:
                run, rules, recorded = await self._take(answered)
            except LedgerUnavailable as error:
                self._keep(answered)
                raise Unrecorded(str(error)) from error
        finally:
            self.open.pop(name, None)
        return answer if recorded else None, run, rules

    def note(self, events: Sequence[Event], decided: Moment) -> None:
        """What is about to be sent was decided then."""
        for event in events[:1]:
            if isinstance(event, IntentRecorded | AttemptResumed | AttemptResent):
                self.decided[event.attempt] = decided

    def moment(self) -> Moment:
        """Now."""
        return Moment(self._clock.monotonic(), self._clock.now())

    async def _dispatch(self, proposal: Proposal, tool: Tool, attempt: Attempt, caller: Caller | None) -> Answer:
        loop = asyncio.get_running_loop()
        begun = self._clock.monotonic()
        decided = self.decided.pop(attempt.id)

        def left_s() -> float:
            # INVARIANT: what is sent is answered or given up within `timeout_s` of its record; `settles_at` says so.
            return attempt.intent.timeout_s - self.moment().since(decided)

        if left_s() <= 0:
            return NotSent("the gateway was held up for too long before it could send it")
        if proposal.waited and caller is not None and caller.withdrawal.gone:
            return NotSent("the client left after it had waited for a person, just before it was sent")

        def late(answer: Answer) -> None:
            elapsed = self._clock.monotonic() - begun
            answered = Answered(proposal.run, attempt.id, answer, tool, proposal.arguments, elapsed)
            loop.call_soon(self._keep, answered)

        rules = await self._policies.of(attempt.intent.policy)
        arguments, meta, headers = keyed(proposal, rules, tool, attempt.id)
        dispatch = Dispatch(
            tool=tool,
            arguments=arguments,
            timeout_s=left_s(),
            left_s=left_s,
            meta={**proposal.meta, **meta},
            headers=headers,
            late=late,
            caller=caller,
            heed_loss=attempt.intent.effect is Effect.READ,
            more=proposal.more,
        )
        with trace.attempting(proposal.run, attempt):
            return await self._upstreams.call(dispatch)

    async def _take(self, answered: Answered) -> tuple[Run, Rules, bool]:
        """The answer is recorded, and verified if its transition names a verifier; whether it was, or another one had
        been before.

        Raises: LedgerUnavailable.
        """
        run, rules, recorded = await self._receive(answered)
        return *await self._verify(run, rules, answered.attempt, answered.arguments), recorded

    async def _receive(self, answered: Answered) -> tuple[Run, Rules, bool]:
        cited, payloads = stored(answered.answer, self._ledger.salt)
        schema = answered.tool.definition.get("outputSchema")

        def received(run: Run, rules: Rules, now: datetime) -> Sequence[Event]:
            attempt = run.attempts.get(answered.attempt)
            if attempt is None:
                raise Conflict(f"the state at hand does not know attempt `{answered.attempt}` yet")
            ruled = rules.ruled(answered.tool)
            rule, salt = ruled.registered.rule, self._ledger.salt
            failure = failure_of(answered.answer, answered.arguments, rule, rules, now) if rule.failures else None
            result = cited.digest if cited is not None else None
            alike = step_alike(attempt, answered.arguments, answered.answer, result, rules, ruled, salt)
            seen = observe(
                run,
                attempt,
                answered.answer,
                cited,
                output_schema=schema,
                duration_s=answered.elapsed_s,
                now=now,
                failure=failure,
                alike=alike,
                refers=told_by(rule, rules.policy).repeat == "reference",
            )
            wrong = by_answer(run, attempt, answered.answer, answered.arguments, self._ledger.salt) if seen else ()
            return (*seen, *wrong) if wrong else seen

        events, run, rules = await self._book.transact(answered.run, received, payloads)
        if not events:
            run = await self._book.durable_state_of(answered.run, answered.attempt)
        return run, rules, bool(events)

    def _heed(self, run: Run, attempt_id: str) -> None:
        """What is to be undone now is, by a task of its own, where nobody carries the attempt who will see to it."""
        if run.owed and attempt_id not in self.open:
            self.owed(run.id)

    async def _verify(self, run: Run, rules: Rules, attempt_id: str, arguments: Mapping[str, Any]) -> tuple[Run, Rules]:
        run, rules = await self.verifying.about_call(run, rules, attempt_id, arguments)
        self._heed(run, attempt_id)
        return run, rules

    def _keep(self, answered: Answered) -> None:
        """A late answer, or one that the ledger would not take, is recorded as soon as it does."""
        self.kept[answered.attempt] = answered
        _ = self.spawn(self._insist(answered))

    async def _insist(self, answered: Answered) -> None:
        name, pause_s = answered.attempt, FIRST_PAUSE_S
        while True:
            try:
                await self._take(answered)
            except LedgerUnavailable as error:
                if pause_s == FIRST_PAUSE_S:
                    _LOG.error("the answer of %s is kept in memory until the ledger takes it: %s", name, error)
                await self._clock.sleep(pause_s)
                pause_s = min(pause_s * 2, 5.0)
            else:
                self.kept.pop(name, None)
                if pause_s != FIRST_PAUSE_S:
                    _LOG.warning("the answer of %s is in the ledger now", name)
                return

    async def end(self, attempt: Attempt, answer: Answer) -> None:
        """The answer of a suspended attempt, seen by whoever relays its upstream's task, is recorded and verified.

        Raises: LedgerUnavailable; it is kept then until the ledger takes it.
        """
        name, intent = attempt.id, attempt.intent
        tool = await self._upstreams.tool(intent.tool) or Tool(intent.tool, intent.upstream or "", intent.tool, {})
        elapsed = max(0.0, self._clock.now() - attempt.at.timestamp())
        arguments = await arguments_of(self._ledger, attempt)
        answered = Answered(name.rpartition(".")[0], name, answer, tool, arguments, elapsed)
        try:
            with self.working_on(name):
                await self._take(answered)
        except LedgerUnavailable:
            self._keep(answered)
            raise

    # --- verifiers that nobody asks ---------------------------------------------------------------------------------

    async def can_verify(self, run_id: str, attempt_id: str) -> bool:
        """Whether this gateway reaches the server that the attempt went to, and that at which its verifier looks.

        Asked before the attempt is claimed: whoever cannot judge it must not keep from it those who can.

        Raises: LedgerUnavailable, PolicyMissing, CorruptLedger.
        """
        run, attempt = await self.attempt_of(run_id, attempt_id)
        asked = question(run, attempt.id, await self._policies.of(run.policy))
        tool = await self._upstreams.tool(attempt.intent.tool)
        served = tool is not None and tool.healthy and tool.upstream == attempt.intent.upstream
        return served and (asked is None or await self.looking.can(asked.rule))

    def waits_for(self, attempt_id: str) -> bool:
        """Whether the attempt is under way here, whatever its lease says: a suspended machine renews none."""
        return attempt_id in self.open or attempt_id in self._working or attempt_id in self.kept

    async def attempt_of(self, run_id: str, attempt_id: str) -> tuple[Run, Attempt]:
        """The run as the ledger has it now, and the attempt in it.

        Raises: LedgerUnavailable, CorruptLedger.
        """
        run = await self._book.fresh_state_of(run_id)
        attempt = run.attempts.get(attempt_id)
        if attempt is None:
            raise CorruptLedger(f"run `{run_id}` knows no attempt `{attempt_id}`")
        return run, attempt

    @contextmanager
    def working_on(self, attempt_id: str) -> Iterator[None]:
        """Our lease on what we settle is renewed for as long as it takes."""
        self._working.add(attempt_id)
        try:
            yield
        finally:
            self._working.discard(attempt_id)

    def take_up(self, run: Run, attempt_id: str | None) -> None:
        """Somebody waits for a verifier that perhaps nobody is asking, as after a person's word: ask it."""
        attempt = run.attempts.get(attempt_id or "")
        if attempt is not None and attempt.unverified and attempt.id not in self.open:
            _ = self.spawn(self._verify_unowned(run.id, attempt.id))

    async def _verify_unowned(self, run_id: str, attempt_id: str) -> None:
        try:
            if await self.can_verify(run_id, attempt_id) and await self._claimed(attempt_id):
                with self.working_on(attempt_id):
                    _ = await self.verify_again(run_id, attempt_id)
        except LedgerUnavailable as error:
            _LOG.warning("%s is not verified yet: %s", attempt_id, error)

    async def _claimed(self, attempt_id: str) -> bool:
        """Whether an attempt that awaits its verifier is ours now, nobody else working on it."""
        found = await self._ledger.tracked(states={"unverified"})
        seen = next((one for one in found if one.attempt == attempt_id), None)
        return seen is not None and self.leases.free(seen) and await self.claim(seen) is not None

    async def claim(self, seen: Tracked) -> Tracked | None:
        """The attempt as ours for a lease, if nobody was quicker since it was seen so.

        Raises: LedgerUnavailable.
        """
        mine = replace(seen, owner=self._options.owner, lease_until=self._clock.now() + self._options.lease_s)
        return mine if await self._ledger.claim(seen, mine.owner, mine.lease_until) else None

    async def verify_again(self, run_id: str, attempt_id: str) -> Run:
        """A receipt without a verdict gets its verifier asked again.

        Raises: LedgerUnavailable, PolicyMissing.
        """
        run = await self._book.fresh_state_of(run_id)
        arguments = await arguments_of(self._ledger, run.attempts[attempt_id])
        return (await self._verify(run, await self._policies.of(run.policy), attempt_id, arguments))[0]

    # --- small things -----------------------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of ours, which `close` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def keep_leases(self) -> None:
        """Runs for ever: what we wait for stays ours while we live, and nothing that we have let be."""
        while True:
            await self._clock.sleep(self._options.lease_s / 3)
            if mine := {*self.open, *self._working, *self.kept}:
                try:
                    await self._ledger.renew(self._options.owner, mine, self._clock.now() + self._options.lease_s)
                except LedgerUnavailable as error:
                    self._book.health.refused(str(error))  # which says it once

    async def close(self) -> None:
        """Calls under way have ended, or are recorded as unknown; nothing of ours runs on."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._options.drain_s)
        left = {attempt: flight.run for attempt, flight in self.open.items()}
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=0.5)
        last = [self._last_word(answered) for answered in self.kept.values()]
        losing = [self._lose(run, attempt) for attempt, run in left.items()]
        try:
            await asyncio.wait_for(asyncio.gather(*last, *losing), LAST_WORDS_S)
        except TimeoutError:
            _LOG.warning(
                "the ledger did not take what is left of %d calls; they stay open in it", len(left) + len(self.kept)
            )

    async def _last_word(self, answered: Answered) -> None:
        """An answer that was kept is recorded, if the ledger takes it now; else it is lost, and its outcome unknown."""
        try:
            await self._receive(answered)
        except LedgerUnavailable as error:
            _LOG.error("the answer of %s is lost, its outcome is unknown: %s", answered.attempt, error)
        else:
            self.kept.pop(answered.attempt, None)

    async def _lose(self, run_id: str, attempt_id: str) -> None:
        try:
            await self._book.lose(run_id, attempt_id, "the gateway was shut down while it waited for the answer")
        except LedgerUnavailable as error:
            _LOG.warning("%s stays open in the ledger: %s", attempt_id, error)
