"""A question is found by its name: by an index on what its record says, asked of each kind of ledger."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.outbound.ledger import open_ledger, open_sqlite, schema
from gateway.outbound.ledger.postgres import address
from gateway.ports import DamagedRecord, Ledger
from tests.ledger.making import Line, asked, opened, small
from tests.postgres_server import Server

BROKEN = (b"{", b"", b"\xff\x00", b"null", b"[" * 3000, b'{"event":[]}', b'{"event":{"approval":7}}')
"""What somebody may have made of a record."""


async def names(ledger: Ledger, *wanted: str) -> set[tuple[str, int]]:
    """Where the questions of these names were asked."""
    return {(one.run, one.seq) for one in await ledger.named(wanted)}


async def test_a_question_is_found_by_its_name_in_whichever_run(ledger: Ledger) -> None:
    one, two = Line("run_1"), Line("run_2")
    await ledger.append(one.step(opened(), asked("ap_1"), small("ap_small")))
    await ledger.append(two.step(opened(), small(), asked("ap_2"), asked("ap_\u00e9\u4e2d")))
    assert await names(ledger, "ap_1") == {("run_1", 2)}
    assert await names(ledger, "ap_2", "ap_none", "ap_1") == {("run_1", 2), ("run_2", 3)}
    assert await names(ledger, "ap_\u00e9\u4e2d") == {("run_2", 4)}
    for nothing in ((), ("ap_none",), ("",), ("ap_small",), ("AP_1",), ("ap_",)):
        assert await names(ledger, *nothing) == set()


async def test_names_that_no_ledger_can_hold_are_nowhere(ledger: Ledger) -> None:
    await ledger.append(Line("run_1").step(asked("ap_1")))
    assert await names(ledger, "a\0b", "\ud800", "ap_1") == {("run_1", 1)}


async def test_a_step_that_was_refused_has_named_nothing(ledger: Ledger) -> None:
    line = Line("run_1")
    stale = Line("run_1").step(asked("ap_2"))
    await ledger.append(line.step(asked("ap_1")))
    with pytest.raises(Exception, match="was expected at version"):
        await ledger.append(stale)
    assert await names(ledger, "ap_1", "ap_2") == {("run_1", 1)}


async def test_another_gateway_finds_what_this_one_has_asked(shared: Ledger, url: str) -> None:
    other = await open_ledger(url)
    await shared.append(Line("run_1").step(asked("ap_1")))
    assert await names(other, "ap_1") == {("run_1", 1)}
    await other.close()


Changed = Callable[[str, bytes], Any]


@pytest.fixture
def changed(url: str, path: Path, request: pytest.FixtureRequest) -> Changed:
    """Somebody has written that over the only record of the run."""

    async def over(run: str, body: bytes) -> None:
        if address.is_postgres(url):
            server: Server = request.getfixturevalue("postgres")
            db = await asyncpg.connect(server.dsn)
            table = f"{address.parse(url).schema}.event"
            await db.execute(f"UPDATE {table} SET body = $1 WHERE run = $2", body, run)  # noqa: S608
            await db.close()
        else:
            with closing(sqlite3.connect(path)) as file:
                file.execute("UPDATE event SET body = ? WHERE run = ?", (body, run))
                file.commit()

    return over


async def test_a_damaged_question_hides_no_other(shared: Ledger, changed: Changed) -> None:
    for number, _ in enumerate(BROKEN):
        await shared.append(Line(f"run_{number}").step(asked(f"ap_{number}")))
    await shared.append(Line("run_sound").step(asked("ap_sound")))
    for number, body in enumerate(BROKEN):
        await changed(f"run_{number}", body)
        assert await names(shared, f"ap_{number}", "ap_sound") == {("run_sound", 1)}
    await changed("run_0", b'{"event":{"approval":"ap_0"}}')
    with pytest.raises(DamagedRecord):
        await shared.named(["ap_0"])
    assert await names(shared, "ap_sound") == {("run_sound", 1)}


async def test_an_older_ledger_of_which_a_record_is_damaged_is_migrated_all_the_same(path: Path) -> None:
    ledger = await open_sqlite(path)
    for name in ("ap_0", "ap_1"):
        await ledger.append(Line(f"run_{name}").step(asked(name)))
    await ledger.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DROP INDEX event_named")
        db.execute("DROP TABLE consent")
        db.execute("PRAGMA user_version = 4")
        db.execute("UPDATE meta SET value = x'34' WHERE key = 'schema_version'")
        db.execute("UPDATE event SET body = x'7b' WHERE run = 'run_ap_0'")
    ledger = await open_sqlite(path)
    assert await names(ledger, "ap_0", "ap_1") == {("run_ap_1", 1)}
    assert await ledger.strange() == []
    await ledger.close()
    with closing(sqlite3.connect(path)) as db:
        assert schema.version(db) == schema.VERSION
