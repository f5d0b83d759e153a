"""(records of a run, one after another) -> what it cost, by where it arose, and what it put before a model. Pure.

Time and grade are told apart here: a charge belongs to the time of its intent, and is taken off again if the call is
known never to have happened, whenever that is found out; all else belongs to the time of its own record.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import NamedTuple

from gateway.kernel.charges import measured
from gateway.kernel.weights import Composed, Given, Load
from gateway.model.canonical import Digest
from gateway.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalWithdrawn,
    AttemptRefuted,
    AttemptUnsent,
    Denied,
    Effect,
    Event,
    EvidenceRecorded,
    Held,
    IntentRecorded,
    OutcomeDelivered,
    PhaseMoved,
    ReceiptRecorded,
    Replayed,
    RunOpened,
    Verdict,
)
from gateway.model.record import Record


@dataclass(slots=True)
class Sums:
    """Figures while they grow; as in `model/costs.py`. Costs are in millionths."""

    calls: int = 0
    mutations: int = 0
    refusals: int = 0
    replays: int = 0
    results: int = 0
    result_bytes: int = 0
    tool_s: float = 0.0
    looks: int = 0
    verifier_s: float = 0.0
    questions: int = 0
    waited_s: float = 0.0
    cost: int = 0
    verifier_cost: int = 0
    reported: int = 0
    estimated: int = 0
    counted: int = 0
    uncounted: int = 0

    def take(self, other: "Sums") -> None:
        """All of the other is in this one as well."""
        for name in _NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def any(self) -> bool:
        """Whether anything is in it."""
        return any(getattr(self, name) for name in _NAMES)


_NAMES = tuple(one.name for one in fields(Sums))


class Place(NamedTuple):
    """Where a cost arose. A name is empty where there is none."""

    phase: str
    transition: str
    tool: str


@dataclass(slots=True)
class _Sent:
    """What is remembered of an attempt."""

    place: Place
    cost: int
    read: bool
    own: bool
    """The gateway's own call, whose answer no model sees."""
    inside: bool
    """Whether its charge is in the time that is asked about."""
    off: bool = False
    """Whether that was taken off again."""
    result: Digest | None = None
    gave: int = 0
    """How often its result went to the client, in the time that is asked about."""
    gave_again: int = 0
    """Of these, how often that was the same again."""
    told: int | None = None
    """In how many bytes, where policy bounds that."""


@dataclass(slots=True)
class _Asked:
    place: Place
    since: datetime


