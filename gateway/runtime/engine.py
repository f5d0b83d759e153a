"""The one path of a call: decide, record the intent, dispatch once, record the receipt, verify, tell.

`Book.transact` is the only place that appends. An approval and a recovery have no path of their own: they
change what is true, and the agent's next proposal walks this path against it.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gateway.kernel.case import Observed
from gateway.kernel.decide import decide
from gateway.kernel.reduce import CorruptLedger
from gateway.kernel.registry import as_pinned
from gateway.kernel.rules import Rules
from gateway.kernel.verify import observe, question, settle
from gateway.model.answer import Refusal, Shown
from gateway.model.canonical import canonical, parse
from gateway.model.events import (
    Effect,
    Event,
    IntentRecorded,
    OutcomeDelivered,
    Replayed,
    RunOpened,
    Verdict,
    Who,
)
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal
from gateway.model.record import utc
from gateway.model.run import Attempt, AttemptState, Run, RunState, Tracked
from gateway.model.tool import Answer, NotSent, Tool
from gateway.ports import Conflict, Dispatch, LedgerUnavailable, NoSuchRun, Occupied, Upstreams
from gateway.runtime import tell, trace
from gateway.runtime.book import ROUNDS, Book
from gateway.runtime.wire import ANY_DEPTH, Definitions, keyed, made_before, payload_of, stored

_LOG = logging.getLogger("counterfoil.engine")


LAST_WORDS_S = 1.0
"""How long a shutdown waits for the ledger to take what is left; recovery settles the rest."""


class Engine:
    """Judges, records, dispatches, verifies. One for each process."""

    def __init__(self, book: Book, upstreams: Upstreams) -> None:
        self.salt = book.ledger.salt
        self._book = book
        self._ledger = book.ledger
        self._policies = book.policies
        self._clock = book.clock
        self._options = book.options
        self._upstreams = upstreams
        self._tasks: set[asyncio.Task[Any]] = set()
        self._open: dict[str, str] = {}
        self._definitions = Definitions(self.salt)

    # --- runs -------------------------------------------------------------------------------------------------------

    async def open_run(
        self,
        *,
        run: str,
        principal: Principal,
        origin: str,
        attribution: Mapping[str, str],
        goal: str = "",
        workflow: str | None = None,
        expires_at: float | None = None,
    ) -> Run:
        """The run exists and belongs to this principal.

        Raises: NoSuchRun if it belongs to another or its workflow is not loaded, LedgerUnavailable.
        """
        who = Who(tenant=principal.tenant, id=principal.id, roles=tuple(sorted(principal.roles)))
        try:
            rules = self._policies.current(workflow)
        except KeyError:
            raise NoSuchRun(f"no policy for the workflow `{workflow}` is loaded") from None

        def opened(state: Run, _rules: Rules, _now: datetime) -> Sequence[Event]:
            if state.state is not RunState.UNOPENED:
                return ()
            return (
                RunOpened(
                    principal=who,
                    workflow=rules.policy.workflow,
                    policy=rules.digest,
                    phase=rules.policy.initial,
                    goal=goal,
                    origin=origin,  # type: ignore[arg-type]  # validated by the event
                    expires_at=utc(expires_at) if expires_at is not None else None,
                    attribution=dict(attribution),
                ),
            )

        _, state, _ = await self._book.transact(run, opened, {rules.digest: self._policies.texts[rules.digest]})
        owner = state.principal
        if owner is None or (owner.tenant, owner.id) != (principal.tenant, principal.id):
            raise NoSuchRun(f"run `{run}` belongs to another principal")
        return state

    # --- the life of a call -----------------------------------------------------------------------------------------

    async def call(self, proposal: Proposal) -> Shown:
        """What came of the proposal. Its work goes on and is recorded even if the caller is cancelled.

        Raises: NoSuchRun, PolicyMissing, CorruptLedger. Everything the world does wrong is in the answer.
        """
        return await asyncio.shield(self._spawn(self._call(proposal)))

    async def _call(self, proposal: Proposal) -> Shown:
        deliver_by = self._clock.monotonic() + self._options.patience_s
        tool = await self._upstreams.tool(proposal.tool)
        seen: list[Run] = []
        try:
            verdict, run, rules = await self._judge(proposal, tool, seen)
            if isinstance(verdict, IntentRecorded) and tool is not None:
                shown, run = await self._carry_out(proposal, tool, verdict)
            elif isinstance(verdict, Replayed):
                shown = await self._replay(run, rules, verdict.attempt)
            else:
                refusal = tell.refusal(run, rules, verdict, self._options.approve_at, self._options.settle_at)
                shown = Shown(run.id, refusal=refusal)
                self._take_up(run, refusal.attempt)
        except LedgerUnavailable as error:
            shown = self._unrecorded(proposal, str(error), executed=made_before(seen, proposal))
            run = Run(proposal.run)
        trace.told(shown, run)
        return replace(shown, deliver_by=deliver_by)

    async def _judge(self, proposal: Proposal, tool: Tool | None, seen: list[Run]) -> tuple[Verdict, Run, Rules]:
        """The verdict, recorded. An intent is durable and its effect is held when this returns.

        `seen` gets the state that was judged, for whoever must tell what is known if it cannot be recorded.
        """
        payloads = {proposal.arguments_digest: canonical(dict(proposal.arguments))}
        definition = self._definitions.cite(tool, payloads)
        held: Tracked | None = None
        for _ in range(ROUNDS):
            observed = Observed(tool, definition, held)

            def judged(run: Run, rules: Rules, now: datetime, observed: Observed = observed) -> Sequence[Event]:
                if run.state is RunState.UNOPENED:
                    raise NoSuchRun(f"run `{run.id}` was never opened")
                seen.append(run)
                return (decide(run, proposal, rules, observed, now),)

            try:
                events, run, rules = await self._book.transact(proposal.run, judged, payloads)
            except Occupied as occupied:
                held = occupied.held
                continue
            verdict = events[0]
            assert not isinstance(verdict, RunOpened)  # noqa: S101 - INVARIANT: the step above yields one verdict
            return verdict, run, rules  # type: ignore[return-value]  # the same
        raise LedgerUnavailable("the effect's hold changed hands too often")

    async def _carry_out(self, proposal: Proposal, tool: Tool, intent: IntentRecorded) -> tuple[Shown, Run]:
        """Dispatch once, record the answer, verify it. The intent is on disk."""
        started = self._clock.monotonic()
        self._open[intent.attempt] = proposal.run
        try:
            answer = await self._dispatch(proposal, tool, intent)
            elapsed = self._clock.monotonic() - started
            try:
                run, rules = await self._receive(proposal.run, intent.attempt, answer, tool, elapsed)
                run, rules = await self._verify(run, rules, intent.attempt, proposal.arguments)
            except LedgerUnavailable as error:
                _ = self._spawn(self._insist(proposal.run, intent.attempt, answer, tool, elapsed))
                shown = self._unrecorded(proposal, str(error), executed="unknown")
                return replace(shown, attempt=intent.attempt), Run(proposal.run)
        finally:
            self._open.pop(intent.attempt, None)
        attempt = run.attempts[intent.attempt]
        return await self._show(run, rules, attempt, replayed=False, answer=answer), run

    async def _dispatch(self, proposal: Proposal, tool: Tool, intent: IntentRecorded) -> Answer:
        loop = asyncio.get_running_loop()
        begun = self._clock.monotonic()

        def late(answer: Answer) -> None:
            elapsed = self._clock.monotonic() - begun
            loop.call_soon(self._spawn, self._insist(proposal.run, intent.attempt, answer, tool, elapsed))

        with trace.outbound(tool.own_name, tool.upstream, intent.attempt) as span:
            carried = trace.carrier()
            rules = await self._policies.of(intent.policy)
            arguments, meta, headers = keyed(proposal, rules, tool, intent)
            dispatch = Dispatch(
                tool=tool,
                arguments=arguments,
                timeout_s=intent.timeout_s,
                meta={**proposal.meta, **meta, **carried},
                headers={**headers, **carried},
                late=late,
            )
            answer = await self._upstreams.call(dispatch)
            trace.answered(span, answer)
        return answer

    async def _receive(
        self, run_id: str, attempt_id: str, answer: Answer, tool: Tool, elapsed_s: float
    ) -> tuple[Run, Rules]:
        cited, payloads = stored(answer, self.salt)

        def received(run: Run, _rules: Rules, now: datetime) -> Sequence[Event]:
            attempt = run.attempts.get(attempt_id)
            if attempt is None:
                raise Conflict(f"the state at hand does not know attempt `{attempt_id}` yet")
            schema = tool.definition.get("outputSchema")
            return observe(run, attempt, answer, cited, output_schema=schema, duration_s=elapsed_s, now=now)

        _, run, rules = await self._book.transact(run_id, received, payloads)
        return run, rules

    async def _verify(self, run: Run, rules: Rules, attempt_id: str, arguments: Mapping[str, Any]) -> tuple[Run, Rules]:
        asked = question(run, attempt_id, rules)
        if asked is None:
            return run, rules
        started, begun = utc(self._clock.now()), self._clock.monotonic()
        tool = await self._upstreams.tool(asked.rule.probe.tool)
        answer: Answer = NotSent(f"no upstream offers `{asked.rule.probe.tool}` as policy pins it")
        if tool is not None and as_pinned(tool, rules.policy):
            probe = asked.rule.probe.arguments
            answer = await self._upstreams.call(Dispatch(tool, probe, asked.rule.timeout_s, meta=trace.carrier()))
        elapsed = self._clock.monotonic() - begun
        cited, payloads = stored(answer, self.salt)

        def settled(state: Run, judged_by: Rules, now: datetime) -> Sequence[Event]:
            return settle(
                state, asked, answer, cited, arguments, judged_by, started_at=started, duration_s=elapsed, now=now
            )

        _, run, rules = await self._book.transact(run.id, settled, payloads)
        return run, rules

    async def _show(
        self, run: Run, rules: Rules, attempt: Attempt, *, replayed: bool, answer: Answer | None = None
    ) -> Shown:
        """The attempt's outcome, from the answer in hand or from the record of it."""
        refused = tell.attempt_refusal(run, rules, attempt, self._options.settle_at)
        if refused is not None:
            return Shown(run.id, attempt=attempt.id, refusal=refused)
        said = tell.record(run, rules, attempt, replayed=replayed)
        payload = payload_of(answer) if answer is not None else None
        if payload is None and attempt.result is not None:
            body = await self._ledger.payload(attempt.result)
            payload = parse(body, max_depth=ANY_DEPTH) if body is not None else None
        if payload is None:
            gone = tell.erased(run, rules, attempt)
            return Shown(run.id, attempt=attempt.id, refusal=gone)
        if attempt.answer == "error":
            return Shown(run.id, attempt=attempt.id, error=payload, record=said)
        return Shown(run.id, attempt=attempt.id, result=payload, record=said)

    async def _replay(self, run: Run, rules: Rules, attempt_id: str) -> Shown:
        """The recorded outcome; it may be of another run of the same principal, whose client was never told."""
        if attempt_id not in run.attempts:
            run = await self._book.fresh_state_of(attempt_id.rpartition(".")[0])
            rules = await self._policies.of(run.policy)
        return await self._show(run, rules, run.attempts[attempt_id], replayed=True)

    def delivered(self, shown: Shown) -> None:
        """The outcome was written to a live client. Recorded soon; if that is lost, it is merely told once more."""
        final = shown.refusal is None or shown.refusal.executed is True
        in_time = shown.deliver_by is None or self._clock.monotonic() <= shown.deliver_by
        if shown.attempt is not None and final and in_time:
            _ = self._spawn(self._record_delivery(shown.run, shown.attempt))

    async def _record_delivery(self, run_id: str, attempt_id: str) -> None:
        def noted(run: Run, _rules: Rules, _now: datetime) -> Sequence[Event]:
            attempt = run.attempts.get(attempt_id)
            if attempt is None or attempt.delivered or attempt.intent.effect is Effect.READ:
                return ()
            return (OutcomeDelivered(attempt=attempt_id),) if attempt.state is AttemptState.ANSWERED else ()

        try:
            await self._book.transact(run_id, noted, {})
        except LedgerUnavailable as error:
            _LOG.warning("the delivery of %s is not recorded: %s", attempt_id, error)

    async def can_verify(self, run_id: str, attempt_id: str) -> bool:
        """Whether this gateway reaches the server that the attempt went to, and the one that its verifier asks.

        Asked before the attempt is claimed: whoever cannot judge it must not keep from it those who can.

        Raises: LedgerUnavailable, PolicyMissing, CorruptLedger.
        """
        run = await self._book.fresh_state_of(run_id)
        attempt = run.attempts.get(attempt_id)
        if attempt is None:
            raise CorruptLedger(f"run `{run_id}` knows no attempt `{attempt_id}`")
        asked = question(run, attempt.id, await self._policies.of(run.policy))
        wanted = [attempt.intent.tool] if asked is None else [attempt.intent.tool, asked.rule.probe.tool]
        found = [await self._upstreams.tool(name) for name in wanted]
        served = found[0] is not None and found[0].upstream == attempt.intent.upstream
        return served and all(tool is not None and tool.healthy for tool in found)

    def waits_for(self, attempt_id: str) -> bool:
        """Whether the attempt is under way here, whatever its lease says: a suspended machine renews none."""
        return attempt_id in self._open

    def _take_up(self, run: Run, attempt_id: str | None) -> None:
        """Somebody waits for a verifier that perhaps nobody is asking, as after a person's word: ask it."""
        attempt = run.attempts.get(attempt_id or "")
        if attempt is not None and attempt.unverified and attempt.id not in self._open:
            _ = self._spawn(self._verify_unowned(run.id, attempt.id))

    async def _verify_unowned(self, run_id: str, attempt_id: str) -> None:
        now = self._clock.now()
        try:
            if not await self.can_verify(run_id, attempt_id):
                return
            if await self._ledger.claim(attempt_id, self._options.owner, now, now + self._options.lease_s):
                _ = await self.verify_again(run_id, attempt_id)
        except LedgerUnavailable as error:
            _LOG.warning("%s is not verified yet: %s", attempt_id, error)

    async def verify_again(self, run_id: str, attempt_id: str) -> Run:
        """A receipt without a verdict gets its verifier asked again.

        Raises: LedgerUnavailable, PolicyMissing.
        """
        run = await self._book.fresh_state_of(run_id)
        body = await self._ledger.payload(run.attempts[attempt_id].intent.arguments)
        arguments = parse(body) if body is not None else {}
        return (await self._verify(run, await self._policies.of(run.policy), attempt_id, arguments))[0]

    async def _insist(self, run_id: str, attempt_id: str, answer: Answer, tool: Tool, elapsed_s: float) -> None:
        """Record a late answer, or one that the ledger would not take: again and again until it is on disk."""
        pause_s = 0.2
        while True:
            try:
                run, rules = await self._receive(run_id, attempt_id, answer, tool, elapsed_s)
                arguments = await self._ledger.payload(run.attempts[attempt_id].intent.arguments)
                await self._verify(run, rules, attempt_id, parse(arguments) if arguments else {})
            except LedgerUnavailable as error:
                _LOG.error("the answer of %s is kept in memory until the ledger takes it: %s", attempt_id, error)
                await self._clock.sleep(pause_s)
                pause_s = min(pause_s * 2, 5.0)
            else:
                return

    # --- small things -----------------------------------------------------------------------------------------------

    def _unrecorded(self, proposal: Proposal, reason: str, *, executed: tell.Executed) -> Shown:
        rules = self._policies.current()
        refusal: Refusal = tell.ledger_unavailable(Run(proposal.run), rules, proposal.tool, reason, executed=executed)
        return Shown(proposal.run, refusal=refusal)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def keep_leases(self) -> None:
        """Runs for ever: what we wait for stays ours while we live."""
        while True:
            await self._clock.sleep(self._options.lease_s / 3)
            if self._open:
                try:
                    await self._ledger.renew(self._options.owner, self._clock.now() + self._options.lease_s)
                except LedgerUnavailable as error:
                    _LOG.warning("leases are not renewed: %s", error)

    async def close(self) -> None:
        """Calls under way have ended, or are recorded as unknown; nothing of ours runs on."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._options.drain_s)
        left = dict(self._open)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=0.5)
        losing = [self._lose(run, attempt) for attempt, run in left.items()]
        try:
            await asyncio.wait_for(asyncio.gather(*losing), LAST_WORDS_S)
        except TimeoutError:
            _LOG.warning("the ledger did not take what is left of %d calls; they stay open in it", len(left))

    async def _lose(self, run_id: str, attempt_id: str) -> None:
        try:
            await self._book.lose(run_id, attempt_id, "the gateway was shut down while it waited for the answer")
        except LedgerUnavailable as error:
            _LOG.warning("%s stays open in the ledger: %s", attempt_id, error)
