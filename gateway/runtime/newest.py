"""The newest records of some kinds, read page by page: whoever else is served waits for none of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from gateway.model.record import Record
from gateway.ports import Ledger

PAGE = 100
"""Records between two turns of the event loop: some milliseconds."""


async def newest(ledger: Ledger, kinds: Sequence[str]) -> AsyncIterator[Record]:
    """From the newest back, for as long as somebody asks for more.

    Raises: LedgerUnavailable.
    """
    before: tuple[str, int] | None = None
    while True:
        found = await ledger.find(kinds, limit=PAGE, before=before)
        for record in found:
            yield record
        if len(found) < PAGE:
            return
        before = found[-1].run, found[-1].seq
        await asyncio.sleep(0)
