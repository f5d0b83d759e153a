"""(run, rules, what is offered) -> what keeps the run from success for good.

Over the phases as a graph, from the phase of the run. Whatever is not certain counts as possible: conditions hold,
calls succeed or fail as it suits, people agree, servers that are down come back. So what is said to be lacking is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple

from gateway.kernel.analysis.quickest import against_all, sources
from gateway.kernel.analysis.walk import price, set_aside
from gateway.kernel.globs import names
from gateway.kernel.owing import undone_by_nobody
from gateway.kernel.rules import Rules, held_by
from gateway.kernel.soonest import facts_of, too_late
from gateway.model.event_parts import Lack as Lack
from gateway.model.events import Effect
from gateway.model.policy import Policy, ToolRule, Transition
from gateway.model.run import Run
from gateway.model.tool import Tool

Withheld = Literal["pin", "name"]


class Usable(NamedTuple):
    """A tool that an upstream offers, as a policy sees it."""

    effect: Effect
    withheld: Withheld | None
    """It is not as policy pins it, or its name looks like another's."""


class Offered(NamedTuple):
    """What upstreams offer now."""

    tools: Mapping[str, Usable]
    """By the name that agents call it by."""
    complete: bool
    """Every upstream is there: what is not among the tools is offered by nobody."""


ASSUMED = Offered({}, complete=False)
"""Where nobody looks: whatever policy names is offered."""


def noted(offered: Offered, policy: Policy) -> dict[str, Any]:
    """What a record says of what was offered: all that policy may ask for."""
    asked = {pattern for one in policy.transitions for pattern in one.tools}
    asked |= {probe.tool for one in policy.verifiers.values() if (probe := one.probe) is not None}
    mine = {name: tool for name, tool in offered.tools.items() if any(names(pattern, name) for pattern in asked)}
    return {"complete": offered.complete, "tools": {name: [*tool] for name, tool in mine.items()}}


def as_noted(said: Mapping[str, Any]) -> Offered:
    """As `noted` said it."""
    tools = {name: Usable(Effect(effect), withheld) for name, (effect, withheld) in said["tools"].items()}
    return Offered(tools, complete=said["complete"])


def offered_by(rules: Rules, tools: Iterable[Tool], *, complete: bool) -> Offered:
    """These tools, as the policy sees them. One whose server is merely down is offered."""
    found: dict[str, Usable] = {}
    for tool in tools:
        ruled = rules.ruled(tool)
        withheld: Withheld | None = "name" if tool.withheld else None if ruled.pinned else "pin"
        found[tool.name] = Usable(ruled.registered.effect, withheld)
    return Offered(found, complete)


def lacking(run: Run, rules: Rules, offered: Offered | None, now: datetime) -> tuple[Lack, ...]:
    """What the run would need for its success and cannot have; nothing while it may succeed, or is to achieve nothing.

    Without `offered` every tool that policy names counts as offered. While something is unsettled, or is to be undone,
    nothing is certain: its end may lead anywhere.
    """
    success = rules.policy.success
    if success is None or run.unsettled or run.owed:
        return ()
    ways = Ways(run, rules, offered)
    lacks = [lack for name in success.evidence for lack in ways.unasked(name)]
    for name in undone_by_nobody(run):
        says = f"the effect of `{name}` must not stay, and only a person can undo it"
        lacks.append(Lack(kind="undone", what=name, rule="success", says=says))
    if (late := too_late(run, rules, now)) is not None:
        lacks.append(Lack(kind="time", what=late.rule, rule="success", says=late.says))
    if success.phase is not None and success.phase not in ways.reached:
        lacks += ways.barring(success.phase)
    return tuple(dict.fromkeys(lacks))


