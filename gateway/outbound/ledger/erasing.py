"""Payloads that are erased from a ledger's file."""

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from gateway.model.canonical import Digest


def erase(digests: Sequence[Digest], at: float, db: sqlite3.Connection) -> int:
    """How many went: that they were there, and when they went, is remembered."""
    gone = 0
    db.execute("PRAGMA secure_delete = ON")  # overwritten, not only unlinked
    for digest in digests:
        if db.execute("DELETE FROM payload WHERE digest = ?", (digest,)).rowcount:
            db.execute("INSERT OR REPLACE INTO erased (digest, at) VALUES (?, ?)", (digest, at))
            gone += 1
    db.execute("PRAGMA secure_delete = OFF")
    return gone


WAIT_S = 1.0
"""For readers to be done with the log."""


def forget(path: Path) -> None:
    """The log beside the file is moved into it and cut to nothing, if nobody is in the middle of reading it: pages as
    they were before would else stand there until something is written over them [sqlite.org/pragma.html].
    """
    there = f"{path.as_uri()}?mode=rw"  # never made anew
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(there, WAIT_S, uri=True)) as db:
        db.execute("PRAGMA checkpoint_fullfsync = ON")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
