"""What is to be undone, and how that stands: the part of the reduction that compensations are.

An intent may set something aside for the call that would undo it. That is held back until the attempt needs no undoing
any more, and is what the compensation pays with. `follows` says which events come of one that was just recorded: an
effect that must not stay is *owed* its compensation, and one that the gateway does not undo for certain has *failed*.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gateway.kernel.charges import plus
from gateway.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    CompensationFailed,
    CompensationOwed,
    Denied,
    Event,
    EvidenceRecorded,
    Held,
    Outcome,
    ReceiptRecorded,
    Replayed,
    Undo,
)
from gateway.model.record import Record
from gateway.model.run import Attempt, AttemptState, Run, RunState, Undoing, changed

_GONE = frozenset({AttemptState.UNSENT, AttemptState.REFUTED, AttemptState.ABANDONED})


class Misplaced(Exception):
    """The event speaks of a compensation that is not due."""


# --- what is held back ----------------------------------------------------------------------------------------------


def _hold_back(run: Run, attempt: str, undo: Undo) -> Run:
    if attempt in run.set_aside:
        return run
    return changed(run, set_aside=run.set_aside.insert(attempt, undo), spent=plus(run.spent, undo.charge, 1))


def _release(run: Run, attempt: str) -> Run:
    undo = run.set_aside.get(attempt)
    if undo is None:
        return run
    return changed(run, set_aside=run.set_aside.remove(attempt), spent=plus(run.spent, undo.charge, -1))


def _told(run: Run, attempt: str, undoing: Undoing) -> Run:
    return run._replace(undo=run.undo.insert(attempt, undoing))


def _let_go(run: Run, attempt: str) -> Run:
    """It needs no undoing any more."""
    return _release(run, attempt)._replace(undo=run.undo.discard(attempt))


def _ended(run: Run, attempt: str, undoing: Undoing) -> Run:
    """It is undone, or a person must do it."""
    return _told(_release(run, attempt), attempt, undoing)._replace(owed=run.owed.discard(attempt))


# --- how events move it ---------------------------------------------------------------------------------------------


def intended(run: Run, attempt: Attempt) -> Run:
    """After an intent that sets something aside, or that is a compensation.

    Raises: Misplaced.
    """
    intent = attempt.intent
    if intent.compensates is not None:
        undoing = run.undo.get(intent.compensates)
        if undoing is None or undoing.state != "owed":
            raise Misplaced(f"`{attempt.id}` undoes `{intent.compensates}`, which is not to be undone")
        running = replace(undoing, state="running", by=attempt.id, waits=None, approval=None)
        return _told(_release(run, intent.compensates), intent.compensates, running)
    if intent.undo is None:
        return run
    return _told(_hold_back(run, attempt.id, intent.undo), attempt.id, Undoing("set_aside"))


def moved(run: Run, attempt: Attempt) -> Run:
    """After an attempt came to the state that it is in now."""
    if attempt.intent.compensates is not None:
        return _undoes(run, attempt, attempt.intent.compensates)
    if attempt.intent.merges and _succeeded(attempt):
        run = _taken_over(run, attempt)
    undo, undoing = attempt.intent.undo, run.undo.get(attempt.id)
    if undo is None:
        return run
    if undoing is None:
        # A late answer: it had been taken for one that did not happen, and may have to be undone after all.
        late = attempt.state is AttemptState.ANSWERED and run.state is RunState.RUNNING and _may_be_owed(attempt, undo)
        return _told(_hold_back(run, attempt.id, undo), attempt.id, Undoing("set_aside")) if late else run
    if undoing.state != "set_aside" or _may_be_owed(attempt, undo):
        return run
    return _let_go(run, attempt.id)


def _may_be_owed(attempt: Attempt, undo: Undo) -> bool:
    """Whether it may yet turn out that the attempt must be undone."""
    if attempt.state in _GONE or (attempt.state is AttemptState.ANSWERED and attempt.is_error):
        return False
    return not attempt.settled or attempt.verdict == "fail" or undo.merged


def _undoes(run: Run, attempt: Attempt, undone: str) -> Run:
    undoing = run.undo.get(undone)
    if undoing is None or undoing.state not in {"owed", "running"}:
        return run
    if attempt.state in _GONE:
        undo, before = run.attempts[undone].intent.undo, replace(undoing, state="owed")
        return run if undo is None else _told(_hold_back(run, undone, undo), undone, before)
    if _succeeded(attempt):
        return _ended(run, undone, replace(undoing, state="undone", by=attempt.id))
    return run


def _succeeded(attempt: Attempt) -> bool:
    """Its answer is no error and keeps its schema; and its verifier, if it has one, has found that it holds."""
    if attempt.state is not AttemptState.ANSWERED or attempt.is_error:
        return False
    if attempt.intent.verifier is not None:
        return attempt.verdict == "pass"
    return attempt.schema_valid is not False


def _taken_over(run: Run, merge: Attempt) -> Run:
    """What ended before the merge was intended is there for good."""
    for name in list(run.set_aside):
        attempt = run.attempts[name]
        mine = attempt.intent.transition in merge.intent.merges and attempt.seq < merge.seq
        if mine and attempt.settled and run.undo[name].state == "set_aside":
            run = _let_go(run, name)
    return run


def owed(run: Run, record: Record, event: CompensationOwed) -> Run:
    """After it was recorded that the attempt is to be undone.

    Raises: Misplaced.
    """
    undoing = run.undo.get(event.attempt)
    if undoing is None or undoing.state != "set_aside":
        raise Misplaced(f"nothing is set aside to undo `{event.attempt}` with")
    place = run.attempts[event.attempt].seq
    owing = replace(undoing, state="owed", reason=event.reason, owed_at=record.at)
    return _told(run, event.attempt, owing)._replace(owed=run.owed.insert(event.attempt, place))


def failed(run: Run, event: CompensationFailed) -> Run:
    """After it was recorded that a person must undo the attempt."""
    undoing = run.undo.get(event.attempt) or Undoing("failed")
    return _ended(run, event.attempt, replace(undoing, state="failed", reason=event.reason, waits=None, approval=None))


def judged(run: Run, event: Denied | Held | ApprovalRequested) -> Run:
    """After a compensation was not sent: why, and whom it waits for."""
    name = event.compensates or ""
    undoing = run.undo.get(name)
    if undoing is None or undoing.state != "owed":
        return run
    asked = None if isinstance(event, Denied) else event.approval
    return _told(run, name, replace(undoing, waits=_waits(event), approval=asked))


def _waits(event: Denied | Held | ApprovalRequested) -> tuple[Outcome, str]:
    outcome = Outcome.NEEDS_APPROVAL if isinstance(event, ApprovalRequested) else event.outcome
    return outcome, event.reason


def stopped(run: Run) -> Run:
    """After the run is over: what was held back is given back."""
    for name in list(run.set_aside):
        run = _let_go(run, name)
    return run


# --- what comes of an event -----------------------------------------------------------------------------------------


def follows(run: Run, event: Event) -> Sequence[Event]:
    """What must be recorded together with the event, given the run after it."""
    match event:
        case EvidenceRecorded(attempt=str(name)):
            return tuple(_after_evidence(run, run.attempts[name], event))
        case ReceiptRecorded():
            return tuple(_after_receipt(run, run.attempts[event.attempt]))
        case ApprovalDecided():
            return tuple(_after_decision(run, event))
        case Denied(compensates=str(name)) if event.retry_after_s is None:
            return (CompensationFailed(attempt=name, reason=event.reason),)
        case Replayed(compensates=str(name)):
            says = f"an equal call, `{event.attempt}`, was made before; a person must see whether that undid it"
            return (CompensationFailed(attempt=name, reason=says),)
        case _:
            return ()


def _after_evidence(run: Run, attempt: Attempt, event: EvidenceRecorded) -> Iterator[Event]:
    if (undone := attempt.intent.compensates) is not None:
        if event.verdict != "pass" and _is(run, undone, "running"):
            yield CompensationFailed(attempt=undone, reason=f"`{attempt.id}` was to undo it, but {event.says}")
        return
    if event.verdict == "fail":
        yield from _owed(run, attempt, event.says, run.version)
        yield from _unmerged(run, attempt.intent.merges, event.says)
    else:
        yield from _rejected_meanwhile(run, attempt)


def _after_receipt(run: Run, attempt: Attempt) -> Iterator[Event]:
    if (undone := attempt.intent.compensates) is not None:
        if attempt.settled and not _succeeded(attempt) and _is(run, undone, "running"):
            says = "ended with an error" if attempt.is_error else "has a result that breaks its schema"
            yield CompensationFailed(attempt=undone, reason=f"`{attempt.id}`, which was to undo it, {says}")
    elif attempt.settled:
        yield from _rejected_meanwhile(run, attempt)


def _after_decision(run: Run, event: ApprovalDecided) -> Iterator[Event]:
    approval = run.approvals[event.approval]
    if approval.merges and approval.decision == "rejected":
        why = f": {event.reason}" if event.reason else ""
        yield from _unmerged(run, approval.merges, f"`{event.by.id}` rejected `{approval.rule}`{why}")


def _is(run: Run, attempt: str, state: str) -> bool:
    undoing = run.undo.get(attempt)
    return undoing is not None and undoing.state == state


def _owed(run: Run, attempt: Attempt, reason: str, because: int) -> Iterator[Event]:
    if attempt.intent.undo is None:
        return
    if run.state is RunState.STOPPED:
        yield CompensationFailed(attempt=attempt.id, reason=f"{reason}; the run is over, and nothing is sent in it")
    elif _is(run, attempt.id, "set_aside"):
        yield CompensationOwed(attempt=attempt.id, reason=reason, because=(because,))


def _unmerged(run: Run, merges: tuple[str, ...], reason: str) -> Iterator[Event]:
    """What the run did under these transitions is to be undone, the newest first; what is under way, when it ends."""
    mine = [run.attempts[name] for name in run.set_aside] if merges else []
    for attempt in sorted(mine, key=lambda one: -one.seq):
        if attempt.intent.transition in merges and attempt.settled:
            yield from _owed(run, attempt, reason, run.version)


def _rejected_meanwhile(run: Run, attempt: Attempt) -> Iterator[Event]:
    """The attempt ended well, but what would have taken its effect over was rejected while it was under way."""
    rejected = run.rejected.get(attempt.intent.transition or "", 0)
    if rejected > attempt.seq:
        yield from _owed(run, attempt, "what would have taken its effect over was rejected", rejected)


def rejecting(run: Run, merges: tuple[str, ...], seq: int) -> Run:
    """After a merge of these transitions' effects was rejected at that place."""
    rejected = run.rejected
    for name in merges:
        rejected = rejected.insert(name, seq)
    return run._replace(rejected=rejected)


