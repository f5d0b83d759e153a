"""(run, what may change the world) -> which of its evidence still counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from rpds import HashTrieMap

from gateway.kernel.globs import names
from gateway.kernel.named import asked, meet, written
from gateway.model.events import Effect, EvidenceRecorded
from gateway.model.policy import Policy
from gateway.model.run import UNSETTLED, Attempt, Evidence, Run, joined


def wrote(run: Run, tool: str, objects: Iterable[str] | None, *, intent: int = 0, end: int = 0) -> dict[str, Any]:
    """The fields of the run that say where its last writes stand, after one more of that tool, about those objects."""
    touched = run.touched
    named = list(objects or ())
    for key in (joined(tool, *key) for one in named for key in written(one)) if named else (tool,):
        touched = touched.insert(key, _later(touched.get(key), intent, end))
    return {"wrote": run.wrote.insert(tool, _later(run.wrote.get(tool), intent, end)), "touched": touched}


def _later(before: tuple[int, int] | None, intent: int, end: int) -> tuple[int, int]:
    return (intent, end) if before is None else (max(before[0], intent), max(before[1], end))


def stale(run: Run, tool: str, objects: Iterable[str] | None) -> HashTrieMap[str, Evidence]:
    """What the run has proven, once the tool may change what some of it is about."""
    touched = _covering(run, tool)
    return _without(run, (name for name, held in touched if _concerns(held.event, objects)))


def doubted(run: Run, attempt: Attempt) -> Run:
    """The run, once a look has shown that the attempt did not do what it should: it may have done that to anything."""
    intent, end = attempt.intent, attempt.receipt
    if intent.effect is Effect.READ or not intent.objects or end is None:
        return run
    evidence = _without(run, (name for name, held in _covering(run, intent.tool) if held.event.after < end))
    return run._replace(evidence=evidence, **wrote(run, intent.tool, None, intent=attempt.seq, end=end))


def restated(was: Policy, now: Policy) -> tuple[str, ...]:
    """The verifiers of a policy whose evidence says nothing under the newer text of it: they ask for something else."""
    same = {} if was.values != now.values else now.verifiers
    return tuple(sorted(name for name, rule in was.verifiers.items() if same.get(name) != rule))


def withdrawn(run: Run, verifiers: Iterable[str]) -> Run:
    """The run, once what these verifiers had proven counts no more."""
    return run._replace(evidence=_without(run, verifiers))


def _covering(run: Run, tool: str) -> Iterator[tuple[str, Evidence]]:
    """What the run has proven that the tool may change."""
    return ((name, held) for name, held in run.evidence.items() if held.fresh and _covers(held.event, tool))


def _without(run: Run, verifiers: Iterable[str]) -> HashTrieMap[str, Evidence]:
    """What the run has proven, once what these verifiers said counts no more."""
    evidence = run.evidence
    for name in verifiers:
        held = evidence.get(name)
        if held is not None:
            evidence = evidence.insert(name, replace(held, fresh=False))
    return evidence


def overtaken(run: Run, event: EvidenceRecorded) -> bool:
    """Whether a covered mutation was intended after the probe started, or was open when it did."""
    covered = [tool for tool in run.wrote if _covers(event, tool)]
    last = [max(run.wrote[tool]) for tool in covered] if not event.about else list(_last(run, covered, event.about))
    if any(place > event.after for place in last):
        return True
    return any(
        attempt.state in UNSETTLED
        and attempt.id != event.attempt
        and attempt.intent.tool in covered
        and _concerns(event, attempt.intent.objects)
        for attempt in run.unsettled.values()
    )


def _last(run: Run, tools: Iterable[str], about: Iterable[str]) -> Iterator[int]:
    for tool in tools:
        for key in (tool, *(joined(tool, *key) for one in about for key in asked(one))):
            if (found := run.touched.get(key)) is not None:
                yield max(found)


def _covers(event: EvidenceRecorded, tool: str) -> bool:
    return any(names(pattern, tool) for pattern in event.covers)


def _concerns(event: EvidenceRecorded, objects: Iterable[str] | None) -> bool:
    """Whether a call about these may change what the evidence is about. Who does not say counts as about anything."""
    named = list(objects or ())
    return not event.about or not named or meet(event.about, named)
