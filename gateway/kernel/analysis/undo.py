"""Compensations and merges: what would undo an effect and never can, and what is never undone."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gateway.kernel.analysis.expressions import paths
from gateway.kernel.analysis.facts import Facts
from gateway.kernel.analysis.found import Found, listed
from gateway.kernel.conditions import roots_in
from gateway.kernel.globs import names
from gateway.model.events import Effect
from gateway.model.flaws import Place
from gateway.model.policy import Compensation, Policy, ToolRule, Transition


class _Named(NamedTuple):
    """A compensation where it stands, with the transitions whose effects it is there to undo."""

    place: Place
    undone: Compensation
    of: tuple[Transition, ...]


def compensations(facts: Facts) -> Iterator[Found]:
    """What is wrong with the calls that are to undo others."""
    for one in _named(facts):
        due = [transition for transition in one.of if _may_be_due(facts, transition)]
        if not due:
            yield Found(
                "compensation-idle",
                one.place,
                f"nothing makes `{one.undone.tool}` necessary: no postcondition can fail, and no merge be rejected",
                "say `verify` in the transition, or name it in the `merges` of another",
                in_key=True,
            )
            continue
        rule = _rule_of(facts.policy, one.undone.tool)
        if rule is not None and rule.effect is Effect.READ:
            yield Found(
                "compensation-reads",
                (*one.place, "tool"),
                f"`{one.undone.tool}` counts as a read, and undoes nothing",
                "name a tool that changes something, or correct its `effect` in the registry",
            )
        yield from _illegal(facts, one, due)
        yield from _priceless(facts, one, due)


def _named(facts: Facts) -> Iterator[_Named]:
    policy = facts.policy
    for pattern, rule in policy.tools.items():
        if rule.compensation is not None:
            of = tuple(one for one in policy.transitions if one.compensation is None and _is_of(facts, one, pattern))
            yield _Named(("tools", pattern, "compensation"), rule.compensation, of)
    for at, transition in enumerate(policy.transitions):
        if transition.compensation is not None:
            yield _Named(("transitions", at, "compensation"), transition.compensation, (transition,))


def _is_of(facts: Facts, transition: Transition, pattern: str) -> bool:
    return any(cell.entry == pattern for cell in facts.cells_of(transition))


def _may_be_due(facts: Facts, transition: Transition) -> bool:
    return bool(facts.policy.proofs(transition)) or bool(_merging(facts, transition))


def _merging(facts: Facts, transition: Transition) -> Sequence[Transition]:
    return [one for one in facts.policy.transitions if transition.name in one.merges]


def _rule_of(policy: Policy, tool: str) -> ToolRule | None:
    return next((rule for pattern, rule in policy.tools.items() if names(pattern, tool)), None)


# --- where it would have to be legal --------------------------------------------------------------------------------


def _illegal(facts: Facts, one: _Named, due: Sequence[Transition]) -> Iterator[Found]:
    """Phases in which the compensation is owed, and no transition allows it."""
    tool, policy = one.undone.tool, facts.policy
    allowing = [
        transition
        for at, transition in enumerate(policy.transitions)
        if at not in facts.why and any(names(pattern, tool) for pattern in transition.tools)
    ]
    if not allowing:
        if _rule_of(policy, tool) is not None or any(names(p, tool) for t in policy.transitions for p in t.tools):
            yield Found(
                "compensation-illegal",
                (*one.place, "tool"),
                f"no transition allows `{tool}`, so the call that undoes {_those(due)} is denied",
                f"name it in a transition that a run can take, as in `tools: [{tool}]`",
            )
        return
    anywhere = any(not transition.sources for transition in allowing)
    legal = {phase for transition in allowing for phase in transition.sources}
    where = sorted({phase for transition in due for phase in _owed_in(facts, transition)} - legal)
    if where and not anywhere:
        yield Found(
            "compensation-illegal",
            (*one.place, "tool"),
            f"`{tool}` would have to undo {_those(due)} in the phase {listed(where)}, and is not legal there",
            f"add the phase to `from` of {listed([transition.name for transition in allowing])}",
            related=tuple(("phases", phase) for phase in where),
        )


def _those(due: Sequence[Transition]) -> str:
    return listed([transition.name for transition in due])


def _owed_in(facts: Facts, transition: Transition) -> Iterator[str]:
    """The phases in which it may turn out that the transition's effect must be undone, as far as a run comes there."""
    for failing in (*([transition] if facts.policy.proofs(transition) else []), *_merging(facts, transition)):
        after = failing.on.get("verification_failed") if facts.policy.proofs(failing) else None
        rejected = failing is not transition and failing.approval is not None
        if after is not None:
            yield after
        if after is None or rejected:
            yield from facts.sources(failing) & facts.reached


# --- what it would cost ---------------------------------------------------------------------------------------------


def _priceless(facts: Facts, one: _Named, due: Sequence[Transition]) -> Iterator[Found]:
    """A price of the compensation that hangs on the answer of the call that it undoes."""
    late = {name for name, formula in one.undone.arguments_from.items() if "result" in roots_in(formula, "verifier")}
    for at, transition in enumerate(facts.policy.transitions):
        formula = transition.charge.cost_from
        if formula is None or not any(names(pattern, one.undone.tool) for pattern in transition.tools):
            continue
        read = sorted({path[1] for path, _, _ in paths(formula) if path[0] == "args" and len(path) > 1} & late)
        if read:
            yield Found(
                "compensation-priceless",
                ("transitions", at, "charge", "cost_from"),
                f"what `{one.undone.tool}` costs hangs on {listed([f'args.{name}' for name in read])}, which only the "
                f"answer of the call tells that it undoes: {_those(due)} cannot set it aside, and is refused",
                "tell the cost by arguments that are known before, or say a fixed `cost`",
                related=(one.place,),
            )


# --- merges ---------------------------------------------------------------------------------------------------------


def merges(facts: Facts) -> Iterator[Found]:
    """Merges that can never be rejected, or of which nothing could be undone then."""
    policy = facts.policy
    for at, transition in enumerate(policy.transitions):
        if transition.merges and not facts.policy.proofs(transition) and transition.approval is None:
            yield Found(
                "merge-unproven",
                ("transitions", at, "merges"),
                f"nothing can reject `{transition.name}`, so what it takes over is never undone",
                "say `verify`, or ask a person by `approval`",
                in_key=True,
            )
        for place, name in enumerate(transition.merges):
            branch = next(one for one in policy.transitions if one.name == name)
            if branch.compensation is None and not any(cell.rule.compensation for cell in facts.cells_of(branch)):
                yield Found(
                    "merge-not-undone",
                    ("transitions", at, "merges", place),
                    f"nothing undoes `{name}` if `{transition.name}` is rejected",
                    f"say `compensation` in `{name}`, or in the registry entry of its tools",
                )
