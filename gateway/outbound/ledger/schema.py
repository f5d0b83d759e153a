"""What stands in the file, by numbered steps that only go forward. A step that was released is never edited."""

import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TypeAlias

APPLICATION_ID = 0x43666F6C
"""`Cfol`, in SQLite's header: the file is a counterfoil ledger [sqlite.org/pragma.html#pragma_application_id]."""

RARE = ("run.opened", "approval.requested", "approval.decided", "approval.withdrawn")
"""Kinds that are looked for over all runs, and few enough to have an index of their own."""

RARE_SQL = "kind IN ('run.opened', 'approval.requested', 'approval.decided', 'approval.withdrawn')"
"""As the partial index has it; a query must repeat it word for word to be served by that index."""

NAME_SQL = "CASE WHEN json_valid(CAST(body AS TEXT)) THEN json_extract(CAST(body AS TEXT), '$.event.approval') END"
"""The name of a question, out of the record by which it was asked; nothing where that record is damaged."""

NAMED_SQL = "kind = 'approval.requested'"
"""What has a name to be found by. Both as the index has them, which a query must repeat."""

Migration: TypeAlias = Sequence[str]

MIGRATIONS: Sequence[Migration] = (
    (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID",
        """CREATE TABLE event (
            position INTEGER PRIMARY KEY,
            run TEXT NOT NULL,
            seq INTEGER NOT NULL,
            kind TEXT NOT NULL,
            link TEXT NOT NULL,
            body BLOB NOT NULL,
            UNIQUE (run, seq)
        ) STRICT""",
        """CREATE INDEX event_rare ON event (kind, position)
            WHERE kind IN ('run.opened', 'approval.requested', 'approval.decided')""",
        # Not WITHOUT ROWID: such a table keeps its rows in the key's tree, which megabytes would make deep.
        "CREATE TABLE payload (digest TEXT NOT NULL UNIQUE, body BLOB NOT NULL) STRICT",
        """CREATE TABLE attempt (
            position INTEGER PRIMARY KEY,
            attempt TEXT NOT NULL UNIQUE,
            run TEXT NOT NULL,
            state TEXT NOT NULL,
            hold TEXT,
            owner TEXT NOT NULL,
            lease_until REAL NOT NULL
        ) STRICT""",
        "CREATE UNIQUE INDEX attempt_hold ON attempt (hold) WHERE hold IS NOT NULL",
        "CREATE INDEX attempt_lease ON attempt (lease_until)",
    ),
    (
        """CREATE TABLE accounts (
            account TEXT NOT NULL,
            unit TEXT NOT NULL,
            level INTEGER NOT NULL,
            until REAL,
            PRIMARY KEY (account, unit)
        ) STRICT, WITHOUT ROWID""",
        "CREATE INDEX accounts_end ON accounts (until) WHERE until IS NOT NULL",
    ),
    (
        """CREATE TABLE checkpoint (
            size INTEGER PRIMARY KEY,
            place INTEGER NOT NULL,
            peaks TEXT NOT NULL,
            at REAL NOT NULL,
            note TEXT NOT NULL
        ) STRICT""",
        "CREATE TABLE erased (digest TEXT PRIMARY KEY, at REAL NOT NULL) STRICT, WITHOUT ROWID",
        # Whether a lease has run out is judged by who has watched it, not by the clock.
        "DROP INDEX attempt_lease",
        "CREATE INDEX attempt_state ON attempt (state)",
        "CREATE INDEX attempt_owner ON attempt (owner)",
    ),
    (
        "CREATE TABLE said (name TEXT PRIMARY KEY, until REAL NOT NULL) STRICT, WITHOUT ROWID",
        "CREATE INDEX said_end ON said (until)",
    ),
    (
        # An index on what the records say, and no table beside them: it can say nothing else than they do.
        f"CREATE INDEX event_named ON event ({NAME_SQL}) WHERE {NAMED_SQL}",
        "DROP INDEX event_rare",
        f"CREATE INDEX event_rare ON event (kind, position) WHERE {RARE_SQL}",
    ),
    (
        # `grant` is a word of SQL.
        """CREATE TABLE consent (
            tenant TEXT NOT NULL,
            principal TEXT NOT NULL,
            upstream TEXT NOT NULL,
            name TEXT NOT NULL,
            version INTEGER NOT NULL,
            sealed BLOB NOT NULL,
            owner TEXT NOT NULL,
            lease_until REAL NOT NULL,
            PRIMARY KEY (principal, tenant, upstream)
        ) STRICT, WITHOUT ROWID""",
    ),
)

VERSION = len(MIGRATIONS)

SALT_BYTES = 32


def create(db: sqlite3.Connection) -> None:
    """The empty file is a ledger of this version, with a salt of its own."""
    db.execute("BEGIN IMMEDIATE")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    _apply(db, MIGRATIONS)
    db.execute("INSERT INTO meta (key, value) VALUES ('salt', ?)", (secrets.token_bytes(SALT_BYTES),))
    db.execute("COMMIT")


def migrate(db: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """The ledger is of the version that these migrations lead to, or newer; whoever else opens it waits."""
    if version(db) >= len(migrations):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        _apply(db, migrations)
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def version(db: sqlite3.Connection) -> int:
    """The number of migrations that the file has seen."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def versions(db: sqlite3.Connection) -> tuple[int, int]:
    """As `version`, and as the table `meta` has it: at one moment, for another process may be migrating."""
    told, meant = db.execute(
        "SELECT user_version, (SELECT CAST(value AS TEXT) FROM meta WHERE key = 'schema_version') "
        "FROM pragma_user_version"
    ).fetchone()
    return int(told), int(meant) if str(meant).isdecimal() else 0


LAYOUT = "SELECT name, type, coalesce(sql, '') FROM sqlite_master"


def strange(found: Mapping[str, tuple[str, str]]) -> Sequence[str]:
    """How a ledger of this version, of which these are the names, types and SQL of what stands in it, differs from a
    new one; but for tables, views and indexes of other programs, which only take room.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        _apply(db, MIGRATIONS)
        made = {name: (kind, sql) for name, kind, sql in db.execute(LAYOUT)}
    gone = [f"the {kind} `{name}` is gone" for name, (kind, _) in made.items() if name not in found]
    other = [
        f"the {kind} `{name}` is another one"
        for name, (kind, sql) in made.items()
        if name in found and (kind, _words(sql)) != (found[name][0], _words(found[name][1]))
    ]
    return [*gone, *other, *(f"there is a trigger, `{name}`" for name, (kind, _) in found.items() if kind == "trigger")]


def _words(sql: str) -> str:
    return " ".join(sql.split())


def _apply(db: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    # Read again under the lock: another process may have migrated while we waited for it.
    for migration in migrations[version(db) :]:
        for statement in migration:
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {max(len(migrations), version(db))}")
    # Also where a person with the `sqlite3` shell looks.
    db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('schema_version', ?)", (b"%d" % version(db),))
