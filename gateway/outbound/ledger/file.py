"""The file: made whole or not at all, recognised before it is touched, and watched while it is open.

A new ledger is built under a name of its own and then linked to its path, so no process ever sees
half of one, and of two that make it at the same instant one wins and both use the winner's.
"""

import contextlib
import os
import secrets
import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path

import aiosqlite

from gateway.outbound.ledger import schema
from gateway.outbound.ledger.faults import code, damaged, unavailable
from gateway.ports import LedgerUnavailable, NotOurLedger

OLDEST_SQLITE = (3, 37, 0)
"""The first with STRICT tables."""

_MODE_FILE = 0o600
_MODE_DIRECTORY = 0o700

_SETTINGS = (
    # NORMAL lost every acknowledged intent in a simulated power cut; FULL lost none.
    "PRAGMA synchronous = FULL",
    # On macOS a plain fsync leaves the data in the drive's cache; elsewhere these two do nothing.
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA cache_size = -16384",
    # After a burst of large payloads the log file is cut back to this.
    "PRAGMA journal_size_limit = 67108864",
)


def connect(path: Path, busy_timeout_s: float, factory: type[sqlite3.Connection]) -> sqlite3.Connection:
    """A connection that may write to the ledger at `path`, which is made or migrated if need be.

    Raises: NotOurLedger, having changed nothing, and LedgerUnavailable.
    """
    check_sqlite(sqlite3.sqlite_version_info)
    try:
        if not path.exists():
            _make(path)
        known = _recognise(path)
        # Each time: the process that made the file may have died before this.
        _sync_directory(path.parent)
        db = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None, factory=factory)
    except (OSError, sqlite3.Error) as error:
        raise unavailable(path, error) from error
    try:
        if not known:
            _check_application(path, db)
        return _prepared(path, db)
    except BaseException:
        db.close()
        raise


_FULL = 2
"""`PRAGMA synchronous` [sqlite.org/pragma.html]."""


def reader(path: Path, busy_timeout_s: float) -> aiosqlite.Connection:
    """A connection that reads alone; nothing of it is open yet."""
    made = aiosqlite.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=busy_timeout_s, isolation_level=None)
    with contextlib.suppress(AttributeError):
        # A process that forgot to close must be able to end; SQLAlchemy does the same.
        made._thread.daemon = True  # noqa: SLF001
    return made


def lax(db: sqlite3.Connection) -> Sequence[str]:
    """As `Ledger.lax`."""
    (synchronous,), (mode,) = (db.execute(f"PRAGMA {name}").fetchone() for name in ("synchronous", "journal_mode"))
    return [
        *([] if synchronous >= _FULL else [f"`synchronous` is {synchronous}, and below FULL a commit is not synced"]),
        *([] if mode == "wal" else [f"`journal_mode` is `{mode}`, and not WAL"]),
    ]


def check_sqlite(found: tuple[int, int, int]) -> None:
    """The SQLite that Python was built with can hold a ledger.

    Raises: LedgerUnavailable.
    """
    if found < OLDEST_SQLITE:
        needed, has = (".".join(map(str, version)) for version in (OLDEST_SQLITE, found))
        raise LedgerUnavailable(f"SQLite {has} is too old for a ledger: use a Python that has {needed} or newer")


def salt(path: Path, db: sqlite3.Connection) -> bytes:
    """What was drawn when the ledger was made.

    Raises: LedgerUnavailable: without it nothing that the ledger cites can be told from anything else.
    """
    try:
        row = db.execute("SELECT value FROM meta WHERE key = 'salt'").fetchone()
    except sqlite3.Error as error:
        raise unavailable(path, error) from error
    if row is None or len(row[0]) != schema.SALT_BYTES:
        raise _changed(path, "the salt under which it cites is gone")
    return bytes(row[0])


def _changed(path: Path, what: str) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"the ledger `{path}` was changed by somebody, {what}: stop every gateway on it and restore it from a backup"
    )


_LOG_HEADER, _FRAME = 32, 24 + 4096
"""Bytes of the log's header, and of a page in it [sqlite.org/fileformat2.html, 4.1]."""


class LogCut(LedgerUnavailable):
    """What was committed since the last checkpoint of the file is not in the file system any more."""


