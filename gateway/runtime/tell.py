"""(run, verdict or attempt) -> what the client is told. The upstream's own result, or one typed object of ours."""

import shlex
from collections.abc import Mapping
from typing import Any, Literal, assert_never

from gateway.kernel.asker import NEXT_STEP as NEXT_QUESTION
from gateway.kernel.asker import says
from gateway.kernel.checks import PERSON_S
from gateway.kernel.left import charged, left
from gateway.kernel.rules import Rules
from gateway.kernel.standing import standing
from gateway.kernel.stop import warning
from gateway.model.answer import ApprovalHandle, BudgetLeft, Cited, Failure, PolicyRef, Refusal, Undone
from gateway.model.answering import Answering
from gateway.model.events import (
    TERMINAL,
    ApprovalRequested,
    AttemptResent,
    AttemptResumed,
    Charge,
    Denied,
    EvidenceRecorded,
    Held,
    IntentRecorded,
    Outcome,
    Replayed,
    Verdict,
)
from gateway.model.hidden import hidden, unhidden
from gateway.model.question import Question
from gateway.model.run import Approval, Attempt, AttemptState, Run
from gateway.runtime.cut import cut
from gateway.runtime.undone import advice, all_undone, undone

NEXT_STEP: Mapping[Outcome, str] = {
    Outcome.DENIED: "Do not repeat this call as it is. Choose another step, or tell the user what is not allowed.",
    Outcome.INVALID_ARGUMENTS: "Correct the arguments that are listed and call again.",
    Outcome.CONFLICT: "Use a new idempotency key for a new call, or the first arguments for the same call.",
    Outcome.HELD: "Do not try another way to the same effect. Tell the user that a person must settle that attempt.",
    Outcome.IN_FLIGHT: "Wait, then get its outcome: call `gateway__result` with the attempt's id, or repeat this call "
    "unchanged.",
    Outcome.NEEDS_APPROVAL: "Do not try another way. Tell the user that a person must approve; then repeat this call "
    "unchanged. Where it stands, `gateway__approval` says.",
    Outcome.NEEDS_ACCOUNT: "Nothing was sent, and nothing comes of waiting alone. Tell the user to connect their "
    "account, at the page that `reason` names; then repeat this call unchanged. Or go on without this tool.",
    Outcome.RATE_LIMITED: "Do not repeat this call before `retry_after_s` has passed. Go on without it, or tell the "
    "user.",
    Outcome.TIMEOUT_UNKNOWN: "Whether it happened is not known. Look with a read; do not repeat the effect.",
    Outcome.VERIFICATION_FAILED: "The effect was made but its postcondition does not hold. Read the evidence, then "
    "correct it.",
    Outcome.TOOL_WITHHELD: "Do not use this tool. Tell the user that its name or definition must be reviewed.",
    Outcome.UPSTREAM_UNAVAILABLE: "Nothing was sent. Wait and repeat, or go on without this tool.",
    Outcome.LEDGER_UNAVAILABLE: "The gateway cannot record calls now. Wait; tell the user if it lasts.",
    Outcome.VERIFIED_SUCCESS: "The run has reached its goal. Report success with its evidence; call no more tools.",
    Outcome.INFEASIBLE: "Stop. Report what is missing; more calls cannot change it.",
    Outcome.BUDGET_EXHAUSTED: "Stop. Report what was done and what is left; this run can do no more.",
    Outcome.POLICY_DENIED: "Stop. Report what was refused; this run is over.",
    Outcome.REPEATED_STATE: "Stop. Report what was tried; the same failure would come again.",
    Outcome.DEADLINE_MISSED: "Stop. Report what was done; there is not time enough for the rest.",
    Outcome.HUMAN_ESCALATION: "Stop. A person goes on from here.",
}
"""What the client may do now, for each outcome."""

Executed = Literal[True, False, "unknown"]

RETRY_S = 5.0
"""What a call under way suggests as a pause."""

_WAITING = {
    "input": "the upstream waits for input that the client was asked for",
    "task": "the upstream made a task of this call and has not finished it",
}


