"""The only place that appends: a step is decided against a run's latest state, and is durable when it returns.

Within the process the steps of one run are decided one after another, against state that already includes
appends still queued; across processes the version and head of the run are the lock.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import NamedTuple, get_args

from gateway.kernel import claims
from gateway.kernel.accounts import held_back, postings
from gateway.kernel.asking import listed
from gateway.kernel.fresh import restated
from gateway.kernel.moves import NEXT_ATTEMPT
from gateway.kernel.owing import follows
from gateway.kernel.reduce import reduce
from gateway.kernel.rules import Rules
from gateway.kernel.stop import stop
from gateway.kernel.switches import thrown
from gateway.kernel.verify import lose
from gateway.model.account import Posting
from gateway.model.canonical import Digest
from gateway.model.events import Effect, Event, EvidenceRecorded, IntentRecorded, RunMigrated, Verdict
from gateway.model.record import SCHEMA, Record, utc
from gateway.model.run import UNSETTLED, Attempt, AttemptState, Run, RunState, Tracked, joined
from gateway.model.switch import SWITCHES, Switch
from gateway.model.trusted import trusted
from gateway.ports import Append, Clock, Conflict, Ledger, LedgerUnavailable, Occupied
from gateway.runtime import trace
from gateway.runtime.heads import Heads
from gateway.runtime.health import Health
from gateway.runtime.leases import NOBODYS
from gateway.runtime.options import Options as Options
from gateway.runtime.policies import Policies

_record = trusted(Record)

Step = Callable[[Run, Rules, datetime], Sequence[Event]]

ROUNDS = 200
"""Conflicts in a row before an append gives up: more processes on one run than that is no run of ours."""


class _Moved(NamedTuple):
    """A run that goes on under a newer text of its policy."""

    run: Run
    rules: Rules
    records: list[Record]


class Book:
    """The runs, written through. One for each process."""

    def __init__(self, ledger: Ledger, policies: Policies, clock: Clock, options: Options) -> None:
        self.ledger = ledger
        self.policies = policies
        self.clock = clock
        self.options = options
        self._heads = Heads(ledger, clock)
        self.health = Health(clock)
        self.heard: Callable[[Run, Sequence[Event]], None] = lambda _run, _events: None
        """Told of each step once it is durable, with the run after it. Returns at once."""
        self.telemetry: trace.Telemetry | None = None
        """Told of each record once it is durable; None where nobody listens."""
        self._doubts = trace.Doubts()

    async def state_of(self, run_id: str) -> Run:
        """The run as of its last event, this process's queued ones included."""
        return (await self._heads.get(run_id)).run

    async def durable_state_of(self, run_id: str, knowing: str) -> Run:
        """The run as of its last event that is known to be on disk: what a client may be told of that attempt."""
        return await self._heads.durable(run_id, knowing)

    def known(self, run_id: str) -> Run | None:
        """The run as it is known here, if it is; perhaps not its last state."""
        return self._heads.kept(run_id)

    def only_read(self, run_id: str, attempt_id: str) -> bool:
        """Whether the attempt is known here to be a read, so that nothing hangs on its delivery."""
        run = self._heads.kept(run_id)
        attempt = run.attempts.get(attempt_id) if run is not None else None
        return attempt is not None and attempt.intent.effect is Effect.READ

    async def fresh_state_of(self, run_id: str) -> Run:
        """The run as the ledger has it now, whichever process wrote to it last."""
        return (await self._heads.renewed(run_id)).run

    async def say(self, run_id: str, step: Step) -> Run:
        """Record what a person or recovery says of the run; the step is judged against its latest state.

        Raises: what the step raises, LedgerUnavailable.
        """
        return (await self.transact(run_id, step, {}))[1]

    async def lose(self, run_id: str, attempt_id: str, reason: str) -> Run:
        """No answer will come to whoever waited: a read is abandoned, a write is unknown and held.

        Raises: LedgerUnavailable.
        """

        def lost(run: Run, _rules: Rules, _now: datetime) -> Sequence[Event]:
            attempt = run.attempts.get(attempt_id)
            return lose(run, attempt, reason) if attempt is not None else ()

        return (await self.transact(run_id, lost, {}))[1]

    async def transact(
        self, run_id: str, step: Step, payloads: Mapping[Digest, bytes], *, unhurried: bool = False
    ) -> tuple[Sequence[Event], Run, Rules]:
        """What the step made of the run's latest state, durable, with the stop that follows from it.

        The step is decided against state that includes appends still queued, without an await between; nobody is
        answered before the group is on disk. On a conflict it is decided afresh: deciding is pure and free.
        `unhurried` as in `Append`.

        Raises: Occupied, Exhausted, LedgerUnavailable, and what the step raises.
        """
        for _ in range(ROUNDS):
            known = self._heads.kept(SWITCHES)
            if known is None or known.switches:  # while any stands, else nobody would ever hear that it is lifted
                await self._heads.renewed(SWITCHES)
            head = await self._heads.get(run_id)
            rules = await self.policies.of(head.run.policy)
            if head.run.policy is not None and head.run.policy != rules.digest:
                continue
            before, now = head.run, self._now(head.run)
            moved = self._migrated(before, rules, now)
            begun, rules = (before, rules) if moved is None else (moved.run, moved.rules)
            try:
                events = list(step(begun, rules, now))
            except Conflict:
                self._heads.drop(run_id, head)
                continue
            if not events:
                return events, before, rules
            after, records, postings = self._seal(begun, events, rules, now)
            head.moved(after)
            track, untrack = self._tracking(begun, after, events)
            expected, cited = (before.version, before.head), payloads
            if moved is not None:
                records, cited = (
                    [*moved.records, *records],
                    {**payloads, rules.digest: self.policies.texts[rules.digest]},
                )
            beside = self._decided_by(events)
            append = Append(run_id, expected, records, cited, track, untrack, postings, beside, unhurried)
            try:
                await self._append(append)
            except Conflict:
                self._heads.drop(run_id, head)
                await self._heads.anew(SWITCHES)
            except BaseException as error:
                self._heads.drop(run_id, head)
                self._doubt(error, append, after, rules)
                raise
            else:
                self._heads.appended(after)
                self._tell(append, after, rules)
                self.heard(after, events)
                return events, after, rules
        raise LedgerUnavailable(f"run `{run_id}` changed under our hands {ROUNDS} times")

    def _tell(self, append: Append, after: Run, rules: Rules) -> None:
        if self.telemetry is not None:
            self.telemetry.recorded(append.records, after, rules, append.payloads)

    def _doubt(self, error: BaseException, append: Append, after: Run, rules: Rules) -> None:
        """It may be in the ledger all the same, and is told then."""
        if self.telemetry is not None and isinstance(error, LedgerUnavailable | asyncio.CancelledError):
            self._doubts.add(self.ledger, append, partial(self._tell, append, after, rules))

    @property
    def switches(self) -> tuple[Switch, ...]:
        """Those that people have thrown, as far as this process knows. Whether that is so is checked in the transaction
        of each verdict; while any is known to stand, each decision looks at them anew.
        """
        known = self._heads.kept(SWITCHES)
        return thrown(known) if known is not None and known.switches else ()

    def _decided_by(self, events: Sequence[Event]) -> Mapping[str, tuple[int, str]]:
        """Where the switches stood by which a proposal was judged; nothing for what has merely happened."""
        if not any(event.kind in _VERDICTS for event in events):
            return {}
        known = self._heads.kept(SWITCHES) or Run(SWITCHES)
        return {SWITCHES: (known.version, known.head)}

    def _now(self, run: Run) -> datetime:
        """The time of the next step: never before the run's last one, by whichever gateway's clock that was."""
        now = utc(self.clock.now())
        return now if run.last_at is None else max(now, run.last_at)

    def _migrated(self, run: Run, rules: Rules, now: datetime) -> "_Moved | None":
        """The run under the newer text of its policy, where that takes over running runs; None where it does not.

        Never while something of it is unsettled, which is settled by the text under which it was begun.
        """
        newer = self.policies.successor(run.policy) if run.policy is not None else None
        if newer is None or run.policy is None or run.state is not RunState.RUNNING or run.unsettled or run.owed:
            return None
        if run.phase not in newer.policy.phases:
            return None
        moved = RunMigrated(source=run.policy, target=newer.digest, restated=restated(rules.policy, newer.policy))
        after, records, _ = self._seal(run, [moved], newer, now)
        return _Moved(after, newer, records)

    def _seal(
        self, run: Run, events: list[Event], rules: Rules, now: datetime
    ) -> tuple[Run, list[Record], list[Posting]]:
        """The events as records, chained, the run after them, and what they post; what follows from them is added."""
        records: list[Record] = []
        posted: list[Posting] = []
        seen = trace.context()
        for event in events:  # grows by what follows from its events, and at most one stop
            record = _record(
                schema_version=SCHEMA,
                run=run.id,
                seq=run.version + 1,
                at=now,
                previous=run.head,
                trace=seen,
                event=event,
            )
            posted += postings(run, event)
            before, run = run, reduce(run, record, record.sealed[1])
            if run.set_aside is not before.set_aside:
                posted += held_back(before, run)
            records.append(record)
            if event.kind in _FOLLOWED:
                events += follows(run, event)
            if run.plan is not None and isinstance(event, EvidenceRecorded):
                events += claims.by_evidence(run, event, record.seq, self.ledger.salt)
            if len(records) == len(events) and (over := stop(run, rules, now)) is not None:
                events.append(over)
        return run, records, posted

    def _tracking(self, before: Run, run: Run, events: Sequence[Event]) -> tuple[list[Tracked], list[str]]:
        """What is tracked from now on, and what no longer is."""
        touched = {name for event in events for name in subjects(run, event)}
        asked, answered = _people(run, events)
        until = self.clock.now() + self.options.lease_s if self.options.lease_s else NOBODYS
        track = [Tracked(name, run.id, state, None, self.options.owner, NOBODYS) for name, state in asked.items()]
        untrack = [*answered, *(name for event in events if (name := given_way(before, event)) is not None)]
        for attempt in (run.attempts[name] for name in sorted(touched)):
            state = tracked_as(run, attempt)
            if state is None:
                untrack.append(attempt.id)
                continue
            leased = until if state in {"open", "unverified", "owed"} else NOBODYS
            track.append(Tracked(attempt.id, run.id, state, attempt.intent.hold, self.options.owner, leased))
        return track, untrack

    async def _append(self, append: Append) -> None:
        """As `Ledger.append`; an append that raised may have committed, so the ledger is asked before it is believed.

        Only what is about to be sent needs its hold. What has merely happened is recorded whoever holds an equal effect
        by now, and is tracked without.

        Raises: Conflict, Occupied for an intent, Exhausted, LedgerUnavailable.
        """
        try:
            await self.ledger.append(append)
        except Occupied as occupied:
            taken = occupied.held.hold
            if any(isinstance(one.event, IntentRecorded) and one.event.hold == taken for one in append.records):
                raise
            track = [replace(one, hold=None) if one.hold == taken else one for one in append.track]
            await self._append(replace(append, track=track))
        except LedgerUnavailable as error:
            self.health.refused(str(error))
            if not await self._stored(append):
                raise
        else:
            self.health.took()

    async def _stored(self, append: Append) -> bool:
        """Whether the records are in the ledger; False as well where it cannot say."""
        try:
            if not await trace.is_stored(self.ledger, append):
                return False
            # It can be read, and perhaps only here: a server may show what its standby does not have yet. What is
            # written after it and is durable has it before itself.
            await self.ledger.touch(store=True)
        except LedgerUnavailable:
            return False  # what the append met with says more
        return True


