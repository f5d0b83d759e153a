"""(run, rules, approval, now) -> the question as whoever asked it is told of it. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import assert_never

from gateway.kernel.approve import pending, stands
from gateway.kernel.rules import Rules
from gateway.model.answering import Answering
from gateway.model.question import ApprovalAnswer, Question, QuestionState
from gateway.model.run import Approval, Run


def question(run: Run, rules: Rules, approval: Approval, now: datetime, where: Answering) -> Question:
    """The question, as it stands now, and where a person answers it."""
    state, terms = _state(run, approval, now), approval.terms
    superseded, awaits = approval.decision == "superseded", state == "awaiting"
    told = ApprovalAnswer(
        approval=approval.id,
        state=state,
        tool=approval.tool,
        run=run.id,
        asks=_why(rules, approval.rule),
        agreed=tuple(who for _, who in approval.agreed),
        needed=approval.needed,
        by=None if superseded else approval.by,
        said=approval.reason,
        superseded_by=approval.by if superseded else None,
        attempt=approval.used_by,
        approve_at=where.approve_at(approval.id) if awaits else None,
        page=where.page("approval", approval.id) if awaits else None,
        asked_at=approval.requested_at.isoformat(timespec="seconds"),
        expires_at=approval.until.isoformat(timespec="seconds"),
        next=NEXT_STEP[state],
    )
    return Question(
        told,
        approval.action,
        approval.rule,
        approval.until,
        terms.consequence,
        caller=terms.caller,
        hold_s=terms.hold_s,
    )


def _why(rules: Rules, rule: str) -> str:
    """As the transition says it that asked."""
    said = (one.approval.reason for one in rules.policy.transitions if one.name == rule and one.approval is not None)
    return next(said, "policy asks for a person")


def _state(run: Run, approval: Approval, now: datetime) -> QuestionState:
    """As far as whoever asked can do something about it: a yes of a run that is over is of no use to them."""
    match stands(run, approval, now):
        case "approved" | "lapsed" if run.stopped is not None:
            return "closed"
        case "lapsed":
            return "expired"
        case "void":
            return "awaiting" if pending(approval, now) else "expired"
        case state:
            return state


def says(question: Question) -> str:  # noqa: C901 - one arm a state
    """Where it stands, in one sentence."""
    told = question.told
    by = f" by `{told.by}`" if told.by else ""
    why = f": {told.said}" if told.said else ""
    match told.state:
        case "awaiting":
            return f"a person must agree ({told.asks})"
        case "approved":
            return f"`{told.approval}` was approved{by}{why}"
        case "used":
            return f"`{told.approval}` was used by `{told.attempt}`"
        case "rejected":
            return f"`{told.approval}` was rejected{by}{why}"
        case "revoked":
            return f"the yes to `{told.approval}` was taken back{by}{why}"
        case "returned":
            return f"`{told.approval}` was returned{by}, more evidence is wanted{why}"
        case "expired":
            return f"`{told.approval}` expired at {told.expires_at}, unanswered or unused"
        case "superseded":
            newer = f"`{told.superseded_by}`" if told.superseded_by else "a newer question about the same object"
            return f"`{told.approval}` was superseded by {newer}"
        case "withdrawn":
            return f"`{told.approval}` was withdrawn{by}{why}"
        case "closed":
            return f"the run ended before `{told.approval}` was answered or used"
        case _:
            assert_never(told.state)


NEXT_STEP: Mapping[QuestionState, str] = {
    "awaiting": "Tell the user where to approve. Ask again later, or repeat the call unchanged.",
    "approved": "Repeat the call unchanged: it is judged as things stand then, and made once.",
    "used": "The call was made. Get its outcome with `gateway__result`, if you have not seen it.",
    "revoked": "Do not try another way to the same effect. Tell the user that the yes was taken back, and why.",
    "rejected": "Do not try another way to the same effect. Tell the user what was rejected, and why.",
    "returned": "Bring the evidence that is wanted, then make the call again.",
    "expired": "Nothing was executed. If it is still wanted, make the call again: a person is asked anew.",
    "superseded": "Ask about the newer question, or make the call that is wanted now.",
    "withdrawn": "Nothing was executed. If it is wanted after all, make the call again: a person is asked anew.",
    "closed": "Stop. This run is over; nothing was executed.",
}
"""What the agent may do, by where its question stands."""
