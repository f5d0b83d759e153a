"""(run, a reviewer's answer, now) -> event. An approval is for one exact action and runs nothing."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, assert_never

from gateway.kernel.accounts import until, window_of
from gateway.kernel.asking import escalated
from gateway.kernel.owing import is_set_aside
from gateway.kernel.verify import edge_taken, received
from gateway.model.approval import Approval, Decision
from gateway.model.asked import MAX_S, Granted, Offer
from gateway.model.canonical import Digest, digest, dump
from gateway.model.events import (
    ApprovalDecided,
    ApprovalWithdrawn,
    AttemptRefuted,
    CompensationFailed,
    CompensationOwed,
    EscalationAcknowledged,
    Event,
    Outcome,
    ReceiptRecorded,
    Reservation,
    RunStopped,
    Who,
)
from gateway.model.proposal import Proposal
from gateway.model.review import Answer, Refused, Reviewer, Settlement
from gateway.model.run import Attempt, AttemptState, Run, RunState
from gateway.model.unseen import is_unseen


def action_digest(
    proposal: Proposal, definition: Digest | None, policy: Digest, arguments: Digest | None = None
) -> Digest:
    """What an approval binds: who, in which run, which tool as defined now, which arguments, under which policy.

    Its parts are salted digests already, so it needs no salt of its own. `arguments` stands for the proposal's own.
    """
    return digest(_bound(proposal, definition, policy, arguments or proposal.arguments_digest), b"")


def scope_digest(
    proposal: Proposal, definition: Digest | None, policy: Digest, rule: str, varies: Collection[str], salt: bytes
) -> Digest:
    """The same for all calls that a yes beyond one call may be for: those of this transition with arguments of the same
    names, of which those in `varies` may be others. Never that of an action.
    """
    fixed = {name: value for name, value in proposal.arguments.items() if name not in varies}
    bound = _bound(proposal, definition, policy, digest(fixed, salt))
    names = sorted(proposal.arguments)
    return digest({**bound, "reach": {"rule": rule, "varies": sorted(varies), "names": names}}, b"")


def _bound(proposal: Proposal, definition: Digest | None, policy: Digest, arguments: Digest) -> dict[str, Any]:
    undoes = {} if proposal.compensates is None else {"undoes": proposal.compensates}
    return {
        "tenant": proposal.principal.tenant,
        "principal": proposal.principal.id,
        "run": proposal.run,
        "tool": proposal.tool,
        "arguments": arguments,
        "definition": definition,
        "policy": policy,
        **undoes,
    }


def pending(approval: Approval, now: datetime) -> bool:
    """Whether a person may still answer."""
    return approval.decision is None and now < approval.expires_at


Stands: TypeAlias = Decision | Literal["awaiting", "used", "lapsed", "closed", "void"]
"""Where a question to a person stands, and the yes to it. `lapsed`: a yes whose time is over; `closed`: the run ended
before anybody answered; `void`: nobody answered, and the policy under which it was asked was replaced.
"""


def stands(run: Run, approval: Approval, now: datetime) -> Stands:
    """Where it stands now; whoever is told says it in words of their own."""
    if approval.decision == "approved":
        return "used" if approval.used_up else "lapsed" if now >= approval.until else "approved"
    if approval.decision is not None:
        return approval.decision
    if run.stopped is not None:
        return "closed"
    if approval.policy not in {None, run.policy}:
        return "void"
    return "awaiting" if pending(approval, now) else "expired"


def answer(run: Run, said: Answer, by: Reviewer, now: datetime) -> ApprovalDecided:
    """The reviewer's decision about the action that they saw.

    Raises: Refused.
    """
    approval = run.approvals.get(said.approval)
    if approval is None or run.principal is None or not by.sees(run.principal.tenant, approval.id):
        raise Refused("unknown", f"no approval `{said.approval}` was asked for in run `{run.id}`")
    _open(run, approval, said, now)
    _may_answer(run, approval, by, said.decision)
    yes = said.decision == "approved"
    told = said.reason.strip() if is_said(said.reason) else ""
    if not told and (said.decision == "returned" or approval.terms.reasons == "always"):
        raise Refused("reason", f"say why: `{approval.id}` wants a reason")
    if not told and said.decision in {"rejected", "revoked"} and approval.terms.reasons == "rejection":
        raise Refused("reason", f"say why: a no to `{approval.id}` wants a reason")
    return ApprovalDecided(
        approval=approval.id,
        action=approval.action,
        decision=said.decision,
        by=by.who,
        reason=told,
        granted=_granted(approval, said) if yes else None,
        via=by.via,
        link=said.link,
        active_s=said.active_s,
        everywhere=by.everywhere,
        accounts=_load(run, approval, by, now),
    )


def _open(run: Run, approval: Approval, said: Answer, now: datetime) -> None:
    """It is the question that was shown, and waits for an answer; or, to be revoked, a yes that may still be used."""
    if approval.action != said.action:
        raise Refused("action", f"approval `{approval.id}` is for another action than the one that was shown")
    if approval.decision == "superseded":
        raise Refused("decided", f"approval `{approval.id}` was superseded by `{approval.by}`: look at that one")
    if approval.decision == "expired" or (approval.decision is None and now >= approval.expires_at):
        at = approval.expires_at.isoformat(timespec="seconds")
        raise Refused("expired", f"approval `{approval.id}` expired at {at}")
    if said.decision == "revoked":
        if not approval.usable(now):
            raise Refused("decided", f"there is no yes to `{approval.id}` by which a call could still be made")
    elif approval.decision is not None:
        raise Refused("decided", f"approval `{approval.id}` was {approval.decision} by `{approval.by}` already")
    if approval.policy not in {None, run.policy}:
        raise Refused(
            "decided", f"approval `{approval.id}` was asked under a policy that was replaced: it is asked anew"
        )
    if run.stopped is not None:
        raise Refused("run_over", f"run `{run.id}` is over ({run.stopped.outcome})")
    if said.link is not None and said.link in approval.links and said.decision != "revoked":
        raise Refused("link", "this link was used already")


def _may_answer(run: Run, approval: Approval, by: Reviewer, decision: str) -> None:
    if approval.undoes is not None and decision == "returned":
        raise Refused("state", "the gateway itself asks this, and can bring no more evidence: approve or reject it")
    if (by.tenant, by.id) in approval.agreed and decision != "revoked":
        people = f"{approval.needed} different people must"
        raise Refused("twice", f"`{by.id}` has said yes to `{approval.id}` already; {people}")
    if not approval.self_review and is_asking(run, by):
        unless = "unless the policy says `self_review: true`"
        raise Refused("self_review", f"`{by.id}` asked for `{approval.id}` and may not answer it, {unless}")
    if by.via == "caller" and not approval.terms.caller:
        raise Refused("role", f"the user of the asking client may not answer `{approval.id}`")
    waits = approval.waits_for
    roles = [one.role for one in approval.stages] if waits is None else [waits[0].role]
    if not any(role is None or role in by.roles for role in roles):
        raise Refused("role", f"approval `{approval.id}` needs a reviewer with the role `{roles[0]}`")


def is_said(reason: str) -> bool:
    """Whether there is anything in it that somebody can read."""
    return any(not char.isspace() and not is_unseen(char) for char in reason)


def is_asking(run: Run, by: Reviewer) -> bool:
    """Whether the reviewer is whoever the run acts for. Who sees all tenants is so by name alone, in whichever."""
    asking = run.principal
    return asking is not None and asking.id == by.id and (by.everywhere or asking.tenant == by.tenant)


def _granted(approval: Approval, said: Answer) -> Granted | None:
    """How far the yes goes, within what policy lets it."""
    if said.times == 1 and said.for_s is None:
        return None
    offer = approval.terms.reuse or Offer()
    wanted = Granted(
        times=offer.times if said.times is None else said.times, for_s=offer.for_s if said.for_s is None else said.for_s
    )
    if (why := beyond(approval, wanted)) is not None:
        raise Refused("reuse", why)
    return wanted


def beyond(approval: Approval, granted: Granted) -> str | None:
    """Why a yes may not go so far; None if it may."""
    offer, name = approval.terms.reuse, approval.id
    if offer is None:
        return f"policy lets a yes to `{name}` go for one call only"
    if offer.times is not None and (granted.times is None or granted.times > offer.times):
        return f"policy lets a yes to `{name}` go for {offer.times} calls at most"
    if granted.times is not None and granted.times < 1:
        return f"a yes to `{name}` is for one call at least"
    longest = MAX_S if offer.for_s is None else offer.for_s
    if granted.for_s is not None and not 0 < granted.for_s <= longest:
        return f"policy lets a yes to `{name}` stand for {longest:g} s at most"
    return None if granted.for_s is not None or offer.for_s is None else f"say for how long a yes to `{name}` stands"


def _load(run: Run, approval: Approval, by: Reviewer, now: datetime) -> tuple[Reservation, ...]:
    """What the answer takes from what this reviewer may decide."""
    load = approval.terms.load
    if load is None:
        return ()
    whose = dump([by.tenant, by.id, run.workflow, approval.rule])
    account = f"{LOAD_RULE} {whose} {window_of(load.window, now)}"
    end = until(load.window, now)
    return (Reservation(rule=LOAD_RULE, account=account, unit="reviews", amount=1, limit=load.decisions, until=end),)


LOAD_RULE = "approval.load"
"""As accounts of reviewers are cited."""


def resolve(run: Run, attempt_id: str, *, what: Settlement, by: Who, reason: str, now: datetime) -> Sequence[Event]:
    """A person's word on an attempt whose outcome is unknown, and what follows from it.

    Raises: Refused, also for what says that it did not happen while the upstream could still act on the call.
    """
    attempt = run.attempts.get(attempt_id)
    if attempt is None or attempt.state is not AttemptState.UNKNOWN:
        state = "is not of this run" if attempt is None else _STANDS.get(attempt.state, f"is {attempt.state}")
        raise Refused("state", f"attempt `{attempt_id}` {state}; only an unknown one can be resolved")
    happened = ReceiptRecorded(
        attempt=attempt_id, source="person", answer="result", is_error=False, late=True, by=by, reason=reason
    )
    match what:
        case "happened":
            return received(run, attempt, happened)
        case "compensate":
            return _undone(run, attempt, happened)
        case "stop_run":
            return tuple(ended(run, by, reason))
        case "did_not_happen" | "retry":
            if now < attempt.settles_at:
                at = attempt.settles_at.isoformat(timespec="seconds")
                still = f"the upstream may still act on `{attempt_id}` until {at}; ask again then"
                raise Refused("settles", still, attempt.settles_at)
            again = what == "retry"
            return (AttemptRefuted(attempt=attempt_id, source="person", reason=reason, by=by, again=again),)
        case _:
            assert_never(what)


def _undone(run: Run, attempt: Attempt, happened: ReceiptRecorded) -> Sequence[Event]:
    """It happened, and must not stay, so that nothing is verified about it any more. It is owed before its end is
    recorded, which would let go what pays for it.
    """
    if attempt.intent.undo is None or not is_set_aside(run, attempt.id):
        by_hand = "policy sets nothing aside to undo it with: undo it by hand, and then say what is so"
        raise Refused("compensation", f"`{attempt.id}` cannot be undone by the gateway: {by_hand}")
    says = f"`{happened.by.id if happened.by else ''}` wants it undone: {happened.reason}"
    owed = CompensationOwed(attempt=attempt.id, reason=says, because=(run.version,))
    unwanted = happened.model_copy(update={"is_error": True})
    return (owed, unwanted, *edge_taken(run, attempt, "verification_failed", run.version + 2))


def ended(run: Run, by: Who, reason: str) -> Iterator[Event]:
    """A person ends the run. What was still to be undone in it is so by nobody, and is told.

    Raises: Refused, if it is over or was never opened.
    """
    if run.state is not RunState.RUNNING:
        raise Refused("run_over", f"run `{run.id}` is {run.state}; only one that goes on can be ended")
    told = f"a person ended it: {reason}" if reason else "a person ended it"
    for name in sorted(run.owed):
        if run.undo[name].state == "owed":
            yield CompensationFailed(attempt=name, reason=f"`{by.id}` ended the run before it was undone")
    yield RunStopped(outcome=Outcome.HUMAN_ESCALATION, reason=told, rule="person", by=by)


def acknowledged(run: Run, by: Who, reason: str) -> EscalationAcknowledged:
    """A person takes over a run that ended as one for a person.

    Raises: Refused.
    """
    if not escalated(run):
        raise Refused("state", f"run `{run.id}` does not wait for a person")
    return EscalationAcknowledged(by=by, reason=reason)


def withdrawn(run: Run, approval_id: str, by: Who, reason: str, now: datetime) -> ApprovalWithdrawn:
    """Whoever asked takes the question back, or a yes to it by which calls may still be made.

    Raises: Refused.
    """
    approval, owner = run.approvals.get(approval_id), run.principal
    if approval is None or owner is None or (owner.tenant, owner.id) != (by.tenant, by.id):
        raise Refused("unknown", f"`{by.id}` has asked no question `{approval_id[:64]}`")
    if approval.undoes is not None:
        raise Refused("state", f"the gateway itself asks `{approval_id}`: it cannot be taken back")
    if not (pending(approval, now) or approval.usable(now)) or run.stopped is not None:
        raise Refused("decided", f"approval `{approval_id}` is over: nothing waits for it, and no call is made by it")
    return ApprovalWithdrawn(approval=approval_id, by=by, reason=reason)


_STANDS = {
    AttemptState.OPEN: "is open: once its gateway is gone, another here says within a minute that it is unknown",
    AttemptState.REFUTED: "was settled already: it did not happen",
    AttemptState.ANSWERED: "was settled already: it happened",
}
