"""What the audit's functions get and give: what one record did to its run, and one thing that is wrong."""

from dataclasses import dataclass

from gateway.kernel.moves import NEXT, NEXT_ATTEMPT
from gateway.model.events import ApprovalDecided, IntentRecorded, OutcomeDelivered, PhaseMoved, RunMigrated
from gateway.model.policy import Policy
from gateway.model.record import Record
from gateway.model.run import Run, RunState


@dataclass(frozen=True, slots=True)
class Breach:
    """An invariant that does not hold, and where."""

    invariant: str
    """Its number: `I1`."""
    where: str
    """What a person looks up: `run_1#7`, `place 12`, `checkpoint 300`, a payload's digest, an account."""
    says: str
    """One sentence."""


@dataclass(frozen=True, slots=True)
class Step:
    """One record, a legal move, and its run on both sides of it."""

    before: Run
    record: Record
    after: Run
    policy: Policy | None = None
    """That the run was under; None if the ledger has no text of it that this version can read."""


def refused(run: Run, record: Record, reason: str) -> Breach:
    """What is broken by a record that `reduce` refused for that reason; `run` is as it was before."""
    return Breach(_number(run, record), record.id, reason)


def _number(run: Run, record: Record) -> str:
    event = record.event
    if (record.run, record.seq, record.previous) != (run.id, run.version + 1, run.head):
        return "I1"
    if event.kind not in NEXT[run.state]:
        return "I16" if run.state is RunState.STOPPED else "I18"
    if isinstance(event, PhaseMoved | RunMigrated):
        return "I18"
    if isinstance(event, ApprovalDecided):
        return "I12"
    if isinstance(event, IntentRecorded):
        return "I2" if event.attempt in run.attempts else "I12"
    attempt = run.attempts.get(getattr(event, "attempt", None) or "")
    if attempt is None:
        return "I3"
    if isinstance(event, OutcomeDelivered) and event.kind not in NEXT_ATTEMPT[attempt.state]:
        return "I5"
    return "I9"
