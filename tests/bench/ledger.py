"""What an append costs: `python -m tests.bench.ledger`, about 20 seconds.

Side by side and interleaved, so that a busy machine slows all alike: the SQLite ledger (synchronous =
FULL, grouped), the one in PostgreSQL (synchronous_commit = on, grouped; through a socket to a server on
this machine, whose CPU is not counted), the one in memory (the price of everything but the disk), and the
tables of SQLite with one await a statement (what the writer thread is for). F is what the disk takes to
make 4 KiB durable, measured in the same run. `--accounts`: every append charges one of eight accounts too.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import aiosqlite

from gateway.model.record import encode, link
from gateway.outbound.ledger import MemoryLedger, open_sqlite
from gateway.outbound.ledger.postgres.ledger import open_postgres
from gateway.ports import Append
from tests import postgres_server
from tests.ledger.making import Line, posting, small

ROUNDS = 3
STEPS = {1: 600, 16: 200, 64: 120}
"""Appends that each of so many awaiters makes, one after another, to a run of its own."""

SLOW_SHARE = 4
"""What commits one by one makes only one in so many of them."""

Appender = Callable[[Append], Awaitable[None]]


async def measure(append: Appender, lines: Sequence[Sequence[Append]]) -> tuple[float, list[float]]:
    """Seconds for all, and for each."""
    each: list[float] = []

    async def one(steps: Sequence[Append]) -> None:
        for step in steps:
            begun = time.perf_counter()
            await append(step)
            each.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*(one(steps) for steps in lines))
    return time.perf_counter() - begun, each


async def of_sqlite(path: Path, lines: Sequence[Sequence[Append]]) -> tuple[float, list[float], int]:
    ledger = await open_sqlite(path)
    took, each = await measure(ledger.append, lines)
    await ledger.close()
    return took, each, ledger.commits


async def of_postgres(url: str, lines: Sequence[Sequence[Append]]) -> tuple[float, list[float], int]:
    ledger = await open_postgres(url)
    took, each = await measure(ledger.append, lines)
    await ledger.close()
    return took, each, ledger.commits


async def of_memory(_: Path, lines: Sequence[Sequence[Append]]) -> tuple[float, list[float], int]:
    took, each = await measure(MemoryLedger().append, lines)
    return took, each, 0


async def of_statements(path: Path, lines: Sequence[Sequence[Append]]) -> tuple[float, list[float], int]:
    await (await open_sqlite(path)).close()
    db = await aiosqlite.connect(path, isolation_level=None)
    await db.execute("PRAGMA synchronous = FULL")
    lock = asyncio.Lock()

    async def append(step: Append) -> None:
        bodies = [(record, encode(record)) for record in step.records]
        async with lock:
            await db.execute("BEGIN IMMEDIATE")
            await db.execute("SELECT seq, link FROM event WHERE run = ? ORDER BY seq DESC LIMIT 1", (step.run,))
            for record, body in bodies:
                row = (step.run, record.seq, record.event.kind, link(body), body)
                await db.execute("INSERT INTO event (run, seq, kind, link, body) VALUES (?, ?, ?, ?, ?)", row)
            await db.commit()

    took, each = await measure(append, [steps[: len(steps) // SLOW_SHARE] for steps in lines])
    await db.close()
    return took, each, len(each)


KINDS = {"sqlite FULL": of_sqlite, "memory": of_memory, "await a statement": of_statements}

POSTGRES = "postgresql"


def disk_s() -> float:
    """F: the median of an append of 4 KiB and its fdatasync, with a pause before each."""
    took = []
    with tempfile.TemporaryFile() as file:
        for _ in range(100):
            time.sleep(0.001)
            begun = time.perf_counter()
            os.write(file.fileno(), bytes(4096))
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - begun)
    return statistics.median(took)


def prepared(awaiters: int, *, accounts: bool) -> list[list[Append]]:
    """Made beforehand: building a record is not the ledger's work."""
    lines = [Line(f"run_{number:026}") for number in range(awaiters)]
    return [
        [
            line.step(small("a" * 300), postings=[posting(f"account {number % 8}", 1, limit=10**9)] if accounts else ())
            for _ in range(STEPS[awaiters])
        ]
        for number, line in enumerate(lines)
    ]


def told(awaiters: int, seen: dict[str, list[tuple[float, list[float], int]]]) -> None:
    """One line for each kind of ledger; ratios are of medians, and of this run alone."""
    rates = {kind: statistics.median(len(each) / took for took, each, _ in turns) for kind, turns in seen.items()}
    for kind, turns in seen.items():
        p50 = statistics.median(one for _, each, _ in turns for one in each)
        commits = statistics.median(made / len(each) for _, each, made in turns)
        ratio = rates[kind] / rates["sqlite FULL"]
        print(f"{awaiters:>8}  {kind:<18}{rates[kind]:>10,.0f}{p50 * 1e3:>9.3f}{commits:>16.3f}{ratio:>10.2f}")


async def main(server: postgres_server.Server) -> None:
    accounts = "--accounts" in sys.argv[1:]
    print(f"F {disk_s() * 1e3:.2f} ms")
    print(f"{'awaiters':>8}  {'ledger':<18}{'appends/s':>10}{'p50 ms':>9}{'commits/append':>16}{'x sqlite':>10}")
    for awaiters in STEPS:
        lines = prepared(awaiters, accounts=accounts)
        seen: dict[str, list[tuple[float, list[float], int]]] = {kind: [] for kind in [*KINDS, POSTGRES]}
        with tempfile.TemporaryDirectory() as directory:
            for turn in range(ROUNDS):
                for kind, run in KINDS.items():
                    seen[kind].append(await run(Path(directory) / f"{turn} {kind}.db", lines))
                seen[POSTGRES].append(await of_postgres(server.url(f"bench_{awaiters}_{turn}"), lines))
        told(awaiters, seen)


if __name__ == "__main__":
    with postgres_server.running() as started:
        asyncio.run(main(started))
