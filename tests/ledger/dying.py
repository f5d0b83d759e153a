"""A connection that fails, or whose process is killed, before one of its statements."""

import os
import shutil
import signal
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from gateway.outbound.ledger import schema


class Dies(sqlite3.Connection):
    """Counts its statements; before the one with the number that it was told, it fails or dies."""

    killed = False
    """Whether the process dies, and nothing is raised."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.count = 0
        self._number = 0

    def dies_before(self, number: int) -> None:
        """From now on; 0: never."""
        self.count, self._number = 0, number

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        self.count += 1
        # What undoes is not counted out: a disk that fails there is another test.
        if self.count == self._number and sql != "ROLLBACK":
            if self.killed:
                os.kill(os.getpid(), signal.SIGKILL)
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, *values)


def statements_of(ledger: Path) -> int:
    """How many statements its migration takes."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(ledger, folder)
        with closing(sqlite3.connect(copy, isolation_level=None, factory=Dies)) as db:
            schema.migrate(db)
            return db.count
