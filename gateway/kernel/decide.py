"""(run, proposal, rules, observed, now) -> verdict. Pure; no clock, no I/O, no logging.

The order of `CHECKS` is the design. A known key comes first, because it asks for no new effect; then
whether the run goes on at all; then what can be said of the tool and the arguments alone; then who may do
it, in which phase, under which conditions; then whether the same effect hangs in the air; then what it
costs; a person comes last, and is never shown a call that could not be made. A check that errs denies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, assert_never

from gateway.kernel import checks, people, rounds, spending, switches, ways
from gateway.kernel.accounts import Shared, accounts_of
from gateway.kernel.case import Ask, Case, Check, Gather, Observed, Pass, Refuse, Replay, Step, Wait
from gateway.kernel.noise import asked_alike, noise_of
from gateway.kernel.registry import Registered
from gateway.kernel.rules import Rules
from gateway.kernel.undo import paid, planned
from gateway.model.canonical import Digest, digest
from gateway.model.event_parts import Lack
from gateway.model.events import (
    AttemptResent,
    AttemptResumed,
    Denied,
    Effect,
    Finding,
    Held,
    IntentRecorded,
    Outcome,
    Replayed,
    UsedKey,
    Verdict,
)
from gateway.model.policy import Transition
from gateway.model.proposal import Key, KeySource, Proposal
from gateway.model.run import Run, joined
from gateway.model.trusted import trusted

CHECKS: Mapping[str, Check] = {
    "key": checks.known_key,
    "run": checks.running,
    "tool": checks.known_tool,
    "schema": checks.schema,
    "phase": checks.phase,
    "authority": checks.authority,
    "conditions": checks.conditions,
    "holds": spending.in_the_air,
    "budget": spending.budget,
    "preconditions": people.preconditions,
    "approval": people.approval,
}
"""Name to check; the order is the order in which they are asked."""

RESUMING: Mapping[str, Check] = {
    "round": rounds.open_round,
    **{name: CHECKS[name] for name in ("run", "tool", "schema", "phase", "authority", "conditions")},
    "approval": rounds.approval_lives,
}
"""What is asked of the next round of an attempt. It holds its effect and has its key, and it was charged: those are
counted once for a call, however many rounds it takes. The yes under which it was sent must still stand."""


RESENDING: Mapping[str, Check] = {
    **{name: CHECKS[name] for name in ("run", "tool")},
    "resend": rounds.resendable,
    "authority": rounds.authority_now,
    "conditions": CHECKS["conditions"],
    "approval": rounds.approval_lives,
}
"""What is asked before an unknown attempt is sent once more under its key. It was legal in the phase in which it was
intended, it holds its effect, and it was charged."""


class Taken(NamedTuple):
    """A check that was made, for whoever explains a decision."""

    check: str
    case: Case
    """What it looked at."""
    step: Step
    """What it found."""


def decide(
    run: Run,
    proposal: Proposal,
    rules: Rules,
    observed: Observed,
    now: datetime,
    taken: list[Taken] | None = None,
) -> Verdict | Gather:
    """The one verdict that this proposal becomes in this state. Total: it never raises.

    `Gather` where somebody must look at the world first; then it is asked again, with what was seen in `observed`.
    `taken` gets each check that was made, in order.
    """
    ruled = rules.ruled(observed.tool) if observed.tool is not None else None
    accounts: tuple[tuple[Shared, str], ...] = ()
    if ruled is not None and ruled.accounts:
        workflow = rules.policy.workflow
        accounts = accounts_of(ruled.accounts, proposal, ruled.registered, workflow, observed.salt, now)
    paid_with = None if proposal.compensates is None else run.set_aside.get(proposal.compensates)
    case = Case(run, proposal, rules, observed, now, ruled, accounts, paid=paid_with)
    findings: list[Finding] = []
    waived: list[str] = []
    for name, check in checks_for(proposal).items():
        step = check(case)
        if taken is not None:
            taken.append(Taken(name, case, step))
        if isinstance(step, Gather):
            return step
        findings.append(step.finding if isinstance(step, Pass) else _finding(name, step))
        if isinstance(step, Pass):
            if step.candidates is not None or step.approval is not None or step.cost is not None:
                candidates = case.candidates if step.candidates is None else step.candidates
                cost = case.cost if step.cost is None else step.cost
                case = case._replace(candidates=candidates, approval=step.approval, cost=cost)
        elif _waivable(name, step, case):
            waived.append(name)
            if isinstance(step, Refuse):
                left = case.candidates if step.waived is None else step.waived
                case = case._replace(candidates=left, cost=case.cost if step.cost is None else step.cost)
        else:
            last = the_end(name, step, case) if isinstance(step, Refuse) else step
            return last if isinstance(last, Gather) else _verdict(case, last, tuple(findings))
    return _sent(case, tuple(findings), tuple(waived))


def checks_for(proposal: Proposal) -> Mapping[str, Check]:
    """The checks that are asked of it, in order."""
    if proposal.resends is not None:
        return RESENDING
    return CHECKS if proposal.resumes is None else RESUMING


WAIVABLE = frozenset({"schema", "phase", "authority", "conditions", "holds", "budget", "preconditions", "approval"})
"""What `mode: observe` records and lets pass. Repeats, holds, stops and unknown tools always bind: what `holds` may
refuse, and so can be waived, is a transition's own rule about repeats; a hold is no refusal.
"""


def _waivable(name: str, step: Step, case: Case) -> bool:
    match step:
        case Refuse() if case.proposal.resends is not None:
            return False
        case Refuse() if name == "tool":
            return step.outcome is Outcome.DENIED and case.registered is not None and case.observes(step.mode)
        case Refuse():
            return name in WAIVABLE and case.observes(step.mode)
        case Ask(transition=transition):
            return case.observes(transition.mode)
        case Wait(outcome=Outcome.NEEDS_APPROVAL) if case.transition is not None:
            return case.observes(case.transition.mode)
        case _:
            return False


def _finding(name: str, step: Refuse | Replay | Wait | Ask) -> Finding:
    match step:
        case Refuse():
            return Finding(check=name, passed=False, inputs=dict(step.inputs), rule=step.rule, reason=step.reason)
        case Replay():
            return Finding(check=name, passed=True, inputs={"attempt": step.attempt})
        case Wait():
            return Finding(check=name, passed=False, inputs=dict(step.inputs), reason=step.reason)
        case Ask():
            rule = step.transition
            reason = rule.approval.reason if rule.approval else ""
            return Finding(
                check=name, passed=False, inputs={"action": step.action, **step.inputs}, rule=rule.name, reason=reason
            )
        case _:
            assert_never(step)


def _common(case: Case, checks: tuple[Finding, ...], lacks: Sequence[Lack] = ()) -> dict[str, Any]:
    proposal, known = case.proposal, case.registered
    return {
        "tool": proposal.tool,
        "upstream": known.tool.upstream if known else None,
        "transition": case.transition.name if case.transition else None,
        "arguments": proposal.arguments_digest,
        "definition": case.observed.definition,
        "policy": case.rules.digest,
        "phase": case.run.phase,
        "key": _used_key(source=proposal.key.source, value=proposal.key.value) if proposal.key else None,
        "checks": checks,
        "observed": _observed(case, lacks),
        "attribution": dict(proposal.attribution),
        "reported_tokens": proposal.reported_tokens,
        "compensates": proposal.compensates,
    }


def _observed(case: Case, lacks: Sequence[Lack]) -> dict[str, Any]:
    """What was read that neither the run's own events nor the findings of the checks hold; nothing for most calls."""
    observed, noted = case.observed, dict[str, Any]()
    if (held := observed.held) is not None:
        noted["held"] = {"attempt": held.attempt, "run": held.run, "state": held.state}
    if observed.levels:
        noted["levels"] = [[account, unit, level] for (account, unit), level in observed.levels.items()]
    if (asking := case.proposal.principal) != case.run.principal:
        noted["principal"] = {
            "tenant": asking.tenant,
            "id": asking.id,
            "roles": sorted(asking.roles),
            "scopes": sorted(asking.scopes),
        }
    if lacks and observed.offered is not None:
        noted["offered"] = ways.noted(observed.offered, case.rules.policy)
    if observed.switches and (switch := switches.stops(case)) is not None:
        noted["switches"] = [switches.noted(switch)]
    if (tool := observed.tool) is not None and not tool.healthy:
        noted["trouble"] = {"withheld": tool.withheld, "says": tool.trouble}
        if tool.needs_account:
            noted["trouble"]["needs_account"] = True
    return noted


