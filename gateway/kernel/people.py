"""The last two checks: what must be true of the world when a call is sent, and a person's yes.

As in `checks.py`, each is case -> step. A yes is for one exact action as the person was shown it: whatever it rested on
is looked at again when the call is sent, and if that is otherwise, the yes is void and is asked for anew.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from gateway.kernel.approve import action_digest, pending, scope_digest
from gateway.kernel.case import Ask, Case, Gather, Probed, Refuse, Step, Wait, always, passed
from gateway.kernel.checks import RETRY_S, listed, said, unmet
from gateway.kernel.conditions import Undecided
from gateway.kernel.evidence import named_objects
from gateway.kernel.risk import terms_of
from gateway.kernel.spending import exceeded, levels_of, overdrawn, reservations
from gateway.kernel.values import values_of
from gateway.model.approval import Approval
from gateway.model.canonical import Digest, digest
from gateway.model.events import ApprovalRequested, Charge, Effect, Outcome, Who
from gateway.model.policy import Transition
from gateway.model.run import Attempt, AttemptState

_UNCONDITIONAL = always("preconditions")
_UNATTENDED = always("approval")


# --- the world --------------------------------------------------------------------------------------------------------


def preconditions(case: Case) -> Step:
    """What the transition wants to be true of the world was looked at now, and is."""
    wanted = case.transition.preconditions if case.transition is not None else ()
    if not wanted or case.transition is None or _awaits(case, case.transition):
        return _UNCONDITIONAL
    if unasked := _unasked(case, wanted):
        return Gather(probes=unasked)
    probes, inputs = case.observed.probes, _seen(case, wanted)
    failed = next((probes[name] for name in wanted if probes[name].verdict != "pass"), None)
    if failed is None:
        return passed("preconditions", inputs)
    final = failed.verdict == "fail" and "preconditions" in case.rules.policy.stops.final_denials
    mode = case.mode(case.transition.mode)
    return Refuse(failed.says, rule=case.transition.name, inputs=inputs, final=final, mode=mode)


def _unasked(case: Case, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those that nobody has asked since the run last changed something that they may be about."""
    return tuple(
        name for name in names if (found := case.observed.probes.get(name)) is None or _overtaken_by(case, found)
    )


def _overtaken_by(case: Case, found: Probed) -> bool:
    return found.after is not None and any(max(places) > found.after for places in case.run.wrote.values())


def _seen(case: Case, names: tuple[str, ...]) -> dict[str, Any]:
    probes = case.observed.probes
    return {
        name: {
            "verdict": probes[name].verdict,
            "started_at": probes[name].started_at.isoformat(),
            "artifact": probes[name].artifact,
        }
        for name in names
    }


def _awaits(case: Case, transition: Transition) -> bool:
    """Whether a person has still to answer about this very call: until then it is not sent, and nothing is probed."""
    if transition.approval is None:
        return False
    found = asked_before(case, transition)
    return found is not None and found.rule == transition.name and pending(found, case.now)


# --- a person ---------------------------------------------------------------------------------------------------------


def approval(case: Case) -> Step:
    """A person has agreed to this exact action, if the transition wants one."""
    transition = case.transition
    if transition is None or transition.approval is None or not _asks(case, transition):
        return _UNATTENDED
    found = asked_before(case, transition)
    if found is None or (found.used_up and found.decision == "approved"):
        return _ask(case, transition)
    if found.decision in {"rejected", "revoked"}:
        return _rejected(case, transition, found)
    mine = found.rule in {"", transition.name}  # a yes to what another transition asked is none to this one
    if mine and pending(found, case.now):
        reason, inputs = transition.approval.reason, {"approval": found.id, "action": found.action}
        return Wait(Outcome.NEEDS_APPROVAL, reason, approval=found.id, inputs=inputs)
    if mine and found.decision == "returned":
        return _returned(case, transition, found)
    if mine and found.usable(case.now):
        return _as_it_was(case, transition, found)
    return _ask(case, transition)


def action_of(case: Case) -> Digest:
    """What an approval of this very call is bound to."""
    return action_digest(case.proposal, case.observed.definition, case.rules.digest)


def _alike_of(case: Case) -> Digest:
    """As `action_of`, of all calls that are equal to this one."""
    return action_digest(case.proposal, case.observed.definition, case.rules.digest, case.proposal.equal)


def _scope_of(case: Case, transition: Transition) -> Digest | None:
    """The same for all calls that a yes beyond one call may be for; None where it may not go so far."""
    reuse = transition.approval.reuse if transition.approval is not None else None
    if reuse is None:
        return None
    observed, policy = case.observed, case.rules.digest
    return scope_digest(case.proposal, observed.definition, policy, transition.name, reuse.varies, observed.salt)


