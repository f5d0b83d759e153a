"""A run as it is told to people: its records, what they cite, and how far each effect is known to be there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gateway.kernel.reduce import CorruptLedger as CorruptLedger
from gateway.kernel.standing import CHANGED, Standing, effects
from gateway.model.canonical import Digest
from gateway.model.events import Event, FinishClaimed, NoteRecorded, PlanRecorded
from gateway.model.record import Record
from gateway.model.run import Run
from gateway.runtime.book import Book
from gateway.runtime.explain import stored_in


class Stands(NamedTuple):
    """How it stands with the effect of one attempt."""

    attempt: str
    says: str
    """A word of `Standing`."""
    changed: bool
    """Whether it did change the world, or may have."""
    undone_by: str | None = None
    """The attempt that undid it."""


@dataclass(frozen=True, slots=True)
class Story:
    """All that a timeline is made of."""

    run: Run
    records: Sequence[Record]
    payloads: Mapping[Digest, Any]
    """What the timeline shows of it; None where it was erased or changed."""
    stands: Sequence[Stands]
    """Of every attempt that is no read, the oldest first."""


async def story_of(book: Book, run_id: str) -> Story | None:
    """The run's story; None if the ledger has no such run.

    Raises: LedgerUnavailable, CorruptLedger.
    """
    records = [record for record, _ in await book.ledger.read(run_id)]
    if not records:
        return None
    payloads: dict[Digest, Any] = {}
    for cited in (digest for record in records for digest in _cited(record.event)):
        if cited not in payloads:
            payloads[cited] = await stored_in(book.ledger, cited)
    run = await book.fresh_state_of(run_id)
    return Story(run, records, payloads, tuple(_stands(run)))


def _stands(run: Run) -> Iterator[Stands]:
    for one, standing in effects(run):
        by = run.undo[one.id].by if standing is Standing.UNDONE else None
        yield Stands(one.id, standing.value, standing in CHANGED, by)


def _cited(event: Event) -> Iterator[Digest]:
    """The payloads that a timeline shows: arguments, and what the agent said itself."""
    match event:
        case PlanRecorded():
            yield event.plan
        case NoteRecorded():
            yield event.note
        case FinishClaimed():
            yield event.claim
        case _ if (arguments := getattr(event, "arguments", None)) is not None:
            yield arguments
        case _:
            pass
