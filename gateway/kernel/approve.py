"""(run, a reviewer's answer, now) -> event. An approval is for one exact action and runs nothing."""

from collections.abc import Sequence
from datetime import datetime

from gateway.kernel.verify import received
from gateway.model.canonical import Digest, digest
from gateway.model.events import ApprovalDecided, AttemptRefuted, Event, ReceiptRecorded, Who
from gateway.model.proposal import Proposal
from gateway.model.run import Approval, AttemptState, Run


class NotAwaiting(Exception):
    """There is nothing to decide: unknown, already decided, expired, or another action than the reviewer saw."""


def action_digest(proposal: Proposal, definition: Digest | None, policy: Digest) -> Digest:
    """What an approval binds: who, in which run, which tool as defined now, which arguments, under which policy.

    Its parts are salted digests already, so it needs no salt of its own.
    """
    bound = {
        "tenant": proposal.principal.tenant,
        "principal": proposal.principal.id,
        "run": proposal.run,
        "tool": proposal.tool,
        "arguments": proposal.arguments_digest,
        "definition": definition,
        "policy": policy,
    }
    return digest(bound, b"")


def pending(approval: Approval, now: datetime) -> bool:
    """Whether a person may still answer."""
    return approval.decision is None and now < approval.expires_at


def answer(
    run: Run, approval_id: str, action: Digest, *, approve: bool, by: Who, reason: str, now: datetime
) -> ApprovalDecided:
    """The reviewer's decision about the action that they saw.

    Raises: NotAwaiting.
    """
    approval = run.approvals.get(approval_id)
    if approval is None:
        raise NotAwaiting(f"no approval `{approval_id}` was asked for in run `{run.id}`")
    if approval.action != action:
        raise NotAwaiting(f"approval `{approval_id}` is for another action than the one that was shown")
    if approval.decision is not None:
        raise NotAwaiting(f"approval `{approval_id}` was {approval.decision} by `{approval.by}` already")
    if now >= approval.expires_at:
        raise NotAwaiting(f"approval `{approval_id}` expired at {approval.expires_at.isoformat(timespec='seconds')}")
    if run.stopped is not None:
        raise NotAwaiting(f"run `{run.id}` is over ({run.stopped.outcome})")
    if (by.tenant, by.id) in approval.agreed:
        raise NotAwaiting(f"`{by.id}` has said yes to `{approval_id}` already; {approval.quorum} different people must")
    asking = run.principal
    if not approval.self_review and asking is not None and (asking.tenant, asking.id) == (by.tenant, by.id):
        raise NotAwaiting(
            f"`{by.id}` asked for `{approval_id}` and may not answer it, unless the policy says `self_review: true`"
        )
    if approval.role is not None and approval.role not in by.roles:
        raise NotAwaiting(f"approval `{approval_id}` needs a reviewer with the role `{approval.role}`")
    return ApprovalDecided(
        approval=approval_id, action=action, decision="approved" if approve else "rejected", by=by, reason=reason
    )


def resolve(run: Run, attempt_id: str, *, happened: bool, by: Who, reason: str, now: datetime) -> Sequence[Event]:
    """A person's word on an attempt whose outcome is unknown, and the phase that follows from it.

    Raises: NotAwaiting, also for "it did not happen" while the upstream could still act on the call.
    """
    attempt = run.attempts.get(attempt_id)
    if attempt is None or attempt.state is not AttemptState.UNKNOWN:
        state = "is not of this run" if attempt is None else _STANDS.get(attempt.state, f"is {attempt.state}")
        raise NotAwaiting(f"attempt `{attempt_id}` {state}; only an unknown one can be resolved")
    if happened:
        receipt = ReceiptRecorded(
            attempt=attempt_id, source="person", answer="result", is_error=False, late=True, by=by, reason=reason
        )
        return received(run, attempt, receipt)
    if now < attempt.settles_at:
        until = attempt.settles_at.isoformat(timespec="seconds")
        raise NotAwaiting(f"the upstream may still act on `{attempt_id}` until {until}; ask again then")
    return (AttemptRefuted(attempt=attempt_id, source="person", reason=reason, by=by),)


_STANDS = {
    AttemptState.OPEN: "is open: once its gateway is gone, another here says within a minute that it is unknown",
    AttemptState.REFUTED: "was settled already: it did not happen",
    AttemptState.ANSWERED: "was settled already: it happened",
}
