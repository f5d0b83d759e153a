"""The house's values as the JSON API and the operators' tools tell them."""

from gateway.inbound.console.api import told
from gateway.model.review import Waiting
from gateway.model.run import Approval, Run


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


def row_of_run(run: Run) -> told.RunRow:
    """One run, briefly."""
    return told.RunRow(
        run=run.id,
        workflow=run.workflow,
        tenant=run.principal.tenant if run.principal is not None else "",
        principal=run.principal.id if run.principal is not None else "",
        phase=run.phase,
        state=str(run.stopped.outcome) if run.stopped is not None else str(run.state),
        opened_at=run.opened_at,
        calls=run.spent.calls,
        mutations=run.spent.mutations,
        unsettled=len(run.unsettled),
    )
