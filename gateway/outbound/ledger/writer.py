"""The one thread that writes: it takes all that is queued, commits it as one group, and wakes who waits.

While one group is on its way to the disk the next one gathers, and a crowd shares its fsyncs (`gathering.py`).
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from gateway.outbound.ledger.file import Watch
from gateway.outbound.ledger.gathering import Gathering
from gateway.outbound.ledger.group import GroupCommit, Work
from gateway.outbound.ledger.jobs import Job, fail, settle, succeed
from gateway.ports import LedgerUnavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Opened:
    """A ledger's file under an open connection."""

    path: Path
    db: sqlite3.Connection
    watch: Watch
    salt: bytes


class Writer:
    """A thread and its queue. Made on the event loop that will wait for it."""

    def __init__(self, connect: Callable[[], Opened], busy_timeout_s: float) -> None:
        self._connect = connect
        self._busy_timeout_s = busy_timeout_s
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[Opened] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._queue: SimpleQueue[Sequence[Job[Work]]] = SimpleQueue()
        self._gathering = Gathering[Job[Work]](self._queue.put)
        self._group: GroupCommit | None = None
        self._closing = False
        self._last = False
        # A daemon: a process that forgot to close must be able to end, and SQLite survives that as it does a kill.
        Thread(target=self._live, name="counterfoil-ledger", daemon=True).start()

    @property
    def commits(self) -> int:
        """As `GroupCommit.commits`."""
        return 0 if self._group is None else self._group.commits

    async def opened(self) -> Opened:
        """What the thread opened; its connection stays in the thread.

        Raises: NotOurLedger, LedgerUnavailable.
        """
        return await asyncio.shield(self._opened)

    async def run(self, work: Callable[[sqlite3.Connection], T], *, unhurried: bool = False) -> T:
        """What `work` returned, durably. Works are run in the order of the calls, also when several wait.

        A caller that is cancelled no longer waits, but its work is done all the same. What is `unhurried` is done with
        what comes after it, or by itself a moment later.

        Raises: what `work` raised, or LedgerUnavailable.
        """
        if self._closing:
            raise LedgerUnavailable("the ledger is closed")
        done: asyncio.Future[T] = self._loop.create_future()
        self._gathering.add(Job(work, done), unhurried=unhurried)
        return await done

    def condemn(self, failure: LedgerUnavailable) -> None:
        """As `GroupCommit.condemn`."""
        if self._group is not None:
            self._group.condemn(failure)

    async def close(self) -> None:
        """All that was queued is done, the connection closed and the thread at its end."""
        if not self._closing:
            self._closing = True
            self._gathering.hand_on()
            self._queue.put(())
        await asyncio.shield(self._ended)

    def _live(self) -> None:
        try:
            opened = self._connect()
            self._group = GroupCommit(opened.db, opened.path, opened.watch, self._busy_timeout_s)
            self._tell(succeed, self._opened, opened)
            while group := self._take():
                self._group.run(group)
                self._tell(settle, group)
            opened.db.close()
        except Exception as error:  # noqa: BLE001 - raised again where `opened` is awaited
            self._tell(fail, self._opened, error)
        finally:
            self._tell(succeed, self._ended, None)

    def _take(self) -> Sequence[Job[Work]]:
        """All that was handed on, at least one; none when the queue was closed before them."""
        group: list[Job[Work]] = []
        more = () if self._last else self._queue.get()
        while more:
            group += more
            try:
                more = self._queue.get_nowait()
            except Empty:
                return group
        self._last = True
        return group

    def _tell(self, tell: Callable[..., None], *values: Any) -> None:
        # The loop may be closed, if nobody closed the ledger: then nobody waits either.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(tell, *values)