def _verdict(case: Case, step: Refuse | Replay | Wait | Ask, checks: tuple[Finding, ...]) -> Verdict:
    common = _common(case, checks, step.lacking if isinstance(step, Refuse) else ())
    if (resumes := case.proposal.resumes) is not None:
        common["observed"]["resumes"] = {"attempt": resumes.attempt, "round": resumes.round, "said": resumes.said}
    match step:
        case Replay():
            return Replayed(**common, attempt=step.attempt, data_class=_newly_seen(case, step.attempt))
        case Wait():
            return Held(
                **common,
                outcome=step.outcome,
                reason=step.reason,
                attempt=step.attempt,
                approval=step.approval,
                retry_after_s=step.retry_after_s,
            )
        case Refuse():
            return Denied(
                **common,
                alike=_asked_alike(case),
                outcome=step.outcome,
                rule=step.rule,
                reason=step.reason,
                final=step.final and case.proposal.compensates is None,  # what the gateway itself asks ends no run
                lacking=step.lacking,
                retry_after_s=step.retry_after_s,
            )
        case Ask():
            return people.question(case, step, common)
        case _:
            assert_never(step)


def _newly_seen(case: Case, attempt: str) -> str | None:
    """The class of what an attempt of another run answered, which this run now gets."""
    return None if case.registered is None or attempt in case.run.attempts else case.registered.rule.data_class


