"""How people answer what they are asked, read from the events of the ledger alone. Nothing is written."""

from collections.abc import Sequence
from datetime import datetime

from gateway.kernel.figures import KINDS, Question, questions, reckoned
from gateway.kernel.reduce import CorruptLedger
from gateway.model.figures import Reviews
from gateway.model.record import Record, utc
from gateway.model.review import Reviewer
from gateway.ports import UnreadableRecord
from gateway.runtime.book import Book

LOOKED_THROUGH = (2_000, 20_000, 100_000)
"""Of the newest records, so many are looked through: more only where fewer do not reach back far enough."""


async def reviews_of(book: Book, *, since: datetime | None = None, by: Reviewer | None = None) -> Reviews:
    """The figures of the questions that were asked since then; those that `by` may see.

    Raises: LedgerUnavailable.
    """
    records, partial = await _records(book, since)
    now = utc(book.clock.now())
    found = [one for one in questions(records, now) if since is None or one.asked_at >= since]
    if by is not None:
        seen = [await _sees(book, by, one) for one in found]
        found = [one for one, theirs in zip(found, seen, strict=True) if theirs]
    return reckoned(found, since=since, now=now, partial=partial)


async def _records(book: Book, since: datetime | None) -> tuple[Sequence[Record], bool]:
    """In the order in which they were made, and whether older ones were left out."""
    found: Sequence[Record] = ()
    for most in LOOKED_THROUGH:
        found = await book.ledger.find(KINDS, limit=most)
        if len(found) < most or (since is not None and found[-1].at < since):
            return found[::-1], False
    return found[::-1], True


async def _sees(book: Book, by: Reviewer, one: Question) -> bool:
    if one.event.by is not None:
        return by.sees(one.event.by.tenant, one.event.approval)
    try:
        asking = (await book.state_of(one.run)).principal
    except (CorruptLedger, UnreadableRecord):
        return by.everywhere
    return by.sees("" if asking is None else asking.tenant, one.event.approval)
