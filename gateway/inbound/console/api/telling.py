"""The house's values as the JSON API and the operators' tools tell them."""

from gateway.inbound.console.api import told
from gateway.model.review import Waiting
from gateway.model.run import Approval
from gateway.runtime.listing import Listed


def waiting_out(one: Waiting) -> told.WaitingOut:
    """One row of the inbox."""
    return told.WaitingOut(**{name: getattr(one, name) for name in told.WaitingOut.model_fields})


def approval_out(one: Approval) -> told.ApprovalOut:
    """Where a question stands."""
    return told.ApprovalOut(
        approval=one.id,
        action=one.action,
        decision=one.decision,
        risk=one.terms.risk,
        stages=one.stages,
        agreed=len(one.agreed),
        reasons=one.terms.reasons,
        reuse=one.terms.reuse,
        granted=one.granted,
        by=one.by,
        reason=one.reason,
        decided_at=one.decided_at,
        until=one.until,
        uses=one.uses,
    )


def row_of_run(one: Listed) -> told.RunRow:
    """One run, briefly."""
    return told.RunRow(**{name: getattr(one, name) for name in told.RunRow.model_fields})
