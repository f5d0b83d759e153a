"""What the disk, the system and other programs do to a ledger that is open: said in one line, and survived."""

import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from gateway.model.canonical import Digest, digest_bytes
from gateway.model.record import encode, link
from gateway.outbound.ledger import SqliteLedger, open_sqlite
from gateway.outbound.ledger.faults import unavailable
from gateway.ports import LedgerUnavailable, NotOurLedger
from tests.ledger.faulty import Faulty, disk_error, locked
from tests.ledger.making import Line, opened


@pytest.fixture
async def ledger(path: Path) -> AsyncIterator[SqliteLedger]:
    """One whose connection a test can set, and which does not wait long for a lock."""
    made = await open_sqlite(path, busy_timeout_s=0.05, factory=Faulty)
    yield made
    await made.close()


async def said(ledger: SqliteLedger, line: Line, **fields: object) -> str:
    """What an append that the ledger cannot take raises. The run is not moved."""
    expected = line.expected
    with anyio.fail_after(5), pytest.raises(LedgerUnavailable) as raised:
        await ledger.append(line.step(**fields))
    line.expected = expected
    return str(raised.value)


async def test_a_locked_ledger_is_unavailable_for_writes_only_and_until_it_is_unlocked(
    ledger: SqliteLedger, path: Path
) -> None:
    line = Line("run_1")
    await ledger.append(line.step(opened()))
    with locked(path):
        assert await said(ledger, line) == (
            f"the ledger `{path}` is locked by another process: end the one that holds it, then try again"
        )
        assert len(await ledger.read("run_1")) == 1
    await ledger.append(line.step())
    assert len(await ledger.read("run_1")) == 2


async def test_a_ledger_opens_while_another_process_writes(path: Path) -> None:
    first = await open_sqlite(path)
    await first.append(Line("run_1").step())
    with locked(path):
        second = await open_sqlite(path, busy_timeout_s=0.05)
        assert len(await second.read("run_1")) == 1
    await second.close()
    await first.close()


async def test_a_full_disk_loses_nothing_and_once_relieved_needs_no_restart(ledger: SqliteLedger, path: Path) -> None:
    line, large = Line("run_1"), {Digest("c1:large"): bytes(1_000_000)}
    await ledger.append(line.step(opened()))
    (pages,) = Faulty.made.execute("PRAGMA page_count").fetchone()
    Faulty.made.execute(f"PRAGMA max_page_count = {pages}")
    for _ in range(2):
        assert await said(ledger, line, payloads=large) == (
            f"the ledger `{path}` has no space left: free some on its disk, nothing needs a restart"
        )
    assert len(await ledger.read("run_1")) == 1
    assert await ledger.payload(Digest("c1:large")) is None

    Faulty.made.execute("PRAGMA max_page_count = 1000000")
    await ledger.append(line.step(payloads=large))
    assert len(await ledger.read("run_1")) == 2


async def test_a_read_only_ledger_can_be_read(ledger: SqliteLedger, path: Path) -> None:
    line = Line("run_1")
    await ledger.append(line.step(opened()))
    Faulty.made.execute("PRAGMA query_only = ON")
    assert await said(ledger, line) == (
        f"the ledger `{path}` cannot be written: make the file and its directory writable for this user"
    )
    assert len(await ledger.read("run_1")) == 1
    Faulty.made.execute("PRAGMA query_only = OFF")
    await ledger.append(line.step())


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
async def test_what_goes_into_a_deleted_file_is_not_called_recorded(
    ledger: SqliteLedger, path: Path, suffix: str
) -> None:
    line = Line("run_1")
    await ledger.append(line.step(opened()))
    gone = f"the ledger `{path}` was deleted or replaced while it was open: "
    gone += "stop every gateway on it, put the file back, and start again"
    part = path.with_name(path.name + suffix)
    aside = part.rename(path.with_name("aside"))
    assert await said(ledger, line) == gone
    with pytest.raises(LedgerUnavailable) as raised:
        await ledger.read("run_1")
    assert str(raised.value) == gone

    # Put back, it is the same file, and nothing was written into it meanwhile.
    aside.rename(part)
    await ledger.append(line.step())
    assert len(await ledger.read("run_1")) == 2


