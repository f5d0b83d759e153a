"""What a check looked at, so that a person can follow it. It decides nothing: what was decided is read off the steps
that `decide` took, and the values beside them are looked up with the kernel's own functions.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from gateway.kernel.accounts import Shared, limits_of, shown, until
from gateway.kernel.case import Ask, Case, Pass, Refuse, Replay, Step, Wait
from gateway.kernel.checks import listed, said, unmet, weighed
from gateway.kernel.conditions import Activation, Undecided
from gateway.kernel.decide import Taken
from gateway.kernel.globs import names
from gateway.kernel.rules import Rules
from gateway.kernel.spending import takes
from gateway.kernel.undo import planned, unpaid
from gateway.kernel.values import values_of
from gateway.model.run import joined

Bears: TypeAlias = Literal["for", "against", "waived", "unasked", "neither"]
"""What a thing that was looked at means for the call."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One condition."""

    expression: str
    holds: bool | None
    """None: it cannot be judged."""
    why: str | None
    """Why it cannot be judged."""
    seen: Mapping[str, Any]
    """What it read, by path; what was missing is left out."""


@dataclass(frozen=True, slots=True)
class Look:
    """One thing that a check looked at."""

    kind: str
    """`transition`, `forbid`, `budget`, `account`, `probe`, `approval`, `attempt`, `argument`, `fact`."""
    name: str
    bears: Bears
    says: str
    clauses: tuple[Clause, ...] = ()


def looks(one: Taken) -> tuple[Look, ...]:
    """What that check looked at."""
    look = LOOKS.get(one.check)
    return () if look is None else tuple(look(one.case, one.step))


# --- what may be called ---------------------------------------------------------------------------------------------


def _key(case: Case, step: Step) -> Iterator[Look]:
    attempt_id = step.attempt if isinstance(step, Replay | Wait) else None
    if attempt_id is None:
        inputs = step.finding.inputs if isinstance(step, Pass) else step.inputs if isinstance(step, Refuse) else {}
        attempt_id = inputs.get("earlier") or inputs.get("attempt")
    attempt = case.run.attempts.get(attempt_id) if attempt_id else None
    if attempt is None:
        key = case.proposal.key
        yield Look("fact", "key", "neither", f"`{key.value}` ({key.source}), new" if key else "none sent by the client")
        return
    told = "" if attempt.state != "answered" else ", delivered" if attempt.delivered else ", not delivered"
    bears: Bears = "for" if isinstance(step, Pass) else "against"
    yield Look("attempt", attempt.id, bears, f"an equal call, or one of the same key: {attempt.state}{told}")


def _run(case: Case, _step: Step) -> Iterator[Look]:
    run, deadline_s = case.run, case.rules.policy.stops.deadline_s
    if run.stopped is not None:
        yield Look("fact", "stopped", "against", f"{run.stopped.outcome}: {run.stopped.reason}")
    within = "" if deadline_s is None else f", of {deadline_s:g} s"
    yield Look("fact", "age", "neither", f"{case.elapsed_s:g} s{within}")
    if run.parent is not None:
        bears: Bears = "against" if case.observed.parent == "over" else "for"
        yield Look("fact", "parent", bears, f"`{run.parent}`, {case.observed.parent or 'not looked at'}")
    if run.expires_at is not None:
        bears = "against" if case.now >= run.expires_at else "for"
        yield Look("fact", "authorization", bears, f"until {run.expires_at.isoformat(timespec='seconds')}")


def _tool(case: Case, _step: Step) -> Iterator[Look]:
    if case.ruled is None:
        yield from _forbids(case, values_of(case))
        return
    known, policy = case.known, case.rules.policy
    yield Look("fact", "effect", "neither", f"{known.effect}, {known.inferred or 'as the policy says'}")
    if case.proposal.tool in policy.pins or policy.unpinned == "withhold":
        yield Look(
            "fact", "pin", "for" if case.ruled.pinned else "against", "as pinned" if case.ruled.pinned else "not"
        )
    for one in policy.transitions:
        if any(names(pattern, case.proposal.tool) for pattern in one.tools):
            fits = one in case.ruled.transitions
            only = f"only for {listed(one.effect)}"
            yield Look("transition", one.name, "for" if fits else "against", "names this tool" if fits else only)
    if not case.ruled.transitions:
        yield from _forbids(case, values_of(case))


def _schema(_case: Case, step: Step) -> Iterator[Look]:
    inputs = step.finding.inputs if isinstance(step, Pass) else step.inputs if isinstance(step, Refuse) else {}
    for one in inputs.get("violations", ()):
        yield Look("argument", one["path"] or "/", "waived" if isinstance(step, Pass) else "against", one["expected"])