def _people(run: Run, events: Sequence[Event]) -> tuple[dict[str, str], list[str]]:
    """What waits for a person since the events, and what does so no more."""
    asked: dict[str, str] = {}
    answered: list[str] = []
    for event in events:
        now, no_more = listed(run, event) if event.kind in PEOPLE else ({}, ())
        asked = {name: state for name, state in asked.items() if name not in no_more} | now
        answered += no_more
    return asked, answered


def tracked_as(run: Run, attempt: Attempt) -> str | None:
    """What other runs and gateways must know of the attempt; None once nothing more can come of it.

    A write whose outcome was never delivered still holds its effect: whoever asks for it again, in whichever run,
    is answered from its record first.
    """
    if attempt.id in run.owed:
        return "owed"
    if attempt.state is AttemptState.UNKNOWN:
        return "unknown"
    if attempt.state in UNSETTLED:
        return "open"
    if attempt.unverified:
        return "unverified"
    owed = attempt.state is AttemptState.ANSWERED and attempt.intent.hold is not None and not attempt.delivered
    return "undelivered" if owed else None


def given_way(before: Run, event: Event) -> str | None:
    """The ended attempt whose hold gives way: its caller said, by a key of its own, that this is another call."""
    if not isinstance(event, IntentRecorded):
        return None
    name = before.equals.get(joined(event.tool, event.alike or event.arguments), ("", 0))[0]
    earlier = before.attempts.get(name)
    return name if earlier is not None and tracked_as(before, earlier) == "undelivered" else None


_FOLLOWED = frozenset(
    {"evidence.recorded", "receipt.recorded", "approval.decided", "proposal.denied", "proposal.replayed"}
)
"""Kinds of event from which others may follow."""

_VERDICTS = frozenset(one.model_fields["kind"].default for one in get_args(Verdict))
"""Kinds of event that a proposal becomes: people's switches were looked at for each."""

PEOPLE = frozenset(
    {
        "approval.requested",
        "approval.decided",
        "approval.withdrawn",
        "approval.expired",
        "compensation.failed",
        "run.stopped",
        "escalation.acknowledged",
    }
)
"""Kinds of event that change what waits for a person."""

_MOVING = frozenset({"intent.recorded"}.union(*NEXT_ATTEMPT.values()))
"""Kinds of event that move an attempt."""


def subjects(run: Run, event: Event) -> Sequence[str]:
    """The attempts whose state the event moves, in the run after it: its own, and what that one undoes."""
    name = getattr(event, "attempt", None) if event.kind in _MOVING else None
    if name is None:
        return ()
    undone = run.attempts[name].intent.compensates if run.undo else None
    return (name,) if undone is None else (name, undone)
