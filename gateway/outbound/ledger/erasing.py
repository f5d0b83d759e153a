"""Payloads that are erased from a ledger's file."""

import sqlite3
from collections.abc import Sequence

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
