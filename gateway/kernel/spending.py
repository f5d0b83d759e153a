"""The checks of what a call costs and risks: what hangs in the air, budgets, accounts.

As in `checks.py`, each is case -> step.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gateway.kernel.accounts import Shared, reserved, shown, until
from gateway.kernel.case import Case, Gather, Pass, Refuse, Replay, Step, Wait, always, passed
from gateway.kernel.charges import plus
from gateway.kernel.checks import RETRY_S
from gateway.kernel.conditions import Undecided
from gateway.kernel.undo import Planned, planned, unpaid
from gateway.model.events import Charge, Effect, Outcome, Reservation
from gateway.model.policy import MAX_COST, Mode, Transition, micro
from gateway.model.run import AttemptState, Tracked, joined

_CLEAR = always("holds")


def in_the_air(case: Case) -> Step:
    """The same effect is unsettled nowhere, nothing is under way that may move the phase, and policy lets it repeat."""
    held = case.observed.held
    if case.known.effect is not Effect.READ:
        if held is not None and (held.state != "undelivered" or held.run != case.run.id):
            return _held(case, held)
        if case.run.owed and case.proposal.compensates is None:
            return _being_undone(case)
        # The earliest, so that whoever judges it again finds the same one: a persistent map has no order.
        if case.run.moving:
            moving = min(case.run.moving.values(), key=lambda one: one.seq)
            reason = f"`{moving.intent.tool}` may move the phase and is not settled yet"
            if moving.state is AttemptState.UNKNOWN:
                return Wait(Outcome.HELD, reason, moving.id)
            return Wait(Outcome.IN_FLIGHT, reason, moving.id, retry_after_s=RETRY_S)
    transition = case.transition
    if transition is None or (transition.retry == "any" and transition.max_attempts is None):
        return _CLEAR
    return _repeated(case, transition)


def _being_undone(case: Case) -> Step:
    """Nothing else is changed meanwhile: what undoes it was judged for the state in which it was left."""
    name = max(case.run.owed.items(), key=lambda one: one[1])[0]
    undoing, tool = case.run.undo[name], case.run.attempts[name].intent.tool
    by = case.run.attempts.get(undoing.by or "")
    if by is not None and by.state is AttemptState.UNKNOWN:
        return Wait(Outcome.HELD, f"`{tool}` is to be undone, and whether `{by.intent.tool}` did is not known", by.id)
    if undoing.approval is not None:
        asked = f"`{tool}` is to be undone, and a person must agree first (`{undoing.approval}`)"
        return Wait(Outcome.HELD, asked, name)
    return Wait(Outcome.IN_FLIGHT, f"`{tool}` is being undone", name, retry_after_s=RETRY_S)


def _held(case: Case, held: Tracked) -> Step:
    inputs = {"attempt": held.attempt, "run": held.run, "state": held.state}
    if held.state == "undelivered":
        return Replay(held.attempt)  # it was made, and whoever asked for it was never told
    where = "this run" if held.run == case.run.id else f"run `{held.run}`"
    if held.state in {"unverified", "owed"}:
        doing = "verified" if held.state == "unverified" else "undone"
        reason = f"an equal call of {where} is being {doing}"
        return Wait(Outcome.IN_FLIGHT, reason, held.attempt, retry_after_s=RETRY_S, inputs=inputs)
    said = "is under way" if held.state == "open" else "may have happened and is not settled"
    retry = RETRY_S if held.state == "open" else None
    reason = f"an equal call of {where} {said}; it is not sent twice"
    return Wait(Outcome.HELD, reason, held.attempt, retry_after_s=retry, inputs=inputs)


def _repeated(case: Case, transition: Transition) -> Step:
    """Whether the run may send one more call that is equal to what it sent before.

    What is known not to have happened was not sent; by `never` an agent may not even ask for it again. A compensation
    is no second call as long as the first is not made: what is owed is made once its server is there.
    """
    equal = joined(case.proposal.tool, case.proposal.equal)
    latest, count = case.run.equals.get(equal, ("", 0))
    if not count:
        return _CLEAR
    sent = count - case.run.unmade.get(equal, 0)
    inputs = {"equal": latest, "count": sent}
    mode = case.mode(transition.mode)
    if transition.retry != "any" and (sent or (transition.retry == "never" and case.proposal.compensates is None)):
        why = f"policy lets no run repeat this call, and `{latest}` was equal to it"
        return Refuse(why, rule=transition.name, inputs=inputs, mode=mode)
    if transition.max_attempts is not None and sent >= transition.max_attempts:
        why = f"this run has sent {sent} equal calls, and policy allows no more"
        return Refuse(why, rule=transition.name, inputs=inputs, mode=mode)
    return passed("holds", inputs)


# --- budgets and accounts -------------------------------------------------------------------------------------------


def budget(case: Case) -> Step:
    """The run can pay, and so can the accounts that it shares with others.

    Only what the run itself has spent for good ends it: what is merely reserved may yet come back.
    """
    plan = planned(case)
    if plan is not None and (plan.trouble is not None or not _seen(case, plan)):
        wanted = dict.fromkeys(account for _, account in (*case.accounts, *plan.accounts))
        return plan.trouble or Gather(accounts=tuple(wanted))
    formula = case.transition.charge.cost_from if case.transition is not None and case.paid is None else None
    if formula is None:
        return _payable(case, plan)
    cost = _told_cost(case, formula)
    if isinstance(cost, Refuse):
        return cost
    found = _payable(case._replace(cost=cost), plan)
    return replace(found, cost=cost) if isinstance(found, Refuse) else found._replace(cost=cost)


def _seen(case: Case, plan: Planned) -> bool:
    levels = case.observed.levels or {}
    return all((account, "calls") in levels for _, account in plan.accounts)


def _told_cost(case: Case, formula: str) -> int | Refuse:
    values = {"args": dict(case.proposal.arguments), "values": case.rules.policy.values, "now": case.now}
    told = case.rules.value("probe", formula).find(values)
    if isinstance(told, int | float) and not isinstance(told, bool) and 0 <= told <= MAX_COST:
        return micro(float(told))
    why = told.reason if isinstance(told, Undecided) else "it gives no amount"
    name = case.transition.name if case.transition is not None else ""
    # Where an account binds that the cost would be taken from, no policy that only observes may spare it.
    binds = any(one.limits["cost"] is not None and not case.observes(one.about.mode) for one, _ in case.accounts)
    mode: Mode | None = "enforce" if binds else None
    return Refuse(f"what this call costs, `{formula}`, cannot be told: {why}", rule=name, mode=mode)


def _payable(case: Case, plan: Planned | None) -> Pass | Refuse:
    own = _own_budget(case, plan)
    if not (case.accounts or plan) or (isinstance(own, Refuse) and not case.observes(own.mode)):
        return own
    # What is only observed of the run must not keep an account from binding that other runs pay into as well.
    inputs: dict[str, Any] = {"accounts": {}}
    over: list[Refuse] = []
    for shared, account, charge in takes(case, plan):
        levels = levels_of(case, account)
        inputs["accounts"][shared.rule] = {"account": account, "levels": levels}
        over += overdrawn(case, shared, levels, charge)
    inputs |= own.inputs if isinstance(own, Refuse) else own.finding.inputs
    found = [own, *over] if isinstance(own, Refuse) else over
    if not found:
        return passed("budget", inputs)
    return replace(next((one for one in over if one.mode != "observe"), found[0]), inputs=inputs)


def takes(case: Case, plan: Planned | None) -> Iterator[tuple[Shared, str, Charge]]:
    """The accounts, and what the call takes from each: for itself, and to be undone with."""
    undoing = {} if plan is None else {account: shared for shared, account in plan.accounts}
    for shared, account in unpaid(case):
        both = undoing.pop(account, None) is not None and plan is not None
        yield shared, account, plus(case.charge, plan.undo.charge, 1) if both and plan else case.charge
    if plan is not None:
        yield from ((shared, account, plan.undo.charge) for account, shared in undoing.items())


def levels_of(case: Case, account: str) -> dict[str, int]:
    """What stands on the account, by unit."""
    return {unit: level for (name, unit), level in (case.observed.levels or {}).items() if name == account}


def overdrawn(case: Case, shared: Shared, levels: Mapping[str, int], charge: Charge) -> Iterator[Refuse]:
    """What the charge would take from the account beyond its limits."""
    mode = case.mode(shared.about.mode)
    taken: dict[str, int] = vars(charge)
    for unit, limit in shared.limited:
        level = levels.get(unit, 0)
        # Of tokens nothing may be reserved: what is measured later counts for the next call.
        full = unit == "tokens" and not taken[unit] and charge.calls and level >= limit
        if not (full or (taken[unit] and level + taken[unit] > limit)):
            continue
        left, end = shown(unit, max(0, limit - level)), until(shared.about.window, case.now)
        within = "for good" if end is None else f"until {end.isoformat(timespec='seconds')}"
        yield Refuse(
            f"`{shared.rule}` has {left:g} of {shown(unit, limit):g} {unit} left {within}",
            outcome=Outcome.DENIED if end is None else Outcome.RATE_LIMITED,
            rule=shared.rule,
            retry_after_s=None if end is None else max(0.0, round((end - case.now).total_seconds(), 3)),
            mode=mode,
        )


def _own_budget(case: Case, plan: Planned | None) -> Pass | Refuse:
    limits, spent, charge = case.rules.policy.budgets, case.run.spent, case.charge
    inputs: dict[str, Any] = {"spent": dict(vars(spent)), "charge": dict(vars(charge)), "elapsed_s": case.elapsed_s}
    if case.paid is not None:
        return passed("budget", inputs | {"set_aside": dict(vars(case.paid.charge))})
    if plan is not None:
        inputs["undo"] = dict(vars(plan.undo.charge))
        charge = plus(charge, plan.undo.charge, 1)
    for unit, limit in case.rules.limited:
        taken, so_far = getattr(charge, unit), getattr(spent, unit)
        soft = unit == "tokens" and not taken and charge.calls
        if unit == "reviews" or not (taken or soft):
            continue
        if so_far + taken <= limit and not (soft and so_far >= limit):
            continue
        if so_far < limit and not case.run.unsettled and not case.run.set_aside:
            # Something is left, which another step may still be able to use: no reason to end the run.
            short = f"this step takes {shown(unit, taken):g} {unit}{_with(plan, unit)}, and "
            short += f"{shown(unit, limit - so_far):g} of {shown(unit, limit):g} are left"
            return Refuse(short, rule=f"budgets.{unit}", inputs=inputs)
        return exceeded(case, f"budgets.{unit}", f"the budget of {shown(unit, limit):g} {unit} is used up", inputs)
    if limits.elapsed_s is not None and case.elapsed_s >= limits.elapsed_s:
        reason = f"the budget of {limits.elapsed_s:g} s is used up"
        return exceeded(case, "budgets.elapsed_s", reason, inputs)
    if limits.reported_tokens is not None and case.run.reported_tokens >= limits.reported_tokens:
        reason = f"the client reported {case.run.reported_tokens} tokens, and the budget is {limits.reported_tokens}"
        return exceeded(case, "budgets.reported_tokens", reason, inputs)
    return passed("budget", inputs)


def _with(plan: Planned | None, unit: str) -> str:
    held_back = 0 if plan is None else getattr(plan.undo.charge, unit)
    return f", {shown(unit, held_back):g} of them to be undone with" if held_back else ""


def exceeded(case: Case, rule: str, reason: str, inputs: Mapping[str, Any]) -> Refuse:
    """Only what is spent for good ends the run: what is merely reserved may yet come back."""
    if case.run.unsettled or case.run.set_aside:
        reserved_too = f"{reason} or reserved by calls that are not settled yet"
        moving = any(one.state is not AttemptState.UNKNOWN for one in case.run.unsettled.values())
        return Refuse(reserved_too, rule=rule, inputs=inputs, retry_after_s=RETRY_S if moving else None)
    shared = case.run.origin == "default"
    outcome = Outcome.DENIED if shared else Outcome.BUDGET_EXHAUSTED
    return Refuse(reason, outcome=outcome, rule=rule, inputs=inputs, final=not shared)


def reservations(case: Case, charge: Charge) -> tuple[Reservation, ...]:
    """What the charge takes from the accounts that the call falls under, as far as it is not set aside already."""
    return tuple(
        one
        for shared, account in unpaid(case)
        for one in reserved(shared, account, charge, binding=not case.observes(shared.about.mode), now=case.now)
    )


def warnings(case: Case) -> tuple[str, ...]:
    """Budgets and accounts of which, with this call, little is left."""
    found: list[str] = []
    policy, charge = case.rules.policy, vars(case.charge)
    found += _scarce("budgets", case.rules.limited, vars(case.run.spent), charge, policy.budgets.warn_at)
    if policy.budgets.elapsed_s is not None and case.elapsed_s >= policy.budgets.elapsed_s * policy.budgets.warn_at:
        found.append(f"budgets.elapsed_s: {case.elapsed_s:.0f} of {policy.budgets.elapsed_s:g} used")
    for shared, account in case.accounts:
        if shared.limited:
            found += _scarce(shared.rule, shared.limited, levels_of(case, account), charge, shared.about.warn_at)
    return tuple(found)


def _scarce(
    name: str, limited: tuple[tuple[str, int], ...], used: Mapping[str, int], charge: Mapping[str, int], warn_at: float
) -> Iterator[str]:
    for unit, limit in limited:
        now = used.get(unit, 0) + charge[unit]
        if limit and now >= limit * warn_at:
            yield f"{name}.{unit}: {shown(unit, now):g} of {shown(unit, limit):g} used"


# --- the world, and a person ----------------------------------------------------------------------------------------
