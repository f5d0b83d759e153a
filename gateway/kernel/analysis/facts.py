"""policy -> what follows from it without any call: which transitions can be taken, and where they lead.

Whatever is not certain counts as possible: a finding rests on what can not be.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any, Literal, TypeAlias

from gateway.kernel.analysis.expressions import fixed, needed_evidence
from gateway.kernel.analysis.patterns import contains, covering, meets
from gateway.kernel.conditions import roots_in
from gateway.kernel.registry import registered
from gateway.model.events import Effect
from gateway.model.flaws import EXPRESSIONS, FORMULAS, Kind, texts
from gateway.model.policy import Forbid, Grant, Mode, Policy, ToolRule, Transition
from gateway.model.tool import Tool

ALL_EFFECTS = frozenset(Effect)

Why: TypeAlias = Literal["tools", "forbidden", "unauthorized", "conditions", "shadowed"]
"""Why a transition can never be taken, whatever the phase."""

MAX_GRANTS_TRIED = 2_000
"""Choices of grants that are tried for one transition; beyond, it counts as possible."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Tools that have one of these effects, under one registry entry; `pattern` names them all, and perhaps more."""

    pattern: str
    effects: frozenset[Effect]
    entry: str | None
    """The registry entry's pattern; None where none names them."""
    rule: ToolRule


