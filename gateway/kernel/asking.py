"""What people are asked and what they answered: the part of the reduction that approvals are."""

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from gateway.kernel import owing
from gateway.kernel.charges import plus
from gateway.model.approval import Approval
from gateway.model.asked import Granted
from gateway.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalSeen,
    ApprovalWithdrawn,
    Asking,
    Charge,
    CompensationFailed,
    EscalationAcknowledged,
    Event,
    Outcome,
    RunStopped,
)
from gateway.model.record import Record
from gateway.model.run import Run


class NotAsked(Exception):
    """The event speaks of a question that does not stand so."""


def heard(run: Run, record: Record, event: Asking) -> Run:
    """After an event about people.

    Raises: NotAsked.
    """
    match event:
        case ApprovalRequested():
            return _requested(run, record, event)
        case ApprovalDecided():
            return _decided(run, record, event)
        case ApprovalSeen():
            return _seen(run, event)
        case ApprovalWithdrawn() | ApprovalExpired():
            return _closed(run, record, event)
        case EscalationAcknowledged():
            return run._replace(acknowledged=record.seq)
        case _:
            assert_never(event)


def _requested(run: Run, record: Record, event: ApprovalRequested) -> Run:
    """After a person was asked. Questions that this one takes the place of are void."""
    approval = Approval(
        id=event.approval,
        action=event.action,
        tool=event.tool,
        rule=event.rule,
        role=event.role,
        quorum=event.quorum,
        self_review=event.self_review,
        requested_at=record.at,
        expires_at=event.expires_at,
        seq=record.seq,
        merges=event.merges,
        terms=event.terms,
        arguments=event.arguments,
        scope=event.scope,
        objects=event.objects,
        state=tuple(sorted(event.state.items())),
        holding=event.holding,
        follows=event.follows,
        undoes=event.compensates,
        policy=event.policy,
        alike=event.alike,
        asked_in=record.trace,
    )
    run = _superseded(run, record, event.supersedes, approval.id)
    if event.compensates is not None:
        run = owing.judged(run, event)
    return run._replace(
        approvals=run.approvals.insert(approval.id, approval),
        actions=run.actions.insert(approval.action, approval.id),
        spent=plus(run.spent, Charge(reviews=1), 1),
    )


def _superseded(run: Run, record: Record, names: Iterable[str], by: str) -> Run:
    for name in names:
        before = run.approvals.get(name)
        if before is None or before.decision not in {None, "approved"}:
            raise NotAsked(f"approval `{name}` cannot be superseded")
        over = replace(before, decision="superseded", by=by, decided_at=record.at, decided_seq=record.seq)
        run = run._replace(approvals=run.approvals.insert(name, over))
    return run


def _decided(run: Run, record: Record, event: ApprovalDecided) -> Run:
    """After a reviewer's answer."""
    approval = _standing_yes(run, event.approval) if event.decision == "revoked" else _awaited(run, event.approval)
    if approval.action != event.action:
        raise NotAsked(f"approval `{event.approval}` was not awaiting this decision")
    agreed = approval.agreed
    if event.decision == "approved":
        agreed = (*agreed, (event.by.tenant, event.by.id))
    final = event.decision != "approved" or len(agreed) >= approval.needed
    told = replace(
        approval,
        decision=event.decision if final else None,
        agreed=agreed,
        by=event.by.id,
        reason=event.reason,
        granted=_narrower(approval, event),
        decided_at=record.at if final else None,
        decided_seq=record.seq if final else 0,
        links=approval.links if event.link is None else (*approval.links, event.link),
    )
    if told.decision == "rejected" and approval.merges:
        run = owing.rejecting(run, approval.merges, record.seq)
    run = run._replace(approvals=run.approvals.insert(told.id, told))
    if told.decision == "approved" and told.granted is not None and told.scope is not None:
        run = run._replace(scopes=run.scopes.insert(told.scope, told.id))
    if told.decision in {"rejected", "returned", "revoked"}:
        run = run._replace(turned=run.turned.insert(told.alike or told.action, told.id))
    return run