def refusal(run: Run, rules: Rules, verdict: Verdict, where: Answering) -> Refusal:
    """The typed answer to a proposal that was not dispatched and not replayed; `where` people answer."""
    if run.stopped is not None and not isinstance(verdict, Held):
        return stopped(run, rules, verdict.tool)
    base = _base(run, rules, verdict.tool, verdict.transition) | {"undone": _unmerged(run, rules, verdict)}
    said: dict[str, Any]
    match verdict:
        case Denied():
            said = {"outcome": verdict.outcome, "reason": verdict.reason, "retry_after_s": verdict.retry_after_s}
            policy = PolicyRef(name=rules.policy.workflow, digest=rules.digest, rule=verdict.rule)
            warnings = _warnings(run, rules, run.version)
            if _is_returned(run, verdict):
                said["next"] = "Bring the evidence that is wanted, then make this call again, unchanged."
            return _said(base | said | {"policy": policy, "violations": _violations(verdict), "warnings": warnings})
        case Held():
            executed: Executed = "unknown" if verdict.outcome is not Outcome.NEEDS_APPROVAL else False
            said = {"outcome": verdict.outcome, "reason": verdict.reason, "retry_after_s": verdict.retry_after_s}
            approval = _handle(run, verdict.approval, where)
            if verdict.outcome is Outcome.HELD:
                said["next"] = _settle(NEXT_STEP[Outcome.HELD], verdict.attempt, where)
            return _said(base | said | {"executed": executed, "attempt": verdict.attempt, "approval": approval})
        case ApprovalRequested():
            approval = _handle(run, verdict.approval, where)
            said = {"outcome": Outcome.NEEDS_APPROVAL, "reason": verdict.reason, "approval": approval}
            return _said(base | said)
        case IntentRecorded() | AttemptResumed() | AttemptResent() | Replayed():
            raise AssertionError("what is sent, or was, is answered by its attempt")
        case _:
            assert_never(verdict)


def unanswered(run: Run, rules: Rules, question: Question) -> Refusal:
    """The question of the call came to nothing: no yes to it can be used any more."""
    base = _base(run, rules, question.told.tool, question.rule)
    if run.stopped is not None:
        return stopped(run, rules, question.told.tool)
    advice = NEXT_QUESTION[question.told.state]
    return _said(base | {"outcome": Outcome.DENIED, "reason": says(question), "next": advice})


def left_alone(run: Run, rules: Rules, tool: str) -> Refusal:
    """A person agreed, and the client that was to make the call is gone: nothing is sent for nobody."""
    reason = "the client left while its call waited for a person; nothing was executed"
    return _said(_base(run, rules, tool, None) | {"outcome": Outcome.DENIED, "reason": reason, "next": REPEAT})


def crowded(run: Run, rules: Rules, tool: str, why: str, pause_s: float) -> Refusal:
    """Too many calls are under way, or were denied. It was not judged, and nothing is recorded of it."""
    told = {"outcome": Outcome.RATE_LIMITED, "reason": why, "retry_after_s": pause_s}
    return _said(_base(run, rules, tool, "limits") | told | {"next": NEXT_STEP[Outcome.RATE_LIMITED]})


REPEAT = "Nothing was executed. Repeat this call unchanged if it is still wanted."


def _unmerged(run: Run, rules: Rules, verdict: Verdict) -> tuple[Undone, ...] | None:
    """What was undone because the merge that is asked for was rejected."""
    asked = (
        next((one for one in rules.policy.transitions if one.name == verdict.transition), None) if run.undo else None
    )
    return all_undone(run, asked.merges) if asked is not None and asked.merges else None


def stopped(run: Run, rules: Rules, tool: str) -> Refusal:
    """The terminal object of a run that is over: the same for ever, whichever tool is asked for."""
    over = run.stopped
    assert over is not None  # noqa: S101 - INVARIANT: only called for a stopped run
    base = _base(run, rules, tool, over.rule)
    cited = tuple(Cited(event=f"{run.id}#{seq}", says=over.reason) for seq in over.evidence)
    told = {"outcome": over.outcome, "reason": over.reason, "evidence": cited}
    return _said(base | told | {"undone": all_undone(run) if run.undo else None})


