"""Budgets, accounts and stops: what cannot be paid, and what never comes."""

from collections.abc import Iterator

from gateway.kernel.analysis.expressions import read_from
from gateway.kernel.analysis.facts import ALL_EFFECTS, Facts
from gateway.kernel.analysis.found import Found, listed
from gateway.kernel.analysis.patterns import any_meets, covering
from gateway.kernel.analysis.quickest import quickest
from gateway.kernel.analysis.walk import cheapest, price, set_aside
from gateway.model.events import Effect
from gateway.model.flaws import EXPRESSIONS, FORMULAS, Place, texts
from gateway.model.policy import UNITS, AccountRule, Limits, Transition, micro

_ROUTE = 6
"""Steps of a way that are named."""


def budgets(facts: Facts) -> Iterator[Found]:
    """Budgets of a run that cannot pay for success, or for one call of a transition."""
    for unit, limit in _limits(facts.policy.budgets):
        way = cheapest(facts, unit)
        if way is not None and way.price > limit:
            route = ", ".join(f"`{name}`" for name in way.steps[:_ROUTE]) + (" …" if len(way.steps) > _ROUTE else "")
            yield Found(
                "budget-below-success",
                ("budgets", unit),
                f"the cheapest way to success takes {_said(unit, way.price)}, and a run has {_said(unit, limit)}"
                f": {route}",
                "raise the budget, or lower what the transitions charge",
            )
            continue
        for _, transition in facts.live:
            aside = set_aside(facts, transition, unit)
            if price(facts, transition, unit) + aside > limit:
                undoing = f", with {_said(unit, aside)} to undo it," if aside else ""
                yield Found(
                    "budget-below-step",
                    ("budgets", unit),
                    f"one call of `{transition.name}`{undoing} takes "
                    f"{_said(unit, price(facts, transition, unit) + aside)}, and a run has {_said(unit, limit)}",
                    "raise the budget, or remove the transition",
                )


def _limits(limits: Limits) -> Iterator[tuple[str, int]]:
    for unit in UNITS:
        limit = getattr(limits, unit)
        if limit is not None:
            yield unit, micro(limit) if unit == "cost" else limit


def _said(unit: str, amount: int) -> str:
    if unit == "cost":
        return f"a cost of {amount / 1_000_000:g}"
    return f"{amount} {unit if amount != 1 else unit.removesuffix('s')}"


def soft(facts: Facts) -> Iterator[Found]:
    """Budgets of tokens that bind only afterwards, for nobody says how long a result may be."""
    if facts.policy.budgets.tokens is not None:
        yield from _soft(facts, ("budgets", "tokens"), None)
    for name, account in facts.policy.accounts.items():
        if account.limit.tokens is not None:
            yield from _soft(facts, ("accounts", name, "limit", "tokens"), account)


def _soft(facts: Facts, place: Place, account: AccountRule | None) -> Iterator[Found]:
    loose = [
        transition.name
        for _, transition in facts.live
        if transition.charge.tokens is None
        and (account is None or _touches(account, transition))
        and any(cell.rule.result_tokens is None for cell in facts.cells_of(transition))
    ]
    if loose:
        yield Found(
            "budget-soft",
            place,
            f"a result of {listed(loose)} is only measured when it is there, so it may overspend this budget",
            "say the most that a result has: `result_tokens` of the tool, or `charge: { tokens: … }`",
        )


def _touches(account: AccountRule, transition: Transition) -> bool:
    effects = not account.effect or not transition.effect or bool(set(account.effect) & set(transition.effect))
    return effects and any(any_meets(account.tools, pattern) for pattern in transition.tools)


def accounts(facts: Facts) -> Iterator[Found]:
    """Accounts under which nothing falls, that cannot pay for one call, or that count for nobody."""
    read = _read(facts, "accounts")
    for name, account in facts.policy.accounts.items():
        place = ("accounts", name)
        if not any(_touches(account, transition) for transition in facts.policy.transitions):
            yield Found(
                "account-idle",
                place,
                f"no call falls under the account `{name}`",
                "correct its `tools` or `effect`, or remove it",
                in_key=True,
            )
            continue
        if not list(_limits(account.limit)) and read is not None and name not in read:
            yield Found(
                "account-unread",
                place,
                f"the account `{name}` limits nothing, and no condition reads it",
                f"say a `limit`, or read `accounts.{name}` in a condition",
                in_key=True,
            )
        for unit, limit in _limits(account.limit):
            for _, transition in facts.live:
                takes = price(facts, transition, unit)
                if takes > limit and _always_under(facts, account, transition):
                    yield Found(
                        "account-below-step",
                        (*place, "limit", unit),
                        f"one call of `{transition.name}` takes {_said(unit, takes)}, "
                        f"and the account `{name}` has {_said(unit, limit)}",
                        "raise the limit, or leave these tools out of the account",
                    )


def rates(facts: Facts) -> Iterator[Found]:
    """Rates that allow less than one call takes."""
    for pattern, rule in facts.policy.tools.items():
        for _, transition in facts.live if rule.rate is not None else ():
            cells = facts.cells_of(transition)
            takes = price(facts, transition, "calls")
            if rule.rate is not None and takes > rule.rate.calls and all(cell.entry == pattern for cell in cells):
                yield Found(
                    "account-below-step",
                    ("tools", pattern, "rate", "calls"),
                    f"one call of `{transition.name}` takes {_said('calls', takes)}, "
                    f"and the rate of `{pattern}` allows {_said('calls', rule.rate.calls)}",
                    "raise the rate, or lower what the transition charges",
                )


