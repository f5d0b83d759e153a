"""What a call must set aside so that it can be undone, and the call that undoes it.

Whether an effect must be undone is known only after it was made, and then nothing may stand in the way: what the
compensation takes is reserved together with the intent that it would undo, from the run's budgets and from the accounts
that it shares. The compensation pays with that, whatever its arguments turn out to be.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from gateway.kernel.accounts import Shared, account_of, reserved
from gateway.kernel.case import Case, Refuse
from gateway.kernel.conditions import Undecided
from gateway.kernel.rules import Ruled, Rules
from gateway.kernel.stop import due
from gateway.model.events import Charge, Effect, Reservation, Undo
from gateway.model.policy import MAX_COST, Compensation, Transition, micro

_UNITS = tuple(Charge.model_fields)


class Planned(NamedTuple):
    """What would be set aside with a call."""

    undo: Undo
    accounts: tuple[tuple[Shared, str], ...]
    """Those that the compensation will be counted on, each with its key."""
    trouble: Refuse | None = None
    """Why nobody can tell beforehand what it will cost."""


def compensation(ruled: Ruled, transition: Transition | None, rules: Rules) -> Compensation | None:
    """The call that may become necessary after a call under this transition: only where something can go wrong with it
    later, a postcondition or a merge.
    """
    if transition is None or not ruled.undone or ruled.registered.effect is Effect.READ:
        return None
    if not rules.proofs(transition) and transition.name not in rules.merged:
        return None
    return transition.compensation or ruled.registered.rule.compensation


def arguments_of(
    rules: Rules,
    undone: Compensation,
    arguments: Mapping[str, Any],
    result: Mapping[str, Any] | None,
    now: datetime,
) -> dict[str, Any] | Undecided:
    """With which the compensating call is made; `result` None where none was seen, `now` is when it became owed."""
    found = dict(undone.arguments)
    for name, told in _told(rules, undone, arguments, result, now):
        if isinstance(told, Undecided):
            return Undecided(f"its argument `{name}`: {told.reason}")
        found[name] = told
    return found


def _told(
    rules: Rules,
    undone: Compensation,
    arguments: Mapping[str, Any],
    result: Mapping[str, Any] | None,
    now: datetime,
) -> Iterator[tuple[str, Any]]:
    values = {"args": dict(arguments), "values": rules.policy.values, "now": now}
    if result is not None:
        values["result"] = dict(result)
    for name, formula in undone.arguments_from.items():
        yield name, rules.value("verifier", formula).find(values)


# --- what is set aside ----------------------------------------------------------------------------------------------


def planned(case: Case) -> Planned | None:
    """What the call sets aside for its compensation; None where none can become necessary.

    The compensating tool is judged by what policy says of it: its server is not asked, and need not be there yet.
    """
    if case.ruled is None or not case.ruled.undone or case.proposal.compensates is not None:
        return None
    rules, transition = case.rules, case.transition
    wanted = compensation(case.ruled, transition, rules)
    if wanted is None or transition is None:
        return None
    arguments = wanted.arguments | dict(_known(case, wanted))
    tool = _imagined(case, wanted.tool)
    charge, trouble = _charge(case, tool, arguments, transition)
    accounts = tuple(_accounts(case, tool, arguments))
    taken = tuple(
        one
        for shared, account in accounts
        for one in reserved(shared, account, charge, binding=not case.observes(shared.about.mode), now=case.now)
    )
    undo = Undo(tool=wanted.tool, charge=charge, accounts=taken, merged=transition.name in rules.merged)
    return Planned(undo, accounts, trouble)


def _known(case: Case, wanted: Compensation) -> Iterator[tuple[str, Any]]:
    """The arguments that can be told before there is a result."""
    for name, told in _told(case.rules, wanted, case.proposal.arguments, None, case.now):
        if not isinstance(told, Undecided):
            yield name, told


def _imagined(case: Case, name: str) -> Ruled:
    """By the names that tools have here, one with the same prefix is of the same upstream."""
    tool = case.known.tool
    prefix = tool.name.removesuffix(tool.own_name)
    if not name.startswith(prefix):
        return case.rules.imagined(name, "", name.rpartition("__")[2])
    return case.rules.imagined(name, tool.upstream, name.removeprefix(prefix))


def _charge(
    case: Case, tool: Ruled, arguments: Mapping[str, Any], transition: Transition
) -> tuple[Charge, Refuse | None]:
    """The most that any transition takes of such a call, unit by unit."""
    takes, trouble = [tool.charge(one) for one in tool.transitions or (None,)], None
    for one in tool.transitions:
        if (formula := one.charge.cost_from) is None:
            continue
        values = {"args": dict(arguments), "values": case.rules.policy.values, "now": case.now}
        told = case.rules.value("probe", formula).find(values)
        if isinstance(told, int | float) and not isinstance(told, bool) and 0 <= told <= MAX_COST:
            takes.append(Charge(cost=micro(float(told))))
        else:
            why = told.reason if isinstance(told, Undecided) else "it gives no amount"
            said = f"what it would cost to undo this call, `{formula}`, cannot be told beforehand: {why}"
            trouble = Refuse(said, rule=transition.name, mode=case.mode(transition.mode))
    most = {unit: max(getattr(one, unit) for one in takes) for unit in _UNITS}
    return Charge(**most), trouble


def _accounts(case: Case, tool: Ruled, arguments: Mapping[str, Any]) -> Iterator[tuple[Shared, str]]:
    """Those accounts of the compensation whose keys can be told now; it is counted on the others when it is made."""
    workflow, upstream = case.rules.policy.workflow, tool.registered.tool.upstream
    proposal = replace(case.proposal, tool=tool.registered.tool.name, arguments=arguments)
    for shared in tool.accounts:
        named = [part.partition(".")[2] for part in shared.about.per if part.startswith("args.")]
        if set(named) <= set(arguments) and (upstream or "upstream" not in shared.about.per):
            yield shared, account_of(shared, proposal, tool.registered, workflow, case.observed.salt, case.now)


# --- a run that is only waiting for its end -------------------------------------------------------------------------


def ending(case: Case) -> Refuse | None:
    """What the run would be over for, were there not something that may have to be undone: nothing else is begun."""
    over = due(case.run, case.rules, case.now) if case.proposal.compensates is None else None
    if over is None:
        return None
    why = f"{over.reason}; the run is over as soon as nothing of it may have to be undone any more"
    return Refuse(why, outcome=over.outcome, rule=over.rule)


# --- what a compensation takes --------------------------------------------------------------------------------------


def unpaid(case: Case) -> tuple[tuple[Shared, str], ...]:
    """The accounts that the call falls under and for which nothing was set aside."""
    if case.paid is None:
        return case.accounts
    covered = {one.rule for one in case.paid.accounts}
    return tuple((shared, account) for shared, account in case.accounts if shared.rule not in covered)


def paid(case: Case) -> tuple[Reservation, ...]:
    """What was set aside on accounts; it is taken whatever stands there now, for it stands there already."""
    return () if case.paid is None else tuple(one.model_copy(update={"limit": None}) for one in case.paid.accounts)