ENDING = frozenset({"tool", "phase", "authority"})
"""Checks whose refusal may show that nothing leads to success any more."""


def the_end(name: str, step: Refuse, case: Case) -> Refuse | Gather:
    """The refusal, with what is lacking for good where policy has that computed."""
    run, policy = case.run, case.rules.policy
    asks = policy.stops.infeasible == "computed" and policy.success is not None and name in ENDING and not step.final
    ours = case.proposal.compensates is not None or run.origin == "default"
    if not asks or ours or run.unsettled or run.stopped is not None or step.retry_after_s is not None:
        return step
    if case.observed.offered is None:
        return Gather(offered=True)
    lacks = ways.lacking(run, case.rules, case.observed.offered, case.now)
    if lacks and case.proposal.principal != run.principal:  # who asks may hold more than whoever opened the run
        asking = run._replace(principal=case.proposal.principal)
        lacks = ways.lacking(asking, case.rules, case.observed.offered, case.now)
    return replace(step, lacking=lacks) if lacks else step


def _asked_alike(case: Case) -> Digest | None:
    """What the call has in common with others that differ in noise alone, where policy looks for circles."""
    if case.rules.policy.stops.repeated_state is None:
        return None
    noise = noise_of(case.rules, case.ruled, case.proposal.tool)
    return asked_alike(case.proposal.arguments, noise, case.observed.salt) if noise else None


