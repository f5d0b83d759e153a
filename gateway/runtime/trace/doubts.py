"""Records of which nobody heard whether they were stored: once they are found in the ledger, they are told."""

import asyncio
from collections.abc import Callable

from gateway.model.record import encode
from gateway.ports import Append, Ledger, LedgerUnavailable

LOOKS_S = (0.0, 1.0, 10.0, 60.0, 600.0)
"""Pauses before each look; after the last one they are taken for never stored."""

MOST = 1_000
"""That are looked for at once."""


class Doubts:
    """What was to be appended, and may have been: a step that was cancelled, a ledger that could not say."""

    def __init__(self) -> None:
        self._looking: set[asyncio.Task[None]] = set()

    def add(self, ledger: Ledger, append: Append, tell: Callable[[], None]) -> None:
        """`tell` is called if the records turn out to be there."""
        if len(self._looking) < MOST:
            task = asyncio.get_running_loop().create_task(_look(ledger, append, tell))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)


async def _look(ledger: Ledger, append: Append, tell: Callable[[], None]) -> None:
    for pause_s in LOOKS_S:
        await asyncio.sleep(pause_s)
        try:
            if await is_stored(ledger, append):
                tell()
                return
        except LedgerUnavailable:
            continue


async def is_stored(ledger: Ledger, append: Append) -> bool:
    """Whether its records are in the ledger.

    Raises: LedgerUnavailable.
    """
    stored = await ledger.read(append.run, append.expected[0], limit=len(append.records))
    return [body for _, body in stored] == [encode(one) for one in append.records]
