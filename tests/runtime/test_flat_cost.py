"""What a call costs does not grow with its run, nor with the ledger: counted, not timed."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.model.record import Record
from gateway.outbound.ledger import SqliteLedger, chain, open_sqlite
from gateway.outbound.ledger import sqlite as adapter
from tests.ledger.grown import events_of, grow
from tests.runtime.house import House, house

SHORT, LONG = 3, 3333
"""Writes of a run of 10 events, and of one of 10,000."""

RUN = f"run_{0:022}"


@dataclass
class Work:
    """What a ledger did."""

    statements: list[str] = field(default_factory=list)
    steps: int = 0
    """Instructions of SQLite's machine: whatever scans takes more of them."""
    records: int = 0
    """That were decoded."""

    def taken(self) -> tuple[list[str], int, int]:
        """What was done since it was last asked."""
        done = self.statements, self.steps, self.records
        self.statements, self.steps, self.records = [], 0, 0
        return done


@dataclass
class Watched:
    """A ledger in a file whose work is counted."""

    ledger: SqliteLedger
    work: Work


class Connection(sqlite3.Connection):
    """One whose statements are counted, by whoever has set `work`."""

    work = Work()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        watch(self, Connection.work)


def watch(db: sqlite3.Connection, work: Work) -> None:
    def step() -> int:
        work.steps += 1
        return 0

    db.set_trace_callback(work.statements.append)
    db.set_progress_handler(step, 1)


@asynccontextmanager
async def counted(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    Connection.work = work = Work()
    ledger = await open_sqlite(path, factory=Connection)
    await ledger._reader._execute(watch, ledger._reader._conn, work)  # type: ignore[no-untyped-call]

    def counting(body: bytes, link: str) -> Record:
        work.records += 1
        return chain.decoded(body, link)

    monkeypatch.setattr(adapter, "decoded", counting)
    try:
        yield Watched(ledger, work)
    finally:
        monkeypatch.undo()
        await ledger.close()


async def grown(path: Path, calls: int) -> Path:
    await grow(path, 1, calls)
    return path


def spelled(statements: Sequence[str]) -> list[str]:
    """Each with its values taken out."""
    return sorted(" ".join(statement.split()[:4]) for statement in statements)


async def made(by: House, tool: str, number: int, run: str) -> None:
    """The call, with its delivery recorded."""
    shown = await by.call(tool, {"n": number}, run=run)
    assert shown.result is not None, shown
    with anyio.fail_after(5):
        while by.engine.carrier._tasks:
            await asyncio.sleep(0.001)


async def costs(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[list[str], int, int]]:
    """What each thing costs on a run that is known."""
    found = {}
    async with counted(path, monkeypatch) as it, house(it.ledger) as one, house(it.ledger, "you") as two:
        run = RUN

        async def measured(name: str, by: House, tool: str, number: int) -> None:
            it.work.taken()
            await made(by, tool, number, run)
            found[name] = it.work.taken()

        for by in (one, two):
            await made(by, "write", -1 if by is one else -2, run)
        await measured("a write after another gateway's", one, "write", 1)
        await measured("a write", one, "write", 2)
        await measured("a read", one, "read", 3)
        it.work.taken()
        assert (await two.book.fresh_state_of(run)).version > events_of(2)
        found["the news of another gateway"] = it.work.taken()
    return found


async def test_a_call_on_a_run_of_10_000_events_costs_what_one_on_a_run_of_10_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = await costs(await grown(tmp_path / "short.db", SHORT), monkeypatch)
    long = await costs(await grown(tmp_path / "long.db", LONG), monkeypatch)
    for name, (statements, steps, records) in short.items():
        assert spelled(long[name][0]) == spelled(statements), name
        assert long[name][1] == pytest.approx(steps, rel=0.02), name
        assert long[name][2] == records <= 10, name
        assert steps < 3000, name


async def test_neither_a_start_nor_a_sweep_reads_a_log_however_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(path: Path) -> tuple[list[str], int, int]:
        async with counted(path, monkeypatch) as it, house(it.ledger):
            assert await it.ledger.tracked(states={"open", "unverified"}) == []
            return it.work.taken()

    short = await start(await grown(tmp_path / "short.db", SHORT))
    long = await start(await grown(tmp_path / "long.db", LONG))
    assert spelled(long[0]) == spelled(short[0])
    assert long[1] == pytest.approx(short[1], rel=0.02)
    assert long[2] == short[2]


@pytest.mark.slow
async def test_the_counters_notice_a_run_that_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, calls, events in (("short.db", SHORT, 10), ("long.db", LONG, 10_000)):
        assert events_of(calls) == events
        async with counted(await grown(tmp_path / name, calls), monkeypatch) as it:
            it.work.taken()
            assert len(await it.ledger.read(RUN)) == events
            _, steps, records = it.work.taken()
            assert records == events
            assert steps > 5 * events
