"""event -> state. `NEXT` in `moves.py` is every legal move; whatever moves a run or an attempt stands in this file."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, assert_never

from rpds import HashTrieMap

from gateway.kernel import asking, claims, owing, steps, switches
from gateway.kernel.charges import plus, settled_charge, unmade
from gateway.kernel.fresh import doubted, overtaken, stale, withdrawn, wrote
from gateway.kernel.moves import NEXT, NEXT_ATTEMPT
from gateway.model.events import (
    ApprovalRequested,
    Asking,
    AttemptAbandoned,
    AttemptQueried,
    AttemptRefuted,
    AttemptResent,
    AttemptResumed,
    AttemptSuspended,
    AttemptUnknown,
    AttemptUnsent,
    Claim,
    CompensationFailed,
    CompensationOwed,
    Denied,
    Effect,
    Event,
    EvidenceRecorded,
    FinishClaimed,
    FinishRefused,
    Held,
    IntentRecorded,
    NoticeSent,
    OutcomeDelivered,
    PayloadsErased,
    PhaseMoved,
    ReceiptRecorded,
    Replayed,
    RunMigrated,
    RunOpened,
    RunStopped,
    SwitchLifted,
    SwitchThrown,
    Verdict,
)
from gateway.model.principal import Principal
from gateway.model.record import Record
from gateway.model.run import (
    UNSETTLED,
    Attempt,
    AttemptState,
    Claimed,
    Evidence,
    Intent,
    Run,
    RunState,
    changed,
    joined,
)
from gateway.model.switch import SWITCHES


class CorruptLedger(Exception):
    """A record says something that cannot follow from those before it."""


def fold(records: Iterable[tuple[Record, str]], run: Run) -> Run:
    """The run after these records, each given with its link, in order. Folding twice gives the same.

    Raises: CorruptLedger.
    """
    for record, link in records:
        run = reduce(run, record, link)
    return run


def reduce(run: Run, record: Record, link: str) -> Run:
    """The run after one more record.

    Raises: CorruptLedger if the record is out of place or its event is no legal move.
    """
    event = record.event
    if record.run != run.id or record.seq != run.version + 1 or record.previous != run.head:
        raise CorruptLedger(f"record `{record.id}` does not follow `{run.id}#{run.version}`")
    state = NEXT[run.state].get(event.kind)
    if state is None or (run.id == SWITCHES) is not (state is RunState.CONTROL):
        raise CorruptLedger(f"record `{record.id}`: `{event.kind}` cannot happen in a run that is {run.state}")
    last_at = run.last_at if run.state is RunState.STOPPED else record.at
    moved = changed(run, version=record.seq, head=link, state=state, last_at=last_at)
    try:
        return _apply(moved, record, event)
    except (owing.Misplaced, claims.Misplaced, switches.Misplaced, asking.NotAsked) as error:
        raise CorruptLedger(f"record `{record.id}`: {error}") from None


def _apply(run: Run, record: Record, event: Event) -> Run:  # noqa: C901, PLR0912, PLR0915 - one arm a kind is the point
    if isinstance(event, Claim):
        return claims.heard(run, record, event)
    if isinstance(event, Asking):
        return asking.heard(_reported(run, event) if isinstance(event, ApprovalRequested) else run, record, event)
    match event:
        case IntentRecorded():
            return _intended(run, record, event)
        case ReceiptRecorded():
            return _received(run, record, event)
        case OutcomeDelivered():
            return _delivered(_move(run, record, event.attempt, delivered=True), event)
        case RunOpened():
            return _opened(run, record, event)
        case Denied():
            return _denied(_reported(run, event), record, event)
        case Replayed():
            run = _reported(run, event)
            return run if event.data_class is None else run._replace(data=run.data | {event.data_class})
        case Held():
            run = _reported(run, event)
            return owing.judged(run, event) if event.compensates is not None else run
        case AttemptUnsent():
            return asking.unused(_gave_back(run, record, event), event.attempt)
        case AttemptRefuted():
            return _gave_back(run, record, event)
        case AttemptAbandoned():
            return _free_key(_move(run, record, event.attempt, says=event.reason), event.attempt)
        case AttemptSuspended():
            waits = {"suspended_until": event.expires_at, "awaits": event.awaits, "asked": event.answer}
            return _move(run, record, event.attempt, **waits, **_acts(run, record, event.attempt, event.expires_at))
        case AttemptResumed():
            run = _reported(run, event)
            goes_on = {"suspended_until": None, "awaits": None, "asked": None, "resumed": True, "sent_at": record.at}
            timeout = timedelta(seconds=_attempt(run, record, event.attempt).intent.timeout_s)
            return _move(
                run, record, event.attempt, **goes_on, **_acts(run, record, event.attempt, record.at + timeout)
            )
        case AttemptUnknown():
            lost = {"says": event.reason, "queried": None}
            return _move(run, record, event.attempt, **lost, **_acts(run, record, event.attempt, record.at))
        case AttemptQueried():
            return _move(run, record, event.attempt, queried=(event.verdict, event.says))
        case AttemptResent():
            return _resent(_reported(run, event), record, event)
        case EvidenceRecorded():
            return _proved(run, record, event)
        case CompensationOwed():
            return owing.owed(_move(run, record, event.attempt), record, event)
        case CompensationFailed():
            return owing.failed(_move(run, record, event.attempt), event)
        case PhaseMoved():
            if event.source != run.phase:
                raise CorruptLedger(f"record `{record.id}` moves from `{event.source}`, the run is in `{run.phase}`")
            return run._replace(phase=event.target)
        case RunMigrated():
            if event.source != run.policy:
                raise CorruptLedger(f"record `{record.id}` leaves another policy than the run is under")
            return withdrawn(run, event.restated)._replace(policy=event.target)
        case FinishClaimed():
            success = event.outcome == "verified_success"
            return run._replace(claimed=Claimed(record.seq, record.at)) if success else run
        case FinishRefused():
            refused = run.claimed is not None and run.claimed.seq <= event.claim
            return run._replace(
                steps=steps.unfinished(run.steps, event, record.seq), claimed=None if refused else run.claimed
            )
        case NoticeSent():
            return run._replace(told=run.told.insert(event.notice, event.outcome))
        case PayloadsErased():
            return run
        case RunStopped():
            return owing.stopped(run._replace(stopped=event, stopped_seq=record.seq))
        case SwitchThrown() | SwitchLifted():
            return switches.heard(run, record, event)
        case _:
            assert_never(event)


def _opened(run: Run, record: Record, event: RunOpened) -> Run:
    who = event.principal
    return run._replace(
        principal=Principal(who.id, who.tenant, frozenset(who.roles), frozenset(who.scopes)),
        policy=event.policy,
        workflow=event.workflow,
        phase=event.phase,
        goal=event.goal,
        origin=event.origin,
        opened_at=record.at,
        expires_at=event.expires_at,
        parent=event.parent,
        delegated=None if event.delegated is None else frozenset(event.delegated),
        data=frozenset(event.data),
    )


def _reported(run: Run, event: Verdict) -> Run:
    said = event.reported_tokens
    return run._replace(reported_tokens=run.reported_tokens + said) if said else run


def _denied(run: Run, record: Record, event: Denied) -> Run:
    if event.compensates is not None:
        return owing.judged(run, event)  # what the gateway itself asks is no failure of the agent's
    run = run._replace(steps=steps.refused(run.steps, event, record.seq))
    return run._replace(final=event, final_seq=record.seq) if event.final or event.lacking else run


def _intended(run: Run, record: Record, event: IntentRecorded) -> Run:
    if run.attempts.get(event.attempt) is not None:
        raise CorruptLedger(f"attempt `{event.attempt}` was intended twice")
    told = event.compensates is not None  # nobody asked for it: it is told with what it undoes
    intent = Intent.of(event)
    attempt = Attempt(event.attempt, record.seq, record.at, intent, delivered=told, made_in=record.trace)
    equal = attempt.intent.equals_key
    count = run.equals.get(equal, ("", 0))[1]
    writes = event.effect is not Effect.READ
    run = changed(
        run,
        attempts=run.attempts.insert(attempt.id, attempt),
        unsettled=run.unsettled.insert(attempt.id, attempt),
        moving=run.moving.insert(attempt.id, attempt) if attempt.moves else run.moving,
        keys=_with_key(run, attempt),
        equals=run.equals.insert(equal, (attempt.id, count + 1)),
        spent=plus(run.spent, event.charge, 1),
        reported_tokens=run.reported_tokens + event.reported_tokens,
        data=run.data if event.data_class is None else run.data | {event.data_class},
        evidence=stale(run, event.tool, event.objects) if writes else run.evidence,
        **(wrote(run, event.tool, event.objects, intent=record.seq) if writes else {}),
    )
    run = asking.used(run, event.approval, attempt.id)
    return owing.intended(run, attempt) if told or event.undo is not None else run


def _with_key(run: Run, attempt: Attempt) -> HashTrieMap[str, str]:
    key = attempt.intent.key
    if key is None:
        return run.keys
    return run.keys.insert(joined(attempt.intent.tool, key.source, key.value), attempt.id)


_FREED = frozenset({AttemptState.REFUTED, AttemptState.ABANDONED})
"""States in which an attempt's key is free, and after which its answer may still come."""


