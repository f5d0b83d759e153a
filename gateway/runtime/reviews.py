"""How people answer what they are asked, read from the events of the ledger alone. Nothing is written."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from gateway.kernel.figures import KINDS, Question, questions, reckoned
from gateway.kernel.reduce import CorruptLedger
from gateway.model.events import IntentRecorded, Verdict
from gateway.model.figures import Reviews
from gateway.model.record import Record, utc
from gateway.model.review import Reviewer
from gateway.ports import UnreadableRecord
from gateway.runtime.book import Book
from gateway.runtime.newest import newest

MOST = 100_000
"""Records that are looked through, the newest."""

AMISS = timedelta(minutes=5)
"""By less than that the clocks of gateways differ, so that records of one time stand among those of another."""


async def reviews_of(book: Book, *, since: datetime | None = None, by: Reviewer | None = None) -> Reviews:
    """The figures of the questions that were asked since then; those that `by` may see.

    Raises: LedgerUnavailable.
    """
    records, partial = await _records(book, since)
    now = utc(book.clock.now())
    # In a thread, for it is pure, and with all of a month it takes longer than anybody else should wait.
    found = [one for one in await asyncio.to_thread(questions, records, now) if since is None or one.asked_at >= since]
    if by is not None:
        seen = [await _sees(book, by, one) for one in found]
        found = [one for one, theirs in zip(found, seen, strict=True) if theirs]
    return await asyncio.to_thread(reckoned, found, since=since, now=now, partial=partial)


async def _records(book: Book, since: datetime | None) -> tuple[Sequence[Record], bool]:
    """Those that tell of questions, in the order in which they were made, and whether older ones were left out."""
    found: list[Record] = []
    looked = 0
    async for record in newest(book.ledger, KINDS):
        if since is not None and record.at < since - AMISS:
            break
        if looked == MOST:
            return found[::-1], True
        looked += 1
        if not isinstance(record.event, IntentRecorded) or record.event.approval is not None:
            found.append(_lighter(record))
    return found[::-1], False


def _lighter(record: Record) -> Record:
    """Without what no figure reads and is most of it: that of a month would be much to hold, and to collect."""
    if not isinstance(record.event, Verdict):
        return record
    return record.model_copy(update={"event": record.event.model_copy(update={"checks": ()})})


async def _sees(book: Book, by: Reviewer, one: Question) -> bool:
    if one.event.by is not None:
        return by.sees(one.event.by.tenant, one.event.approval)
    try:
        asking = (await book.state_of(one.run)).principal
    except (CorruptLedger, UnreadableRecord):
        return by.sees("", one.event.approval)
    return by.sees("" if asking is None else asking.tenant, one.event.approval)
