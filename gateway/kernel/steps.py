"""(steps, one more) -> steps. Which steps of a run are the same, what brings something new, and what is counted anew.

A step is the same as another if both did the same and the same came of it. `RESTARTS` says what a new one is evidence
of. A read, an error or a verdict that was never there before was learned from the world: what failed or was looked at
before it may be tried again; but a verdict is only answered by a verdict. A change is an action: to look again after it
is no repetition, and to fail as before is. A refusal teaches nothing.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Literal, TypeAlias, assert_never

from rpds import HashTrieMap

from gateway.model.events import Denied, Effect, EvidenceRecorded, FinishRefused, ReceiptRecorded
from gateway.model.policy import RepeatedState
from gateway.model.run import Evidence, Intent
from gateway.model.steps import KINDS, Kind, Peak, Seen, Steps

News: TypeAlias = Kind | Literal["pass", "pass again"]

_ALL: AbstractSet[Kind] = frozenset(KINDS)

RESTARTS: Mapping[News, AbstractSet[Kind]] = {
    "pass": _ALL,
    "pass again": _ALL - {"read", "write"},
    "verifier": _ALL,
    "error": _ALL - {"verifier"},
    "read": _ALL - {"verifier"},
    "write": frozenset({"read", "write"}),
    "denied": frozenset(),
}
"""What is new -> the kinds of steps that are counted anew from there. A verifier's pass need not differ from an earlier
one: it is `pass again` if the verdict before it was one as well."""

MAX_STEPS = 256
"""Different steps that are kept twice over: as many of the latest are always known, and twice as many at most. One that
was forgotten is new when it comes again, so that a circle of more steps is not seen."""


_NONE: "HashTrieMap[str, Seen]" = HashTrieMap()


def refused(steps: Steps, event: Denied, seq: int) -> Steps:
    """After a call was refused, at that place of the run."""
    by = event.checks[-1].check if event.checks else ""
    # Who was told to wait does right to ask again, and a budget has a stop of its own.
    if event.retry_after_s is not None or by == "budget":
        return steps
    return _stepped(steps, "denied", seq, event.tool, event.alike or event.arguments, by)


def answered(steps: Steps, intent: Intent, event: ReceiptRecorded, seq: int) -> Steps:
    """After a call was answered. What the gateway itself asks is no step of the agent's."""
    if intent.compensates is not None:
        return steps
    if event.is_error:
        same = (event.alike,) if event.alike is not None else (intent.arguments, event.result or "")
        return _stepped(steps, "error", seq, intent.tool, *same)
    if event.alike is None:
        return steps
    return _stepped(steps, "read" if intent.effect is Effect.READ else "write", seq, intent.tool, event.alike)


def judged(steps: Steps, event: EvidenceRecorded, before: Evidence | None, seq: int) -> Steps:
    """After a verifier spoke; `before` is what it had said last."""
    match event.verdict:
        case "pass":
            again = before is not None and before.event.verdict == "pass"
            return _news(steps, "pass again" if again else "pass", seq)
        case "fail":
            return _stepped(steps, "verifier", seq, event.verifier, event.signature or event.verdict)
        case "inconclusive":
            return steps
        case _:
            assert_never(event.verdict)


def unfinished(steps: Steps, event: FinishRefused, seq: int) -> Steps:
    """After the agent said that it is done, and is not. To say it again, and lack the same, is a circle as well, but
    not before a verifier would be asked again.
    """
    if event.rested:
        return steps
    return _stepped(steps, "denied", seq, "gateway__finish", *event.lacking)


def _stepped(steps: Steps, kind: Kind, seq: int, *what: str) -> Steps:
    step = "\0".join((kind, *what))
    before = steps.young.get(step) or steps.old.get(step)
    if before is None:
        steps = _news(steps, kind, seq)
    times = before.times + 1 if before is not None and before.seq >= _since(steps, kind) else 1
    young, old = steps.young, steps.old
    if len(young) >= MAX_STEPS and step not in young:
        young, old = _NONE, young
    peaks = _peaks(steps, Peak(kind, step, times, seq))
    return Steps(young.insert(step, Seen(times, seq)), old, peaks, steps.since)


def _news(steps: Steps, news: News, seq: int) -> Steps:
    anew = RESTARTS[news]
    denied, error, verifier, read, write = (
        seq if kind in anew else since for kind, since in zip(KINDS, steps.since, strict=True)
    )
    return steps._replace(since=(denied, error, verifier, read, write))


def _since(steps: Steps, kind: Kind) -> int:
    return steps.since[KINDS.index(kind)]


def _peaks(steps: Steps, latest: Peak) -> tuple[Peak, ...]:
    for one in steps.peaks:
        if one.kind == latest.kind and one.seq >= _since(steps, one.kind) and one.times >= latest.times:
            return steps.peaks
    return (*(one for one in steps.peaks if one.kind != latest.kind), latest)


FAILURES: AbstractSet[Kind] = frozenset({"denied", "error", "verifier"})


def failures(steps: Steps) -> Mapping[str, int]:
    """How often each failure came since something new did; kind and what it was about, joined by NUL."""
    kept = [*steps.old.items(), *steps.young.items()]
    counted = [(step, KINDS.index(kind), seen) for step, seen in kept if (kind := _kind_of(step)) is not None]
    return {step: seen.times for step, at, seen in counted if seen.seq >= steps.since[at]}


def _kind_of(step: str) -> Kind | None:
    return next((kind for kind in KINDS if kind in FAILURES and step.startswith(f"{kind}\0")), None)


# --- how often is too often -----------------------------------------------------------------------------------------


LEAST_CHANGES = 3
"""A change that is made twice, with the same answer, is no circle yet."""


def limit_of(kind: Kind, limits: RepeatedState) -> int | None:
    """How often a step of that kind may come before it ends the run; None: however often."""
    match kind:
        case "read":
            return limits.reads
        case "write":
            return None if limits.reads is None else max(limits.after, LEAST_CHANGES)
        case _:
            return limits.after


def circling(steps: Steps, limits: RepeatedState, margin: int = 0) -> Peak | None:
    """The step that came as often as it may, or is so many short of it; the first that did, if there are several."""
    found: Peak | None = None
    for peak in steps.peaks:
        limit = limit_of(peak.kind, limits)
        if limit is None or peak.times < limit - margin or peak.seq < _since(steps, peak.kind):
            continue
        if found is None or peak.seq < found.seq:
            found = peak
    return found