class Tally:
    """One run's. Memory is that of its attempts and of its different results."""

    def __init__(self, inside: Callable[[datetime], bool] = lambda _: True) -> None:
        """Of what happened at times that are `inside`."""
        self._inside = inside
        self._sent: dict[str, _Sent] = {}
        self._asked: dict[str, _Asked] = {}
        self._defined: set[Digest] = set()
        self._phase = ""
        self.opened: RunOpened | None = None
        self.places: dict[Place, Sums] = {}
        self.context: dict[str, Composed] = {}
        self.given: dict[Digest, Given] = {}
        self.policies: set[Digest] = set()
        """Whose prices were taken."""

    @property
    def whole(self) -> Sums:
        """Of all places."""
        found = Sums()
        for one in self.places.values():
            found.take(one)
        return found

    def wanted(self, event: Event) -> Digest | None:
        """A payload that must be weighed before the event is added: a definition that the run proposes first."""
        if not isinstance(event, Verdict) or event.definition in self._defined or event.compensates is not None:
            return None
        return event.definition

    def add(self, record: Record, loads: Mapping[Digest, Load] | None = None) -> None:
        """The run's next record. `loads`: of the payloads that it cites, as far as somebody could weigh them."""
        event, inside = record.event, self._inside(record.at)
        if isinstance(event, Verdict):
            self._judged(record, event, loads or {}, inside=inside)
            return
        match event:
            case RunOpened():
                self.opened, self._phase = event, event.phase
            case PhaseMoved():
                self._phase = event.target
            case ReceiptRecorded():
                self._received(record.seq, event, loads or {}, inside=inside)
            case OutcomeDelivered():
                self._delivered(event)
            case AttemptUnsent() | AttemptRefuted():
                self._undone(event)
            case EvidenceRecorded() if inside:
                self._looked(event)
            case ApprovalDecided() | ApprovalExpired() | ApprovalWithdrawn():
                self._answered(record, event, inside=inside)
            case _:
                pass

    def _at(self, place: Place) -> Sums:
        found = self.places.get(place)
        if found is None:
            found = self.places[place] = Sums()
        return found

    def _before(self, tool: str) -> Composed:
        found = self.context.get(tool)
        if found is None:
            found = self.context[tool] = Composed()
        return found

    def _judged(self, record: Record, event: Verdict, loads: Mapping[Digest, Load], *, inside: bool) -> None:
        first = self._sent.get(getattr(event, "attempt", None) or "")  # what is repeated was ruled by what it repeats
        place = Place(event.phase, event.transition or (first.place.transition if first else ""), event.tool)
        if event.definition is not None and event.compensates is None:
            self._shown(event.tool, event.definition, loads, inside=inside)
        if inside and event.reported_tokens:
            self._at(place).reported += event.reported_tokens
        match event:
            case IntentRecorded():
                own, read = event.compensates is not None, event.effect is Effect.READ
                self._sent[event.attempt] = _Sent(place, event.charge.cost, read, own, inside)
                if inside:
                    self._intended(place, event, read=read)
            case Replayed():
                self._replayed(event, place, inside=inside)
            case Denied() | Held() | ApprovalRequested():
                self._refused(record, event, place, inside=inside)
            case _:
                pass

    def _shown(self, tool: str, definition: Digest, loads: Mapping[Digest, Load], *, inside: bool) -> None:
        if definition in self._defined:
            return
        self._defined.add(definition)
        load = loads.get(definition)
        if not inside:
            return
        if load is None:
            self._before(tool).unweighed += 1
        else:
            self._before(tool).definitions.add(load.size_bytes, load.tokens)

    def _intended(self, place: Place, event: IntentRecorded, *, read: bool) -> None:
        sums = self._at(place)
        sums.calls += 1
        sums.mutations += not read
        sums.cost += event.charge.cost
        if event.charge.cost:
            self.policies.add(event.policy)

    def _refused(self, record: Record, event: Denied | Held | ApprovalRequested, place: Place, *, inside: bool) -> None:
        if isinstance(event, ApprovalRequested):
            self._asked[event.approval] = _Asked(place, record.at)
        if not inside:
            return
        sums = self._at(place)
        sums.refusals += 1
        sums.questions += isinstance(event, ApprovalRequested)
        if event.compensates is None:
            self._before(event.tool).refusals += 1

    def _replayed(self, event: Replayed, place: Place, *, inside: bool) -> None:
        if inside:
            self._at(place).replays += 1
        sent = self._sent.get(event.attempt)
        if sent is not None and sent.result is not None:
            self._give(sent, sent.result, inside=inside)
        elif inside:
            self._before(event.tool).unweighed += 1  # it is another run's, or its answer is not recorded

    def _received(self, seq: int, event: ReceiptRecorded, loads: Mapping[Digest, Load], *, inside: bool) -> None:
        sent = self._sent.get(event.attempt)
        if sent is None:
            return
        if sent.off:  # it was found not to have happened, and has after all
            sent.off = False
            self._at(sent.place).cost += sent.cost
        if event.source != "upstream":
            return
        load = loads.get(event.result) if event.result is not None else None
        tokens = None if load is None else load.tokens
        sent.result = event.result
        if inside:
            sums = self._at(sent.place)
            sums.results += 1
            sums.result_bytes += event.size_bytes
            sums.tool_s += event.duration_s or 0.0
            sums.estimated += measured(event.size_bytes)
            sums.counted += tokens or 0
            sums.uncounted += tokens is None
        if event.result is not None and not sent.own:
            self.given.setdefault(event.result, Given(seq, sent.place.tool, event.size_bytes, tokens))
            if not event.late:
                self._give(sent, event.result, inside=inside)

    def _give(self, sent: _Sent, result: Digest, *, inside: bool) -> None:
        given = self.given.get(result)
        if given is None:
            return
        given.ever += 1
        if not inside:
            return
        composed, again = self._before(given.tool), given.ever > 1
        composed.results.add(given.size_bytes, given.tokens)
        given.times += 1
        sent.gave += 1
        if again:
            given.again += 1
            sent.gave_again += 1
            composed.again.add(given.size_bytes, given.tokens)
        if sent.told is not None:
            self._shorten(given, sent.told, 1, int(again))

    def _delivered(self, event: OutcomeDelivered) -> None:
        """The result went out in fewer bytes than it has, each time that it did."""
        sent = self._sent.get(event.attempt)
        given = self.given.get(sent.result) if sent is not None and sent.result is not None else None
        if sent is None or given is None or event.told_bytes is None or sent.told is not None:
            return
        sent.told = event.told_bytes
        self._shorten(given, sent.told, sent.gave, sent.gave_again)

    def _shorten(self, given: Given, told: int, times: int, again: int) -> None:
        composed, spared = self._before(given.tool), given.size_bytes - told
        if not spared:
            return
        for weighed, count in ((composed.results, times), (composed.again, again)):
            for _ in range(count):
                weighed.shorten(given.size_bytes, given.tokens, told)
        given.spared += times * spared
        given.spared_again += again * spared

    def _undone(self, event: AttemptUnsent | AttemptRefuted) -> None:
        sent = self._sent.get(event.attempt)
        if sent is None or not sent.inside or sent.off:
            return
        sums = self._at(sent.place)
        sums.cost -= sent.cost
        sent.off = True
        if isinstance(event, AttemptUnsent):
            sums.calls -= 1
            sums.mutations -= not sent.read

    def _looked(self, event: EvidenceRecorded) -> None:
        sent = self._sent.get(event.attempt or "")
        sums = self._at(Place(self._phase, "", f"verifier {event.verifier}") if sent is None else sent.place)
        sums.looks += 1
        sums.verifier_s += event.duration_s or 0.0
        sums.verifier_cost += event.cost

    def _answered(
        self, record: Record, event: ApprovalDecided | ApprovalExpired | ApprovalWithdrawn, *, inside: bool
    ) -> None:
        asked = self._asked.get(event.approval)
        if asked is None or (isinstance(event, ApprovalDecided) and event.decision == "revoked"):
            return
        if inside:
            self._at(asked.place).waited_s += (record.at - asked.since).total_seconds()
        asked.since = record.at
