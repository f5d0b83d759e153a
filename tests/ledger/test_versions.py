"""Every ledger that was ever written opens, migrates in whole steps, verifies, and goes on."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.model.record import decode, encode, link
from gateway.outbound.ledger import open_sqlite, schema
from gateway.ports import LedgerUnavailable, NotOurLedger
from tests import world
from tests.audit.ledgers import found, sealed, verified
from tests.ledger.dying import Dies, statements_of
from tests.ledger.making import Line
from tests.runtime.house import house, refused

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("schema-*.db"))
OLDER = [one for one in FIXTURES if int(one.stem.rpartition("-")[2]) < schema.VERSION]


@pytest.fixture(params=FIXTURES, ids=lambda one: one.stem)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copy(request.param, tmp_path / "ledger.db"))


def older(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copy(request.param, tmp_path / "older.db"))


older_path = pytest.fixture(params=OLDER, ids=lambda one: one.stem)(older)


def opened(path: Path) -> "closing[sqlite3.Connection]":
    return closing(sqlite3.connect(path, isolation_level=None))


def rows(path: Path) -> list[Any]:
    """All that the log and its payloads hold."""
    with opened(path) as db:
        events = db.execute("SELECT position, run, seq, kind, link, body FROM event ORDER BY position").fetchall()
        return [
            *events,
            *db.execute("SELECT digest, body FROM payload ORDER BY digest"),
            *db.execute("SELECT value FROM meta WHERE key = 'salt'"),
        ]


def layout(path: Path) -> dict[str, str]:
    """What stands in the file, by name, however it came there."""
    with opened(path) as db:
        return {name: " ".join(sql.split()) for name, sql in db.execute("SELECT name, sql FROM sqlite_master") if sql}


def test_every_schema_has_a_ledger_that_was_written_under_it() -> None:
    versions = []
    for one in FIXTURES:
        with opened(one) as db:
            versions.append(schema.version(db))
    assert versions == list(range(1, schema.VERSION + 1))


async def test_it_opens_and_is_as_if_made_today_and_nothing_that_was_recorded_is_changed(
    path: Path, tmp_path: Path
) -> None:
    before = rows(path)
    await (await open_sqlite(path)).close()
    assert rows(path) == before
    await (await open_sqlite(tmp_path / "new.db")).close()
    assert layout(path) == layout(tmp_path / "new.db")
    with opened(path) as db:
        assert schema.version(db) == schema.VERSION
        assert db.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone() == (b"%d" % schema.VERSION,)


def test_every_record_in_it_is_spelled_as_it_was(path: Path) -> None:
    with opened(path) as db:
        bodies = [body for (body,) in db.execute("SELECT body FROM event ORDER BY position")]
    assert [encode(decode(body)) for body in bodies] == bodies


async def test_what_is_in_it_verifies_and_its_chain_goes_on(path: Path) -> None:
    ledger = await open_sqlite(path)
    report = await verified(ledger, keys=[])
    assert (found(report), report.not_judged) == ([], 0)
    assert (report.records, report.runs, [name for name, _ in report.unknown]) == (37, 2, ["run_2.4"])
    clock = world.ToldClock(world.T0 + 7200)
    async with house(ledger, owner="next", clock=clock) as it:
        assert refused(await it.call("write", {"n": 10}, run="run_2")) == ("held", None)
        shown = await it.call("write", {"n": 9}, run="run_2")
        assert shown.record is not None
        assert shown.record["replayed"] is True
        assert refused(await it.call("write", {"n": 11}, run="run_2")) is None
        assert refused(await it.call("read", run="run_1")) == ("verified_success", "success")
    head = await sealed(ledger)
    report = await verified(ledger, head=head)
    assert (found(report), report.not_judged) == ([], 0)
    assert report.records == report.signed_up_to > 37
    await ledger.close()


async def test_who_has_it_open_under_the_older_version_notices_and_writes_no_more(
    older_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(older_path) as db:
        version = schema.version(db)
    with monkeypatch.context() as before:
        before.setattr(schema, "migrate", partial(schema.migrate, migrations=schema.MIGRATIONS[:version]))
        before.setattr(schema, "VERSION", version)
        ledger = await open_sqlite(older_path)
        await ledger.append(Line("run_3").step())
        with opened(older_path) as db:
            schema.migrate(db, migrations=schema.MIGRATIONS)
        with pytest.raises(LedgerUnavailable) as raised, anyio.fail_after(5):
            await ledger.append(Line("run_4").step())
        assert str(raised.value) == (
            f"the ledger `{older_path}` was migrated by a newer version: restart this gateway with that version"
        )
        await ledger.close()
    with opened(older_path) as db:
        assert db.execute("SELECT run FROM event WHERE run IN ('run_3', 'run_4')").fetchall() == [("run_3",)]


async def test_one_of_a_newer_version_is_refused_and_left_as_it_is(path: Path) -> None:
    with opened(path) as db:
        db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(NotOurLedger) as raised:
        await open_sqlite(path)
    assert str(raised.value) == (
        f"`{path}` has schema {schema.VERSION + 1} and this version knows only {schema.VERSION}: "
        "upgrade, or give another path"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("change", [(b'"goal":', b'"purpose":'), (b'"schema_version":1', b'"schema_version":2')])
async def test_a_record_of_a_newer_version_is_not_read_as_another(path: Path, change: tuple[bytes, bytes]) -> None:
    ledger = await open_sqlite(path)
    with opened(path) as db:
        (body,) = db.execute("SELECT body FROM event WHERE run = 'run_2' AND seq = 1").fetchone()
        newer = body.replace(*change)
        db.execute("UPDATE event SET body = ?, link = ? WHERE run = 'run_2' AND seq = 1", (newer, link(newer)))
    with pytest.raises(LedgerUnavailable) as raised:
        await ledger.read("run_2")
    assert str(raised.value) == (
        "a record of the ledger cannot be understood: it was written by a newer version; upgrade this one"
    )
    await ledger.close()


# --- a migration that dies ------------------------------------------------------------------------------------------


def layouts(older: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Of the file as it is, and as it will be."""
    yield layout(older)
    copy = Path(shutil.copy(older, tmp_path / "migrated.db"))
    with opened(copy) as db:
        schema.migrate(db)
    yield layout(copy)


