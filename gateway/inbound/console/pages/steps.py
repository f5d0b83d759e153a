"""Rows of a timeline with what can be unfolded of them: for the page of a run, and for its report."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from gateway.inbound.console.shown.layers import Piece
from gateway.inbound.console.shown.letters import shown
from gateway.inbound.told.rows import Row, rows_of
from gateway.inbound.told.words import amount, seconds, size
from gateway.model.canonical import Digest
from gateway.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    EvidenceRecorded,
    IntentRecorded,
    ReceiptRecorded,
)
from gateway.model.record import Record
from gateway.runtime.story import Long, Story

SHOWN = 1_000
"""Characters of one step's arguments in a timeline; the whole is behind a link, or a command."""
SHOWN_IN_ALL = 30_000
"""Of all steps of a page together."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Of a step, as its page shows them."""

    text: tuple[Piece, ...]
    cut: bool
    """Whether that is only their beginning."""
    size: str


class Cited(NamedTuple):
    """A receipt or evidence, with the digest of what it rests on."""

    step: int
    what: str
    verdict: str
    says: str
    digest: Digest | None


@dataclass(frozen=True, slots=True)
class Step:
    """A row of a timeline, with what its page can unfold."""

    row: Row
    record: Record
    checks: Sequence[Any]
    arguments: Arguments | None
    waited_s: float | None
    """For a person's answer: since it was asked."""
    trouble: bool
    """Whether it is shown unfolded."""
    cited: Sequence[Cited] = ()


def steps_of(story: Story, wanted: frozenset[int], *, room: int = SHOWN_IN_ALL, citing: bool = False) -> Sequence[Step]:
    """Those that are wanted; with so many characters of arguments in all, and with what they rest on if `citing`."""
    records = {record.seq: record for record in story.records}
    asked = {one.event.approval: one.at for one in story.records if isinstance(one.event, ApprovalRequested)}
    cited = _cited_by_step(story.records) if citing else {}
    left = _Room(room)
    return [
        _step(story, row, records[row.step], asked, left, cited.get(row.step, ()))
        for row in rows_of(story)
        if row.step in wanted
    ]


@dataclass
class _Room:
    """How many characters the page has left."""

    left: int

    def take(self, text: str) -> str:
        """As much of the text as there is room for."""
        taken = text[: min(SHOWN, self.left)]
        self.left -= len(taken)
        return taken


def _step(
    story: Story, row: Row, record: Record, asked: Mapping[str, datetime], room: _Room, cited: Sequence[Cited]
) -> Step:
    event: Event = record.event
    since = asked.get(event.approval) if isinstance(event, ApprovalDecided) else None
    named: Digest | None = getattr(event, "arguments", None)
    return Step(
        row,
        record,
        checks=getattr(event, "checks", ()),
        arguments=None if named is None else _arguments(story.payloads.get(named), room),
        waited_s=None if since is None else (record.at - since).total_seconds(),
        trouble=row.style in {"yellow", "red"},
        cited=cited,
    )


def _arguments(told: object, room: _Room) -> Arguments | None:
    match told:
        case None:
            return None
        case Long():
            return Arguments(shown(room.take(told.head), strict=True), cut=True, size=f"{told.size_bytes:,} bytes")
        case _:
            text = json.dumps(told, ensure_ascii=False, indent=2)
            head = room.take(text)
            return Arguments(shown(head, strict=True), cut=len(head) < len(text), size=f"{len(text):,} characters")


def _cited_by_step(records: Sequence[Record]) -> Mapping[int, Sequence[Cited]]:
    """By the step whose attempt it belongs to, or by its own."""
    begun: dict[str, int] = {}
    found: dict[int, list[Cited]] = {}
    for record in records:
        event = record.event
        match event:
            case IntentRecorded():
                begun[event.attempt] = record.seq
            case ReceiptRecorded():
                place = found.setdefault(begun.get(event.attempt, record.seq), [])
                place.append(Cited(record.seq, "receipt", event.source, _received(event), event.result))
                if event.artifact is not None:
                    place.append(Cited(record.seq, "probe", event.source, event.reason or "", event.artifact))
            case EvidenceRecorded():
                step = begun.get(event.attempt or "", record.seq)
                told = Cited(record.seq, f"verifier {event.verifier}", event.verdict, _looked(event), event.artifact)
                found.setdefault(step, []).append(told)
            case _:
                pass
    return found


def _received(event: ReceiptRecorded) -> str:
    kept = {True: "keeps its schema", False: "breaks its schema", None: ""}[event.schema_valid]
    said = (
        event.answer,
        size(event.size_bytes),
        seconds(event.duration_s),
        kept,
        "late" if event.late and event.source == "upstream" else "",
        "" if event.repeats is None else f"the same again, as {event.repeats} had got it",
    )
    return ", ".join(filter(None, said))


def _looked(event: EvidenceRecorded) -> str:
    cost = f"cost {amount(event.cost / 1_000_000)}" if event.cost else ""
    weight = "an opinion" if event.opinion else "self-reported" if event.self_reported else ""
    about = f"about {', '.join(event.about)}" if event.about else ""
    said = (f"by {event.source}", seconds(event.duration_s), cost, weight, about)
    return ", ".join(filter(None, said))
