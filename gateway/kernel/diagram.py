"""`NEXT` and `NEXT_ATTEMPT`, drawn: the Mermaid text in ARCHITECTURE.md comes from here and cannot differ."""

from collections.abc import Mapping

from gateway.kernel.moves import NEXT, NEXT_ATTEMPT
from gateway.model.run import AttemptState


def run_diagram() -> str:
    """The states of a run; kinds that leave the state as it is are drawn as one loop each."""
    return _mermaid({str(state): {kind: str(to) for kind, to in moves.items()} for state, moves in NEXT.items()}, None)


def attempt_diagram() -> str:
    """The states of an attempt, from its intent on."""
    table = {str(state): {kind: str(to) for kind, to in moves.items()} for state, moves in NEXT_ATTEMPT.items()}
    return _mermaid(table, str(AttemptState.OPEN))


def _mermaid(table: Mapping[str, Mapping[str, str]], first: str | None) -> str:
    lines = ["stateDiagram-v2"]
    lines.append(f"    [*] --> {first}: intent.recorded" if first else f"    [*] --> {next(iter(table))}")
    for state, moves in table.items():
        targets: dict[str, list[str]] = {}
        for kind, target in moves.items():
            targets.setdefault(target, []).append(kind)
        lines += [f"    {state} --> {target}: {', '.join(kinds)}" for target, kinds in targets.items()]
    return "\n".join(lines)
