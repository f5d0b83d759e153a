"""Faults of the disk, planted in the writing connection: the class that a test gives to `open_sqlite`."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Faulty(sqlite3.Connection):
    """A connection whose commits fail when told, and whose settings a test may change from its own thread."""

    made: "Faulty"
    """The last one."""
    before_commit: sqlite3.Error | None = None
    after_commit: sqlite3.Error | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options | {"check_same_thread": False})
        Faulty.made = self

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and self.before_commit is not None:
            raise self.before_commit
        cursor = super().execute(sql, *values)
        if sql == "COMMIT" and self.after_commit is not None:
            raise self.after_commit
        return cursor


def disk_error(code: int = sqlite3.SQLITE_IOERR_WRITE) -> sqlite3.OperationalError:
    """As SQLite raises it."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another connection holds the write lock."""
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
    finally:
        other.close()