def _received(run: Run, record: Record, event: ReceiptRecorded) -> Run:
    attempt = _attempt(run, record, event.attempt)
    run = run._replace(spent=plus(run.spent, settled_charge(attempt, event), 1))
    run = _move(
        run,
        record,
        event.attempt,
        result=event.result,
        answer=event.answer,
        is_error=event.is_error,
        schema_valid=event.schema_valid,
        receipt=record.seq,
        duration_s=event.duration_s,
        source=event.source,
        says=event.reason or "",
        repeats=event.repeats,
    )
    if attempt.state in _FREED and attempt.intent.effect is not Effect.READ:
        # It happened after all, and nobody knows when: what was looked at before its answer is stale.
        tool, objects = attempt.intent.tool, attempt.intent.objects
        run = run._replace(evidence=stale(run, tool, objects), **wrote(run, tool, objects, end=record.seq))
    if attempt.intent.key is not None and attempt.state in _FREED:
        # It happened after all: who sends its key again must not make a second one of it.
        name = joined(attempt.intent.tool, attempt.intent.key.source, attempt.intent.key.value)
        run = run if name in run.keys else run._replace(keys=run.keys.insert(name, attempt.id))
    if attempt.state is AttemptState.REFUTED:
        run = run._replace(unmade=unmade(run, attempt, -1))
    taken = steps.answered(run.steps, attempt.intent, event, record.seq)
    return run if taken is run.steps else run._replace(steps=taken)


