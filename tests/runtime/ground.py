"""A gateway over a file, and what can happen to that file: begun and ended by a test."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from gateway.kernel.reduce import fold
from gateway.model.answer import Shown
from gateway.model.record import link
from gateway.model.run import Run
from gateway.outbound.ledger import SqliteLedger, open_sqlite
from gateway.ports import Answer, Dispatch
from tests import world
from tests.ledger.faulty import Faulty, disk_error
from tests.runtime.house import House, house

LARGE = "x" * 300_000
"""What a full file has no room for."""


@dataclass
class Ground:
    """The file under a gateway, and the connection that writes to it."""

    path: Path
    other: sqlite3.Connection | None = None

    @property
    def db(self) -> Faulty:
        return Faulty.made


@dataclass(frozen=True)
class Fault:
    """Something that happens to the file, and how it ends."""

    says: str
    begin: Callable[[Ground], None]
    end: Callable[[Ground], None]
    needs_restart: bool = False
    unreadable: bool = False
    """Then it cannot be told either whether the call was made before."""


def no_room(ground: Ground) -> None:
    (pages,) = ground.db.execute("PRAGMA page_count").fetchone()
    ground.db.execute(f"PRAGMA max_page_count = {pages}")


def room(ground: Ground) -> None:
    ground.db.execute("PRAGMA max_page_count = 1000000")


def set_query_only(value: str) -> Callable[[Ground], None]:
    def do(ground: Ground) -> None:
        while ground.db.in_transaction:  # a disk does not turn read-only between two statements of one
            time.sleep(0.001)
        ground.db.execute(f"PRAGMA query_only = {value}")

    return do


def lock(ground: Ground) -> None:
    ground.other = sqlite3.connect(ground.path, isolation_level=None)
    ground.other.execute("BEGIN IMMEDIATE")


def unlock(ground: Ground) -> None:
    assert ground.other is not None
    ground.other.close()


def move_away(suffix: str) -> Callable[[Ground], None]:
    def do(ground: Ground) -> None:
        Path(f"{ground.path}{suffix}").rename(f"{ground.path}.aside")

    return do


def replace(ground: Ground) -> None:
    move_away("")(ground)
    ground.path.write_bytes(b"something else")


def put_back(suffix: str) -> Callable[[Ground], None]:
    def do(ground: Ground) -> None:
        Path(f"{ground.path}.aside").rename(f"{ground.path}{suffix}")

    return do


def commits_fail(code: int) -> Callable[[Ground], None]:
    def do(ground: Ground) -> None:
        ground.db.before_commit = disk_error(code)

    return do


def commits_succeed(ground: Ground) -> None:
    ground.db.before_commit = None


GONE = "was deleted or replaced while it was open: stop every gateway on it, put the file back, and start again"

FAULTS = {
    "disk full": Fault("has no space left: free some on its disk, nothing needs a restart", no_room, room),
    "read-only": Fault(
        "cannot be written: make the file and its directory writable for this user",
        set_query_only("ON"),
        set_query_only("OFF"),
    ),
    "locked": Fault("is locked by another process: end the one that holds it, then try again", lock, unlock),
    "deleted": Fault(GONE, move_away(""), put_back(""), unreadable=True),
    "log deleted": Fault(GONE, move_away("-wal"), put_back("-wal"), unreadable=True),
    "replaced": Fault(GONE, replace, put_back(""), unreadable=True),
    "write error": Fault(
        "cannot be read or written, the disk gave an error: check the disk and its free space",
        commits_fail(sqlite3.SQLITE_IOERR_WRITE),
        commits_succeed,
    ),
    "fsync error": Fault(
        "failed to store",
        commits_fail(sqlite3.SQLITE_IOERR_FSYNC),
        commits_succeed,
        needs_restart=True,
    ),
    "damaged": Fault(
        "is damaged: stop every gateway on it and restore it from a backup",
        commits_fail(sqlite3.SQLITE_CORRUPT),
        commits_succeed,
        needs_restart=True,
    ),
}


async def opened(ground: Ground) -> SqliteLedger:
    return await open_sqlite(ground.path, busy_timeout_s=0.05, factory=Faulty)


@asynccontextmanager
async def gateway(ground: Ground, owner: str, clock: world.ToldClock) -> AsyncIterator[House]:
    """A gateway over that file."""
    ledger = await opened(ground)
    try:
        async with house(ledger, owner, clock=clock) as it:
            yield it
    finally:
        await ledger.close()


def told(shown: Shown) -> tuple[Any, ...]:
    """Outcome and whether it was executed, or the text of the result."""
    if shown.refusal is not None:
        return str(shown.refusal.outcome), shown.refusal.executed
    assert shown.result is not None
    return (shown.result["content"][0]["text"][:5],)


async def whole(it: House) -> Run:
    """The run, folded from the file alone."""
    stored = await it.ledger.read("run_1")
    return fold([(record, link(body)) for record, body in stored], Run("run_1"))


async def call(it: House, arguments: dict[str, Any]) -> Shown:
    """One write, and all that it has recorded but what is kept."""
    shown = await it.call("write", arguments)
    with anyio.fail_after(5):
        while len(it.engine.carrier._tasks) > len(it.engine.carrier.kept):
            await asyncio.sleep(0.001)
    return shown


async def until(it: House, so: Callable[[], bool]) -> None:
    """Time goes on until it is so."""
    with anyio.fail_after(10):
        while not so():
            it.clock.tell(1)
            await asyncio.sleep(0.005)


async def look(it: House) -> str | None:
    """What is wrong with the ledger, as a look a moment later finds."""
    it.clock.tell(1)
    await it.book.health.look(it.ledger)
    trouble = it.book.health.trouble
    return None if trouble is None else trouble.reason


async def struck(it: House, fault: Fault, ground: Ground) -> None:
    """The effect happens, and then the fault, before its answer is here."""

    async def strike(_: Dispatch) -> Answer:
        fault.begin(ground)
        return world.ok(f"done {LARGE}")

    it.upstreams.will("write", strike)
    shown = await call(it, {"n": 1})
    assert told(shown) == ("ledger_unavailable", "unknown")
    assert shown.refusal is not None
    assert fault.says in shown.refusal.reason
    assert list(it.engine.carrier.kept) == ["run_1.2"]
    assert it.engine.carrier.waits_for("run_1.2")
    with anyio.fail_after(5):
        while not it.clock.sleepers:  # it has been tried again, in vain, and waits for the next time
            await asyncio.sleep(0.001)
