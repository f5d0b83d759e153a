"""Many steps, one transaction: what they share, and what they do not."""

import asyncio
import sqlite3
from pathlib import Path

import anyio
import pytest

from gateway.outbound.ledger import SqliteLedger, open_sqlite
from gateway.ports import Append, Conflict, LedgerUnavailable, Occupied
from tests.ledger.faulty import Faulty, disk_error, locked
from tests.ledger.making import T0, Line, attempt, opened, small


async def all_queued(ledger: SqliteLedger, path: Path, steps: list[Append]) -> list[BaseException | None]:
    """What came of the steps, of which none was begun before all were queued."""
    with anyio.fail_after(10):
        with locked(path):
            tasks = [asyncio.ensure_future(ledger.append(step)) for step in steps]
            await anyio.wait_all_tasks_blocked()
        return await asyncio.gather(*tasks, return_exceptions=True)


async def test_sixty_four_appends_at_once_cost_few_commits(sqlite: SqliteLedger, path: Path) -> None:
    runs = [f"run_{number}" for number in range(64)]
    assert await all_queued(sqlite, path, [Line(run).step() for run in runs]) == [None] * 64
    # The first to come may have been alone when the writer began; the rest gathered behind it.
    assert sqlite.commits <= 2
    for run in runs:
        assert len(await sqlite.read(run)) == 1


async def test_sixty_four_appends_to_one_run_cost_few_commits(sqlite: SqliteLedger, path: Path) -> None:
    line = Line("run_1")
    assert await all_queued(sqlite, path, [line.step() for _ in range(64)]) == [None] * 64
    assert sqlite.commits <= 2
    assert [record.seq for record, _ in await sqlite.read("run_1")] == list(range(1, 65))


async def test_a_refused_step_takes_nothing_with_it(sqlite: SqliteLedger, path: Path) -> None:
    line, theirs = Line("run_1"), Line("run_1")
    steps = [
        line.tracking(attempt("att_1", hold="pay alice")),
        theirs.step(opened("too late")),
        Line("run_2").tracking(attempt("att_2", "run_2", hold="pay alice")),
        Line("run_3").step(),
        line.step(),
    ]
    came = await all_queued(sqlite, path, steps)
    assert [type(one) for one in came] == [type(None), Conflict, Occupied, type(None), type(None)]
    assert [len(await sqlite.read(run)) for run in ("run_1", "run_2", "run_3")] == [2, 0, 1]


async def test_a_step_that_is_refused_half_way_leaves_nothing_behind(sqlite: SqliteLedger, path: Path) -> None:
    line, other = Line("run_1"), Line("run_2")
    await sqlite.append(line.tracking(attempt("att_1", hold="pay alice")))
    await sqlite.append(other.tracking(attempt("att_2", "run_2")))
    half = Line("run_2", other.expected).tracking(attempt("att_3", "run_2", hold="pay alice"), untrack=["att_2"])
    came = await all_queued(sqlite, path, [line.step(), half, other.step(), Line("run_3").step()])
    assert [type(one) for one in came] == [type(None), Occupied, type(None), type(None)]
    assert [one.attempt for one in await sqlite.tracked()] == ["att_1", "att_2"]
    assert [len(await sqlite.read(run)) for run in ("run_1", "run_2", "run_3")] == [2, 2, 1]


async def test_a_step_that_sqlite_cannot_store_is_refused_alone(sqlite: SqliteLedger, path: Path) -> None:
    nan = Line("run_1").tracking(attempt("att_1", lease_until=float("nan")))
    came = await all_queued(sqlite, path, [Line("run_0").step(), nan, Line("run_2").step()])
    assert [type(one) for one in came] == [type(None), sqlite3.IntegrityError, type(None)]
    assert await sqlite.read("run_1") == []