def test_a_migration_that_fails_at_any_statement_leaves_the_ledger_as_it_was(older_path: Path, tmp_path: Path) -> None:
    old, new = layouts(older_path, tmp_path)
    for number in range(1, statements_of(older_path) + 1):
        copy = Path(shutil.copy(older_path, tmp_path / "copy.db"))
        with closing(sqlite3.connect(copy, isolation_level=None, factory=Dies)) as db:
            db.dies_before(number)
            with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
                schema.migrate(db)
            assert not db.in_transaction
            assert layout(copy) == old
            db.dies_before(0)
            schema.migrate(db)
            assert layout(copy) == new


def test_a_gateway_that_is_killed_at_any_statement_leaves_it_old_or_new(older_path: Path, tmp_path: Path) -> None:
    old, new = layouts(older_path, tmp_path)
    count = statements_of(older_path)
    script = Path(__file__).with_name("dying_migration.py")
    ran = subprocess.run(
        [sys.executable, script, older_path, tmp_path / "killed", str(count)],
        env={"PYTHONPATH": str(Path(__file__).parent.parent.parent)},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split() == ["-9"] * (count + 1)
    became = []
    for number in range(1, count + 2):
        copy = tmp_path / f"killed-{number}.db"
        found = layout(copy)
        became.append("old" if found == old else "new" if found == new else "neither")
        assert rows(copy) == rows(older_path)
        with opened(copy) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            schema.migrate(db)
        assert layout(copy) == new
    assert became == ["old"] * count + ["new"]
