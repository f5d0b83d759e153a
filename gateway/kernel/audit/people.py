"""step -> what is wrong with it, or None: approvals, for what, until when, and by whom."""

from dataclasses import replace

from gateway.kernel.approve import action_digest, beyond
from gateway.kernel.audit.breach import Step
from gateway.model.events import ApprovalDecided, ApprovalExpired, ApprovalWithdrawn, IntentRecorded
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
    exact = approval.action == action_digest(_as_asked(proposal, event), event.definition, event.policy)
    wide = approval.granted is not None and event.scope is not None and event.scope == approval.scope
    if not exact and not wide:
        return f"`{approval.id}` was given for another action"
    if approval.rule not in {"", event.transition}:
        return f"`{approval.id}` was asked for by `{approval.rule}`, and `{event.transition}` used it"
    return None


def _as_asked(proposal: Proposal, event: IntentRecorded) -> Proposal:
    return replace(proposal, compensates=event.compensates)


def approval_expired(step: Step) -> str | None:
    """Nothing is approved, and no approval used, once its time is over."""
    event = step.record.event
    decided = step.before.approvals.get(event.approval) if isinstance(event, ApprovalDecided) else None
    approval = _used(step) or decided
    if isinstance(event, ApprovalExpired):
        asked = step.before.approvals[event.approval]
        return f"`{asked.id}` had not expired yet" if step.record.at < asked.expires_at else None
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
    told = event.via != ""  # earlier versions did not say who sees all tenants
    if told and owner is not None and not event.everywhere and who.tenant != owner.tenant:
        return f"`{who.id}` of `{who.tenant}` answered a question of `{owner.tenant}`"
    if not approval.self_review and owner is not None and (owner.tenant, owner.id) == (who.tenant, who.id):
        return f"`{who.id}` answered what they had asked for themselves"
    waits = approval.waits_for
    roles = [one.role for one in approval.stages] if waits is None else [waits[0].role]
    if not any(role is None or role in who.roles for role in roles):
        return f"`{who.id}` has not the role `{roles[0]}`"
    twice = (who.tenant, who.id) in approval.agreed and event.decision != "revoked"
    return f"`{who.id}` answered twice" if twice else None


def approval_beyond_its_terms(step: Step) -> str | None:
    """An answer keeps to the terms on which it was asked: how far it goes, who gives it, when it says why."""
    event = step.record.event
    approval = step.before.approvals.get(event.approval) if isinstance(event, ApprovalDecided) else None
    if approval is None or not isinstance(event, ApprovalDecided):
        return None
    if event.granted is not None and (why := beyond(approval, event.granted)) is not None:
        return why
    if event.via == "caller" and not approval.terms.caller:
        return f"`{approval.id}` was answered by the user of the asking client"
    load = approval.terms.load
    if load is not None and not any(one.limit == load.decisions for one in event.accounts):
        return f"the answer to `{approval.id}` was not counted"
    always = approval.terms.reasons == "always" or event.decision == "returned"
    wanted = always or (event.decision in {"rejected", "revoked"} and approval.terms.reasons == "rejection")
    return f"the answer to `{approval.id}` says no reason" if wanted and not event.reason else None


def taken_back_by_another(step: Step) -> str | None:
    """A question is taken back by whoever asked it."""
    event, owner = step.record.event, step.before.principal
    if not isinstance(event, ApprovalWithdrawn) or owner is None:
        return None
    mine = (event.by.tenant, event.by.id) == (owner.tenant, owner.id)
    return None if mine else f"`{event.by.id}` took back `{event.approval}`, which `{owner.id}` had asked"


def _used(step: Step) -> Approval | None:
    event = step.record.event
    used = isinstance(event, IntentRecorded) and event.approval is not None
    return step.before.approvals.get(event.approval or "") if used and isinstance(event, IntentRecorded) else None
