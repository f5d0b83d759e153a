"""What a run came to: its way through the phases, what it took, what it left in the world, and how it ended."""

from collections import Counter
from collections.abc import Iterator, Sequence

from gateway.cli.plain import counted, seconds, visible
from gateway.kernel.standing import effects
from gateway.model.events import EvidenceRecorded, PhaseMoved, ReceiptRecorded
from gateway.model.record import Record
from gateway.model.run import Run

MAX_PHASES = 20
"""Of the way that is shown; what is left out is its middle."""


def totals(run: Run, records: Sequence[Record]) -> Iterator[str]:
    """A line each."""
    moves = [record.event for record in records if isinstance(record.event, PhaseMoved)]
    if moves:
        yield visible(_way([moves[0].source, *(move.target for move in moves)]))
    yield ", ".join(_spent(run, records))
    yield _end(run)


def _way(phases: list[str]) -> str:
    if len(phases) > MAX_PHASES:
        half = MAX_PHASES // 2
        phases = [*phases[:half], f"({len(phases) - 2 * half} more)", *phases[-half:]]
    return " → ".join(phases)


def _spent(run: Run, records: Sequence[Record]) -> Iterator[str]:
    receipts = [record.event for record in records if isinstance(record.event, ReceiptRecorded)]
    evidence = [record.event for record in records if isinstance(record.event, EvidenceRecorded)]
    failed = sum(event.verdict == "fail" for event in evidence)
    yield counted(run.spent.calls, "call")
    yield counted(run.spent.mutations, "mutation")
    yield f"{seconds(sum(event.duration_s or 0.0 for event in receipts))} of tools"
    if evidence:
        yield f"{seconds(sum(event.duration_s or 0.0 for event in evidence))} of verifiers"
    if failed:
        yield counted(failed, "failed verification")
    if run.reported_tokens:
        yield f"{counted(run.reported_tokens, 'token')} of its model, says the client"


def _end(run: Run) -> str:
    stands = Counter(stands for _, stands in effects(run))
    effect = f"effects: {', '.join(f'{count} {what}' for what, count in stands.items())}; " if stands else ""
    over = f"over: {run.stopped.outcome}" if run.stopped else f"going on in phase {run.phase}"
    unsettled = f"; unsettled: {', '.join(sorted(run.unsettled))} (`counterfoil resolve`)" if run.unsettled else ""
    owed = f"; to be undone: {', '.join(sorted(run.owed))}" if run.owed else ""
    left = sorted(name for name, one in run.undo.items() if one.state == "failed")
    person = f"; a person must undo: {', '.join(left)}" if left else ""
    return f"{effect}{over}{unsettled}{owed}{person}"