def _delivered(run: Run, event: OutcomeDelivered) -> Run:
    """The client has the result, where it was one that may be told by reference from now on."""
    attempt = run.attempts[event.attempt]
    if event.told_bytes is None or attempt.result is None or attempt.is_error or attempt.result in run.given:
        return run
    return run._replace(given=run.given.insert(attempt.result, attempt.id))


def _acts(run: Run, record: Record, attempt_id: str, until: datetime) -> dict[str, Any]:
    """The upstream, which was fed until then, may act for the tool's grace after it; never less long than before."""
    attempt = _attempt(run, record, attempt_id)
    later = until + attempt.grace
    return {"acts_until": later} if later > attempt.settles_at else {}


def _resent(run: Run, record: Record, event: AttemptResent) -> Run:
    before = _attempt(run, record, event.attempt)
    again = {"sent": before.sent + 1, "sent_at": record.at, "acts_until": event.settles_at}
    run = _move(run, record, event.attempt, **again)
    # Whatever it writes, it may write now: evidence from before is stale, as after an intent.
    tool, objects = before.intent.tool, before.intent.objects
    return run._replace(evidence=stale(run, tool, objects), **wrote(run, tool, objects, intent=record.seq))


def _gave_back(run: Run, record: Record, event: AttemptUnsent | AttemptRefuted) -> Run:
    attempt = _attempt(run, record, event.attempt)
    run = run._replace(spent=plus(run.spent, attempt.intent.charge, -1), unmade=unmade(run, attempt, 1))
    unsent = {}
    if isinstance(event, AttemptUnsent):
        unsent = {"says": event.reason, "needs_account": event.needs_account}
    return _free_key(_move(run, record, event.attempt, **unsent), event.attempt)


