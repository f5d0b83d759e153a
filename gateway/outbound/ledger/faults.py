"""SQLite's and the system's errors, in words that say what is wrong with the file and what to do about it."""

import sqlite3
from pathlib import Path

from gateway.ports import LedgerUnavailable

_PRIMARY = 0xFF
"""Extended result codes carry the primary code in their low byte [sqlite.org/rescode.html]."""

_WRONG = {
    sqlite3.SQLITE_BUSY: "is locked by another process: end the one that holds it, then try again",
    sqlite3.SQLITE_FULL: "has no space left: free some on its disk, nothing needs a restart",
    sqlite3.SQLITE_READONLY: "cannot be written: make the file and its directory writable for this user",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: see that its directory exists and that this user may write there",
    sqlite3.SQLITE_IOERR: "cannot be read or written, the disk gave an error: check the disk and its free space",
    sqlite3.SQLITE_CORRUPT: "is damaged: stop every gateway on it and restore it from a backup",
    sqlite3.SQLITE_NOTADB: "is damaged: stop every gateway on it and restore it from a backup",
}

_NOT_SYNCED = frozenset({sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC})


def unavailable(path: Path, error: Exception) -> LedgerUnavailable:
    """The failure in the port's words, one line."""
    wrong = _WRONG.get(code(error) & _PRIMARY)
    if wrong is None and isinstance(error, OSError):
        wrong = f"cannot be used, {(error.strerror or str(error)).lower()}: mend that, or give another path"
    made = LedgerUnavailable(f"the ledger `{path}` {wrong or f'cannot be used now: {error}'}")
    made.__cause__ = error
    return made


def code(error: Exception) -> int:
    """SQLite's extended result code; 0 for an error that SQLite did not make."""
    return int(getattr(error, "sqlite_errorcode", 0))


def busy(error: Exception) -> bool:
    """Whether another connection has the lock, so that the same statement may succeed later."""
    return code(error) & _PRIMARY == sqlite3.SQLITE_BUSY


def damaged(error: Exception) -> bool:
    """Whether what stands in the file cannot be, so that whatever is written into it may make it worse."""
    return code(error) & _PRIMARY in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def not_synced(error: Exception) -> bool:
    """Whether the disk refused to make written pages durable, so that nothing written since is certain."""
    return code(error) in _NOT_SYNCED
