"""(run, what may change the world) -> which of its evidence still counts."""

from __future__ import annotations

from dataclasses import replace

from rpds import HashTrieMap

from gateway.kernel.globs import names
from gateway.model.events import EvidenceRecorded
from gateway.model.run import UNSETTLED, Evidence, Run


def wrote(run: Run, tool: str, *, intent: int = 0, end: int = 0) -> HashTrieMap[str, tuple[int, int]]:
    """By tool that is no read, the places of its last intent and of the last end of an attempt, after one more."""
    before = run.wrote.get(tool, (0, 0))
    return run.wrote.insert(tool, (max(before[0], intent), max(before[1], end)))


def stale(run: Run, tool: str) -> HashTrieMap[str, Evidence]:
    """What the run has proven, once the tool may change what some of it is about."""
    evidence = run.evidence
    for name, held in run.evidence.items():
        if held.fresh and any(names(pattern, tool) for pattern in held.event.covers):
            evidence = evidence.insert(name, replace(held, fresh=False))
    return evidence


def overtaken(run: Run, event: EvidenceRecorded) -> bool:
    """Whether a covered mutation was intended after the probe started, or was open when it did."""
    covered = [tool for tool in run.wrote if any(names(pattern, tool) for pattern in event.covers)]
    if any(max(run.wrote[tool]) > event.after for tool in covered):
        return True
    return any(
        attempt.state in UNSETTLED and attempt.id != event.attempt and attempt.intent.tool in covered
        for attempt in run.unsettled.values()
    )
