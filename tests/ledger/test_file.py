"""The file: made whole, private and durable, and never touched if it is not ours."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.outbound.ledger import SqliteLedger, open_sqlite, schema
from gateway.outbound.ledger.file import check_sqlite
from gateway.ports import LedgerUnavailable, NotOurLedger
from tests.ledger.faulty import locked
from tests.ledger.making import Line, opened


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def everything(directory: Path) -> dict[str, bytes]:
    """Every file there with its content."""
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


async def test_a_ledger_and_its_directories_are_private_to_the_user(tmp_path: Path) -> None:
    path = tmp_path / "one" / "two" / "ledger.db"
    ledger = await open_sqlite(path)
    await ledger.append(Line("run_1").step())
    assert {part.name: mode(part) for part in (tmp_path / "one").rglob("*")} == {
        "two": 0o700,
        "ledger.db": 0o600,
        "ledger.db-wal": 0o600,
        "ledger.db-shm": 0o600,
    }
    assert mode(tmp_path / "one") == 0o700
    await ledger.close()
    assert [part.name for part in path.parent.iterdir()] == ["ledger.db"]


async def test_every_commit_is_synced_before_it_is_said_to_be_done(path: Path) -> None:
    ledger = await open_sqlite(path)

    def settings(db: sqlite3.Connection) -> list[object]:
        return [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")]

    assert await ledger._writer.run(settings) == [2, "wal"]
    await ledger.close()


async def test_a_ledger_is_found_again_with_all_that_it_held(path: Path) -> None:
    first = await open_sqlite(path)
    step = Line("run_1").step(opened())
    await first.append(step)
    await first.close()
    second = await open_sqlite(path)
    assert second.salt == first.salt
    assert [record for record, _ in await second.read("run_1")] == step.records
    await second.close()


async def test_a_ledger_behind_a_link_is_the_ledger_it_points_to(tmp_path: Path, path: Path) -> None:
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    first, second = await open_sqlite(link), await open_sqlite(path)
    await first.append(Line("run_1").step())
    assert len(await second.read("run_1")) == 1
    assert [part.name for part in link.parent.iterdir()] == ["link.db"]
    await first.close()
    await second.close()


async def test_a_restored_copy_in_another_journal_mode_is_put_back_into_ours(path: Path, tmp_path: Path) -> None:
    ledger = await open_sqlite(path)
    await ledger.append(Line("run_1").step())
    await ledger.close()
    copy = tmp_path / "restored.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("VACUUM INTO ?", (str(copy),))
    db.close()
    restored = await open_sqlite(copy)
    assert len(await restored.read("run_1")) == 1
    assert (tmp_path / "restored.db-wal").exists()
    await restored.close()


def text(path: Path) -> None:
    path.write_text("dear diary, " * 1000)


def nothing(path: Path) -> None:
    path.touch()


def foreign(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE event (position INTEGER PRIMARY KEY)")
    db.commit()
    db.close()


def foreign_with_log(path: Path) -> None:
    """Another program's database as it is after a crash: what it committed last is only in its log."""
    live = sqlite3.connect(path.with_name("live"), isolation_level=None)
    live.execute("PRAGMA journal_mode = WAL")
    live.execute("CREATE TABLE note (body TEXT)")
    path.with_name(f"{path.name}-wal").write_bytes(path.with_name("live-wal").read_bytes())
    path.write_bytes(path.with_name("live").read_bytes())
    live.close()


def newer(path: Path) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    schema.create(db)
    db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    db.close()


def directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (text, "`{path}` is not an SQLite file: give the ledger another path"),
        (nothing, "`{path}` is an empty file: delete it, or give the ledger another path"),
        (foreign, "`{path}` belongs to another program: give the ledger another path"),
        (foreign_with_log, "`{path}` belongs to another program: give the ledger another path"),
        (directory, "`{path}` is no file: give the ledger another path"),
        (newer, "`{path}` has schema 7 and this version knows only 6: upgrade, or give another path"),
    ],
)
async def test_what_is_not_ours_is_said_to_be_and_stays_as_it_was(
    path: Path, make: Callable[[Path], None], message: str
) -> None:
    make(path)
    before = everything(path.parent)
    with pytest.raises(NotOurLedger) as raised:
        await open_sqlite(path)
    assert str(raised.value) == message.format(path=path)
    assert everything(path.parent) == before


