"""Many steps, one transaction: what they share, and what they do not."""

import asyncio
import sqlite3
from pathlib import Path

import anyio
import pytest

from gateway.outbound.ledger import SqliteLedger, open_ledger, open_sqlite
from gateway.ports import Append, Conflict, LedgerUnavailable, Occupied
from tests.ledger.conftest import Grouped, locked_file
from tests.ledger.faulty import Faulty, disk_error
from tests.ledger.making import T0, Line, attempt, opened, small


async def all_queued(grouped: Grouped, steps: list[Append]) -> list[BaseException | None]:
    """What came of the steps, of which none was written before all were queued."""
    with anyio.fail_after(10):
        async with grouped.locked():
            tasks = [asyncio.ensure_future(grouped.ledger.append(step)) for step in steps]
            await anyio.wait_all_tasks_blocked()
        return await asyncio.gather(*tasks, return_exceptions=True)


async def test_sixty_four_appends_at_once_cost_few_commits(grouped: Grouped) -> None:
    runs = [f"run_{number}" for number in range(64)]
    assert await all_queued(grouped, [Line(run).step() for run in runs]) == [None] * 64
    # The first to come may have been alone when the writer began; the rest gathered behind it.
    assert grouped.ledger.commits <= 2
    for run in runs:
        assert len(await grouped.ledger.read(run)) == 1


async def test_sixty_four_appends_to_one_run_cost_few_commits(grouped: Grouped) -> None:
    line = Line("run_1")
    assert await all_queued(grouped, [line.step() for _ in range(64)]) == [None] * 64
    assert grouped.ledger.commits <= 2
    assert [record.seq for record, _ in await grouped.ledger.read("run_1")] == list(range(1, 65))


async def test_a_refused_step_takes_nothing_with_it(grouped: Grouped) -> None:
    line, theirs = Line("run_1"), Line("run_1")
    steps = [
        line.tracking(attempt("att_1", hold="pay alice")),
        theirs.step(opened("too late")),
        Line("run_2").tracking(attempt("att_2", "run_2", hold="pay alice")),
        Line("run_3").step(),
        line.step(),
    ]
    came = await all_queued(grouped, steps)
    assert [type(one) for one in came] == [type(None), Conflict, Occupied, type(None), type(None)]
    assert [len(await grouped.ledger.read(run)) for run in ("run_1", "run_2", "run_3")] == [2, 0, 1]


async def test_a_step_that_is_refused_half_way_leaves_nothing_behind(grouped: Grouped) -> None:
    line, other = Line("run_1"), Line("run_2")
    await grouped.ledger.append(line.tracking(attempt("att_1", hold="pay alice")))
    await grouped.ledger.append(other.tracking(attempt("att_2", "run_2")))
    half = Line("run_2", other.expected).tracking(attempt("att_3", "run_2", hold="pay alice"), untrack=["att_2"])
    came = await all_queued(grouped, [line.step(), half, other.step(), Line("run_3").step()])
    assert [type(one) for one in came] == [type(None), Occupied, type(None), type(None)]
    assert [one.attempt for one in await grouped.ledger.tracked()] == ["att_1", "att_2"]
    assert [len(await grouped.ledger.read(run)) for run in ("run_1", "run_2", "run_3")] == [2, 2, 1]


async def test_a_step_that_sqlite_cannot_store_is_refused_alone(sqlite: SqliteLedger, path: Path) -> None:
    nan = Line("run_1").tracking(attempt("att_1", lease_until=float("nan")))
    came = await all_queued(
        Grouped("", sqlite, lambda: locked_file(path)), [Line("run_0").step(), nan, Line("run_2").step()]
    )
    assert [type(one) for one in came] == [type(None), sqlite3.IntegrityError, type(None)]
    assert await sqlite.read("run_1") == []


async def test_a_commit_that_fails_fails_every_step_of_its_group(path: Path) -> None:
    ledger = await open_sqlite(path, factory=Faulty)
    Faulty.made.before_commit = disk_error()
    # Also the second, which a conflict would have refused: what it conflicts with is not stored either.
    came = await all_queued(
        Grouped("", ledger, lambda: locked_file(path)),
        [Line("run_1").step(), Line("run_1").step(opened()), Line("run_2").step()],
    )
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


async def test_a_hold_that_is_given_up_later_in_the_group_is_still_held(grouped: Grouped) -> None:
    line = Line("run_1")
    await grouped.ledger.append(line.tracking(attempt("att_1", hold="pay alice")))
    too_early = Line("run_2").tracking(attempt("att_2", "run_2", hold="pay alice"))
    # The first to come may be a group of its own.
    came = await all_queued(grouped, [Line("run_0").step(), too_early, line.step(untrack=["att_1"])])
    assert [type(one) for one in came] == [type(None), Occupied, type(None)]
    assert await grouped.ledger.tracked() == []


async def test_an_append_whose_caller_gave_up_is_recorded_all_the_same(grouped: Grouped) -> None:
    line = Line("run_1")
    with anyio.fail_after(5):
        async with grouped.locked():
            good, refused = line.step(), Line("run_1").step(opened())
            abandoned = [asyncio.ensure_future(grouped.ledger.append(step)) for step in (good, refused)]
            await anyio.wait_all_tasks_blocked()
            for task in abandoned:
                task.cancel()
            await asyncio.wait(abandoned)
        await grouped.ledger.append(line.step())
    assert all(task.cancelled() for task in abandoned)
    assert len(await grouped.ledger.read("run_1")) == 2


async def test_closing_waits_for_what_was_queued(grouped: Grouped) -> None:
    with anyio.fail_after(5):
        async with grouped.locked():
            steps = [asyncio.ensure_future(grouped.ledger.append(Line(f"run_{number}").step())) for number in range(8)]
            await anyio.wait_all_tasks_blocked()
            closing = asyncio.ensure_future(grouped.ledger.close())
            await anyio.wait_all_tasks_blocked()
            assert not closing.done()
        assert await asyncio.gather(*steps) == [None] * 8
        await closing
    again = await open_ledger(grouped.url)
    assert [len(await again.read(f"run_{number}")) for number in range(8)] == [1] * 8
    await again.close()


async def test_claims_and_renewals_join_the_group(grouped: Grouped) -> None:
    seen = attempt("att_0", "run_0", owner="gw_2", lease_until=T0)
    await grouped.ledger.append(Line("run_0").tracking(seen))
    before = grouped.ledger.commits
    with anyio.fail_after(5):
        async with grouped.locked():
            calls = [
                asyncio.ensure_future(grouped.ledger.append(Line("run_1").step(small()))),
                asyncio.ensure_future(grouped.ledger.claim(seen, "gw_1", T0 + 10)),
                asyncio.ensure_future(grouped.ledger.renew("gw_1", ["att_0"], T0 + 20)),
            ]
            await anyio.wait_all_tasks_blocked()
        assert await asyncio.gather(*calls) == [None, True, None]
    assert grouped.ledger.commits - before <= 2
    assert await grouped.ledger.tracked() == [attempt("att_0", "run_0", owner="gw_1", lease_until=T0 + 20)]
