"""What must hold of any run that succeeded, or came to a phase by evidence: told from its events alone, by other code.

A look is worth something only if nothing that it is about was under way, or began, after it began; who failed to do
what was asked may have done it to anything.
"""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from gateway.model.events import (
    AttemptAbandoned,
    AttemptRefuted,
    AttemptUnsent,
    CompensationFailed,
    CompensationOwed,
    Effect,
    Event,
    EvidenceRecorded,
    IntentRecorded,
    Outcome,
    PhaseMoved,
    ReceiptRecorded,
    RunMigrated,
    RunStopped,
)
from tests.proofs.driven import Driven

FIRST = 2
"""Place in the run of the first event that is told: before it stands only its opening."""
GRADES = ("independent", "opinion", "self_reported")
_ENDS = (ReceiptRecorded, AttemptUnsent, AttemptRefuted, AttemptAbandoned)


def unproven(driven: Driven) -> list[str]:
    """What is wrong with how the run succeeded, and with each phase that it came to by evidence."""
    events = [event for _, event in driven.life.events]
    found: list[str] = []
    for at, event in enumerate(events):
        if isinstance(event, RunStopped) and event.outcome is Outcome.VERIFIED_SUCCESS:
            found += _succeeded(Told(driven, events[:at]))
        if isinstance(event, PhaseMoved):
            found += _moved(Told(driven, events[:at]), event)
    return found


class Told:
    """What happened before."""

    def __init__(self, driven: Driven, events: Sequence[Event]) -> None:
        self.driven = driven
        self.events = [*enumerate(events)]
        self.policy = driven.policies[self.text()]

    def text(self, until: int | None = None) -> int:
        """Which text of the policy was in force before that event."""
        return sum(isinstance(event, RunMigrated) for _, event in self.events[:until]) % 2

    def intents(self) -> Iterator[tuple[int, IntentRecorded]]:
        """All that was sent, with its place."""
        return ((at, event) for at, event in self.events if isinstance(event, IntentRecorded))

    def evidence(self) -> list[tuple[int, EvidenceRecorded]]:
        """All that verifiers said, with its place."""
        return [(at, event) for at, event in self.events if isinstance(event, EvidenceRecorded)]

    def ended(self, attempt: str) -> int | None:
        """The place of the last that is known of how it ended."""
        return max((at for at, one in self.events if isinstance(one, _ENDS) and one.attempt == attempt), default=None)


def _succeeded(told: Told) -> Iterator[str]:
    success = told.policy["success"]
    for name in success["evidence"]:
        yield from _lacks(name, told)
        if GRADES.index(_grade(told.policy["verifiers"][name])) > GRADES.index(success["accept"]):
            yield f"`{name}` is of a kind that success does not accept"
        asked = [told.driven.began[at] - FIRST + 1 for at, said in told.evidence() if said.verifier == name][-1:]
        if name == "a" and any(told.text(began) != told.text() for began in asked):
            yield f"`{name}` was asked by another text of the policy"
    phase = next((event.target for _, event in reversed(told.events) if isinstance(event, PhaseMoved)), "open")
    if success["phase"] not in {None, phase}:
        yield f"it succeeded in `{phase}`"
    yield from (
        f"it succeeded while `{one.attempt}` was under way"
        for _, one in told.intents()
        if told.ended(one.attempt) is None
    )
    yield from (f"it succeeded while `{name}` was to be undone" for name in _owed(told))
    failed = (event.attempt for _, event in told.events if isinstance(event, CompensationFailed))
    yield from (f"it succeeded though a person must undo `{name}`" for name in failed)


def _grade(verifier: Any) -> str:
    return "self_reported" if "result" in verifier else "opinion" if verifier.get("opinion") else "independent"


def _owed(told: Told) -> set[str]:
    owed = {event.attempt for _, event in told.events if isinstance(event, CompensationOwed)}
    failed = {event.attempt for _, event in told.events if isinstance(event, CompensationFailed)}
    made = {event.compensates or "" for _, event in told.intents() if told.ended(event.attempt) is not None}
    return owed - failed - made


def _moved(told: Told, moved: PhaseMoved) -> Iterator[str]:
    intent = next(one for _, one in told.intents() if one.attempt == moved.attempt)
    if moved.target != intent.target:
        at, why = told.events[-1]
        if isinstance(why, EvidenceRecorded) and told.driven.seen[at] != "no":
            yield f"`{why.verifier}` saw {told.driven.seen[at]}, and the run took the edge of a failure"
        return
    for name in (*((intent.verifier,) if intent.verifier else ()), *intent.verifiers):
        yield from _lacks(name, told)


def _lacks(name: str, told: Told) -> Iterator[str]:
    """Why the verifier's last word proves nothing."""
    at, said = next(((at, said) for at, said in reversed(told.evidence()) if said.verifier == name), (0, None))
    if said is None:
        yield f"`{name}` has never spoken"
        return
    if told.driven.seen[at] != "yes":
        yield f"what `{name}` last saw is {told.driven.seen[at]}"
    for place, intent in told.intents():
        if intent.effect is Effect.READ or not any(fnmatchcase(intent.tool, pattern) for pattern in said.covers):
            continue
        about, ended = told.driven.objects[intent.attempt], told.ended(intent.attempt)
        elsewhere = said.about and about is not None and about not in said.about
        failed = any(one.attempt == intent.attempt and told.driven.seen[seen] == "no" for seen, one in told.evidence())
        if elsewhere and not failed:
            continue
        last = FIRST + max(place, place if ended is None else ended)
        began = told.driven.began[at]
        if ended is None or last > began:
            yield f"`{name}` looked from record {began} on, and `{intent.attempt}` was not over before {last}"