class Ways:
    """The phases that a run can still come to, and what bars it from the others."""

    def __init__(self, run: Run, rules: Rules, offered: Offered | None) -> None:
        self._run = run
        self._rules = rules
        self._offered = offered
        self._facts = facts_of(rules)
        self._held = held_by(rules.policy, run.principal, run.delegated) if run.principal is not None else frozenset()
        self._against = {one.name: self._barred(one) for one in rules.policy.transitions}
        open_ones = [one for one in rules.policy.transitions if not self._against[one.name]]
        self.reached = self._from({run.phase}, open_ones)

    def _from(self, phases: set[str], transitions: Sequence[Transition]) -> frozenset[str]:
        reached, going = set(phases), frozenset(self._facts.going_on)
        moves = [(sources(self._facts, one), frozenset(self._facts.targets(one))) for one in transitions]
        while more := {to for start, ends in moves if start & reached & going for to in ends} - reached:
            reached |= more
        return frozenset(reached)

    def barring(self, goal: str) -> Iterator[Lack]:
        """What bars the run from that phase; that there is no path, where nothing does."""
        policy, found = self._rules.policy, False
        for one in policy.transitions:
            leads = [to for to in self._facts.targets(one) if to not in self.reached and self._leads(to, goal)]
            if leads and sources(self._facts, one) & self.reached:
                yield from self._against[one.name]
                found = found or bool(self._against[one.name])
        if not found:
            says = f"no transition leads from the phase `{self._run.phase}` to `{goal}` any more"
            yield Lack(kind="path", what=goal, rule="success", says=says)

    def _leads(self, phase: str, goal: str) -> bool:
        return goal in self._from({phase}, self._rules.policy.transitions)

    # --- one transition ---------------------------------------------------------------------------------------------

    def _barred(self, transition: Transition) -> tuple[Lack, ...]:
        """What keeps the transition from being taken; nothing if it may be."""
        never = against_all(self._facts, transition)
        if never is not None:
            return (never,)
        options = [tuple(option) for option in self._options(transition)]
        least = min(options, key=len, default=None)
        if least is None:
            return (self._missing(transition),)
        return least or tuple(self._unpaid(transition))

    def _options(self, transition: Transition) -> Iterator[Iterator[Lack]]:
        """For each tool with which it could be taken, what is against that."""
        offered, policy = self._offered, self._rules.policy
        for name, tool in offered.tools.items() if offered is not None else ():
            named = any(names(pattern, name) for pattern in transition.tools)
            if named and (not transition.effect or tool.effect in transition.effect):
                rule = next((rule for pattern, rule in policy.tools.items() if names(pattern, name)), ToolRule())
                yield self._tool(transition, name, tool, rule)
        if offered is None or not offered.complete:
            for cell in self._facts.cells_of(transition):
                if offered is None or cell.pattern not in offered.tools:
                    yield self._cell(transition, cell.pattern, cell.rule)

    def _tool(self, transition: Transition, name: str, tool: Usable, rule: ToolRule) -> Iterator[Lack]:
        if tool.withheld is not None:
            yield _withheld(name, transition.name)
        for forbid in self._rules.policy.forbid if self._facts.mode(transition.mode) == "enforce" else ():
            binds = self._facts.mode(forbid.mode) == "enforce" and self._facts.certain(forbid.when)
            named = any(names(pattern, name) for pattern in forbid.tools)
            if binds and named and (not forbid.effect or tool.effect in forbid.effect):
                says = f"`{forbid.name}` forbids `{name}`: {forbid.reason}"
                yield Lack(kind="forbidden", what=forbid.name, rule=transition.name, says=says)
                break
        yield from self._unauthorized(transition, rule)

    def _cell(self, transition: Transition, pattern: str, rule: ToolRule) -> Iterator[Lack]:
        policy = self._rules.policy
        if policy.unpinned == "withhold" and not any(names(pattern, name) for name in policy.pins):
            yield _withheld(pattern, transition.name)
        yield from self._unauthorized(transition, rule)

    def _unauthorized(self, transition: Transition, rule: ToolRule) -> Iterator[Lack]:
        if self._facts.mode(transition.mode) == "observe":
            return
        who = self._run.principal.id if self._run.principal is not None else "nobody"
        for name in sorted({*transition.authority, *rule.permissions} - self._held):
            says = f"`{who}` lacks the authority `{name}`, which `{transition.name}` needs"
            yield Lack(kind="authority", what=name, rule=transition.name, says=says)

    def _missing(self, transition: Transition) -> Lack:
        said = ", ".join(f"`{pattern}`" for pattern in transition.tools)
        effects = f" that is {' or '.join(transition.effect)}" if transition.effect else ""
        says = f"no upstream offers a tool{effects} for `{transition.name}`: {said}"
        return Lack(kind="tool", what=transition.tools[0], rule=transition.name, says=says)

    def _unpaid(self, transition: Transition) -> Iterator[Lack]:
        """Budgets of the run that have less left, whatever is given back, than one call takes at the least."""
        if self._facts.mode(transition.mode) == "observe":
            return
        for unit, limit in self._rules.limited:
            takes = self._rules.once(("least", transition.name, unit), partial(self._least, transition, unit))
            back = sum(getattr(undo.charge, unit) for undo in self._run.set_aside.values())
            spent = getattr(self._run.spent, unit) - back
            if takes and spent + takes > limit and not (unit == "reviews" and self._run.approvals):
                says = f"what is left of the budget of {unit} does not pay for one call of `{transition.name}`"
                yield Lack(kind="budget", what=unit, rule=transition.name, says=says)

    def _least(self, transition: Transition, unit: str) -> int:
        if unit == "cost" and transition.charge.cost_from is not None:
            return 0
        return price(self._facts, transition, unit) + set_aside(self._facts, transition, unit)

    # --- evidence ---------------------------------------------------------------------------------------------------

    def unasked(self, name: str) -> Iterator[Lack]:
        """Why the verifier can give no evidence; nothing if it may, or has."""
        held = self._run.evidence.get(name)
        if held is not None and held.holds:
            return
        offered, policy = self._offered, self._rules.policy
        probe = policy.verifiers[name].probe
        if probe is None:
            return
        tool = offered.tools.get(probe.tool) if offered is not None else None
        unpinned = policy.unpinned == "withhold" and probe.tool not in policy.pins
        if tool.withheld is not None if tool is not None else unpinned:
            yield _withheld(probe.tool, name)
        elif offered is not None and offered.complete and tool is None:
            says = f"no upstream offers `{probe.tool}`, which the verifier `{name}` asks"
            yield Lack(kind="tool", what=probe.tool, rule=name, says=says)


def _withheld(name: str, rule: str) -> Lack:
    return Lack(kind="withheld", what=name, rule=rule, says=f"`{name}`, which `{rule}` needs, is withheld")