async def test_a_deleted_file_is_named_rather_than_the_error_that_it_led_to(ledger: SqliteLedger, path: Path) -> None:
    Faulty.made.before_commit = disk_error()
    path.unlink()
    assert (await said(ledger, Line("run_1"))).startswith(f"the ledger `{path}` was deleted or replaced")


async def test_a_replaced_file_is_not_written_to(ledger: SqliteLedger, path: Path) -> None:
    line = Line("run_1")
    await ledger.append(line.step(opened()))
    path.rename(path.with_name("aside"))
    path.write_bytes(b"something else")
    with pytest.raises(LedgerUnavailable):
        await ledger.append(line.step())
    assert path.read_bytes() == b"something else"


async def test_a_ledger_that_a_newer_version_migrated_meanwhile_is_left_alone(ledger: SqliteLedger, path: Path) -> None:
    line = Line("run_1")
    newer = sqlite3.connect(path, isolation_level=None)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    assert await said(ledger, line) == (
        f"the ledger `{path}` was migrated by a newer version: restart this gateway with that version"
    )
    assert await ledger.read("run_1") == []


async def change(path: Path, sql: str, *values: object) -> None:
    """Someone changes what is written."""
    db = sqlite3.connect(path, isolation_level=None)
    assert db.execute(sql, values).rowcount == 1
    db.close()


async def test_a_record_that_was_changed_is_not_read(ledger: SqliteLedger, path: Path) -> None:
    step = Line("run_1").step(opened("pay 10"))
    await ledger.append(step)
    changed = encode(step.records[0]).replace(b"pay 10", b"pay 99")
    await change(path, "UPDATE event SET body = ?", changed)
    for call in (ledger.read("run_1"), ledger.find(["run.opened"])):
        with pytest.raises(LedgerUnavailable) as raised:
            await call
        assert str(raised.value) == (
            "a record of the ledger was changed after it was written (`counterfoil verify` says which): restore it "
            "from a backup"
        )


async def test_a_record_of_a_kind_that_is_not_known_yet_is_not_guessed_at(ledger: SqliteLedger, path: Path) -> None:
    await ledger.append(Line("run_1").step(opened()))
    body = b'{"kind":"run.paused"}'
    await change(path, "UPDATE event SET body = ?, link = ?", body, link(body))
    with pytest.raises(LedgerUnavailable) as raised:
        await ledger.read("run_1")
    assert str(raised.value) == (
        "a record of the ledger cannot be understood: it was written by a newer version; upgrade this one"
    )


async def test_a_damaged_page_is_said_to_be_damage(path: Path) -> None:
    ledger = await open_sqlite(path)
    await ledger.append(Line("run_1").step(opened()))
    await ledger.close()
    body = bytearray(path.read_bytes())
    body[4096:] = bytes(len(body) - 4096)
    path.write_bytes(body)

    damaged = f"the ledger `{path}` is damaged: stop every gateway on it and restore it from a backup"
    with pytest.raises(LedgerUnavailable) as raised:
        await open_sqlite(path)
    assert str(raised.value) == damaged


async def test_a_read_of_a_damaged_page_is_said_to_be_damage(path: Path) -> None:
    ledger = await open_sqlite(path)
    cited = digest_bytes(bytes(100_000), ledger.salt)
    await ledger.append(Line("run_1").step(opened(), payloads={cited: bytes(100_000)}))
    await ledger.close()
    body = bytearray(path.read_bytes())
    body[-20 * 4096 :] = b"\xff" * (20 * 4096)
    path.write_bytes(body)

    again = await open_sqlite(path)
    with pytest.raises(LedgerUnavailable) as raised:
        await again.payload(cited)
    assert str(raised.value) == (
        f"the ledger `{path}` is damaged: stop every gateway on it and restore it from a backup"
    )
    await again.close()


