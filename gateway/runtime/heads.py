"""The latest state of the runs in use, including appends that are still queued. A cache; the ledger is the truth."""

import asyncio
from collections import OrderedDict
from weakref import WeakValueDictionary

from gateway.kernel.reduce import fold
from gateway.model.record import link
from gateway.model.run import Run
from gateway.ports import Ledger

KEPT = 1024
"""Runs whose state is kept; another one costs one read of its events."""


class Head:
    """One run's state, moved on by whoever decides, at the moment of deciding."""

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        self.run = run


class Heads:
    """Run id to head. Two decisions of one run never see the same state: deciding does not await."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._kept: OrderedDict[str, Head] = OrderedDict()
        self._loading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def get(self, run_id: str) -> Head:
        """The run's head, read from the ledger if it is not kept.

        Raises: LedgerUnavailable, CorruptLedger.
        """
        kept = self._kept.get(run_id)
        if kept is not None:
            self._kept.move_to_end(run_id)
            return kept
        # INVARIANT: one load at a time for each run, and none is kept over another: the lock lives while any waits.
        lock = self._loading.setdefault(run_id, asyncio.Lock())
        async with lock:
            if run_id in self._kept:
                return self._kept[run_id]
            records = await self._ledger.read(run_id)
            head = Head(fold(((record, link(body)) for record, body in records), Run(run_id)))
            self._kept[run_id] = head
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return head

    def kept(self, run_id: str) -> Run | None:
        """The run as it was last seen here, if it is kept; perhaps not its latest state."""
        head = self._kept.get(run_id)
        return None if head is None else head.run

    async def renewed(self, run_id: str) -> Head:
        """The run's head with whatever other processes wrote to it; only what is new is read.

        Raises: LedgerUnavailable, CorruptLedger.
        """
        head = self._kept.get(run_id)
        if head is None:
            return await self.get(run_id)
        records = await self._ledger.read(run_id, head.run.version)
        if self._kept.get(run_id) is not head:
            return await self.get(run_id)  # it was wrong, and was read again meanwhile
        new = [(record, link(body)) for record, body in records if record.seq > head.run.version]
        if new and new[0][0].previous != head.run.head:
            self.drop(run_id, head)  # what is queued here was decided without these; it conflicts and is decided again
            return await self.get(run_id)
        head.run = fold(new, head.run)
        return head

    def drop(self, run_id: str, head: Head) -> None:
        """This head was wrong, or may be: the next reader asks the ledger."""
        if self._kept.get(run_id) is head:
            del self._kept[run_id]
