"""The cheapest way to success, by each unit for itself."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.kernel.analysis.facts import Cell, Facts
from gateway.kernel.globs import names
from gateway.model.events import Effect
from gateway.model.policy import Transition, micro

MAX_PROOFS = 4
"""Verifiers of success whose order is tried; more of them are left out, which only makes the way cheaper."""

GREATEST = frozenset({"tokens"})
"""Units of which what a step does not use is given back: a way needs no more at once than its greatest step."""


@dataclass(frozen=True, slots=True)
class Way:
    """A cheapest way."""

    price: int
    steps: tuple[str, ...]
    """The transitions, in order."""


def price(facts: Facts, transition: Transition, unit: str) -> int:
    """The least that one call under the transition takes; cost in millionths."""
    return min((_price(facts, transition, cell, unit) for cell in facts.cells_of(transition)), default=0)


def _price(facts: Facts, transition: Transition, cell: Cell, unit: str) -> int:
    charge = transition.charge
    match unit:
        case "calls":
            return charge.calls
        case "mutations" if charge.mutations is not None:
            return charge.mutations
        case "mutations":
            return 0 if Effect.READ in cell.effects else 1
        case "tokens":
            return (charge.tokens if charge.tokens is not None else cell.rule.result_tokens) or 0
        case "cost":
            return micro(charge.cost if charge.cost is not None else cell.rule.cost)
        case _:
            return int(transition.approval is not None and facts.certain(transition.approval.when))


def set_aside(facts: Facts, transition: Transition, unit: str) -> int:
    """The least that such a call sets aside beside that, to be undone with."""
    merged = any(transition.name in one.merges for one in facts.policy.transitions)
    cells = facts.cells_of(transition)
    if (
        unit == "reviews"
        or not (facts.policy.proofs(transition) or merged)
        or any(Effect.READ in cell.effects for cell in cells)
    ):
        return 0
    undone = [transition.compensation or cell.rule.compensation for cell in cells]
    return min((0 if one is None else _undoing(facts, one.tool, unit) for one in undone), default=0)


def _undoing(facts: Facts, tool: str, unit: str) -> int:
    """The most that any transition takes of a call of this tool, as far as that is certain."""
    allowing = [one for one in facts.policy.transitions if not one.effect and any(names(p, tool) for p in one.tools)]
    return max((_price(facts, one, cell, unit) for one in allowing for cell in facts.cells(tool)), default=0)


def cheapest(facts: Facts, unit: str) -> Way | None:
    """The cheapest way from the first phase to success; None if there is none, or no success."""
    success = facts.policy.success
    if success is None:
        return None
    wanted = tuple(success.evidence[:MAX_PROOFS])
    moves = _moves(facts, unit, wanted)
    start = (facts.policy.initial, facts.by_itself & frozenset(wanted))
    best: dict[tuple[str, frozenset[str]], int] = {start: 0}
    queue: list[tuple[int, int, str, frozenset[str], tuple[str, ...]]] = [(0, 0, *start, ())]
    count = 0
    while queue:
        spent, _, phase, proven, steps = heapq.heappop(queue)
        if proven.issuperset(wanted) and success.phase in {None, phase}:
            return Way(spent, steps)
        if spent > best[phase, proven]:
            continue
        for (target, proof), (takes, name) in moves.get(phase, {}).items():
            now = max(spent, takes) if unit in GREATEST else spent + takes
            there = (target, proven | proof)
            if now < best.get(there, now + 1):
                best[there] = now
                count += 1
                heapq.heappush(queue, (now, count, *there, (*steps, name)))
    return None


def _moves(
    facts: Facts, unit: str, wanted: Sequence[str]
) -> Mapping[str, Mapping[tuple[str, frozenset[str]], tuple[int, str]]]:
    """From each phase: where a call leads and what it proves, and the cheapest transition that does."""
    found: dict[str, dict[tuple[str, frozenset[str]], tuple[int, str]]] = {}
    for _, transition in facts.live:
        takes = price(facts, transition, unit)
        proof = frozenset(facts.policy.proofs(transition)) & frozenset(wanted)
        fails = [phase for edge, phase in transition.on.items() if facts.may_fail(transition, edge)]
        for source in facts.sources(transition):
            ends = [(transition.target or source, proof), *((phase, frozenset[str]()) for phase in fails)]
            for end in ends:
                known = found.setdefault(source, {})
                known[end] = min(known.get(end, (takes, transition.name)), (takes, transition.name))
    return found