def test_an_error_without_a_name_of_ours_keeps_its_own_words() -> None:
    made = unavailable(Path("l.db"), sqlite3.OperationalError("no such table: event"))
    assert str(made) == "the ledger `l.db` cannot be used now: no such table: event"


def half_moved(path: Path, before: bytes, log: bytes) -> Path:
    """The file as `before`, but with the first page that it has now, which speaks of more pages; and that log."""
    made = path.with_name("half.db")
    made.write_bytes(path.read_bytes()[:4096] + before[4096:])
    made.with_name("half.db-wal").write_bytes(log)
    return made


async def test_a_file_that_was_left_half_moved_from_its_log_is_whole_again_when_it_is_opened(path: Path) -> None:
    """As after a power cut while SQLite moved its log into the file."""
    ledger, line = await open_sqlite(path), Line("run_1")
    before = path.read_bytes()
    for _ in range(40):
        await ledger.append(line.step())
    log = path.with_name("ledger.db-wal").read_bytes()
    await ledger.close()
    again = await open_sqlite(half_moved(path, before, log))
    assert len(await again.read("run_1")) == 40
    await again.close()


async def test_a_half_moved_file_of_another_program_is_not_taken_for_ours(path: Path) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    before = path.read_bytes()
    for number in range(20):
        db.execute(f"CREATE TABLE t{number} (a)")
    log = path.with_name("ledger.db-wal").read_bytes()
    db.close()
    half = half_moved(path, before, log)
    with pytest.raises(NotOurLedger) as raised:
        await open_sqlite(half)
    assert str(raised.value) == f"`{half}` belongs to another program: give the ledger another path"


async def test_a_log_that_a_checkpoint_has_emptied_in_order_is_no_fault(ledger: SqliteLedger, path: Path) -> None:
    line = Line("run_1")
    for _ in range(2):
        for _ in range(5):
            await ledger.append(line.step())
        other = sqlite3.connect(path, isolation_level=None)
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        assert path.with_name("ledger.db-wal").stat().st_size == 0
        other.close()
    await ledger.append(line.step())
    assert len(await ledger.read("run_1")) == 11


@pytest.mark.parametrize("left", [0, 20_000])
async def test_a_log_that_was_cut_is_not_written_to_any_more_however_often_it_is_tried(
    ledger: SqliteLedger, path: Path, left: int
) -> None:
    line, log = Line("run_1"), path.with_name("ledger.db-wal")
    for _ in range(8):
        await ledger.append(line.step())
    assert log.stat().st_size > left
    os.truncate(log, left)
    for _ in range(2):
        assert await said(ledger, line) == (
            f"the log of the ledger `{path}` was cut while it was open: "
            "stop every gateway on it and restore it from a backup"
        )
    assert log.stat().st_size == left


async def test_a_touch_says_what_an_append_would_and_stores_in_one_place_only_when_asked(
    ledger: SqliteLedger, path: Path
) -> None:
    await ledger.append(Line("run_1").step(opened()))
    log = path.with_name("ledger.db-wal")
    before = log.stat().st_size
    await ledger.touch(store=False)
    assert log.stat().st_size == before
    for _ in range(3):
        await ledger.touch(store=True)
    assert log.stat().st_size > before + 3 * 65_536
    assert Faulty.made.execute("SELECT count(*), max(length(value)) FROM meta").fetchone() == (3, 65_536)
    with locked(path), pytest.raises(LedgerUnavailable):
        await ledger.touch(store=False)
    Faulty.made.before_commit = disk_error(sqlite3.SQLITE_FULL)
    with pytest.raises(LedgerUnavailable):
        await ledger.touch(store=True)
