"""`NEXT` and `NEXT_ATTEMPT`, drawn: the Mermaid text in ARCHITECTURE.md comes from here and cannot differ.

The one writer of Mermaid; workflows are drawn with it too.
"""

import re
from collections.abc import Iterable, Mapping

from gateway.kernel.moves import NEXT, NEXT_ATTEMPT
from gateway.model.run import AttemptState

EDGE = "[*]"
"""Where a machine starts, and where it ends."""


def run_diagram() -> str:
    """The states of a run; kinds that leave the state as it is are drawn as one loop each."""
    return _drawn({str(state): {kind: str(to) for kind, to in moves.items()} for state, moves in NEXT.items()}, None)


def attempt_diagram() -> str:
    """The states of an attempt, from its intent on."""
    table = {str(state): {kind: str(to) for kind, to in moves.items()} for state, moves in NEXT_ATTEMPT.items()}
    return _drawn(table, str(AttemptState.OPEN))


def _drawn(table: Mapping[str, Mapping[str, str]], first: str | None) -> str:
    arrows = [(EDGE, first, "intent.recorded") if first else (EDGE, next(iter(table)), "")]
    for state, moves in table.items():
        targets: dict[str, list[str]] = {}
        for kind, target in moves.items():
            targets.setdefault(target, []).append(kind)
        arrows += [(state, target, ", ".join(kinds)) for target, kinds in targets.items()]
    return mermaid(arrows)


def mermaid(
    arrows: Iterable[tuple[str, str, str]],
    states: Mapping[str, str] | None = None,
    notes: Mapping[str, Iterable[str]] | None = None,
) -> str:
    """A `stateDiagram-v2`. Each arrow has a source, a target and what is said of it, which may be nothing.

    `states` are shown names by id; an id that has none is shown itself. `notes` are lines beside a state.
    """
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{escaped(shown)}" as {name}' for name, shown in (states or {}).items()]
    for source, target, said in arrows:
        lines.append(f"    {source} --> {target}" + (f": {escaped(said)}" if said else ""))
    for name, said_of in (notes or {}).items():
        lines += [f"    note right of {name}", *(f"        {escaped(line)}" for line in said_of), "    end note"]
    return "\n".join(lines)


_PLAIN = re.compile(r"[^\w .,/()'-]|(?<!\w)_|_(?!\w)")
_NOTE_END = re.compile(r"(end) (note)", re.IGNORECASE)
"""Ends a note wherever it stands in one."""


def escaped(text: str) -> str:
    """The text as Mermaid shows it; what it may take for syntax, or for Markdown, is written as an entity."""
    lines = (_PLAIN.sub(lambda found: f"#{ord(found[0])};", " ".join(line.split())) for line in text.splitlines())
    return _NOTE_END.sub(r"\1#32;\2", "<br/>".join(lines))