def asked_before(case: Case, transition: Transition) -> Approval | None:
    """The question that was asked last about this very call, or a yes that goes so far as to be for it too. What a
    person turned down, for this call or an equal one, comes before any yes.
    """
    approvals, run = case.run.approvals, case.run
    turned = approvals.get(run.turned.get(_alike_of(case), "")) if run.turned else None
    exact = approvals.get(run.actions.get(action_of(case), ""))
    if turned is not None and (exact is None or exact.seq <= turned.seq):
        return turned
    if exact is not None and (pending(exact, case.now) or exact.usable(case.now)):
        return exact
    scope = _scope_of(case, transition)
    wide = approvals.get(run.scopes.get(scope, "")) if scope is not None else None
    return wide if wide is not None and wide.usable(case.now) else exact


def _asks(case: Case, transition: Transition) -> bool:
    """Whether this call is one that a person must see; what cannot be judged is."""
    when = transition.approval.when if transition.approval is not None else ()
    if not when:
        return True
    found = unmet(case, when, values_of(case))
    return found is None or isinstance(found[1], Undecided)


def _rejected(case: Case, transition: Transition, found: Approval) -> Refuse:
    why = f": {found.reason}" if found.reason else ""
    did = "rejected" if found.decision == "rejected" else "took back the yes to"
    return Refuse(
        f"`{found.by}` {did} this action{why}",
        rule=transition.name,
        inputs={"approval": found.id},
        mode=case.mode(transition.mode),
    )


def _returned(case: Case, transition: Transition, found: Approval) -> Step:
    """The reviewer wanted more evidence: it is asked again once there is some."""
    news = tuple(_since(case, found))
    if news:
        wanted = f"`{found.by}` wanted more evidence ({found.reason}), and since then there is {listed(news)}"
        return _ask(case, transition, wanted)
    return Refuse(
        f"`{found.by}` wants more evidence before deciding: {found.reason}",
        rule=transition.name,
        inputs={"approval": found.id},
        mode=case.mode(transition.mode),
    )


def _since(case: Case, found: Approval) -> Iterator[str]:
    """What speaks for it since the answer: verifiers that passed, and calls that were answered without an error."""
    run, seq = case.run, found.decided_seq
    yield from sorted(name for name, held in run.evidence.items() if held.seq > seq and held.holds)
    late = (one for one in run.attempts.values() if one.receipt is not None and one.receipt > seq)
    yield from sorted({one.intent.tool for one in late if _went_well(one)})


def _went_well(one: Attempt) -> bool:
    return one.state is AttemptState.ANSWERED and not one.is_error and one.verdict != "fail"


# --- what a yes rested on ---------------------------------------------------------------------------------------------


def _as_it_was(case: Case, transition: Transition, found: Approval) -> Step:
    """The yes, if all is as it was when the person was asked."""
    looked = looked_again(case, transition.name, found)
    if looked is not None:
        return looked
    if (outside := _outside(case, found)) is not None:
        return _ask(case, transition, f"{outside}, up to which `{found.id}` allows it")
    if (void := next(_changes(case, found), None)) is not None:
        return _ask(case, transition, f"{void} since `{found.id}` was asked, so its yes is void", found)
    inputs: dict[str, Any] = {"approval": found.id, "by": found.by}
    if found.state:
        inputs["state"] = _stood(case, tuple(name for name, _ in found.state))
    wide = found.action != action_of(case)
    return passed("approval", inputs | ({"scope": found.scope} if wide else {}))._replace(approval=found.id)


def is_for(case: Case, found: Approval) -> bool:
    """Whether the yes is for this call, as the tool and the policy are now."""
    rule = next((one for one in case.rules.policy.transitions if one.name == found.rule), None)
    if found.action == action_of(case):
        return True
    return found.granted is not None and rule is not None and found.scope == _scope_of(case, rule)


def looked_again(case: Case, rule: str, found: Approval) -> Gather | Refuse | None:
    """What is still to be looked at of what a yes rests on, or cannot be; None once all has been seen."""
    names = tuple(name for name, _ in found.state)
    if unasked := _unasked(case, names):
        return Gather(probes=unasked)
    return _unseen(case, rule, names)


def moved(case: Case, found: Approval) -> Iterator[str]:
    """What verifiers see otherwise than when the person was asked, each as the begin of a sentence."""
    probes = case.observed.probes
    yield from (f"what `{name}` sees has changed" for name, was in found.state if probes[name].stands != was)


def _changes(case: Case, found: Approval) -> Iterator[str]:
    """As `moved`, and which evidence holds no more."""
    yield from moved(case, found)
    for name in found.holding:
        held = case.run.evidence.get(name)
        if held is None or not held.holds:
            yield f"the evidence of `{name}` does not hold any more"


def _outside(case: Case, found: Approval) -> str | None:
    """What this call is beyond, of what a yes beyond one call was allowed within."""
    within = found.terms.reuse.within if found.granted is not None and found.terms.reuse is not None else ()
    outside = unmet(case, within, values_of(case)) if within else None
    return None if outside is None else said(outside)


def _stood(case: Case, names: tuple[str, ...]) -> dict[str, Any]:
    seen, probes = _seen(case, names), case.observed.probes
    return {name: {**seen[name], "stands": probes[name].stands, "says": probes[name].says} for name in names}