def _phase(case: Case, _step: Step) -> Iterator[Look]:
    for one in case.candidates:
        legal = not one.sources or case.run.phase in one.sources
        where = f"from {listed(one.sources)}" if one.sources else "from any phase"
        yield Look("transition", one.name, "for" if legal else "against", where)


def _authority(case: Case, _step: Step) -> Iterator[Look]:
    for one in case.candidates:
        needed = set(case.known.rule.permissions) | set(one.authority)
        lacking = sorted(needed - case.authority)
        needs = f"needs {listed(sorted(needed))}" if needed else "needs none"
        lacks = f"; lacking: {listed(lacking)}" if lacking else ""
        yield Look("transition", one.name, "against" if lacking else "for", needs + lacks)


# --- conditions -----------------------------------------------------------------------------------------------------


def _conditions(case: Case, step: Step) -> Iterator[Look]:
    values = values_of(case)
    bound = False
    for look in _forbids(case, values):
        bound = bound or look.bears == "against"
        yield look
    yield from _transitions(case, values, step, forbidden=bound)


def _forbids(case: Case, values: Activation) -> Iterator[Look]:
    """Each rule that names the tool; none is asked after one that binds."""
    named = case.ruled.forbids if case.ruled is not None else case.rules.policy.forbid
    bound = False
    for one in named:
        if case.ruled is None and not any(names(pattern, case.proposal.tool) for pattern in one.tools):
            continue
        if bound:
            yield Look("forbid", one.name, "unasked", "not asked: the rule before it forbids")
            continue
        found = unmet(case, one.when, values)
        applies = found is None or isinstance(found[1], Undecided)
        bears: Bears = "for" if not applies else "waived" if case.observes(one.mode) else "against"
        why = "applies" if found is None else f"counts as applying: {said(found)}" if applies else "does not apply"
        yield Look("forbid", one.name, bears, why, clauses(case, one.when, values))
        bound = bears == "against"


def _transitions(case: Case, values: Activation, step: Step, *, forbidden: bool) -> Iterator[Look]:
    found = {} if forbidden else {one.transition.name: one.against for one in weighed(case, values)}
    chosen = next((name for name, against in found.items() if against is None), None)
    ended = f"`{chosen}` fits" if chosen is not None else f"`{list(found)[-1]}` could not be judged" if found else ""
    over = "not asked: " + ("a rule forbids the call" if forbidden else ended)
    for one in case.candidates:
        if one.name not in found:
            yield Look("transition", one.name, "unasked", over, clauses(case, one.when, values) if forbidden else ())
            continue
        against = found[one.name]
        waived = isinstance(step, Refuse) and step.waived is not None and one in step.waived and case.observes(one.mode)
        bears: Bears = "for" if against is None else "waived" if waived else "against"
        yield Look("transition", one.name, bears, against or "fits", clauses(case, one.when, values))


def clauses(case: Case, when: tuple[str, ...], values: Activation) -> tuple[Clause, ...]:
    """Each of the conditions, those behind the first that does not hold too."""
    return tuple(_clause(case.rules, one, values) for one in when)


def _clause(rules: Rules, expression: str, values: Activation) -> Clause:
    condition = rules.condition("transition", expression)
    held = condition.decide(values)
    if isinstance(held, Undecided):
        return Clause(expression, None, held.reason, condition.seen(values))
    return Clause(expression, held, None, condition.seen(values))


# --- what it costs and risks ----------------------------------------------------------------------------------------


def _holds(case: Case, _step: Step) -> Iterator[Look]:
    held, count = case.observed.held, case.run.equals.get(joined(case.proposal.tool, case.proposal.equal))
    if held is not None:
        where = "this run" if held.run == case.run.id else f"run `{held.run}`"
        yield Look("attempt", held.attempt, "against", f"an equal call of {where} is {held.state}")
    for name in sorted(case.run.owed) if case.proposal.compensates is None else ():
        yield Look("attempt", name, "against", f"`{case.run.attempts[name].intent.tool}` must be undone first")
    for one in sorted(case.run.moving.values(), key=lambda one: one.seq):
        yield Look("attempt", one.id, "against", f"`{one.intent.tool}` may move the phase, and is {one.state}")
    if count is not None:
        yield Look("fact", "equal calls", "neither", f"{count[1]} in this run, `{count[0]}` the latest")


