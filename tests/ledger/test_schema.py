"""What stands in the file: migrated forward in whole steps, and found without a search."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.outbound.ledger import said, schema, sqlite, sqlite_asked
from tests.ledger.faulty import locked

NEXT_VERSION = (*schema.MIGRATIONS, ("ALTER TABLE attempt ADD COLUMN note TEXT", "CREATE TABLE extra (x) STRICT"))
"""Broken: a strict table's columns need types."""

MENDED = (*schema.MIGRATIONS, ("ALTER TABLE attempt ADD COLUMN note TEXT",))


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    """An empty file that was made a ledger of this version."""
    made = sqlite3.connect(path, isolation_level=None, timeout=0)
    schema.create(made)
    yield made
    made.close()


def columns(db: sqlite3.Connection) -> list[str]:
    return [row[1] for row in db.execute("PRAGMA table_info (attempt)")]


NOW, NEXT = ((number, b"%d" % number) for number in (schema.VERSION, schema.VERSION + 1))
"""The version of a file, as it stands in both of its places."""


def schema_version(db: sqlite3.Connection) -> tuple[int, bytes]:
    (told,) = db.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    return schema.version(db), told


def test_a_migration_adds_to_what_is_there(db: sqlite3.Connection) -> None:
    salt = db.execute("SELECT value FROM meta WHERE key = 'salt'").fetchone()
    schema.migrate(db, MENDED)
    schema.migrate(db, MENDED)
    assert columns(db)[-1] == "note"
    assert schema_version(db) == NEXT
    assert db.execute("SELECT value FROM meta WHERE key = 'salt'").fetchone() == salt


def test_a_migration_that_fails_changes_nothing(db: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(db, NEXT_VERSION)
    assert not db.in_transaction
    assert "note" not in columns(db)
    assert schema_version(db) == NOW


def test_a_migration_never_goes_back(db: sqlite3.Connection) -> None:
    schema.migrate(db, MENDED)
    schema.migrate(db)
    assert schema_version(db) == NEXT


def test_a_migration_waits_for_whoever_writes(db: sqlite3.Connection, path: Path) -> None:
    with locked(path), pytest.raises(sqlite3.OperationalError):
        schema.migrate(db, MENDED)
    assert schema_version(db) == NOW
    schema.migrate(db, MENDED)


def test_of_two_that_migrate_the_second_finds_it_done(db: sqlite3.Connection, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    schema._apply(db, MENDED)
    db.execute("COMMIT")
    other.execute("BEGIN IMMEDIATE")
    schema._apply(other, MENDED)
    other.execute("COMMIT")
    assert columns(other).count("note") == 1
    other.close()


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        (sqlite._HEAD, 1),
        (sqlite._READ, 3),
        (sqlite._PAYLOAD, 1),
        (sqlite._HOLDER, 1),
        (sqlite._UNTRACK, 1),
        (sqlite._CLAIM, 6),
        (sqlite._RENEW, 3),
        (sqlite_asked.tracked_in(2), 2),
        (sqlite._LOG, 2),
        (sqlite._LINKS, 2),
        (sqlite._CLOSED, 0),
        (sqlite._CHECKPOINT, 5),
        (sqlite._CHECKPOINTS, 1),
        (sqlite._PAYLOADS, 2),
        (sqlite._TOUCH, 1),
        (sqlite._UNERASE, 1),
        (sqlite._STANDING, 2),
        (sqlite_asked.levels_of(3), 3),
        (sqlite._CHANGE_LEVEL, 3),
        (sqlite._CHANGE_ACCOUNT, 4),
        (sqlite._FORGET, 2),
        (said.SAY, 2),
        (said.SAID, 1),
        (said.UNSAY, 2),
        (sqlite_asked.found(["run.opened"], 10)[0], 5),
        (sqlite_asked.found(sorted(schema.RARE), 10)[0], 4 + len(schema.RARE)),
        (sqlite_asked.named_as(3), 3),
    ],
)
def test_no_query_of_a_call_reads_more_than_its_rows(db: sqlite3.Connection, sql: str, values: int) -> None:
    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", [1] * values)]
    tables = ("event", "payload", "attempt", "meta", "accounts", "said")
    assert [line for line in plan if line.startswith(tuple(f"SCAN {table}" for table in tables))] == []
