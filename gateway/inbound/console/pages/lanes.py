"""When a run was in which phase, and whom it waited for, as bars over one axis of time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from gateway.inbound.told.asked import Asked
from gateway.inbound.told.words import lasting, spell
from gateway.model.events import (
    AttemptAbandoned,
    AttemptUnknown,
    AttemptUnsent,
    EvidenceRecorded,
    IntentRecorded,
    PhaseMoved,
    ReceiptRecorded,
    RunOpened,
    RunStopped,
)
from gateway.model.record import Record

ACROSS = 1_000
"""Units of the axis."""
LEAST = 3
"""Of them, what is too short to be seen is drawn as long as this."""
TICKS = 4


class Bar(NamedTuple):
    """A part of the axis, in its units."""

    x: int
    width: int


@dataclass(frozen=True, slots=True)
class Lane:
    """One row."""

    name: str
    kind: str
    """A word of ours, which becomes a class."""
    bars: tuple[Bar, ...]
    spell: str
    """How long in all, as people read it."""
    count: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """All rows, and their axis."""

    rows: tuple[Lane, ...]
    ticks: tuple[str, ...]
    """Since the run was opened."""
    began: datetime
    ended: datetime


Spans = list[tuple[datetime, datetime]]


@dataclass
class _Spans:
    phases: dict[str, Spans] = field(default_factory=dict)
    tools: dict[str, Spans] = field(default_factory=dict)
    looks: dict[str, Spans] = field(default_factory=dict)
    _phase: tuple[str, datetime] | None = None
    _sent: dict[str, tuple[str, datetime]] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """What the record begins, or ends."""
        event = record.event
        match event:
            case RunOpened():
                self._phase = (event.phase, record.at)
            case PhaseMoved():
                self.leave(record.at)
                self._phase = (event.target, record.at)
            case RunStopped():
                self.leave(record.at)
            case IntentRecorded():
                self._sent[event.attempt] = (event.upstream or event.tool, record.at)
            case ReceiptRecorded() | AttemptUnsent() | AttemptUnknown() | AttemptAbandoned():
                if (sent := self._sent.pop(event.attempt, None)) is not None:
                    self.tools.setdefault(sent[0], []).append((sent[1], record.at))
            case EvidenceRecorded():
                self.looks.setdefault(event.verifier, []).append((min(event.started_at, record.at), record.at))
            case _:
                pass

    def leave(self, at: datetime) -> None:
        """The phase in which the run is ends."""
        if self._phase is not None:
            name, since = self._phase
            self.phases.setdefault(name, []).append((since, at))
            self._phase = None


def lanes(records: Sequence[Record], asked: Sequence[Asked]) -> Lanes:
    """The bars of a run; of one that has not ended, until it was last heard of."""
    began, ended, spans = records[0].at, max(record.at for record in records), _Spans()
    for record in records:
        spans.add(record)
    spans.leave(ended)
    people = [(one.at, max(said.at for said in one.said) if one.said else ended) for one in asked]
    rows = [
        *_rows(spans.phases, "phase", began, ended),
        *_rows(spans.tools, "tool", began, ended),
        *_rows(spans.looks, "verifier", began, ended),
        *_rows({"people": people} if people else {}, "person", began, ended),
    ]
    whole = (ended - began).total_seconds()
    ticks = ["0", *(_tick(whole * at / TICKS) for at in range(1, TICKS + 1))]
    return Lanes(tuple(rows), tuple(ticks), began, ended)


def _tick(spell_s: float) -> str:
    return spell(spell_s) if spell_s < 120 else lasting(spell_s)  # noqa: PLR2004 - below, tenths of a second say something


def _rows(found: Mapping[str, Spans], kind: str, began: datetime, ended: datetime) -> Iterator[Lane]:
    whole = max((ended - began).total_seconds(), 1e-6)
    for name, spans in found.items():
        bars = tuple(_merged(_bar(span, began, whole) for span in sorted(spans)))
        took = sum((end - start).total_seconds() for start, end in spans)
        yield Lane(name, kind, bars, spell(took), len(spans))


def _bar(span: tuple[datetime, datetime], began: datetime, whole: float) -> Bar:
    start, end = ((at - began).total_seconds() / whole * ACROSS for at in span)
    x = min(max(0, int(start)), ACROSS - LEAST)
    return Bar(x, min(max(LEAST, round(end) - x), ACROSS - x))


def _merged(bars: Iterable[Bar]) -> Iterator[Bar]:
    """Those that touch are one: a row has at most as many as the axis has room for."""
    last: Bar | None = None
    for bar in bars:
        if last is not None and bar.x <= last.x + last.width:
            last = Bar(last.x, max(last.width, bar.x + bar.width - last.x))
            continue
        if last is not None:
            yield last
        last = bar
    if last is not None:
        yield last
