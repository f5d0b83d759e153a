"""policy -> what a picture of its workflow shows: phases, arrows between them, and what is legal where."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gateway.inbound.told.words import counted
from gateway.model.policy import Forbid, Policy, Transition

ANYWHERE = "any phase"
"""Where transitions start that name no phase. A space is in no phase's name."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule in a few words."""

    name: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """A phase."""

    name: str
    description: str = ""
    kind: Literal["plain", "success", "end", "anywhere"] = "plain"
    first: bool = False
    says: str = ""
    """How a run ends here."""
    here: tuple[Rule, ...] = ()
    """Transitions that are legal here and lead nowhere else."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one phase to another: everything that leads there."""

    source: str
    target: str
    rules: tuple[Rule, ...]
    failure: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """A workflow, as it is drawn."""

    name: str
    description: str
    states: tuple[State, ...]
    arrows: tuple[Arrow, ...]
    anywhere: tuple[Rule, ...] = ()
    """Transitions that are legal in every phase and lead nowhere."""
    never: tuple[Rule, ...] = ()
    """What is forbidden."""
    success: str = ""
    """When a run succeeds, where that is bound to no phase."""


@dataclass
class _Arrows:
    found: dict[tuple[str, str, bool], list[Rule]] = field(default_factory=dict)

    def add(self, source: str, target: str, rule: Rule, *, failure: bool = False) -> None:
        self.found.setdefault((source, target, failure), []).append(rule)

    def all(self) -> tuple[Arrow, ...]:
        return tuple(
            Arrow(source, target, tuple(rules), failure) for (source, target, failure), rules in self.found.items()
        )


def drawing(policy: Policy) -> Drawing:
    """What a picture of the policy shows."""
    arrows, here, anywhere = _Arrows(), dict[str, list[Rule]](), list[Rule]()
    for transition in policy.transitions:
        rule = Rule(transition.name, tuple(_details(transition)))
        edges = _edges(transition)
        for source in transition.sources or (ANYWHERE,):
            if transition.target is not None and transition.target != source:
                arrows.add(source, transition.target, rule)
            elif source == ANYWHERE:
                anywhere.append(rule)
            else:
                here.setdefault(source, []).append(rule)
            for phase, why in edges.items():
                if phase != source:
                    arrows.add(source, phase, Rule(transition.name, (f"if {_or(why)}",)), failure=True)
    drawn = arrows.all()
    return Drawing(
        name=policy.workflow,
        description=_on_one_line(policy.description),
        states=tuple(_states(policy, here, drawn)),
        arrows=drawn,
        anywhere=tuple(anywhere),
        never=tuple(Rule(one.name, tuple(_forbidden(one))) for one in policy.forbid),
        success=_success(policy) if policy.success is not None and policy.success.phase is None else "",
    )


def _states(policy: Policy, here: dict[str, list[Rule]], arrows: Sequence[Arrow]) -> Iterator[State]:
    success = policy.success.phase if policy.success is not None else None
    for name, phase in policy.phases.items():
        kind: Literal["plain", "success", "end"] = "success" if name == success else "end" if phase.ends else "plain"
        says = f"ends as {phase.ends}" if phase.ends else _success(policy) if name == success else ""
        rules = tuple(here.get(name, ()))
        yield State(name, _on_one_line(phase.description), kind, name == policy.initial, says, rules)
    if any(arrow.source == ANYWHERE for arrow in arrows):
        yield State(ANYWHERE, kind="anywhere")


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _success(policy: Policy) -> str:
    if policy.success is None:
        return ""
    return f"success, proven by {' and '.join(policy.success.evidence)}"


def _edges(transition: Transition) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for edge, phase in transition.on.items():
        found.setdefault(phase, []).append(edge.replace("_", " "))
    return found


def _or(words: Sequence[str]) -> str:
    return " or ".join(words)


MAX_TOOLS = 3
"""Patterns of a rule that are shown."""


def _tools(rule: Transition | Forbid) -> str:
    more = f" and {len(rule.tools) - MAX_TOOLS} more" if len(rule.tools) > MAX_TOOLS else ""
    effects = f" ({_or(rule.effect)})" if rule.effect else ""
    return ", ".join(rule.tools[:MAX_TOOLS]) + more + effects


def _details(transition: Transition) -> Iterator[str]:
    yield _tools(transition)
    if transition.when:
        yield counted(len(transition.when), "condition")
    if transition.preconditions:
        yield f"first asks {', '.join(transition.preconditions)}"
    if transition.authority:
        yield f"needs {', '.join(transition.authority)}"
    if transition.approval is not None:
        people = "a person" if transition.approval.quorum == 1 else f"{transition.approval.quorum} people"
        yield f"{people} must agree" + (", for some calls" if transition.approval.when else "")
    if transition.verify:
        some = f", of {transition.sample:.0%} of its calls" if transition.sample < 1 else ""
        yield f"proven by {', '.join(transition.verify)}{some}"
    if transition.compensation is not None:
        yield f"undone by {transition.compensation.tool}"
    if transition.merges:
        yield f"takes over {', '.join(transition.merges)}"
    if transition.mode == "observe":
        yield "only observed"


def _forbidden(forbid: Forbid) -> Iterator[str]:
    yield _tools(forbid)
    if forbid.when:
        count = len(forbid.when)
        yield "if its condition holds" if count == 1 else f"if its {count} conditions hold"
    if forbid.final:
        yield "ends the run"
    if forbid.mode == "observe":
        yield "only observed"
