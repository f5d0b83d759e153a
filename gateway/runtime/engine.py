"""The one path of a call: decide, record the intent, dispatch once, record the receipt, verify, tell.

`Book.transact` is the only place that appends. An approval and a recovery have no path of their own: they
change what is true, and the agent's next proposal walks this path against it.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gateway.kernel.case import Gather, Observed
from gateway.kernel.decide import decide
from gateway.kernel.owing import nothing_new
from gateway.kernel.recover import resending
from gateway.kernel.registry import rule_of
from gateway.kernel.rules import Rules, held_by
from gateway.model.alike import alike_digest
from gateway.model.answer import Refusal, Shown
from gateway.model.attempt import run_of as run_of
from gateway.model.canonical import canonical
from gateway.model.events import (
    AttemptResent,
    AttemptResumed,
    Denied,
    Event,
    IntentRecorded,
    Replayed,
    RunOpened,
    Verdict,
    Who,
)
from gateway.model.principal import Parent, Principal
from gateway.model.proposal import Proposal
from gateway.model.record import utc
from gateway.model.run import Attempt, AttemptState, Run, RunState
from gateway.model.switch import SWITCHES
from gateway.model.tool import Answer, Tool
from gateway.ports import Caller, Exhausted, LedgerUnavailable, Looks, NoSuchRun, Occupied, Upstreams, Withdrawal
from gateway.runtime import tell, trace
from gateway.runtime.artifacts import Artifacts
from gateway.runtime.barring import Barring
from gateway.runtime.book import ROUNDS, Book
from gateway.runtime.carry import Carrier
from gateway.runtime.claims import Claims, owned
from gateway.runtime.deliver import Deliveries
from gateway.runtime.denials import Denials
from gateway.runtime.finish import Finishing
from gateway.runtime.flight import Flight, LeftAlone, Moment, Unrecorded, check_claimed
from gateway.runtime.gather import Gathering, Wanting
from gateway.runtime.lanes import Crowded, Lanes
from gateway.runtime.lineage import goes_on
from gateway.runtime.looking import NOWHERE
from gateway.runtime.questions import Questions
from gateway.runtime.showing import Showing
from gateway.runtime.undo import Undoer, Unneeded
from gateway.runtime.waiting import within
from gateway.runtime.wire import Definitions, made_before

_LOG = logging.getLogger("counterfoil.engine")


LOOK_S = 1.0
"""How often it is looked whether a client that was asked something waits for us again."""


class Engine:
    """Judges, records, has carried out, tells. One for each process."""

    def __init__(self, book: Book, upstreams: Upstreams, looks: Looks = NOWHERE) -> None:
        self.salt = book.ledger.salt
        self._book = book
        self._ledger = book.ledger
        self._policies = book.policies
        self._clock = book.clock
        self._options = book.options
        self._upstreams = upstreams
        self.carrier = Carrier(book, upstreams, looks)
        self.undoer = Undoer(book, upstreams, self.carrier, self._judge)
        self.carrier.owed = lambda run_id: self.carrier.spawn(self.undoer.undo(run_id))
        self.claims = Claims(book, upstreams, self._delegated)
        """What agents say of their own work, and how their runs stand."""
        self.finishing = Finishing(book, upstreams, self.carrier.verifying, self.carrier.spawn)
        """Where they say that they are done."""
        self.barred = Barring(book).barred
        self.questions = Questions(book)
        """What waits for people, for those who asked."""
        self._showing = Showing(book)
        self.artifacts = Artifacts(book, self._showing)
        """Recorded answers, for those who got them in part."""
        self._gathering = Gathering(book, upstreams, self.carrier.verifying)
        self._definitions = Definitions(self.salt)
        self._lanes = Lanes(book.options.limits)
        self._denials = Denials(book.options.limits.denied, book.clock.monotonic)
        self.delivered = Deliveries(book, self.carrier).note
        """The outcome was written to a live client."""

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
        parent: Parent | None = None,
    ) -> Run:
        """The run exists and belongs to this principal.

        Raises: NoSuchRun if it belongs to another, its workflow is not loaded, or its parent cannot have it;
        LedgerUnavailable.
        """
        if run == SWITCHES:
            raise NoSuchRun(f"`{SWITCHES}` is no run of an agent's")
        known = await self._book.state_of(run)
        if known.state is not RunState.UNOPENED:
            owned(known, principal)
            return known
        try:
            rules = self._policies.current(workflow)
        except KeyError:
            raise NoSuchRun(f"no policy for the workflow `{workflow}` is loaded") from None
        delegated, data = await self._delegated(parent, principal) if parent is not None else (None, ())

        def opened(state: Run, _rules: Rules, _now: datetime) -> Sequence[Event]:
            if state.state is not RunState.UNOPENED:
                return ()
            return (
                RunOpened(
                    principal=Who.of(principal),
                    workflow=rules.policy.workflow,
                    policy=rules.digest,
                    phase=rules.policy.initial,
                    goal=goal,
                    origin=origin,  # type: ignore[arg-type]  # validated by the event
                    expires_at=utc(expires_at) if expires_at is not None else None,
                    attribution=dict(attribution),
                    parent=parent.run if parent is not None else None,
                    delegated=delegated,
                    data=data,
                ),
            )

        _, state, _ = await self._book.transact(run, opened, {rules.digest: self._policies.texts[rules.digest]})
        owned(state, principal)
        return state

    async def _delegated(self, parent: Parent, principal: Principal) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What a run of that parent may do at most, no more than the parent itself and than it passes on; and which
        data the parent has seen.
        """
        state_of = self._book.fresh_state_of
        run, alive = await state_of(parent.run), await goes_on(parent.run, state_of, utc(self._clock.now()))
        if not alive or run.principal is None or run.principal.tenant != principal.tenant:
            raise NoSuchRun(f"run `{parent.run}` does not go on, or is of another tenant; it can open no other run")
        held = held_by((await self._policies.of(run.policy)).policy, run.principal, run.delegated)
        passed_on = held if parent.authority is None else held & parent.authority
        return tuple(sorted(passed_on)), tuple(sorted(run.data))

    # --- the life of a call -----------------------------------------------------------------------------------------

    async def call(self, proposal: Proposal, caller: Caller) -> Shown:
        """What came of the proposal. Its work goes on and is recorded even if the caller is cancelled or gone.

        At our patience limit it is a typed `in_flight`, and the outcome is to be had from `outcome` or by a repeat.

        Raises: NoSuchRun, PolicyMissing, CorruptLedger. Everything the world does wrong is in the answer.
        """
        flight = Flight(proposal.run, proposal.principal, caller.withdrawal)
        flight.ended = self.carrier.spawn(self._in_lane(proposal, caller, flight))
        try:
            shown = await self._patiently(flight, caller, self._patience_s(caller))
        except LedgerUnavailable as error:  # only where it stands could not be read: it was sent, and goes on
            shown = self._unknown(flight.attempt, str(error))
        if not flight.ended.done():
            trace.told(shown, None)
        return shown

    def _patience_s(self, caller: Caller) -> float:
        return self._options.patience_of(str(caller.party.client.get("name")))

    async def _patiently(self, flight: Flight, caller: Caller, patience_s: float) -> Shown:
        """The outcome, if it comes in time. While the client is asked something, it is not us who keep it waiting."""
        ended, time = flight.ended, asyncio.get_running_loop().time
        assert ended is not None  # noqa: S101 - INVARIANT: set by `call`, one line after it was made
        left = patience_s
        while not ended.done():
            since = caller.since()
            left = LOOK_S if since is None else since + patience_s - time()
            if left <= 0 and flight.attempt is not None:
                return await self._where_it_stands(flight.run, flight.attempt)
            await within(ended, left if left > 0 else LOOK_S)
        return ended.result().due(self._clock.monotonic() + max(left, LOOK_S))

    async def outcome(self, attempt_id: str, principal: Principal, caller: Caller) -> Shown:
        """What came of an attempt of this principal's: its outcome, waited for if it is under way here.

        Raises: NoSuchRun if there is no such attempt or it is another's, PolicyMissing, CorruptLedger.
        """
        try:
            _ = await self._owned(attempt_id, principal)
            if (flight := self.carrier.open.get(attempt_id)) is not None:
                return await self._patiently(flight, caller, self._patience_s(caller))
            return await self._where_it_stands(run_of(attempt_id), attempt_id)
        except LedgerUnavailable as error:
            return self._unknown(attempt_id, str(error))

    async def check_told(self, attempt_id: str, principal: Principal, run_id: str | None) -> None:
        """What came of the attempt may be told in that run: what is of a class of data in the run that called it alone,
        for no other remembers that it has seen such data. An equal call is answered, and remembered, in any run.

        Raises: NoSuchRun, as `outcome` does or because it may not; LedgerUnavailable, PolicyMissing, CorruptLedger.
        """
        attempt = await self._owned(attempt_id, principal)
        run = await self._book.fresh_state_of(run_of(attempt_id))
        rules = await self._policies.of(run.policy)
        if run.id != run_id and rule_of(attempt.intent.tool, rules.policy).data_class is not None:
            raise NoSuchRun(
                f"what came of `{attempt_id[:128]}` is told in the run that called it alone, for policy says of what "
                "class it is; make the same call in this run"
            )

    async def _owned(self, attempt_id: str, principal: Principal) -> Attempt:
        run = await self._book.fresh_state_of(run_of(attempt_id))
        owner, attempt = run.principal, run.attempts.get(attempt_id)
        if owner is None or attempt is None or owner.whose != principal.whose:
            raise NoSuchRun(f"no attempt `{attempt_id[:128]}` is known")
        return attempt

    def _unknown(self, attempt_id: str | None, reason: str) -> Shown:
        run = Run(run_of(attempt_id or ""))
        refusal = tell.ledger_unavailable(run, self._policies.current(), "", reason, executed="unknown")
        return Shown(run.id, attempt=attempt_id, refusal=refusal)

    async def _where_it_stands(self, run_id: str, attempt_id: str) -> Shown:
        run = await self._book.durable_state_of(run_id, knowing=attempt_id)
        rules, attempt = await self._policies.of(run.policy), run.attempts.get(attempt_id)
        if attempt is None:
            raise NoSuchRun(f"no attempt `{attempt_id[:128]}` is known")
        return await self._showing.show(run, rules, attempt, replayed=attempt.delivered)

    async def _in_lane(self, proposal: Proposal, caller: Caller, flight: Flight) -> Shown:
        tool = await self._upstreams.tool(proposal.tool, caller.party)
        lanes = self._lanes.of(proposal.principal, None if tool is None else tool.upstream)
        try:
            self._denials.check(proposal.principal)
            await self._lanes.enter(lanes)
        except Crowded as crowded:
            why, pause_s = str(crowded), crowded.pause_s
            refusal = tell.crowded(Run(proposal.run), self._policies.current(), proposal.tool, why, pause_s)
            trace.told(shown := Shown(proposal.run, refusal=refusal), Run(proposal.run))
            return shown
        try:
            return await self._call(proposal, caller, flight, tool)
        finally:
            self._lanes.leave(lanes)

    async def _call(self, proposal: Proposal, caller: Caller, flight: Flight, tool: Tool | None) -> Shown:
        seen: list[Run] = []
        try:
            (verdict, *_), run, rules = await self._judge(proposal, tool, seen, caller)
            assert isinstance(verdict, Verdict)  # noqa: S101 - INVARIANT: it is what a proposal becomes
            if isinstance(verdict, IntentRecorded | AttemptResumed) and tool is not None:
                attempt = run.attempts[verdict.attempt]
                answer, run, rules = await self.carrier.carry(proposal, tool, attempt, caller, flight)
                if run.owed:
                    await self.undoer.undo(run.id)
                    run = await self._book.state_of(run.id)
                shown = await self._showing.show(run, rules, run.attempts[attempt.id], replayed=False, answer=answer)
            elif isinstance(verdict, Replayed):
                shown = await self._replay(run, rules, verdict.attempt)
            else:
                if isinstance(verdict, Denied):
                    self._denials.add(proposal.principal)
                refusal = tell.refusal(run, rules, verdict, self._options.where)
                shown = Shown(run.id, refusal=refusal)
                self.carrier.take_up(run, refusal.attempt)
        except LeftAlone as left:
            run = left.run
            shown = Shown(run.id, refusal=tell.left_alone(run, left.rules, proposal.tool))
        except LedgerUnavailable as error:
            executed: tell.Executed = "unknown" if isinstance(error, Unrecorded) else made_before(seen, proposal)
            shown = replace(self._unrecorded(proposal, str(error), executed=executed), attempt=flight.attempt)
            run = Run(proposal.run)
        trace.told(shown, run)
        return shown

    async def _judge(
        self, proposal: Proposal, tool: Tool | None, seen: list[Run], caller: Caller | None = None
    ) -> tuple[Sequence[Event], Run, Rules]:
        """The one verdict, recorded. An intent is durable and its effect is held when this returns.

        `seen` gets the state that was judged, for whoever must tell what is known if it cannot be recorded; `caller` is
        whose lists of tools count.

        Raises: Unneeded, for a compensation of which there is nothing to record; LeftAlone.
        """
        payloads = {proposal.arguments_digest: proposal.spelled or canonical(dict(proposal.arguments))}
        if proposal.resumes is not None:
            payloads[proposal.resumes.said] = canonical(dict(proposal.more))
        observed = Observed(tool, self._definitions.cite(tool, payloads), salt=self.salt)
        party = None if caller is None else caller.party
        moments: list[Moment] = []
        trace.proposed()
        for _ in range(ROUNDS):

            def judged(run: Run, rules: Rules, now: datetime, observed: Observed = observed) -> Sequence[Event]:
                moments.append(self.carrier.moment())
                check_claimed(run, rules, proposal, caller)
                seen.append(run)
                if observed.switches != (switches := self._book.switches):
                    observed = replace(observed, switches=switches)
                found = decide(run, proposal, rules, observed, now)
                if isinstance(found, Gather):
                    raise Wanting(found, run, rules)
                if (undone := proposal.compensates) is not None and nothing_new(run, found, undone):
                    raise Unneeded
                return (found,) if proposal.resends is None else resending(run, proposal.resends, found, now)

            try:
                events, run, rules = await self._book.transact(proposal.run, judged, payloads)
            except Occupied as occupied:
                observed = replace(observed, held=occupied.held)
                continue
            except Exhausted:
                observed = replace(observed, levels=None)  # somebody was quicker: what stands there is read anew
                continue
            except Wanting as wanting:
                observed = await self._gathering.gather(wanting, proposal, observed, payloads, party)
                continue
            self.carrier.note(events, moments[-1])
            return events, run, rules
        raise LedgerUnavailable("what this call hangs on changed too often")

    async def resend(self, run: Run, attempt: Attempt, arguments: Mapping[str, Any]) -> bool:
        """Whether the unknown attempt was sent once more under its own key, with its own arguments, and what came of it
        is recorded. What is against it is noted in the run.

        Raises: LedgerUnavailable, PolicyMissing, CorruptLedger.
        """
        assert run.principal is not None  # noqa: S101 - INVARIANT: a run with an attempt was opened by somebody
        intent = attempt.intent
        alike = alike_digest(dict(arguments), self.salt)
        proposal = Proposal(run.id, run.principal, intent.tool, arguments, intent.arguments, alike, resends=attempt.id)
        tool = await self._upstreams.tool(intent.tool)
        events, run, _ = await self._judge(proposal, tool, [])
        if tool is None or not any(isinstance(event, AttemptResent) for event in events):
            return False
        flight = Flight(run.id, proposal.principal, Withdrawal())
        _ = await self.carrier.carry(proposal, tool, run.attempts[attempt.id], None, flight)
        return True

    async def _replay(self, run: Run, rules: Rules, attempt_id: str) -> Shown:
        """The recorded outcome; it may be of another run of the same principal, whose client was never told."""
        elsewhere = attempt_id not in run.attempts
        if elsewhere:
            run = await self._book.fresh_state_of(run_of(attempt_id))
            rules = await self._policies.of(run.policy)
        trace.again(run.attempts[attempt_id].made_in)
        return await self._showing.show(run, rules, run.attempts[attempt_id], replayed=True, elsewhere=elsewhere)

    async def ended(self, attempt_id: str, principal: Principal, answer: Answer) -> Shown:
        """The end of an upstream's task is the answer of its attempt: recorded, verified, and what is shown of it.

        Raises: NoSuchRun if there is no such attempt or it is another's, PolicyMissing, CorruptLedger.
        """
        try:
            attempt = await self._owned(attempt_id, principal)
            if attempt.state is AttemptState.SUSPENDED:
                await self.carrier.end(attempt, answer)
            return await self._where_it_stands(run_of(attempt_id), attempt_id)
        except LedgerUnavailable as error:
            return self._unknown(attempt_id, str(error))

    def withdraw(self, attempt_id: str, principal: Principal) -> None:
        """The client wants the attempt stopped, if it is under way here and its own."""
        flight = self.carrier.open.get(attempt_id)
        if flight is not None and flight.principal.whose == principal.whose:
            flight.withdrawal.say(cancelled=True)

    # --- small things -----------------------------------------------------------------------------------------------

    def _unrecorded(self, proposal: Proposal, reason: str, *, executed: tell.Executed) -> Shown:
        rules = self._policies.current()
        refusal: Refusal = tell.ledger_unavailable(Run(proposal.run), rules, proposal.tool, reason, executed=executed)
        return Shown(proposal.run, refusal=refusal)
