"""Accounts in the file: found again, shared by all who open it, migrated to, and as whole as their group."""

import asyncio
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from gateway.outbound.ledger import open_ledger, open_sqlite, schema
from gateway.ports import Exhausted, Ledger, LedgerUnavailable, Occupied
from tests.ledger.conftest import Grouped
from tests.ledger.faulty import Faulty, disk_error
from tests.ledger.making import Line, attempt, opened, posting, posts, refused


async def test_levels_are_found_again_with_the_ledger(url: str) -> None:
    first = await open_ledger(url)
    await first.append(posts("run_1", posting("a", 3, limit=3), posting("b", -2, unit="cost")))
    await first.close()
    second = await open_ledger(url)
    assert await second.levels(["a", "b"]) == {("a", "calls"): 3, ("b", "cost"): -2}
    assert await refused(second, posts("run_2", posting("a", 1, limit=3))) == ("a", "calls", 3, 3)
    await second.close()


async def test_what_another_object_on_the_file_posts_counts_at_once(shared: Ledger, url: str) -> None:
    other = await open_ledger(url)
    await other.append(posts("run_1", posting("a", 3)))
    assert await shared.levels(["a"]) == {("a", "calls"): 3}
    assert await refused(shared, posts("run_2", posting("a", 1, limit=3))) == ("a", "calls", 3, 3)
    await other.close()


async def test_a_ledger_of_the_first_schema_is_one_with_accounts_once_it_is_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line("run_1")
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        before.setattr(schema, "VERSION", 1)
        before.setattr(schema.migrate, "__defaults__", (schema.MIGRATIONS,))
        old = await open_sqlite(path)
        assert await old._writer.run(schema.version) == 1
        await old.append(line.tracking(attempt("att_1", hold="pay alice")))
        with pytest.raises(LedgerUnavailable):
            await old.levels(["a"])
        await old.close()
    ledger = await open_sqlite(path)
    await ledger.append(line.step(postings=[posting("a", 1, limit=1)]))
    assert await ledger.levels(["a"]) == {("a", "calls"): 1}
    assert len(await ledger.read("run_1")) == 2
    assert await ledger.tracked() == [attempt("att_1", hold="pay alice")]
    await ledger.close()


async def test_steps_of_a_group_see_each_others_postings_and_a_refused_one_harms_none(grouped: Grouped) -> None:
    ledger = grouped.ledger
    line = Line("run_1")
    steps = [
        line.step(opened(), postings=[posting("a", 2, limit=2)]),
        posts("run_2", posting("b", 1), posting("a", 1, limit=2)),
        line.step(postings=[posting("a", -1)]),
        posts("run_3", posting("a", 1, limit=2)),
        Line("run_4").tracking(attempt("att_4", "run_4", hold="h")),
        replace(Line("run_5").tracking(attempt("att_5", "run_5", hold="h")), postings=[posting("a", 1, limit=2)]),
        line.step(),
    ]
    with anyio.fail_after(10):
        async with grouped.locked():
            tasks = [asyncio.ensure_future(ledger.append(step)) for step in steps]
            await anyio.wait_all_tasks_blocked()
        came = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in came] == [
        type(None),
        Exhausted,
        type(None),
        type(None),
        type(None),
        Occupied,
        type(None),
    ]
    assert await ledger.levels(["a", "b"]) == {("a", "calls"): 2}
    assert [len(await ledger.read(f"run_{number}")) for number in range(1, 6)] == [3, 0, 1, 1, 0]


class Counting(Faulty):
    """Counts the groups that had to be begun again."""

    undone = 0

    def execute(self, sql: str, *values: object) -> object:  # type: ignore[override]
        Counting.undone += sql == "ROLLBACK"
        return super().execute(sql, *values)


async def test_a_refusal_for_a_limit_has_no_group_begun_again(path: Path) -> None:
    Counting.undone = 0
    ledger = await open_sqlite(path, factory=Counting)
    hold = attempt("att_0", "run_0", hold="pay alice")
    await ledger.append(replace(Line("run_0").tracking(hold), postings=[posting("a", 1)]))
    step = Line("run_1").step(track=[attempt("att_1", hold="pay bob")], untrack=["att_0"])
    assert await refused(ledger, replace(step, postings=[posting("b", 1), posting("a", 1, limit=1)]))
    with pytest.raises(Occupied):
        await ledger.append(
            replace(step, track=[replace(hold, attempt="att_1", run="run_1")], untrack=(), postings=[posting("b", 1)])
        )
    assert Counting.undone == 0
    await ledger.close()


async def test_a_commit_that_fails_posts_nothing(path: Path) -> None:
    ledger = await open_sqlite(path, factory=Faulty)
    Faulty.made.before_commit = disk_error()
    with pytest.raises(LedgerUnavailable):
        await ledger.append(posts("run_1", posting("a", 1, limit=1)))
    Faulty.made.before_commit = None
    assert await ledger.levels(["a"]) == {}
    await ledger.append(posts("run_1", posting("a", 1, limit=1)))
    assert await ledger.levels(["a"]) == {("a", "calls"): 1}
    await ledger.close()