async def test_a_commit_that_fails_fails_every_step_of_its_group(path: Path) -> None:
    ledger = await open_sqlite(path, factory=Faulty)
    Faulty.made.before_commit = disk_error()
    # Also the second, which a conflict would have refused: what it conflicts with is not stored either.
    came = await all_queued(ledger, path, [Line("run_1").step(), Line("run_1").step(opened()), Line("run_2").step()])
    assert [str(one) for one in came] == [
        f"the ledger `{path}` cannot be read or written, the disk gave an error: check the disk and its free space"
    ] * 3
    assert len({id(one) for one in came}) == 3
    assert ledger.commits == 0
    assert await ledger.read("run_1") == []

    Faulty.made.before_commit = None
    await ledger.append(Line("run_1").step())
    assert len(await ledger.read("run_1")) == 1
    await ledger.close()


async def test_a_commit_that_raised_may_have_committed(path: Path) -> None:
    ledger = await open_sqlite(path, factory=Faulty)
    Faulty.made.after_commit = disk_error()
    line = Line("run_1")
    step = line.step()
    with pytest.raises(LedgerUnavailable):
        await ledger.append(step)
    assert [record for record, _ in await ledger.read("run_1")] == step.records

    Faulty.made.after_commit = None
    await ledger.append(line.step())
    assert len(await ledger.read("run_1")) == 2
    await ledger.close()


async def test_after_a_failed_sync_nothing_is_written_until_a_restart(path: Path) -> None:
    ledger = await open_sqlite(path, factory=Faulty)
    await ledger.append(Line("run_0").step())
    Faulty.made.before_commit = disk_error(sqlite3.SQLITE_IOERR_FSYNC)
    for _ in range(2):
        with pytest.raises(LedgerUnavailable) as raised:
            await ledger.append(Line("run_1").step())
        assert raised.value.args == (
            f"the disk failed to store the ledger `{path}`: check the disk, then restart the gateway",
        )
        Faulty.made.before_commit = None
    assert len(await ledger.read("run_0")) == 1
    await ledger.close()

    again = await open_sqlite(path)
    await again.append(Line("run_1").step())
    await again.close()


async def test_an_append_whose_caller_gave_up_is_recorded_all_the_same(sqlite: SqliteLedger, path: Path) -> None:
    line = Line("run_1")
    with anyio.fail_after(5):
        with locked(path):
            good, refused = line.step(), Line("run_1").step(opened())
            abandoned = [asyncio.ensure_future(sqlite.append(step)) for step in (good, refused)]
            await anyio.wait_all_tasks_blocked()
            for task in abandoned:
                task.cancel()
            await asyncio.wait(abandoned)
        await sqlite.append(line.step())
    assert all(task.cancelled() for task in abandoned)
    assert len(await sqlite.read("run_1")) == 2


async def test_closing_waits_for_what_was_queued(sqlite: SqliteLedger, path: Path) -> None:
    with anyio.fail_after(5):
        with locked(path):
            steps = [asyncio.ensure_future(sqlite.append(Line(f"run_{number}").step())) for number in range(8)]
            await anyio.wait_all_tasks_blocked()
            closing = asyncio.ensure_future(sqlite.close())
            await anyio.wait_all_tasks_blocked()
            assert not closing.done()
        assert await asyncio.gather(*steps) == [None] * 8
        await closing
    again = await open_sqlite(path)
    assert [len(await again.read(f"run_{number}")) for number in range(8)] == [1] * 8
    await again.close()


async def test_claims_and_renewals_join_the_group(sqlite: SqliteLedger, path: Path) -> None:
    seen = attempt("att_0", "run_0", owner="gw_2", lease_until=T0)
    await sqlite.append(Line("run_0").tracking(seen))
    before = sqlite.commits
    with anyio.fail_after(5):
        with locked(path):
            calls = [
                asyncio.ensure_future(sqlite.append(Line("run_1").step(small()))),
                asyncio.ensure_future(sqlite.claim(seen, "gw_1", T0 + 10)),
                asyncio.ensure_future(sqlite.renew("gw_1", T0 + 20)),
            ]
            await anyio.wait_all_tasks_blocked()
        assert await asyncio.gather(*calls) == [None, True, None]
    assert sqlite.commits - before <= 2
    assert await sqlite.tracked() == [attempt("att_0", "run_0", owner="gw_1", lease_until=T0 + 20)]