def _intent(case: Case, checks: tuple[Finding, ...], waived: tuple[str, ...]) -> IntentRecorded:
    known, transition = case.known, case.transition
    timeout_s = (transition.timeout_s if transition else None) or known.rule.timeout_s
    common = _common(case, checks)
    common["key"] = _key(case)
    plan, attempt = planned(case), f"{case.run.id}.{case.run.version + 1}"
    proofs = case.rules.proofs(transition) if transition and _sampled(case, transition, attempt) else ()
    return _intent_recorded(
        **common,
        attempt=attempt,
        effect=known.effect,
        charge=case.charge,
        timeout_s=timeout_s,
        settles_at=case.now + timedelta(seconds=timeout_s + known.rule.grace_s),
        repeat=known.rule.repeat,
        hold=hold_of(case.proposal, known),
        alike=case.proposal.alike,
        approval=case.approval,
        scope=_scope(case),
        target=transition.target if transition else None,
        verifier=proofs[0] if proofs else None,
        verifiers=proofs[1:],
        objects=people.objects_of(case),
        edges={str(edge): phase for edge, phase in transition.on.items()} if transition else {},
        waived=waived,
        accounts=(*paid(case), *spending.reservations(case, case.charge)) if case.accounts or case.paid else (),
        warnings=spending.warnings(case),
        data_class=known.rule.data_class,
        undo=plan.undo if plan is not None else None,
        merges=transition.merges if transition else (),
    )


_intent_recorded = trusted(IntentRecorded)

_OF_ONE = 2**64


def _sampled(case: Case, transition: Transition, attempt: str) -> bool:
    """Whether a call is among those that are verified. By the ledger's salt, which no agent knows, and not by chance:
    so it is decided the same way again.
    """
    if transition.sample == 1 or case.known.effect is not Effect.READ:
        return True
    drawn = digest({"sampled": attempt}, case.observed.salt).partition(":")[2][:16]
    return int(drawn, 16) < transition.sample * _OF_ONE


def _scope(case: Case) -> Digest | None:
    """Of the approval that the call uses, where it was given for others as well."""
    used = case.run.approvals.get(case.approval or "")
    return None if used is None or used.action == people.action_of(case) else used.scope


def _sent(case: Case, checks: tuple[Finding, ...], waived: tuple[str, ...]) -> Verdict:
    """Nothing is against it: a call of its own, a further round of one, or one that is sent again."""
    resumes, resends = case.proposal.resumes, case.proposal.resends
    if resumes is not None:
        common = _common(case, checks)
        return AttemptResumed(**common, attempt=resumes.attempt, round=resumes.round, said=resumes.said, waived=waived)
    return _intent(case, checks, waived) if resends is None else _resent(case, resends, checks, waived)


def _resent(case: Case, attempt_id: str, checks: tuple[Finding, ...], waived: tuple[str, ...]) -> AttemptResent:
    attempt = case.run.attempts[attempt_id]
    timeout_s = attempt.intent.timeout_s
    settles_at = case.now + timedelta(seconds=timeout_s + case.known.rule.grace_s)
    common = _common(case, checks)
    return AttemptResent(**common, attempt=attempt_id, timeout_s=timeout_s, settles_at=settles_at, waived=waived)


def _key(case: Case) -> UsedKey:
    """A key that no earlier attempt of the run has; the caller's own if it sent one."""
    proposal = case.proposal
    key = proposal.key
    if key is None or (key.source is KeySource.CALL_ID and case.known.effect is Effect.READ):
        count = case.run.equals.get(joined(proposal.tool, proposal.equal), ("", 0))[1]
        source = KeySource.FRESH if case.known.effect is Effect.READ else KeySource.DERIVED
        key = Key(source, f"{proposal.equal}/{count + 1}")
    return _used_key(source=key.source, value=key.value)


_used_key = trusted(UsedKey)


def hold_of(proposal: Proposal, known: Registered) -> Digest | None:
    """What no run may send while this is open or unknown: the same principal, upstream, tool and arguments."""
    if known.effect is Effect.READ or known.rule.repeat == "new":
        return None
    effect = {
        "tenant": proposal.principal.tenant,
        "principal": proposal.principal.id,
        "upstream": known.tool.upstream,
        "tool": known.tool.own_name,
        "arguments": proposal.equal,
    }
    return digest(effect, b"")