def _free_key(run: Run, attempt_id: str) -> Run:
    intent = run.attempts[attempt_id].intent
    if intent.key is None:
        return run
    return run._replace(keys=run.keys.discard(joined(intent.tool, intent.key.source, intent.key.value)))


def _move(run: Run, record: Record, attempt_id: str, **changes: Any) -> Run:
    before = _attempt(run, record, attempt_id)
    state = NEXT_ATTEMPT[before.state].get(record.event.kind)
    if state is None:
        raise CorruptLedger(f"record `{record.id}`: `{record.event.kind}` cannot happen to a {before.state} attempt")
    after = changed(before, state=state, **changes)
    ended = after.intent.effect is not Effect.READ and before.state in UNSETTLED and after.state not in UNSETTLED
    run = changed(
        run,
        attempts=run.attempts.insert(after.id, after),
        unsettled=_with_unsettled(run.unsettled, after),
        moving=_with_unsettled(run.moving, after) if after.moves else run.moving,
        **(wrote(run, after.intent.tool, after.intent.objects, end=record.seq) if ended else {}),
    )
    if not run.undo and after.intent.undo is None:
        return run
    return run if (before.state, before.verdict) == (after.state, after.verdict) else owing.moved(run, after)


def _with_unsettled(those: HashTrieMap[str, Attempt], attempt: Attempt) -> HashTrieMap[str, Attempt]:
    return those.discard(attempt.id) if attempt.settled else those.insert(attempt.id, attempt)


def _attempt(run: Run, record: Record, attempt_id: str) -> Attempt:
    attempt = run.attempts.get(attempt_id)
    if attempt is None:
        raise CorruptLedger(f"record `{record.id}` speaks of attempt `{attempt_id}`, which was never intended")
    return attempt


def _proved(run: Run, record: Record, event: EvidenceRecorded) -> Run:
    fresh, before = not overtaken(run, event), run.evidence.get(event.verifier)
    run = run._replace(evidence=run.evidence.insert(event.verifier, Evidence(record.seq, event, fresh)))
    if event.attempt is not None:
        run = _judged(run, record, event, event.attempt)
        if event.verdict == "fail":
            run = doubted(run, run.attempts[event.attempt])
        merges = run.attempts[event.attempt].intent.merges
        if merges and event.verdict == "fail":
            run = owing.rejecting(run, merges, record.seq)
    if event.attempt is not None and run.attempts[event.attempt].intent.compensates is not None:
        return run
    return run._replace(steps=steps.judged(run.steps, event, before, record.seq))


def _judged(run: Run, record: Record, event: EvidenceRecorded, attempt_id: str) -> Run:
    """The attempt, after one more of its verifiers; a pass is the last word only of the last of them."""
    attempt = _attempt(run, record, attempt_id)
    if attempt.intent.verifiers and attempt.asked_next != event.verifier:
        raise CorruptLedger(f"record `{record.id}`: `{event.verifier}` was not to speak about `{attempt_id}` now")
    passes = event.verdict == "pass"
    said = {
        "passed": attempt.passed + passes,
        "looked": attempt.looked or (passes and not event.self_reported),
    }
    if passes and said["passed"] < len(attempt.intent.verifiers):
        return _move(run, record, attempt_id, **said)
    return _move(run, record, attempt_id, **said, evidence=record.seq, verdict=event.verdict)