def closed(run: Run, rules: Rules, tool: str, reason: str, rule: str | None) -> Refusal:
    """Nothing is heard of the run any more, though it has not ended."""
    advice = "Stop. Report what was done; this run may do no more."
    return _said(_base(run, rules, tool, rule) | {"outcome": Outcome.DENIED, "reason": reason, "next": advice})


def unsaid(run: Run, rules: Rules, tool: str, reason: str, outcome: Outcome) -> Refusal:
    """What the agent said of its own work was not recorded, or what it asked of its run cannot be told."""
    advice = "Correct it and call again." if outcome is Outcome.INVALID_ARGUMENTS else "Go on without it."
    return _said(_base(run, rules, tool, None) | {"outcome": outcome, "reason": reason, "next": advice})


def attempt_refusal(run: Run, rules: Rules, attempt: Attempt, where: Answering) -> Refusal | None:
    """The typed answer where the attempt did not end as its upstream said; None where its result may be shown."""
    if _speaks_for_itself(attempt):
        return None
    intent = attempt.intent
    base = _base(run, rules, intent.tool, intent.transition) | {"attempt": attempt.id}
    if not attempt.delivered:
        base["warnings"] = _warnings(run, rules, attempt.receipt, attempt.evidence)
    match attempt.state:
        case AttemptState.UNKNOWN | AttemptState.ABANDONED:
            return _said(base | _unknown(attempt, where))
        case AttemptState.UNSENT:
            reason = f"nothing was sent to the upstream `{intent.upstream}`: {attempt.says or 'it is not there'}"
            outcome, pause_s = Outcome.UPSTREAM_UNAVAILABLE, 2.0
            if attempt.needs_account:
                outcome, pause_s = Outcome.NEEDS_ACCOUNT, PERSON_S
            return _said(base | {"outcome": outcome, "reason": reason, "retry_after_s": pause_s})
        case AttemptState.REFUTED:
            return _said(base | {"outcome": Outcome.DENIED, "reason": "it was proven that this call did not happen"})
        case AttemptState.OPEN | AttemptState.SUSPENDED:
            reason = _WAITING.get(attempt.awaits or "", "the upstream has not finished this call")
            waits = {"outcome": Outcome.IN_FLIGHT, "executed": "unknown", "retry_after_s": RETRY_S}
            return _said(base | waits | {"reason": reason})
        case AttemptState.ANSWERED if attempt.unverified and attempt.result is not None:
            waits = {"outcome": Outcome.IN_FLIGHT, "executed": True, "retry_after_s": RETRY_S}
            return _said(base | waits | {"reason": "this call was made, and whether it did its work is being verified"})
        case AttemptState.ANSWERED:
            return _unproven(run, attempt, base, where)
        case _:
            assert_never(attempt.state)


def _warnings(run: Run, rules: Rules, *places: int | None) -> tuple[str, ...] | None:
    """What is told with these records of the run, and once: that it goes round in circles."""
    told = warning(run, rules, *places)
    return None if told is None else (told,)


def _unknown(attempt: Attempt, where: Answering) -> dict[str, Any]:
    read = attempt.state is AttemptState.ABANDONED
    held = "it is only a read, ask again" if read else "an equal call is held until it is settled"
    reason = f"{attempt.says}; whether it happened is not known; {held}"
    look = NEXT_STEP[Outcome.TIMEOUT_UNKNOWN]
    said = {"outcome": Outcome.TIMEOUT_UNKNOWN, "executed": "unknown", "reason": reason}
    return said if read else said | {"next": _settle(look, attempt.id, where)}


def _settle(advice: str, attempt_id: str | None, where: Answering) -> str:
    if attempt_id is None:
        return advice
    page, command = where.page("unknown", attempt_id), f"{where.settle_at(attempt_id)} --happened | --did-not-happen"
    at = "" if page is None else f"at {page} or "
    return f"{advice} A person settles it, after looking, {at}with `{command} --reason …`."


def _speaks_for_itself(attempt: Attempt) -> bool:
    """Its result was seen, and no verifier has found anything wrong with it."""
    answered = attempt.state is AttemptState.ANSWERED and attempt.result is not None and not attempt.unverified
    return answered and (attempt.evidence is None or attempt.verdict == "pass")


