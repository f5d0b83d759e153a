"""A workflow as a Mermaid `stateDiagram-v2`, for pages that draw it themselves."""

from collections.abc import Iterator, Sequence

from gateway.inbound.told.drawing.workflow import Drawing, Rule, State
from gateway.kernel.diagram import EDGE, mermaid


def as_mermaid(drawing: Drawing) -> str:
    """The text; what fails is said in the words of its arrow, for these diagrams have one kind of line."""
    ids = {state.name: f"s{at}" for at, state in enumerate(drawing.states)}
    states = {ids[state.name]: state.name for state in drawing.states}
    notes = {ids[state.name]: [state.description] for state in drawing.states if state.description}
    beside = [*_listed("in any phase", drawing.anywhere), *_listed("never", drawing.never)]
    if beside:
        first = ids[drawing.states[0].name]
        notes[first] = [*notes.get(first, []), *beside]
    return mermaid(_arrows(drawing, ids), states, notes)


def _arrows(drawing: Drawing, ids: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    for state in drawing.states:
        if state.first:
            yield EDGE, ids[state.name], ""
    for state in drawing.states:
        if state.here:  # one arrow for all: of several from a state to itself Mermaid shows the last
            yield ids[state.name], ids[state.name], "\n".join(map(_said, state.here))
        yield from _from(drawing, state, ids)
        if state.says:
            yield ids[state.name], EDGE, state.says


def _from(drawing: Drawing, state: State, ids: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    for arrow in drawing.arrows:
        if arrow.source == state.name:
            for rule in arrow.rules:
                yield ids[arrow.source], ids[arrow.target], _said(rule)


def _said(rule: Rule) -> str:
    return f"{rule.name} ({', '.join(rule.details)})" if rule.details else rule.name


def _listed(title: str, rules: Sequence[Rule]) -> list[str]:
    return [f"{title} - {_said(rule)}" for rule in rules]