@dataclass(frozen=True)
class Facts:
    """What is found out of a policy once, for all that ask."""

    policy: Policy
    _cells: dict[str, tuple[Cell, ...]] = field(default_factory=dict)

    # --- tools ------------------------------------------------------------------------------------------------------

    def cells(self, pattern: str) -> tuple[Cell, ...]:
        """The tools of the pattern, by the registry entries that may be theirs."""
        known = self._cells.get(pattern)
        if known is None:
            known = self._cells[pattern] = tuple(self._split(pattern))
        return known

    def _split(self, pattern: str) -> Iterator[Cell]:
        for entry, rule in self.policy.tools.items():
            if meets(entry, pattern):
                narrow = entry if contains(pattern, entry) else pattern
                yield Cell(narrow, self._effects(narrow, rule), entry, rule)
                if contains(entry, pattern):
                    return
        yield Cell(pattern, self._effects(pattern, ToolRule()), None, ToolRule())

    def _effects(self, pattern: str, rule: ToolRule) -> frozenset[Effect]:
        if rule.effect is not None:
            return frozenset({rule.effect})
        if "*" not in pattern and self.destructive_word(pattern):
            return frozenset({Effect.DESTRUCTIVE})
        return ALL_EFFECTS if self.policy.annotations == "trust" else ALL_EFFECTS - {Effect.READ}

    def destructive_word(self, name: str) -> str | None:
        """Why the tool would be destructive by its name alone, as the registry would say it."""
        own = name.partition("__")[2] or name
        known = registered(Tool(name, "", own, {}), self._bare)
        return known.inferred if known.effect is Effect.DESTRUCTIVE and own.isascii() else None

    @cached_property
    def _bare(self) -> Policy:
        return self.policy.model_copy(update={"tools": {}, "annotations": "tighten"})

    def cells_of(self, rule: Transition | Forbid) -> Sequence[Cell]:
        """The tools that the rule names, as far as they may have its effect."""
        wanted = frozenset(rule.effect) or ALL_EFFECTS
        found = (cell for pattern in rule.tools for cell in self.cells(pattern))
        return [
            Cell(cell.pattern, cell.effects & wanted, cell.entry, cell.rule) for cell in found if cell.effects & wanted
        ]

    @cached_property
    def compensating(self) -> frozenset[str]:
        """Tools that undo what others did."""
        named = [one.compensation for one in self.policy.transitions]
        named += [rule.compensation for rule in self.policy.tools.values()]
        return frozenset(one.tool for one in named if one is not None)

    # --- rules ------------------------------------------------------------------------------------------------------

    def mode(self, own: Mode | None) -> Mode:
        """The mode of a rule."""
        return own or self.policy.mode

    def certain(self, when: Sequence[str], kind: Kind = "transition") -> bool:
        """Whether all of it always holds."""
        return all(fixed(one, kind) == "always" for one in when)

    def never(self, when: Sequence[str], kind: Kind = "transition") -> bool:
        """Whether some of it never does."""
        return any(fixed(one, kind) in {"never", "unjudgeable"} for one in when)

    @cached_property
    def why(self) -> Mapping[int, Why]:
        """Transitions that can never be taken, by their place, and why."""
        found = ((place, self._why(place, one)) for place, one in enumerate(self.policy.transitions))
        return {place: why for place, why in found if why is not None}

    def _why(self, place: int, transition: Transition) -> Why | None:
        if not self.cells_of(transition):
            return "tools"
        if self.forbidding(transition):
            return "forbidden"
        if not any(self._can_hold(needed) for needed in set(self.needed(transition))):
            return "unauthorized"
        if self.never(transition.when):
            return "conditions"
        return "shadowed" if self.shadowing(place) else None

    def forbidding(self, rule: Transition | Forbid) -> tuple[int, ...]:
        """The unconditional forbid rules before this one that together forbid all that it names; empty if not all."""
        forbids = self.policy.forbid
        earlier = forbids if isinstance(rule, Transition) else takewhile(lambda one: one is not rule, forbids)
        binding = [
            (place, one)
            for place, one in enumerate(earlier)
            if self.certain(one.when) and self.mode(one.mode) == "enforce"
        ]
        used: dict[int, None] = {}
        for cell in self.cells_of(rule):
            for effect in cell.effects:
                by = _taking(binding, cell.pattern, effect)
                if by is None:
                    return ()
                used[by] = None
        return tuple(used)

    def shadowing(self, place: int) -> tuple[int, ...]:
        """The transitions before this one that together take every call that it could; empty if not every."""
        transition = self.policy.transitions[place]
        before = [
            (at, one) for at, one in enumerate(self.policy.transitions[:place]) if self._as_easily(one, transition)
        ]
        if not before:
            return ()
        used: dict[int, None] = {}
        for phase in transition.sources or self.going_on:
            legal = [(at, one) for at, one in before if not one.sources or phase in one.sources]
            for cell in self.cells_of(transition):
                for effect in cell.effects:
                    by = _taking(legal, cell.pattern, effect)
                    if by is None:
                        return ()
                    used[by] = None
        return tuple(used)

    def _as_easily(self, one: Transition, other: Transition) -> bool:
        """Whether `one` asks for nothing that `other` does not, tools, effects and phases aside.

        What is asked later of a transition (preconditions, attempts, a person) refuses, and chooses no other one.
        """
        asked = {expression for expression in one.when if fixed(expression, "transition") != "always"}
        return asked <= set(other.when) and set(one.authority) <= set(other.authority)

    @cached_property
    def going_on(self) -> tuple[str, ...]:
        """The phases in which a run is not over."""
        return tuple(name for name, phase in self.policy.phases.items() if phase.ends is None)

    # --- authority --------------------------------------------------------------------------------------------------

    @cached_property
    def granted(self) -> frozenset[str]:
        """All authority that some grant gives."""
        return frozenset(name for grant in self.policy.grants for name in grant.authority)

    def needed(self, transition: Transition) -> Iterator[frozenset[str]]:
        """What must be held for it, for each kind of tools that it names."""
        for cell in self.cells_of(transition):
            yield frozenset(transition.authority) | frozenset(cell.rule.permissions)

    def _can_hold(self, needed: frozenset[str]) -> bool:
        if not needed <= self.granted:
            return False
        budget = [MAX_GRANTS_TRIED]
        return self._together(sorted(needed), (), budget) or budget[0] <= 0

    def _together(self, needed: list[str], chosen: tuple[Grant, ...], budget: list[int]) -> bool:
        """Whether one principal may fit a grant for each."""
        if not needed:
            return True
        for grant in self.policy.grants:
            budget[0] -= 1
            if budget[0] <= 0:
                return False
            fits = needed[0] in grant.authority and all(_one_holds(grant, other) for other in chosen)
            if fits and self._together(needed[1:], (*chosen, grant), budget):
                return True
        return False

    # --- runs -------------------------------------------------------------------------------------------------------

    @cached_property
    def _run(self) -> tuple[frozenset[str], frozenset[str], tuple[int, ...]]:
        """Phases that a run may reach, verifiers that it may have evidence of, transitions that it may take."""
        reached, proven, taken = {self.policy.initial}, set(self.by_itself), set[int]()
        changed = True
        while changed:
            changed = False
            for place, transition in enumerate(self.policy.transitions):
                if place in taken or place in self.why or not self.sources(transition) & reached:
                    continue
                if all(needed_evidence(one) <= proven for one in transition.when):
                    taken.add(place)
                    reached |= set(self.targets(transition))
                    proven |= set(self.policy.proofs(transition))
                    changed = True
        return frozenset(reached), frozenset(proven), tuple(sorted(taken))

    @cached_property
    def by_itself(self) -> frozenset[str]:
        """Verifiers of the success that hang on no call's arguments: the gateway asks them when an agent says that it
        is done, whatever the run did.
        """
        wanted = self.policy.success.evidence if self.policy.success is not None else ()
        said = {**EXPRESSIONS, **FORMULAS}.items()
        asked = [
            (one, kind) for pattern, kind in said if pattern[0] == "verifiers" for one in texts(self.written, pattern)
        ]
        hangs = {str(place[1]) for (place, text), kind in asked if "args" in roots_in(text, kind)}
        return frozenset(one for one in wanted if one not in hangs and self.policy.verifiers[one].source != "result")

    @property
    def reached(self) -> frozenset[str]:
        """Phases that a run may come to."""
        return self._run[0]

    @property
    def proven(self) -> frozenset[str]:
        """Verifiers that a transition asks which a run may take."""
        return self._run[1]

    @property
    def live(self) -> Sequence[tuple[int, Transition]]:
        """Transitions that a run may take, with their places."""
        return [(place, self.policy.transitions[place]) for place in self._run[2]]

    def sources(self, transition: Transition) -> frozenset[str]:
        """The phases in which it is legal and a run goes on."""
        going = frozenset(self.going_on)
        return going & frozenset(transition.sources) if transition.sources else going

    def targets(self, transition: Transition) -> Iterator[str]:
        """The phases to which it may lead."""
        if transition.target is not None:
            yield transition.target
        yield from (phase for edge, phase in transition.on.items() if self.may_fail(transition, edge))

    def may_fail(self, transition: Transition, edge: str) -> bool:
        """Whether a call under the transition may fail in this way."""
        cells = self.cells_of(transition)
        match edge:
            case "conflict" | "denied":  # others are told apart without the registry's help
                return any(edge in cell.rule.failures for cell in cells)
            case "timeout_unknown":
                return any(cell.effects - {Effect.READ} for cell in cells)
            case _:
                return True

    @cached_property
    def going_well(self) -> frozenset[str]:
        """Phases from which a run may still succeed, or come to an end that the policy names."""
        success = self.policy.success
        good = {name for name, phase in self.policy.phases.items() if phase.ends is not None}
        if success is not None and success.phase is not None:
            good.add(success.phase)
        elif success is not None:
            good |= {
                source
                for _, transition in self.live
                if set(self.policy.proofs(transition)) & set(success.evidence)
                for source in self.sources(transition)
            }
        moves = [(self.sources(one), frozenset(self.targets(one))) for _, one in self.live]
        changed = True
        while changed:
            more = {source for sources, targets in moves if targets & good for source in sources} - good
            good |= more
            changed = bool(more)
        return frozenset(good)

    @cached_property
    def written(self) -> dict[str, Any]:
        """The policy with the keys of its file."""
        return self.policy.model_dump(mode="json", by_alias=True)


def _taking(rules: Sequence[tuple[int, Transition | Forbid]], pattern: str, effect: Effect) -> int | None:
    fitting = {
        one: place for place, rule in reversed(rules) if effect in (rule.effect or ALL_EFFECTS) for one in rule.tools
    }
    by = covering(fitting, pattern)
    return None if by is None else fitting[by]


def _one_holds(one: Grant, other: Grant) -> bool:
    return meets(one.principal, other.principal) and meets(one.tenant, other.tenant)
