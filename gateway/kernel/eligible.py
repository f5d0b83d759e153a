"""(run, principal, rules, tools) -> what may be done now, as far as it can be told before there is a call. Pure.

It is not more lenient than `decide`: what a call's arguments, the world or a person decide is named, not judged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.kernel.left import charged
from gateway.kernel.rules import Ruled, Rules, held_by
from gateway.kernel.strict import as_strict
from gateway.model.events import Charge, Effect
from gateway.model.policy import Transition
from gateway.model.principal import Principal
from gateway.model.run import Run, RunState
from gateway.model.status import Barred, Eligible
from gateway.model.tool import Tool

MAX_TOOLS = 40
"""Named under one transition."""


@dataclass(frozen=True, slots=True)
class _Way:
    """A tool under a transition."""

    tool: Ruled
    transition: Transition
    authority: tuple[str, ...]
    charge: Charge
    depends_on: tuple[str, ...]

    @property
    def alike(self) -> tuple[object, ...]:
        return self.transition.name, self.authority, tuple(vars(self.charge).items()), self.depends_on


def eligible(
    run: Run, principal: Principal, rules: Rules, tools: Sequence[Tool]
) -> tuple[tuple[Eligible, ...], tuple[Barred, ...]]:
    """What is legal in the run's phase with the authority that is held, in the order of the policy; and what lacks
    authority alone. Nothing, once the run is over.
    """
    if run.state is RunState.STOPPED:
        return (), ()
    held = held_by(rules.policy, principal, run.delegated)
    ways: dict[tuple[object, ...], list[_Way]] = {}
    barred: dict[str, tuple[str, ...]] = {}
    for tool in tools:
        for way in _ways(run, rules.ruled(tool), rules, held, barred):
            ways.setdefault(way.alike, []).append(way)
    order = {one.name: place for place, one in enumerate(rules.policy.transitions)}
    told = [_told(run, rules, those) for those in ways.values()]
    told.sort(key=lambda one: order[one.transition])
    lacking = sorted(barred.items(), key=lambda one: order[one[0]])
    return tuple(told), tuple(Barred(transition=name, lacking=what) for name, what in lacking)


def _ways(
    run: Run, tool: Ruled, rules: Rules, held: frozenset[str], barred: dict[str, tuple[str, ...]]
) -> Iterator[_Way]:
    """The transitions under which the tool may come to be called. The first whose conditions hold is the one."""
    observing = rules.policy.mode == "observe"
    forbidding = [one for one in tool.forbids if (one.mode or rules.policy.mode) == "enforce"]
    usable = tool.registered.tool.healthy and tool.pinned and all(one.when for one in forbidding)
    needed, stricter = frozenset(tool.registered.rule.permissions), list[Transition]()
    before: list[str] = [f"the rule `{one.name}` does not forbid it" for one in forbidding]
    legal = [one for one in tool.transitions if not one.sources or run.phase in one.sources]
    able = any(held.issuperset(needed | set(one.authority)) for one in legal)
    for transition in legal if usable else ():
        asks = needed | set(transition.authority)
        lacking = tuple(sorted(asks - held))
        # What is only observed passes where there is nothing else.
        if lacking and (able or not (transition.mode == "observe" or (observing and transition.mode is None))):
            barred.setdefault(transition.name, lacking)
            stricter.append(transition)
            continue
        laxer = [one for one in stricter if not as_strict(transition, one, tool, rules)]
        if any(not one.when for one in laxer):
            continue  # less authority never allows more
        others = [f"`{one.name}`, for which authority is lacking, does not apply" for one in laxer]
        depends = (*before, *others, *_depends(run, tool, transition))
        yield _Way(tool, transition, tuple(sorted(asks)), tool.charge(transition), depends)
        if not transition.when:
            return
        before.append(f"no earlier transition applies, as `{transition.name}`")


def _depends(run: Run, tool: Ruled, transition: Transition) -> Iterator[str]:
    yield from (f"`{one}`" for one in transition.when)
    yield from (f"`{one}` passes when it is asked" for one in transition.preconditions)
    yield from (f"what is left on `{one.rule}`" for one in tool.accounts if one.limited)
    if transition.charge.cost_from is not None:
        yield f"its cost, `{transition.charge.cost_from}`"
    if transition.retry != "any" or transition.max_attempts is not None:
        most = transition.max_attempts or 1
        yield f"an equal call may be sent {most} time{'' if most == 1 else 's'} in a run"
    if tool.registered.effect is not Effect.READ:
        yield from (f"`{name}` is settled first" for name in sorted({*run.moving, *run.owed}))


def _told(run: Run, rules: Rules, ways: Sequence[_Way]) -> Eligible:
    way, names = ways[0], sorted({one.tool.registered.tool.name for one in ways})
    transition, spent, taken = way.transition, vars(run.spent), vars(way.charge)
    asks = transition.approval
    return Eligible(
        transition=transition.name,
        tools=tuple(names[:MAX_TOOLS]),
        more_tools=max(0, len(names) - MAX_TOOLS),
        charge=charged(way.charge),
        over_budget=tuple(unit for unit, limit in rules.limited if spent[unit] + taken[unit] > limit),
        authority=way.authority,
        approval="no" if asks is None else "perhaps" if asks.when else "always",
        verifiers=rules.proofs(transition),
        target=transition.target,
        depends_on=way.depends_on,
    )
