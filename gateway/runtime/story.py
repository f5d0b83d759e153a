"""A run as it is told to people: its records, what they cite, and how far each effect is known to be there."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from gateway.kernel.approve import pending
from gateway.kernel.asking import escalated as escalated
from gateway.kernel.reduce import CorruptLedger as CorruptLedger
from gateway.kernel.standing import CHANGED, Standing, effects
from gateway.model.canonical import Digest, parse
from gateway.model.events import (
    Event,
    FinishClaimed,
    Held,
    IntentRecorded,
    NoteRecorded,
    PlanInvalidated,
    PlanRecorded,
    Replayed,
    RunOpened,
)
from gateway.model.record import Record
from gateway.model.review import Reviewer
from gateway.model.run import AttemptState, Run
from gateway.ports import DamagedRecord, Ledger, LockedPayload
from gateway.runtime.book import Book
from gateway.runtime.explain import stored_in
from gateway.runtime.wire import ANY_DEPTH

AT_ONCE = 64
"""Records that are read in one turn of the event loop."""
LONG = 32_000
"""Bytes of a payload beyond which a page of a timeline does not take it apart."""
MAX_HEAD = 1_000
"""Of such a payload, the bytes that are told."""


class Stands(NamedTuple):
    """How it stands with the effect of one attempt."""

    attempt: str
    says: str
    """A word of `Standing`."""
    changed: bool
    """Whether it did change the world, or may have."""
    undone_by: str | None = None
    """The attempt that undid it."""


class Long(NamedTuple):
    """A payload that is not taken apart: how many bytes it has, and how they begin."""

    size_bytes: int
    head: str


@dataclass(frozen=True, slots=True)
class Story:
    """All that a timeline is made of."""

    run: Run
    records: Sequence[Record]
    payloads: Mapping[Digest, Any]
    """What the timeline shows of it; None where it was erased or changed, `Long` where it is too long for that."""
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
    for cited in _cited_by(records):
        if cited not in payloads:
            payloads[cited] = await stored_in(book.ledger, cited)
    run = await book.fresh_state_of(run_id)
    return Story(run, records, payloads, tuple(_stands(run)))


async def seen_by(book: Book, run_id: str, by: Reviewer) -> bool:
    """Whether there is such a run, and it is theirs to see. Only how it began is read.

    Raises: LedgerUnavailable.
    """
    began = await book.ledger.read(run_id, limit=1)
    opened = began[0][0].event if began else None
    return isinstance(opened, RunOpened) and by.sees(opened.principal.tenant)


# --- a part of it -----------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Some steps of a run, one after another."""

    story: Story
    """With the records of these steps, and of those that they name."""
    steps: frozenset[int]
    earlier: int | None
    """The step before which there are others; None if these are the first."""


async def part_of(book: Book, run_id: str, before: int | None, most: int) -> Part:
    """The last steps of the run, or the last ones before that. However long the run is, few of its records are kept in
    memory, and nobody waits for all of them to be read.

    Raises: LedgerUnavailable, CorruptLedger.
    """
    run = await book.fresh_state_of(run_id)
    end = run.version if before is None else min(run.version, before - 1)
    begun = await _begun(book.ledger, run, end, most)
    own = {name for record in begun if (name := _attempt_of(record, run)) is not None}
    first = begun[0].seq if begun else end
    records = {one.seq: one for one in (*begun, *await _named(book.ledger, run, begun))}
    async for record in _read(book.ledger, run, first, run.version if own else first):
        if _attempt_of(record, run) in own:
            records[record.seq] = record
    steps = frozenset(one.seq for one in begun)
    told = [records[seq] for seq in sorted(records)]
    payloads = {cited: await short_in(book.ledger, cited) for cited in dict.fromkeys(_cited_by(told))}
    stands = await asyncio.to_thread(lambda: tuple(one for one in _stands(run) if one.attempt in own))
    return Part(Story(run, told, payloads, stands), steps, first if first > 1 else None)


async def _begun(ledger: Ledger, run: Run, end: int, most: int) -> Sequence[Record]:
    """The last records up to that one with which a step begins: all that do not go on with an attempt."""
    found: list[Record] = []
    while end > 0 and len(found) < most:
        start = max(0, end - AT_ONCE)
        some = [record async for record in _read(ledger, run, start, end)]
        found = [*(one for one in some if _begins(one, run)), *found]
        end = start
    return found[-most:]


async def _read(ledger: Ledger, run: Run, after: int, until: int) -> AsyncIterator[Record]:
    """The records beyond the one, up to the other, in turns."""
    while after < until:
        some = await ledger.read(run.id, after, limit=min(AT_ONCE, until - after))
        for record, _ in some:
            yield record
        if not some:
            return
        after += len(some)
        await asyncio.sleep(0)  # a ledger in memory does not wait, and would keep the loop


async def _named(ledger: Ledger, run: Run, begun: Sequence[Record]) -> Sequence[Record]:
    """What these steps speak of and is not among them: how the attempts began that they undo or repeat, and the plan
    that the agent had.
    """
    names = {getattr(one.event, field, None) for one in begun for field in ("compensates", "attempt")}
    names |= {run.undo[name].by for name in names if name is not None and name in run.undo}
    seqs = {run.attempts[name].seq for name in names if name is not None and name in run.attempts}
    if run.plan is not None and any(isinstance(one.event, PlanInvalidated) for one in begun):
        seqs.add(run.plan.seq)
    return [record for seq in sorted(seqs) for record, _ in await ledger.read(run.id, seq - 1, limit=1)]


def _begins(record: Record, run: Run) -> bool:
    return isinstance(record.event, IntentRecorded) or _attempt_of(record, run) is None


def _attempt_of(record: Record, run: Run) -> str | None:
    """The attempt whose step the record belongs to."""
    name = getattr(record.event, "attempt", None)
    return name if name in run.attempts and not isinstance(record.event, Held | Replayed) else None


def _cited_by(records: Iterable[Record]) -> Iterator[Digest]:
    return (digest for record in records for digest in _cited(record.event))


async def short_in(ledger: Ledger, cited: Digest | None) -> Any:
    """The payload of that digest; `Long` where it is too long to be taken apart, None as in `stored_in`.

    Raises: LedgerUnavailable.
    """
    if cited is None:
        return None
    try:
        body = await ledger.payload(cited)
    except (DamagedRecord, LockedPayload):
        return None
    if body is not None and len(body) > LONG:
        return Long(len(body), body[:MAX_HEAD].decode("utf-8", "ignore"))
    return None if body is None else parse(body, max_depth=ANY_DEPTH)


def waiting_in(run: Run, now: datetime) -> Sequence[tuple[str, str]]:
    """What a person is asked in this run, each with its tool."""
    asked = [one for one in run.approvals.values() if run.stopped is None and pending(one, now)]
    unsettled = (run.attempts[name] for name in sorted(run.unsettled))
    unknown = [one for one in unsettled if one.state is AttemptState.UNKNOWN]
    return [*((one.id, one.tool) for one in asked), *((one.id, one.intent.tool) for one in unknown)]


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
