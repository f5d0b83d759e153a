"""The one task that writes: it takes all that is queued, commits it as one group, and tells who waits.

While one group is on its way to the server the next one gathers, and a crowd shares its round trips and its flushes
(`gathering.py`).
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from gateway.outbound.ledger.gathering import Gathering
from gateway.outbound.ledger.jobs import Job, settle
from gateway.outbound.ledger.postgres.connections import Line
from gateway.outbound.ledger.postgres.group import Appending, GroupCommit, Work
from gateway.ports import LedgerUnavailable

MAX_STEPS = 512
"""In one transaction: so that nobody waits for a crowd, and a statement stays small."""

MAX_BYTES = 32 * 1024 * 1024
"""Of payloads in one transaction, or a single step: a message to the server has at most 1 GiB."""


class Writer:
    """A task and its queue. Made on the event loop that will wait for it."""

    def __init__(self, group: GroupCommit, line: Line) -> None:
        self._group = group
        self._line = line
        self._queue: deque[Job[Work]] = deque()
        self._come = asyncio.Event()
        self._gathering = Gathering[Job[Work]](self._put)
        self._closing = False
        self._task = asyncio.ensure_future(self._live())

    @property
    def commits(self) -> int:
        """As `GroupCommit.commits`."""
        return self._group.commits

    async def run(self, work: Work, *, unhurried: bool = False) -> Any:
        """What became of the work, durably. Works are done in the order of the calls, also when several wait.

        A caller that is cancelled no longer waits, but its work is done all the same. What is `unhurried` is done with
        what comes after it, or by itself a moment later.

        Raises: what the work raised, or LedgerUnavailable.
        """
        if self._closing or self._task.done():
            raise LedgerUnavailable("the ledger is closed")
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._gathering.add(Job(work, done), unhurried=unhurried)
        return await done

    def _put(self, jobs: Sequence[Job[Work]]) -> None:
        self._queue.extend(jobs)
        self._come.set()

    async def close(self) -> None:
        """All that was queued is done, and the connection closed."""
        self._closing = True
        self._gathering.hand_on()
        self._come.set()
        await asyncio.shield(self._task)

    async def _live(self) -> None:
        group: Sequence[Job[Work]] = ()
        try:
            while group := await self._take():
                await self._group.run(group)
                settle(group)
            await self._line.close()
        finally:
            # Only if we were cancelled, with the event loop: whoever still waits must not wait for ever.
            self._gathering.hand_on()
            for job in (*group, *self._queue):
                job.error = job.error or LedgerUnavailable("the ledger is closed")
            settle((*group, *self._queue))

    async def _take(self) -> Sequence[Job[Work]]:
        """What is queued, as much of it as may be one transaction; none once the queue is closed and empty."""
        while not self._queue and not self._closing:
            self._come.clear()
            await self._come.wait()
        group: list[Job[Work]] = []
        size = 0
        while self._queue and len(group) < MAX_STEPS:
            size += _size(self._queue[0].work)
            if group and size > MAX_BYTES:
                break
            group.append(self._queue.popleft())
        return group


def _size(work: Work) -> int:
    if not isinstance(work, Appending) or not work.step.payloads:
        return 0
    return sum(map(len, work.step.payloads.values()))