def _unproven(run: Run, attempt: Attempt, base: dict[str, Any], where: Answering) -> Refusal:
    if attempt.result is None:
        by = "a person settled" if attempt.source == "person" else "the server was asked, and says"
        reason = f"{by} that this call happened; its result was never seen"
        go_on = "It happened. Go on from there, and look with a read if you need its result; do not repeat it."
        settled = {"outcome": Outcome.HELD, "executed": True, "reason": reason, "next": go_on}
        known = Cited(event=f"{run.id}#{attempt.receipt}", says=attempt.says)
        return _said(base | settled | {"evidence": (known, *_evidence(run, attempt))})
    cited = _evidence(run, attempt)
    failed: dict[str, Any] = {
        "outcome": Outcome.VERIFICATION_FAILED,
        "executed": True,
        "reason": cited[0].says,
        "evidence": cited,
    }
    if attempt.verdict == "inconclusive":
        failed["next"] = "The effect was made; whether it is right could not be checked. Do not repeat it; look first."
    if (told := undone(run, attempt)) is not None:
        handle = _handle(run, run.undo[attempt.id].approval, where)
        failed |= {"undone": (told,), "approval": handle, "next": advice(run, told)}
    return _said(base | failed | {"budget": _budget(run, base["_rules"], attempt.intent.charge)})


def proof_of(run: Run, attempt: Attempt) -> EvidenceRecorded | None:
    """The last word on the attempt, while its verifier has not spoken again."""
    for name in attempt.intent.verifiers:
        held = run.evidence.get(name)
        if held is not None and held.seq == attempt.evidence:
            return held.event
    return None


def failure_of(proof: EvidenceRecorded, seen: Any, *, whole: bool) -> Failure:
    """What the agent is told of evidence against its call, more than that there is some only where the `whole` is told;
    `seen` is what the verifier saw, None where that is erased or not to be told.
    """
    if not whole:
        return Failure(verifier=proof.verifier)
    found, shortened = cut(seen, MAX_FOUND) if seen is not None else (None, False)
    # What a verifier saw is a server's word as well, and no tool's entry says what of it may be passed on.
    found, scope = unhidden(found), unhidden(dict(proof.scope))
    if hidden(found):
        found, shortened = None, True
    return Failure(verifier=proof.verifier, signature=proof.signature, scope=scope, found=found, cut=shortened)


MAX_FOUND = 6_000
"""Characters of JSON."""


def _evidence(run: Run, attempt: Attempt) -> tuple[Cited, ...]:
    """What its verifier said about the attempt; nothing yet, if it has not spoken."""
    if attempt.evidence is None:
        return ()
    proof = proof_of(run, attempt)
    says = proof.says if proof is not None else f"its verifier said {attempt.verdict}"
    return (Cited(event=f"{run.id}#{attempt.evidence}", says=says),)


def erased(run: Run, rules: Rules, attempt: Attempt) -> Refusal:
    """The call ended and is not made again, but its stored result was erased."""
    base = _base(run, rules, attempt.intent.tool, attempt.intent.transition) | {"attempt": attempt.id}
    reason = "this call was made and its outcome recorded, but the stored result was erased"
    return _said(base | {"outcome": Outcome.HELD, "executed": True, "reason": reason})


def unpassed(run: Run, rules: Rules, attempt: Attempt, found: Mapping[str, int]) -> Refusal:
    """The call ended, and policy passes its answer on to no model, for what is hidden in it."""
    base = _base(run, rules, attempt.intent.tool, attempt.intent.transition) | {"attempt": attempt.id}
    kinds = ", ".join(f"{kind.replace('_', ' ')}: {count}" for kind, count in found.items())
    reason = f"the server answered, and its answer hides characters ({kinds}): it is recorded, and not passed on"
    advice = "The call was made. Do not repeat it; tell the user that a person must look at the recorded answer."
    return _said(base | {"outcome": Outcome.DENIED, "executed": True, "reason": reason, "next": advice})


def ledger_unavailable(run: Run, rules: Rules, tool: str, reason: str, *, executed: Executed) -> Refusal:
    """Nothing is dispatched while it cannot be recorded; an answer that cannot be recorded is no success."""
    said = {"outcome": Outcome.LEDGER_UNAVAILABLE, "reason": reason, "executed": executed, "retry_after_s": 2.0}
    return _said(_base(run, rules, tool, None) | said)


