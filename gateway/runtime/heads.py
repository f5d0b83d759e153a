"""The latest state of the runs in use, including appends that are still queued. A cache; the ledger is the truth.

Beside each stands the last state that is known to be in the ledger. What is new is read from there, so that neither a
conflict with another gateway nor a refused append has a long run read again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from weakref import WeakValueDictionary

from gateway.kernel.reduce import fold
from gateway.model.record import Record, link
from gateway.model.run import Run
from gateway.ports import Clock, Ledger

KEPT_EVENTS = 40_000
"""Events of all runs whose state is kept, together; a run beyond them costs one read of its events when it goes on.

An event leaves 0.6 KiB of state behind, so these are some 25 MiB (`tests/bench/scale.py --kept`).
"""
USED_EVENTS = 8 * KEPT_EVENTS
"""As many at most, of runs that were used a moment ago: two long ones must not push each other out at every call."""
MOMENT_S = 10.0
WEIGHT = 24
"""What a run weighs beyond its events, in events."""
PAGE = 64
"""Records that are read and folded in one turn of the event loop: 2 to 3 ms."""


class Head:
    """One run's state, moved on by whoever decides, at the moment of deciding."""

    __slots__ = ("_ends", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self._ends = {run.version: run.head}
        """How each of its appends ends that may be queued still, by version, the oldest first."""

    def moved(self, run: Run) -> None:
        """It is this from now on."""
        self.run = run
        self._ends[run.version] = run.head

    def settled(self, version: int) -> None:
        """What came before is in the ledger."""
        while (oldest := next(iter(self._ends))) < version:
            del self._ends[oldest]

    def holds(self, records: Sequence[tuple[Record, bytes]]) -> bool:
        """Whether these, which the ledger has, are ours as far as we go. It has an append as a whole or not at all."""
        both = next((one for one in reversed(records) if one[0].seq <= self.run.version), None)
        return both is None or self._ends.get(both[0].seq) == link(both[1])


class Heads:
    """Run id to head. Two decisions of one run never see the same state: deciding does not await."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._heads: dict[str, Head] = {}
        """INVARIANT: of runs that are in `_durable` only."""
        self._durable: OrderedDict[str, Run] = OrderedDict()
        """By run, as it was seen in the ledger; perhaps behind it, and the least used first."""
        self._events = 0
        """What the runs in `_durable` weigh."""
        self._used: dict[str, float] = {}
        """When each run of `_durable` was asked for, in monotonic seconds."""
        self._loading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def get(self, run_id: str) -> Head:
        """The run's head, brought up to the ledger if it is not kept.

        Raises: LedgerUnavailable, CorruptLedger.
        """
        kept = self._heads.get(run_id)
        if kept is not None:
            self._use(run_id)
            return kept
        # INVARIANT: one load at a time for each run, and none is kept over another: the lock lives while any waits.
        lock = self._loading.setdefault(run_id, asyncio.Lock())
        async with lock:
            if run_id in self._heads:
                return self._heads[run_id]
            run = await self._read_on(self._durable.get(run_id) or Run(run_id))
            head = self._heads[run_id] = Head(run)
            self._keep(run)
            return head

    def kept(self, run_id: str) -> Run | None:
        """The run as it was last seen here, if it is kept; perhaps not its latest state."""
        head = self._heads.get(run_id)
        return self._durable.get(run_id) if head is None else head.run

    async def renewed(self, run_id: str) -> Head:
        """The run's head with whatever other processes wrote to it; only what is new is read.

        Raises: LedgerUnavailable, CorruptLedger.
        """
        head = self._heads.get(run_id)
        if head is None:
            begun = run_id in self._loading  # by somebody who may have read it before what we are to see was there
            head = await self.get(run_id)
            if not begun:
                return head
        known = self._durable.get(run_id, head.run)
        records = await self._ledger.read(run_id, min(head.run.version, known.version), limit=PAGE)
        if self._heads.get(run_id) is not head:
            return await self.renewed(run_id)  # it was wrong, and is read again, perhaps from before we asked
        new = [(record, link(body)) for record, body in records if record.seq > head.run.version]
        beside = not head.holds(records) or (bool(new) and new[0][0].previous != head.run.head)
        if beside or len(records) == PAGE:
            # What is queued here was decided without these, it conflicts and is decided again; or they are many.
            self.drop(run_id, head)
            return await self.get(run_id)
        if new:
            head.moved(fold(new, head.run))
            self.appended(head.run)
        return head

    async def durable(self, run_id: str, knowing: str) -> Run:
        """The run as the ledger is known to have it, with nothing that is only queued; that attempt is in it, if it is
        in the ledger: what is kept may have been read before its intent was there, by somebody who then was slower.

        Raises: LedgerUnavailable, CorruptLedger.
        """
        known = self._durable.get(run_id, Run(run_id))
        return known if knowing in known.attempts else await self._read_on(known)

    def appended(self, run: Run) -> None:
        """The ledger has this state of the run now."""
        known, head = self._durable.get(run.id), self._heads.get(run.id)
        if known is None or known.version < run.version:
            self._keep(run)
            if head is not None and head.run.version >= run.version:
                head.settled(run.version)

    def drop(self, run_id: str, head: Head) -> None:
        """This head was wrong, or may be: the next reader asks the ledger what came after the last durable state."""
        if self._heads.get(run_id) is head:
            del self._heads[run_id]

    async def anew(self, run_id: str) -> Head:
        """The run's head, read on from the last state that is known to be in the ledger, if it still is there.

        Raises: LedgerUnavailable, CorruptLedger.
        """
        self._heads.pop(run_id, None)
        return await self.get(run_id)

    async def _read_on(self, known: Run) -> Run:
        """The run as the ledger has it, from what is known of it; in pages, between which others have their turn.

        The last known record is read again: where the ledger has another one, or none, nothing that is known counts.
        """
        run, after = known, max(0, known.version - 1)
        while True:
            page = await self._ledger.read(run.id, after, limit=PAGE)
            new = [(record, link(body)) for record, body in page]
            if run is known and run.version:
                if not new or new[0][1] != run.head:
                    return await self._read_on(Run(run.id))
                new = new[1:]
            run = fold(new, run)
            if len(page) < PAGE:
                return run
            after = run.version
            await asyncio.sleep(0)  # a ledger in memory does not wait, and would keep the loop

    def _keep(self, run: Run) -> None:
        known = self._durable.get(run.id)
        self._events += run.version - (-WEIGHT if known is None else known.version)
        self._durable[run.id] = run
        self._use(run.id)
        while self._events > KEPT_EVENTS and len(self._durable) > 1:
            oldest = next(iter(self._durable))
            if self._events <= USED_EVENTS and self._used[oldest] + MOMENT_S > self._clock.monotonic():
                return
            self._events -= self._durable.pop(oldest).version + WEIGHT
            self._heads.pop(oldest, None)
            del self._used[oldest]

    def _use(self, run_id: str) -> None:
        self._durable.move_to_end(run_id)
        self._used[run_id] = self._clock.monotonic()