async def test_a_newer_version_is_also_seen_where_it_stands_only_in_the_log(path: Path) -> None:
    ledger = await open_sqlite(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    with pytest.raises(NotOurLedger):
        await open_sqlite(path)
    other.close()
    await ledger.close()


async def test_a_place_where_no_file_can_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "ledger.db"
    with pytest.raises(LedgerUnavailable) as raised:
        await open_sqlite(path)
    assert str(raised.value) == (
        f"the ledger `{path}` cannot be used, not a directory: mend that, or give another path"
    )


async def test_a_file_that_was_cut_short_is_damaged(path: Path) -> None:
    await (await open_sqlite(path)).close()
    path.write_bytes(path.read_bytes()[:4096])
    before = everything(path.parent)
    with pytest.raises(LedgerUnavailable) as raised:
        await open_sqlite(path)
    assert str(raised.value) == (
        f"the ledger `{path}` is damaged: stop every gateway on it and restore it from a backup"
    )
    assert everything(path.parent) == before


class Vanishing(sqlite3.Connection):
    """Whose file is deleted as soon as it has been recognised."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        cursor = super().execute(sql, *values)
        if "'salt'" in sql:
            Path(super().execute("PRAGMA database_list").fetchone()[2]).unlink()
        return cursor


async def test_a_file_that_vanishes_while_it_is_opened_is_unavailable(path: Path) -> None:
    with pytest.raises(LedgerUnavailable) as raised:
        await open_sqlite(path, factory=Vanishing)
    assert str(raised.value) == (
        f"the ledger `{path}` cannot be opened: see that its directory exists and that this user may write there"
    )


class WithoutSharedMemory(sqlite3.Connection):
    """As on a disk that cannot share memory, where SQLite answers with the mode that it kept."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return super().execute("SELECT 'delete'" if "journal_mode" in sql else sql, *values)


async def test_a_disk_that_cannot_share_memory_is_refused(path: Path) -> None:
    with pytest.raises(LedgerUnavailable) as raised:
        await open_sqlite(path, factory=WithoutSharedMemory)
    assert str(raised.value) == (f"the ledger `{path}` is on a disk without shared memory: give a path on a local disk")


async def test_a_restored_copy_that_another_program_still_writes_is_locked(path: Path) -> None:
    await (await open_sqlite(path)).close()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = DELETE")
    db.close()
    with locked(path), pytest.raises(LedgerUnavailable) as raised:
        await open_sqlite(path, busy_timeout_s=0.05)
    assert str(raised.value) == (
        f"the ledger `{path}` is locked by another process: end the one that holds it, then try again"
    )


async def test_an_opening_that_is_given_up_leaves_nothing_open(path: Path) -> None:
    for ticks in range(8):
        opening = asyncio.ensure_future(open_sqlite(path))
        for _ in range(ticks):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        if not opening.cancelled():
            await opening.result().close()
    ledger = await open_sqlite(path)
    await ledger.append(Line("run_1").step())
    await ledger.close()
    assert [part.name for part in path.parent.iterdir()] == ["ledger.db"]


def test_an_sqlite_without_strict_tables_is_refused() -> None:
    check_sqlite((3, 37, 0))
    with pytest.raises(LedgerUnavailable) as raised:
        check_sqlite((3, 36, 9))
    assert str(raised.value) == "SQLite 3.36.9 is too old for a ledger: use a Python that has 3.37.0 or newer"


async def test_the_ledgers_objects_on_one_file_see_each_other(path: Path, sqlite: SqliteLedger) -> None:
    other = await open_sqlite(path)
    await other.append(Line("run_1").step())
    assert len(await sqlite.read("run_1")) == 1
    await other.close()
    await sqlite.append(Line("run_2").step())
    assert len(await sqlite.read("run_2")) == 1


CHANGED = "the ledger `{path}` was changed by somebody, {what}: stop every gateway on it and restore it from a backup"


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("DELETE FROM meta WHERE key = 'salt'", "the salt under which it cites is gone"),
        ("UPDATE meta SET value = x'' WHERE key = 'salt'", "the salt under which it cites is gone"),
        ("PRAGMA user_version = 0", "it says schema 0 in one place and 6 in another"),
        ("PRAGMA user_version = 2", "it says schema 2 in one place and 6 in another"),
        ("DELETE FROM meta WHERE key = 'schema_version'", "it says schema 6 in one place and 0 in another"),
    ],
)
async def test_a_ledger_that_lacks_what_it_was_made_with_says_so(path: Path, sql: str, what: str) -> None:
    await (await open_sqlite(path)).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(sql)
    with pytest.raises(LedgerUnavailable) as raised:
        await open_sqlite(path)
    assert str(raised.value) == CHANGED.format(path=path, what=what)