def _budget(case: Case, _step: Step) -> Iterator[Look]:
    plan = planned(case)
    budgets, spent, charge = case.rules.policy.budgets, vars(case.run.spent), dict(vars(case.charge))
    if case.paid is not None:
        aside = f"{_amounts(charge)}, set aside with `{case.proposal.compensates}`"
        yield Look("fact", "charge", "for", aside)
        for shared, account in unpaid(case):
            yield from _account(case, shared, account, charge)
        return
    yield Look("fact", "charge", "neither", _amounts(charge))
    if plan is not None:
        undoing = dict(vars(plan.undo.charge))
        yield Look("fact", "set aside", "neither", f"{_amounts(undoing)}, for `{plan.undo.tool}` to undo it with")
        charge = {unit: amount + undoing[unit] for unit, amount in charge.items()}
    for unit, limit in limits_of(budgets).items():
        if limit is not None and unit != "reviews":
            yield _level("budget", unit, spent[unit], charge[unit], limit, unit)
    if budgets.elapsed_s is not None:
        over = case.elapsed_s >= budgets.elapsed_s
        says = f"{case.elapsed_s:g} of {budgets.elapsed_s:g} s are over"
        yield Look("budget", "elapsed_s", "against" if over else "for", says)
    if budgets.reported_tokens is not None:
        over = case.run.reported_tokens >= budgets.reported_tokens
        says = f"{case.run.reported_tokens} of {budgets.reported_tokens} were reported"
        yield Look("budget", "reported_tokens", "against" if over else "for", says)
    for shared, account, taken in takes(case, plan):
        yield from _account(case, shared, account, vars(taken))


def _amounts(charge: Mapping[str, int]) -> str:
    each = [
        f"{shown(unit, amount):g} {unit[:-1] if amount == 1 else unit}" for unit, amount in charge.items() if amount
    ]
    return ", ".join(each) or "nothing"


def _account(case: Case, shared: Shared, account: str, charge: Mapping[str, int]) -> Iterator[Look]:
    levels, end = case.observed.levels or {}, until(shared.about.window, case.now)
    within = "" if end is None else f", until {end.isoformat(timespec='minutes')}"
    for unit, limit in shared.limited:
        look = _level("account", f"{shared.rule}.{unit}", levels.get((account, unit), 0), charge[unit], limit, unit)
        observed = look.bears == "against" and case.observes(shared.about.mode)
        yield Look(look.kind, look.name, "waived" if observed else look.bears, look.says + within)
    if not shared.limited:
        stands = {unit: level for (name, unit), level in levels.items() if name == account}
        counted = ", ".join(f"{shown(unit, level):g} {unit}" for unit, level in stands.items()) or "nothing yet"
        yield Look("account", shared.rule, "neither", f"only counts: {counted}{within}")


def _level(kind: str, name: str, level: int, taken: int, limit: int, unit: str) -> Look:
    full = level + taken > limit or (unit == "tokens" and not taken and level >= limit)
    says = f"{shown(unit, level):g} of {shown(unit, limit):g} used, this takes {shown(unit, taken):g}"
    return Look(kind, name, "against" if full and (taken or unit == "tokens") else "for", says)


def _preconditions(case: Case, _step: Step) -> Iterator[Look]:
    for name in case.transition.preconditions if case.transition is not None else ():
        found = case.observed.probes.get(name)
        if found is None:
            yield Look("probe", name, "unasked", "would be asked")
        else:
            bears: Bears = "for" if found.verdict == "pass" else "against"
            at = found.started_at.isoformat(timespec="seconds")
            yield Look("probe", name, bears, f"{found.verdict} at {at}: {found.says}")


def _approval(case: Case, step: Step) -> Iterator[Look]:
    rule = case.transition.approval if case.transition is not None else None
    if case.transition is None or rule is None:
        return
    who = f"the role `{rule.role}`" if rule.role else "whoever holds the ledger"
    many = f", {rule.quorum} different people" if rule.quorum > 1 else ""
    if (limit := case.rules.policy.budgets.reviews) is not None:
        spent = case.run.spent.reviews
        yield Look("budget", "reviews", "against" if spent >= limit else "for", f"{spent} of {limit} used")
    asks = not (isinstance(step, Pass) and step.approval is None)
    how = f"asks {who}{many}: {rule.reason}" if asks else "asks nobody about this call"
    yield Look(
        "approval",
        case.transition.name,
        "against" if isinstance(step, Ask | Wait | Refuse) else "for",
        how,
        clauses(case, rule.when, values_of(case)),
    )
    if isinstance(step, Pass) and step.approval is not None:
        yield Look("approval", step.approval, "for", f"said yes: `{case.run.approvals[step.approval].by}`")


LOOKS: Mapping[str, Callable[[Case, Step], Iterator[Look]]] = {
    "key": _key,
    "round": _key,
    "run": _run,
    "tool": _tool,
    "schema": _schema,
    "phase": _phase,
    "authority": _authority,
    "conditions": _conditions,
    "holds": _holds,
    "budget": _budget,
    "preconditions": _preconditions,
    "approval": _approval,
}
"""What a check looked at, by check."""