def _narrower(approval: Approval, event: ApprovalDecided) -> Granted | None:
    """A yes goes as far as whoever of those who agreed lets it go least; one call, where one of them says no more."""
    if event.decision != "approved" or event.granted is None:
        return None
    before = approval.granted
    if before is None:
        return event.granted if not approval.agreed else None
    counts = [times for times in (before.times, event.granted.times) if times is not None]
    lasts = [for_s for for_s in (before.for_s, event.granted.for_s) if for_s is not None]
    return Granted(times=min(counts, default=None), for_s=min(lasts, default=None))


def _seen(run: Run, event: ApprovalSeen) -> Run:
    """After a reviewer looked at it."""
    approval, who = run.approvals.get(event.approval), (event.by.tenant, event.by.id)
    if approval is None:
        raise NotAsked(f"no approval `{event.approval}` was asked for")
    return run._replace(approvals=run.approvals.insert(approval.id, replace(approval, seen=(*approval.seen, who))))


def _closed(run: Run, record: Record, event: ApprovalWithdrawn | ApprovalExpired) -> Run:
    """After the question, or an unused yes to it, was taken back; or after its time ran out."""
    unused = run.approvals.get(event.approval) if isinstance(event, ApprovalWithdrawn) else None
    approval = unused if unused is not None and unused.decision == "approved" else _awaited(run, event.approval)
    over = replace(approval, decision="expired", decided_at=record.at, decided_seq=record.seq)
    if isinstance(event, ApprovalWithdrawn):
        over = replace(over, decision="withdrawn", by=event.by.id, reason=event.reason)
    return run._replace(approvals=run.approvals.insert(over.id, over))


def used(run: Run, name: str | None, attempt: str) -> Run:
    """After a call is about to be made by it.

    Raises: NotAsked.
    """
    if name is None:
        return run
    approval = run.approvals.get(name)
    if approval is None or approval.decision != "approved" or approval.used_up:
        raise NotAsked(f"approval `{name}` cannot be used by `{attempt}`")
    after = replace(approval, uses=(*approval.uses, attempt))
    return run._replace(approvals=run.approvals.insert(name, after))


def unused(run: Run, attempt: str) -> Run:
    """After it is known that nothing of the call was sent: a yes by which it was to be made may still be used."""
    found = next((one for one in run.approvals.values() if attempt in one.uses), None)
    if found is None:
        return run
    given_back = replace(found, uses=tuple(one for one in found.uses if one != attempt))
    return run._replace(approvals=run.approvals.insert(found.id, given_back))


def _standing_yes(run: Run, name: str) -> Approval:
    approval = run.approvals.get(name)
    if approval is None or approval.decision != "approved" or approval.used_up:
        raise NotAsked(f"approval `{name}` is no yes that may still be used")
    return approval


def _awaited(run: Run, name: str) -> Approval:
    approval = run.approvals.get(name)
    if approval is None or approval.decision is not None:
        raise NotAsked(f"approval `{name}` was not awaiting an answer")
    return approval


# --- what is listed beside the events ---------------------------------------------------------------------------------


def listed(run: Run, event: Event) -> tuple[dict[str, str], tuple[str, ...]]:
    """What waits for a person since the event, by its name and as what; and what does so no more. `run` is after it."""
    match event:
        case ApprovalRequested():
            return {event.approval: "awaiting"}, event.supersedes
        case ApprovalDecided() if run.approvals[event.approval].decision is None:
            return {}, ()
        case ApprovalDecided() | ApprovalWithdrawn() | ApprovalExpired():
            return {}, (event.approval,)
        case EscalationAcknowledged():
            return {}, (run.id,)
        case CompensationFailed():
            return ({run.id: "escalated"} if escalated(run) else {}), ()
        case RunStopped():
            left = tuple(sorted(name for name, one in run.approvals.items() if one.decision is None))
            return ({run.id: "escalated"} if escalated(run) else {}), left
        case _:
            return {}, ()


def escalated(run: Run) -> bool:
    """Whether the run is over and waits for a person: it ended as one for a person (who ended it themselves knows of
    it), or left an effect that must not stay and that nobody undid.
    """
    over = run.stopped
    if over is None or run.acknowledged is not None:
        return False
    return (over.outcome is Outcome.HUMAN_ESCALATION and over.by is None) or any(owing.undone_by_nobody(run))