def record(run: Run, rules: Rules, attempt: Attempt, *, replayed: bool) -> dict[str, Any]:
    """The value of our one key in a relayed result's `_meta`."""
    said: dict[str, Any] = {
        "run": run.id,
        "attempt": attempt.id,
        "phase": run.phase,
        "budget": {"charged": charged(attempt.intent.charge), "left": left(run, rules.policy, run.last_at)},
    }
    if (stands := standing(run, attempt)) is not None:
        said["standing"] = stands.value
    if attempt.evidence is not None:
        said["evidence"] = [cited.model_dump() for cited in _evidence(run, attempt)]
    circling = None if replayed else _warnings(run, rules, attempt.receipt, attempt.evidence)
    if attempt.intent.warnings or circling:
        said["warnings"] = [*attempt.intent.warnings, *(circling or ())]
    if run.undo and (told := undone(run, attempt)) is not None:
        said["undone"] = told.model_dump(mode="json", exclude_none=True)
    if attempt.schema_valid is False:
        said["warning"] = "the result does not keep the tool's output schema"
    if attempt.intent.waived:
        said["would_refuse"] = list(attempt.intent.waived)
    if replayed:
        said["replayed"] = True
    said |= contradiction(run, attempt) or {}
    if run.stopped is not None:
        said["stopped"] = {"outcome": run.stopped.outcome, "reason": run.stopped.reason}
    return said


def contradiction(run: Run, attempt: Attempt) -> dict[str, Any] | None:
    """What of the run's plan the attempt's result or evidence contradicts; None if nothing."""
    shown_by = {place for place in (attempt.receipt, attempt.evidence) if place is not None}
    wrong = [one for one in run.plan.contradicted if shown_by.intersection(one.because)] if run.plan is not None else []
    if not wrong:
        return None
    told = [{"assumption": one.assumption, "says": one.says, "event": f"{run.id}#{one.seq}"} for one in wrong]
    return {"plan_invalidated": told}


def _base(run: Run, rules: Rules, tool: str, rule: str | None) -> dict[str, Any]:
    return {
        "executed": False,
        "run": run.id,
        "phase": run.phase,
        "tool": tool,
        "policy": PolicyRef(name=rules.policy.workflow, digest=rules.digest, rule=rule),
        "budget": _budget(run, rules, None),
        "_rules": rules,
    }


def _said(parts: dict[str, Any]) -> Refusal:
    outcome = parts["outcome"]
    fields = {name: value for name, value in parts.items() if not name.startswith("_")}
    return Refusal(**({"next": NEXT_STEP[outcome]} | fields), terminal=outcome in TERMINAL)


def _budget(run: Run, rules: Rules, taken: Charge | None) -> BudgetLeft:
    return BudgetLeft(charged=charged(taken) if taken else {}, left=left(run, rules.policy, run.last_at))


def _in_role(approval: Approval) -> str:
    """What a reviewer at a terminal adds, where policy wants a role."""
    waits = approval.waits_for
    return "" if waits is None or waits[0].role is None else f" --role {shlex.quote(waits[0].role)}"


def _handle(run: Run, approval_id: str | None, where: Answering) -> ApprovalHandle | None:
    approval = run.approvals.get(approval_id) if approval_id else None
    if approval is None:
        return None
    return ApprovalHandle(
        id=approval.id,
        approve_at=where.approve_at(approval.id) + _in_role(approval),
        page=where.page("approval", approval.id),
        expires_at=approval.expires_at.isoformat(timespec="seconds"),
    )


def _is_returned(run: Run, verdict: Denied) -> bool:
    """Whether a reviewer wants more evidence first."""
    asked = run.approvals.get(str(verdict.checks[-1].inputs.get("approval", "")))
    return asked is not None and asked.decision == "returned"


def _violations(verdict: Denied) -> tuple[dict[str, str], ...] | None:
    if verdict.outcome is not Outcome.INVALID_ARGUMENTS:
        return None
    return tuple(verdict.checks[-1].inputs.get("violations", ()))
