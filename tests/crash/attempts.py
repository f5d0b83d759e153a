"""What the records say of each attempt, read without the reducer: a checker that shares its mistakes would see none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.model.events import Event, IntentRecorded
from gateway.model.record import Record
from tests.crash.history import History

BECOMES: Mapping[str, str] = {
    "receipt.recorded": "answered",
    "attempt.unsent": "unsent",
    "attempt.suspended": "suspended",
    "attempt.resumed": "open",
    "attempt.resent": "open",
    "attempt.unknown": "unknown",
    "attempt.abandoned": "abandoned",
    "attempt.refuted": "refuted",
}
"""Kind of event -> the state that it leaves an attempt in."""

FORWARD: Mapping[str, frozenset[str]] = {
    "open": frozenset({"answered", "unsent", "suspended", "unknown", "abandoned"}),
    "suspended": frozenset({"answered", "suspended", "open", "unknown", "abandoned"}),
    "unknown": frozenset({"answered", "refuted", "open"}),
    "refuted": frozenset({"answered"}),  # a late answer is believed, whatever was believed before it
    "abandoned": frozenset({"answered"}),
    "answered": frozenset(),
    "unsent": frozenset(),
}
"""State -> states that may follow it."""

FREED = frozenset({"unsent", "refuted", "abandoned"})
"""States in which an attempt no longer has its key."""


@dataclass(slots=True)
class Lived:
    """One attempt, as its records tell it."""

    id: str
    run: str
    place: int
    """Of its intent in the log."""
    record: Record
    intent: IntentRecorded
    said: list[tuple[int, Record, Event]] = field(default_factory=list)
    """What else was recorded of it, in order, with places."""

    def of_kind(self, kind: str) -> list[tuple[int, Any]]:
        """Its events of that kind, with their places."""
        return [(place, event) for place, _, event in self.said if event.kind == kind]

    def states(self) -> list[tuple[int, str]]:
        """The states that it went through, each with the place from which it was in it."""
        moved = [(place, BECOMES[event.kind]) for place, _, event in self.said if event.kind in BECOMES]
        return [(self.place, "open"), *moved]

    def state_at(self, place: int) -> str:
        """Its state once the log had that many records."""
        return [state for at, state in self.states() if at <= place][-1]

    def verified_at(self, place: int) -> bool:
        """Whether nothing has still to be proven about it."""
        receipts = [event for at, event in self.of_kind("receipt.recorded") if at <= place]
        asks = self.intent.verifier is not None and not any(one.is_error for one in receipts)
        return not asks or any(at <= place for at, _ in self.of_kind("evidence.recorded"))

    def delivered_at(self, place: int) -> bool:
        """Whether its outcome had been delivered."""
        return any(at <= place for at, _ in self.of_kind("outcome.delivered"))

    def owes_at(self, place: int) -> str | None:
        """What others must still know of it then: `open`, `unknown`, `unverified`, `undelivered`; None for nothing."""
        state = self.state_at(place)
        if state in {"open", "suspended"}:
            return "open"
        if state != "answered":
            return "unknown" if state == "unknown" else None
        if not self.verified_at(place):
            return "unverified"
        return "undelivered" if self.intent.hold is not None and not self.delivered_at(place) else None


def lived(history: History) -> dict[str, Lived]:
    """Every attempt by its id, in the order of the intents."""
    found: dict[str, Lived] = {}
    for place, record, event in history.events():
        if isinstance(event, IntentRecorded):
            found[event.attempt] = Lived(event.attempt, record.run, place, record, event)
        elif (name := getattr(event, "attempt", None)) in found and _moves(event):
            found[name].said.append((place, record, event))
    return found


def _moves(event: Event) -> bool:
    """Verdicts that only cite an attempt say nothing of it."""
    return not event.kind.startswith("proposal.")


def given_way(attempts: Mapping[str, Lived]) -> dict[str, int]:
    """Ended attempts whose hold gave way to an equal call that its client told apart by a key of its own; and where."""
    latest: dict[tuple[str, str, str], Lived] = {}
    given: dict[str, int] = {}
    for attempt in attempts.values():
        equal = attempt.run, attempt.intent.tool, attempt.intent.alike or attempt.intent.arguments
        earlier = latest.get(equal)
        if earlier is not None and earlier.owes_at(attempt.place - 1) == "undelivered":
            given[earlier.id] = attempt.place
        latest[equal] = attempt
    return given
