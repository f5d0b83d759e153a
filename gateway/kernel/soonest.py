"""(run, rules, now) -> whether success can still be reached in time.

Along the quickest way over the phases, as if every condition held and every call succeeded at once, or as soon as
policy says that it can (`takes_s`). A way that is too slow even so cannot be taken in time.
"""

import heapq
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from gateway.kernel.analysis.facts import Facts
from gateway.kernel.analysis.walk import MAX_PROOFS
from gateway.kernel.rules import Rules, held_by
from gateway.model.event_parts import Lack
from gateway.model.policy import Policy, Transition
from gateway.model.run import Run


def facts_of(rules: Rules) -> Facts:
    """What follows from the policy without any call; found out once."""
    return rules.once("facts", lambda: Facts(rules.policy))


def sources(facts: Facts, transition: Transition) -> frozenset[str]:
    """The phases in which it may be taken; any in which a run goes on, where it only observes."""
    observes = facts.mode(transition.mode) == "observe"
    return frozenset(facts.going_on) if observes else facts.sources(transition)


def against_all(facts: Facts, transition: Transition) -> Lack | None:
    """Why nobody can ever take the transition, whoever asks and whatever is offered."""
    if facts.mode(transition.mode) == "observe":
        return None
    name = transition.name
    if facts.never(transition.when):
        return Lack(kind="condition", what=name, rule=name, says=f"a condition of `{name}` never holds")
    if (by := facts.forbidding(transition)) and facts.cells_of(transition):
        rule = facts.policy.forbid[by[0]].name
        return Lack(kind="forbidden", what=rule, rule=name, says=f"`{rule}` forbids every tool of `{name}`")
    return None


# --- is there time --------------------------------------------------------------------------------------------------


class Late(NamedTuple):
    """Why there is not time enough."""

    rule: str
    """What ends the time: `stops.deadline_s`, `budgets.elapsed_s`, or `run.expires_at`."""
    says: str
    """One sentence."""


def too_late(run: Run, rules: Rules, now: datetime) -> Late | None:
    """Why no way to success fits into the time that is left; None while one may.

    While something is unsettled, nobody knows how soon it ends.
    """
    if run.unsettled or not rules.once("takes", lambda: (_takes_time(rules.policy),))[0]:
        return None
    ends = min(_ends(run, rules.policy), default=None)
    if ends is None:
        return None
    least_s, left_s = least(run, rules), (ends[0] - now).total_seconds()
    if least_s is None or least_s <= left_s:
        return None
    says = f"success cannot be met any more: it takes at least {least_s:g} s, and {max(0.0, left_s):.0f} s are left"
    return Late(ends[1], says)


def _takes_time(policy: Policy) -> bool:
    takes = [rule.takes_s for rule in policy.tools.values()] + [one.takes_s for one in policy.verifiers.values()]
    return policy.success is not None and any((*takes, *(one.takes_s for one in policy.transitions)))


def _ends(run: Run, policy: Policy) -> Iterator[tuple[datetime, str]]:
    """When the time of the run is over, and by what."""
    if run.expires_at is not None:
        yield run.expires_at, "run.expires_at"
    if run.opened_at is None:
        return
    if policy.stops.deadline_s is not None:
        yield run.opened_at + timedelta(seconds=policy.stops.deadline_s), "stops.deadline_s"
    if policy.budgets.elapsed_s is not None and policy.mode == "enforce":
        yield run.opened_at + timedelta(seconds=policy.budgets.elapsed_s), "budgets.elapsed_s"


def least(run: Run, rules: Rules) -> float | None:
    """The least seconds to success from where the run stands; None if there is no way, or no success."""
    success = rules.policy.success
    if success is None:
        return None
    wanted = success.evidence[:MAX_PROOFS]
    held = [run.evidence.get(name) for name in wanted]
    proven = frozenset(
        one.event.verifier for one in held if one is not None and one.fresh and one.event.verdict == "pass"
    )
    authority = None if run.principal is None else (run.principal, run.delegated)
    asked = ("least_s", run.phase, proven, authority)
    return rules.once(asked, lambda: (_quickest(run, rules, wanted, proven),))[0]


def least_from_start(rules: Rules) -> float | None:
    """As `least`, of a run just opened by whoever may do most."""
    return least(Run("", phase=rules.policy.initial), rules)


def _quickest(run: Run, rules: Rules, wanted: tuple[str, ...], proven: frozenset[str]) -> float | None:
    moves, success = _moves(run, rules), rules.policy.success
    asked = {name: rules.policy.verifiers[name].takes_s for name in wanted}
    best = {(run.phase, proven): 0.0}
    queue = [(0.0, 0, run.phase, proven)]
    count = 0
    while queue:
        so_far, _, phase, held = heapq.heappop(queue)
        if held.issuperset(wanted) and success is not None and success.phase in {None, phase}:
            return so_far
        steps = [(takes, target or phase, proofs) for takes, target, proofs in moves.get(phase, ())]
        steps += [(takes, phase, (name,)) for name, takes in asked.items() if name not in held]
        for takes, target, proofs in steps:
            there = (target, held.union(proof for proof in proofs if proof in asked))
            if so_far + takes < best.get(there, float("inf")):
                best[there] = so_far + takes
                count += 1
                heapq.heappush(queue, (so_far + takes, count, *there))
    return None


def _moves(run: Run, rules: Rules) -> Mapping[str, list[tuple[float, str | None, tuple[str, ...]]]]:
    """From each phase: how long a step takes at the least, where it leads and what it proves."""
    facts, policy = facts_of(rules), rules.policy
    held = None if run.principal is None else held_by(policy, run.principal, run.delegated)
    found: dict[str, list[tuple[float, str | None, tuple[str, ...]]]] = {}
    for one in policy.transitions:
        able = [cell.rule for cell in facts.cells_of(one)]
        if held is not None and facts.mode(one.mode) == "enforce":
            able = [rule for rule in able if held.issuperset({*one.authority, *rule.permissions})]
        if not able or against_all(facts, one) is not None:
            continue
        takes = one.takes_s if one.takes_s is not None else min(rule.takes_s for rule in able)
        proofs = rules.proofs(one)
        verified = sum(policy.verifiers[name].takes_s for name in proofs) if one.sample == 1 else 0.0
        fails = {to for edge, to in one.on.items() if facts.may_fail(one, edge)}
        for source in sources(facts, one):
            found.setdefault(source, []).append((takes + verified, one.target, proofs))
            found[source] += [(0.0, to, ()) for to in sorted(fails)]
    return found