# --- what is due ----------------------------------------------------------------------------------------------------


def due(run: Run) -> str | None:
    """The attempt to undo now: the newest that is owed, unless its compensation is under way already."""
    if not run.owed or run.state is not RunState.RUNNING:
        return None
    newest = max(run.owed.items(), key=lambda one: one[1])[0]
    return newest if run.undo[newest].state == "owed" else None


def nothing_new(run: Run, verdict: Event, undone: str) -> bool:
    """Whether the verdict on a compensation need not be recorded: another was quicker, or it says what the last did."""
    if due(run) != undone:
        return True
    return isinstance(verdict, Denied | Held) and run.undo[undone].waits == _waits(verdict)


def is_set_aside(run: Run, attempt: str) -> bool:
    """Whether something is held back to undo the attempt with."""
    return _is(run, attempt, "set_aside")


def is_undone(run: Run, attempt: str) -> bool:
    """Whether nothing is left of the attempt's effect, so that an equal call is a new one."""
    return _is(run, attempt, "undone")


def undone_by_nobody(run: Run) -> Iterator[str]:
    """The attempts whose effect must not stay and was not undone for certain: a person must see to it."""
    return (name for name, undoing in sorted(run.undo.items()) if undoing.state == "failed")


def keeps_going(run: Run) -> bool:
    """Whether a stop must wait: something is to be undone, or may turn out to be."""
    if run.owed:
        return True
    return bool(run.set_aside) and any(not run.attempts[name].settled for name in run.set_aside)
