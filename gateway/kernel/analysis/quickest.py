"""The quickest way to success, as if every condition held and every call succeeded as soon as policy says it can."""

import heapq
from collections.abc import Mapping

from gateway.kernel.analysis.facts import Facts
from gateway.kernel.analysis.walk import MAX_PROOFS
from gateway.model.event_parts import Lack
from gateway.model.policy import Transition


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


Move = tuple[float, str | None, tuple[str, ...]]
"""How many seconds a step takes at the least, to which phase it leads (None: none), and what it proves."""


def quickest(facts: Facts, phase: str, proven: frozenset[str], held: frozenset[str] | None) -> float | None:
    """The least seconds to success from that phase, with that evidence, for whoever holds that authority; None for all.

    None if there is no way.
    """
    success, moves = facts.policy.success, _moves(facts, held)
    if success is None:
        return None
    asked = {name: facts.policy.verifiers[name].takes_s for name in success.evidence[:MAX_PROOFS]}
    start = (phase, proven & frozenset(asked))
    best, queue, count = {start: 0.0}, [(0.0, 0, *start)], 0
    while queue:
        so_far, _, at, has = heapq.heappop(queue)
        if has.issuperset(asked) and success.phase in {None, at}:
            return so_far
        steps = [(takes, to or at, proofs) for takes, to, proofs in moves.get(at, ())]
        steps += [(takes, at, (name,)) for name, takes in asked.items() if name not in has]
        for takes, to, proofs in steps:
            there = (to, has.union(proof for proof in proofs if proof in asked))
            if so_far + takes < best.get(there, float("inf")):
                best[there] = so_far + takes
                count += 1
                heapq.heappush(queue, (so_far + takes, count, *there))
    return None


def _moves(facts: Facts, held: frozenset[str] | None) -> Mapping[str, list[Move]]:
    """What can be done in each phase."""
    found: dict[str, list[Move]] = {}
    for one in facts.policy.transitions:
        able = [cell.rule for cell in facts.cells_of(one)]
        if held is not None and facts.mode(one.mode) == "enforce":
            able = [rule for rule in able if held.issuperset({*one.authority, *rule.permissions})]
        if not able or against_all(facts, one) is not None:
            continue
        takes = one.takes_s if one.takes_s is not None else min(rule.takes_s for rule in able)
        proofs = facts.policy.proofs(one)
        verified = sum(facts.policy.verifiers[name].takes_s for name in proofs) if one.sample == 1 else 0.0
        fails = sorted({to for edge, to in one.on.items() if facts.may_fail(one, edge)})
        moves: list[Move] = [(takes + verified, one.target, proofs), *((0.0, to, ()) for to in fails)]
        for source in sources(facts, one):
            found.setdefault(source, []).extend(moves)
    return found