def _always_under(facts: Facts, account: AccountRule, transition: Transition) -> bool:
    effects = frozenset(account.effect) or ALL_EFFECTS
    return all(
        covering(account.tools, cell.pattern) is not None and cell.effects <= effects
        for cell in facts.cells_of(transition)
    )


def stops(facts: Facts) -> Iterator[Found]:
    """Stops that never come, or never before another one."""
    policy = facts.policy
    deadline, elapsed = policy.stops.deadline_s, policy.budgets.elapsed_s
    if deadline is not None and elapsed is not None and deadline > elapsed:
        yield Found(
            "deadline-idle",
            ("stops", "deadline_s"),
            f"the deadline is after {deadline:g} s, and a run's time is used up after {elapsed:g} s",
            "leave one of them out, or let the deadline come first",
            related=(("budgets", "elapsed_s"),),
        )
    yield from _hasty(facts)
    if policy.stops.infeasible == "computed" and policy.success is None:
        yield Found(
            "infeasible-idle",
            ("stops", "infeasible"),
            "no run is ever found to be infeasible: the policy does not say what success is",
            "say under `success` what a run is to reach, or remove it",
        )
    repeated, calls = policy.stops.repeated_state, policy.budgets.calls
    if repeated is not None and calls is not None and repeated.after > calls:
        yield Found(
            "repeated-state-late",
            ("stops", "repeated_state", "after"),
            f"only refusals can be repeated {repeated.after} times: a run has {_said('calls', calls)} to fail with",
            "lower `after`, or raise the budget of calls",
            related=(("budgets", "calls"),),
        )
    for at, check in enumerate(policy.stops.final_denials):
        why = _never_refuses(facts, check)
        if why is not None:
            yield Found(
                "final-denial-idle",
                ("stops", "final_denials", at),
                f"the check `{check}` never refuses: {why}",
                "remove it",
            )


def _hasty(facts: Facts) -> Iterator[Found]:
    """Limits of time within which no run can succeed, and calls that are given up before they can."""
    policy, least_s = facts.policy, quickest(facts, facts.policy.initial, frozenset(), None)
    limits: dict[Place, float | None] = {
        ("stops", "deadline_s"): policy.stops.deadline_s,
        ("budgets", "elapsed_s"): policy.budgets.elapsed_s,
    }
    for place, limit_s in limits.items():
        if limit_s is not None and least_s is not None and least_s > limit_s:
            yield Found(
                "deadline-below-success",
                place,
                f"the quickest way to success takes {least_s:g} s, and a run has {limit_s:g} s",
                "give it more time, or correct what tools, transitions and verifiers say under `takes_s`",
            )
    told: list[tuple[Place, str, float, float]] = [
        *((("tools", name, "takes_s"), name, rule.takes_s, rule.timeout_s) for name, rule in policy.tools.items()),
        *((("verifiers", name, "takes_s"), name, one.takes_s, one.timeout_s) for name, one in policy.verifiers.items()),
        *(
            (("transitions", at, "takes_s"), one.name, one.takes_s, one.timeout_s)
            for at, one in enumerate(policy.transitions)
            if one.takes_s is not None and one.timeout_s is not None
        ),
    ]
    for place, name, takes_s, timeout_s in told:
        if takes_s > timeout_s:
            yield Found(
                "takes-beyond-timeout",
                place,
                f"`{name}` takes {takes_s:g} s at the least, and is given up after {timeout_s:g} s",
                "raise `timeout_s`, or lower `takes_s`",
            )


def _never_refuses(facts: Facts, check: str) -> str | None:
    rules = facts.policy.transitions
    match check:
        case "phase" if not any(one.sources for one in rules):
            return "no transition says `from`"
        case "authority" if not any(one.authority for one in rules) and not any(
            rule.permissions for rule in facts.policy.tools.values()
        ):
            return "no transition and no tool needs any"
        case "conditions" if not any(one.when for one in rules):
            return "no transition says `when`, and a forbid rule says for itself whether it is `final`"
        case "preconditions" if not any(one.preconditions for one in rules):
            return "no transition names any"
        case "tool" if any(
            "*" in one.tools and frozenset(one.effect) in {frozenset(), frozenset(Effect)} for one in rules
        ):
            return "a transition names every tool"
        case _:
            return None


def values(facts: Facts) -> Iterator[Found]:
    """Constants that no expression reads."""
    read = _read(facts, "values")
    for name in facts.policy.values:
        if read is not None and name not in read:
            yield Found(
                "value-unused",
                ("values", name),
                f"no expression reads `values.{name}`",
                "use it, or remove it",
                in_key=True,
            )


def _read(facts: Facts, root: str) -> frozenset[str] | None:
    """What expressions read of this variable; None if that is not certain."""
    found: set[str] = set()
    for pattern in (*EXPRESSIONS, *FORMULAS):
        for _, expression in texts(facts.written, pattern):
            read = read_from(expression, root)
            if read is None:
                return None
            found |= read
    return frozenset(found)