def _unseen(case: Case, rule: str, names: tuple[str, ...]) -> Refuse | None:
    """Nobody can say whether something is as it was."""
    for name in names:
        probed = case.observed.probes[name]
        if probed.stands is None:
            inputs = {"state": _stood(case, names)}
            says = f"what a yes would rest on cannot be seen: {probed.says}"
            return Refuse(says, rule=rule, inputs=inputs, retry_after_s=RETRY_S)
    return None


# --- asking -----------------------------------------------------------------------------------------------------------


def _ask(case: Case, transition: Transition, because: str = "", void: Approval | None = None) -> Step:
    """Asking a person costs one of the reviews of the run, and of the accounts."""
    action, rule = action_of(case), transition.approval
    if case.observes(transition.mode) or rule is None:
        return Ask(transition, action)  # nobody is asked
    if (spent := _no_review(case, action)) is not None:
        return spent
    if unasked := _unasked(case, rule.unchanged):
        return Gather(probes=unasked)
    if (blind := _unseen(case, transition.name, rule.unchanged)) is not None:
        return blind
    objects, before = objects_of(case), _before(case)
    over = {one.id for one in _overtaken(case, action, objects)} | ({void.id} if void is not None else set())
    return Ask(
        transition,
        action,
        reservations(case, Charge(reviews=1)),
        inputs={"state": _stood(case, rule.unchanged)} if rule.unchanged else {},
        scope=_scope_of(case, transition),
        objects=objects,
        state={name: stands for name in rule.unchanged if (stands := case.observed.probes[name].stands) is not None},
        holding=tuple(sorted(name for name, held in case.run.evidence.items() if held.holds)),
        supersedes=tuple(sorted(over)),
        follows=before.id if before is not None else None,
        because=because,
        alike=alike if (alike := _alike_of(case)) != action else None,
    )


def _no_review(case: Case, action: Digest) -> Refuse | None:
    """What is against asking a person once more."""
    limit, spent = case.rules.policy.budgets.reviews, case.run.spent.reviews
    if limit is not None and spent >= limit and not case.observes(None):
        return _no_review_left(case, limit, {"action": action, "reviews": spent})
    for shared, account in case.accounts:
        for refused in overdrawn(case, shared, levels_of(case, account), Charge(reviews=1)):
            if refused.mode != "observe":
                return refused
    return None


def _no_review_left(case: Case, limit: int, inputs: Mapping[str, Any]) -> Refuse:
    """It ends the run, unless a person was asked something that the run may still do."""
    reason = f"a person must agree, and the budget of {limit} reviews is used up"
    asked = case.run.approvals.values()
    alive = any(pending(one, case.now) or one.usable(case.now) for one in asked)
    if case.proposal.compensates is not None or alive:
        return Refuse(reason, rule="budgets.reviews", inputs=inputs)
    return exceeded(case, "budgets.reviews", reason, inputs)


def objects_of(case: Case) -> tuple[str, ...] | None:
    """What the call is about; None for a read, and where the registry does not tell, or tells of none."""
    formulas = case.known.rule.objects
    if not formulas or case.known.effect is Effect.READ:
        return None
    values = {"args": dict(case.proposal.arguments), "values": case.rules.policy.values, "now": case.now}
    return named_objects("probe", formulas, values, case.rules) or None


def _overtaken(case: Case, action: Digest, objects: tuple[str, ...] | None) -> Iterator[Approval]:
    """Questions about another call of this tool on one of its objects, and about this call as it was defined or judged
    before; and what was agreed to so, for one call.
    """
    mine, arguments = set(objects or ()), case.proposal.arguments_digest
    for one in case.run.approvals.values():
        about = one.arguments == arguments or not mine.isdisjoint(one.objects or ())
        same = one.tool == case.proposal.tool and one.undoes == case.proposal.compensates and about
        waits = pending(one, case.now) or (one.granted is None and one.usable(case.now))
        if same and waits and one.action != action:
            yield one


def _before(case: Case) -> Approval | None:
    """The question about this tool that was asked last."""
    mine = (one for one in case.run.approvals.values() if one.tool == case.proposal.tool)
    return max(mine, key=lambda one: one.seq, default=None)


def question(case: Case, step: Ask, common: dict[str, Any]) -> ApprovalRequested:
    """The question that the verdict is. `common` is what every verdict says."""
    rule = step.transition.approval
    assert rule is not None  # noqa: S101 - INVARIANT: only a transition that names an approval is asked about
    place = digest({"action": step.action, "seq": case.run.version + 1}, b"")
    return ApprovalRequested(
        **common,
        approval=f"ap_{place.partition(':')[2][:16]}",
        action=step.action,
        rule=step.transition.name,
        role=rule.role,
        quorum=rule.quorum,
        self_review=rule.self_review,
        accounts=step.accounts,
        merges=step.transition.merges,
        expires_at=case.now + timedelta(seconds=rule.expires_s),
        reason=rule.reason,
        by=Who.of(case.proposal.principal),
        terms=terms_of(rule, case.known),
        scope=step.scope,
        objects=step.objects,
        state=dict(step.state),
        holding=step.holding,
        supersedes=step.supersedes,
        follows=step.follows,
        because=step.because,
        alike=step.alike,
    )