class Watch:
    """Whether the files under an open connection are still the ones that others find at the path.

    A deleted or replaced file takes every write, and all of it is lost: the system keeps the old file
    for us alone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names = [f"{path}{suffix}" for suffix in ("", "-wal", "-shm")]
        found = self._look()
        self._seen = [one and one[:2] for one in found]
        self._log_size = found[1][2] if found[1] else 0
        """Of the log, in bytes, at the last look."""

    def check(self) -> None:
        """Raises: LedgerUnavailable."""
        found = self._look()
        if [one and one[:2] for one in found] != self._seen:
            raise LedgerUnavailable(
                f"the ledger `{self._path}` was deleted or replaced while it was open: "
                "stop every gateway on it, put the file back, and start again"
            )
        self._log_size = max(self._log_size, found[1][2] if found[1] else 0)

    def check_before(self, db: sqlite3.Connection) -> None:
        """As `check`, and the log beside the file has not become shorter than what SQLite knows to be in it.

        SQLite would go on behind the gap, and whoever opens the ledger next would find nothing from there on. To be
        asked before each transaction, by the writer alone: whatever is wrong then, nothing is written.

        Raises: LogCut, LedgerUnavailable.
        """
        before = self._log_size
        self.check()
        size = os.stat(self._names[1]).st_size  # noqa: PTH116 - as below
        if size < before and not _holds(db, size):
            raise LogCut(
                f"the log of the ledger `{self._path}` was cut while it was open: "
                "stop every gateway on it and restore it from a backup"
            )
        self._log_size = size

    def _look(self) -> Sequence[tuple[int, int, int] | None]:
        return [_identity(name) for name in self._names]


def _holds(db: sqlite3.Connection, size: int) -> bool:
    """Whether a log of that size holds all that it should: it is also made shorter in order, by a checkpoint."""
    try:
        _, frames, _ = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except sqlite3.Error:
        return False  # what was to be moved into the file is not there
    return bool(frames <= 0 or size >= _LOG_HEADER + frames * _FRAME)


def _identity(name: str) -> tuple[int, int, int] | None:
    """Device, number and size of the file; None if there is none."""
    try:
        found = os.stat(name)  # noqa: PTH116 - three times a commit, and Path is slower than the call
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size


def _make(path: Path) -> None:
    made = _make_directory(path.parent)
    building = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    os.close(os.open(building, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE_FILE))
    try:
        _build(building)
        with contextlib.suppress(FileExistsError):  # another process was first: its ledger is the ledger
            path.hardlink_to(building)
    finally:
        building.unlink()
    for directory in made:
        _sync_directory(directory.parent)


def _build(path: Path) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA synchronous = FULL")
        schema.create(db)
        # Last, so that every page above is in the file itself and none in a log beside it.
        db.execute("PRAGMA journal_mode = WAL")
    finally:
        db.close()


def _make_directory(directory: Path) -> Sequence[Path]:
    """The directories that had to be made, private to the user."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=_MODE_DIRECTORY, exist_ok=True)
    return missing


def _sync_directory(directory: Path) -> None:
    """A file whose directory entry is not durable is lost with the power, however well it was synced itself."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _recognise(path: Path) -> bool:
    """Whether the file is one of ours; False where only its log can tell, for the power went while SQLite moved it.

    It is only looked at, by SQLite itself, without locks and without its log.

    INVARIANT: never by `open`: closing any other handle on the file drops the locks that SQLite holds
    in this process [sqlite.org/howtocorrupt.html, 2.2].

    Raises: NotOurLedger.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise NotOurLedger(f"`{path}` is no file: give the ledger another path")
    if found.st_size == 0:
        raise NotOurLedger(f"`{path}` is an empty file: delete it, or give the ledger another path")
    db = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        _check_application(path, db)
        _check_version(path, schema.version(db))
    except sqlite3.DatabaseError as error:
        if damaged(error) and Path(f"{path}-wal").exists():
            return False
        if code(error) != sqlite3.SQLITE_NOTADB:
            raise
        raise NotOurLedger(f"`{path}` is not an SQLite file: give the ledger another path") from None
    finally:
        db.close()
    return True


def _check_application(path: Path, db: sqlite3.Connection) -> None:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if application != schema.APPLICATION_ID:
        raise NotOurLedger(f"`{path}` belongs to another program: give the ledger another path")


def _check_version(path: Path, version: int) -> None:
    if version > schema.VERSION:
        raise NotOurLedger(
            f"`{path}` has schema {version} and this version knows only {schema.VERSION}: upgrade, or give another path"
        )


def _prepared(path: Path, db: sqlite3.Connection) -> sqlite3.Connection:
    try:
        for setting in _SETTINGS:
            db.execute(setting)
        # A ledger that came back from a backup may have lost its mode.
        (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        versions = schema.versions(db)
        _check_version(path, versions[0])
        if len(set(versions)) > 1:
            raise _changed(path, "it says schema {} in one place and {} in another".format(*versions))
        schema.migrate(db)
        version = schema.version(db)
    except sqlite3.Error as error:
        raise unavailable(path, error) from error
    if mode != "wal":
        raise LedgerUnavailable(f"the ledger `{path}` is on a disk without shared memory: give a path on a local disk")
    # Again: what `_recognise` saw may be older than what stood in the log.
    _check_version(path, version)
    return db
