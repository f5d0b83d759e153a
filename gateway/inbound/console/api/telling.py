"""The house's values as the JSON API and the operators' tools tell them."""

from gateway.inbound.console.api import told
from gateway.model.review import Waiting
from gateway.model.run import Approval
from gateway.model.switch import NAMES, Switch
from gateway.runtime.listing import Listed


def switch_out(one: Switch) -> told.SwitchOut:
    """A switch, as the API tells it."""
    event, names = one.event, {name: getattr(one.event, name) for name in NAMES}
    return told.SwitchOut(switch=one.number, at=one.at, by=event.by.id, reason=event.reason, **names)


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
