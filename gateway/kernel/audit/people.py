"""step -> what is wrong with it, or None: approvals, for what, until when, and by whom."""

from gateway.kernel.approve import action_digest
from gateway.kernel.audit.breach import Step
from gateway.model.events import ApprovalDecided, IntentRecorded
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal
from gateway.model.run import Approval


def approval_of_another_action(step: Step) -> str | None:
    """An approval is for one exact action: who, which run, tool, arguments, definition and policy."""
    event, approval = step.record.event, _used(step)
    if approval is None or not isinstance(event, IntentRecorded):
        return None
    owner = step.before.principal or Principal("?")
    proposal = Proposal(step.before.id, owner, event.tool, {}, event.arguments, event.arguments)
    exact = approval.action == action_digest(proposal, event.definition, event.policy)
    wide = approval.granted is not None and approval.scope is not None  # whether it was within is for judging again
    if not exact and not wide:
        return f"`{approval.id}` was given for another action"
    if approval.rule not in {"", event.transition}:
        return f"`{approval.id}` was asked for by `{approval.rule}`, and `{event.transition}` used it"
    return None


def approval_expired(step: Step) -> str | None:
    """Nothing is approved, and no approval used, once its time is over."""
    event = step.record.event
    decided = step.before.approvals.get(event.approval) if isinstance(event, ApprovalDecided) else None
    approval = _used(step) or decided
    if approval is None or step.record.at < approval.until:
        return None
    return f"`{approval.id}` had expired at {approval.until.isoformat(timespec='seconds')}"


def approval_by_the_wrong(step: Step) -> str | None:
    """Whoever asks does not answer, unless policy lets them; a reviewer has the role, and answers once."""
    event = step.record.event
    approval = step.before.approvals.get(event.approval) if isinstance(event, ApprovalDecided) else None
    if approval is None or not isinstance(event, ApprovalDecided):
        return None
    who, owner = event.by, step.before.principal
    if not approval.self_review and owner is not None and (owner.tenant, owner.id) == (who.tenant, who.id):
        return f"`{who.id}` answered what they had asked for themselves"
    waits = approval.waits_for
    if waits is not None and waits[0].role is not None and waits[0].role not in who.roles:
        return f"`{who.id}` has not the role `{waits[0].role}`"
    return f"`{who.id}` answered twice" if (who.tenant, who.id) in approval.agreed else None


def _used(step: Step) -> Approval | None:
    event = step.record.event
    used = isinstance(event, IntentRecorded) and event.approval is not None
    return step.before.approvals.get(event.approval or "") if used and isinstance(event, IntentRecorded) else None
