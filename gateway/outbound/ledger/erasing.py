"""Payloads that are erased from a ledger, and from its file."""

import contextlib
import re
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from gateway.model.canonical import Digest

_CITED = re.compile(rb'"(c1:[^"]{1,128})"')
_SINCE = "SELECT body FROM event WHERE position > ?"


def uncited(digests: Collection[Digest], records: Iterable[bytes]) -> Sequence[Digest]:
    """Those that none of these records cites, each once."""
    cited = {digest.decode(errors="replace") for body in records for digest in _CITED.findall(body)}
    return [digest for digest in dict.fromkeys(digests) if digest not in cited]


def erase(digests: Sequence[Digest], at: float, seen: int, db: sqlite3.Connection) -> int:
    """How many went, of those that no record beyond the place `seen` cites: that they were there, and when they went,
    is remembered. Within a transaction that writes, so that none is added meanwhile.
    """
    gone = 0
    digests = uncited(digests, (bytes(body) for (body,) in db.execute(_SINCE, (seen,))))
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
