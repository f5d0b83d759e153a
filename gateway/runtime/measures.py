"""How people answer, as metrics of this process: of what it recorded itself. `reviews` reads all of it from the ledger.

Without an SDK every instrument here is a no-op. No label says who, which run or which question: those are many.
A yes that is void later is counted twice, as `approved` and as `superseded`.
"""

from collections.abc import Sequence

from opentelemetry import metrics

from gateway.model.approval import Approval
from gateway.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalSeen,
    ApprovalWithdrawn,
    Event,
)
from gateway.model.run import Run

_METER = metrics.get_meter("counterfoil")

SECONDS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
"""People answer within seconds, or within days."""

_ENDED = _METER.create_counter(
    "counterfoil.approvals",
    unit="{approval}",
    description="Questions to people that wait no more, by what became of them",
)
_WAITED = _METER.create_histogram(
    "counterfoil.approval.wait.duration",
    unit="s",
    description="From the question to the last word on it",
    explicit_bucket_boundaries_advisory=SECONDS,
)
_FIRST_LOOK = _METER.create_histogram(
    "counterfoil.approval.first_look.duration",
    unit="s",
    description="From the question to the first look at it",
    explicit_bucket_boundaries_advisory=SECONDS,
)
_ACTIVE = _METER.create_histogram(
    "counterfoil.approval.active.duration",
    unit="s",
    description="How long a question was really looked at, for each answer of which that is known",
    explicit_bucket_boundaries_advisory=SECONDS,
)


def recorded(run: Run, events: Sequence[Event]) -> None:
    """These events are durable, and this is the run after them."""
    for event in events:
        match event:
            case ApprovalDecided():
                approval = run.approvals[event.approval]
                if event.active_s is not None:
                    _ACTIVE.record(event.active_s, _risk(approval))
                _end(approval)
            case ApprovalWithdrawn() | ApprovalExpired():
                _end(run.approvals[event.approval])
            case ApprovalRequested():
                for name in event.supersedes:
                    _end(run.approvals[name])
            case ApprovalSeen():
                _look(run, run.approvals[event.approval])
            case _:
                pass


def _end(approval: Approval) -> None:
    """It waits no more; nothing, where others must agree as well."""
    if approval.decision is None or approval.decided_at is None:
        return
    labels = {"counterfoil.approval.state": approval.decision, **_risk(approval)}
    _ENDED.add(1, labels)
    _WAITED.record(max(0.0, (approval.decided_at - approval.requested_at).total_seconds()), labels)


def _look(run: Run, approval: Approval) -> None:
    """Somebody sees it; nothing, where another did before."""
    if len(approval.seen) == 1 and run.last_at is not None:
        _FIRST_LOOK.record(max(0.0, (run.last_at - approval.requested_at).total_seconds()), _risk(approval))


def _risk(approval: Approval) -> dict[str, str]:
    return {"counterfoil.approval.risk": approval.terms.risk}
