"""A ledger in one SQLite file, which any number of gateway processes on the machine share.

Writes go through one thread that commits in groups (`writer.py`), reads through a connection of their
own, which never waits for a writer. All that must hold across processes is checked within the
transaction, under SQLite's write lock: the run's version and head, the uniqueness of a hold, a lease,
the limit of an account.
"""

import asyncio
import contextlib
import json
import sqlite3
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import aiosqlite

from gateway.model.canonical import Digest
from gateway.model.record import Record
from gateway.outbound.ledger import file, said
from gateway.outbound.ledger.accounts import Account, Change, Standing, forgettable, past, posted
from gateway.outbound.ledger.chain import (
    ROOM,
    UNOPENED,
    Entry,
    check_beside,
    check_expected,
    check_holds,
    decoded,
    entries,
    intact,
    storable,
)
from gateway.outbound.ledger.consents import SqliteConsents
from gateway.outbound.ledger.erasing import erase, forget
from gateway.outbound.ledger.faults import damaged, unavailable
from gateway.outbound.ledger.listed import in_slices
from gateway.outbound.ledger.schema import LAYOUT, strange
from gateway.outbound.ledger.sqlite_asked import COLUMNS, found, levels_of, marks, named_as, tracked_in
from gateway.outbound.ledger.writer import Opened, Writer
from gateway.ports import Append, Checkpoint, Consents, LedgerUnavailable, Logged, Occupied, Stands, Tracked

_HEAD = "SELECT seq, link FROM event WHERE run = ? ORDER BY seq DESC LIMIT 1"
_ADD_EVENT = "INSERT INTO event (run, seq, kind, link, body) VALUES (?, ?, ?, ?, ?)"
_ADD_PAYLOAD = "INSERT INTO payload (digest, body) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING"
_TRACK = f"""
INSERT INTO attempt ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (attempt) DO UPDATE SET
    run = excluded.run, state = excluded.state, hold = excluded.hold,
    owner = excluded.owner, lease_until = excluded.lease_until
"""  # noqa: S608 - our own words, as everywhere on this page
_UNTRACK = "DELETE FROM attempt WHERE attempt = ?"
_HOLDER = f"SELECT {COLUMNS} FROM attempt WHERE hold = ?"  # noqa: S608
_CLAIM = """
UPDATE attempt SET owner = ?, lease_until = ? WHERE attempt = ? AND owner = ? AND lease_until = ? AND state = ?
"""
_RENEW = """
UPDATE attempt SET lease_until = ?
WHERE attempt IN (SELECT value FROM json_each(?)) AND owner = ? AND lease_until > 0"""

_STANDING = "SELECT level, until FROM accounts WHERE account = ? AND unit = ?"
_MAKE_ACCOUNT = "INSERT INTO accounts (level, until, account, unit) VALUES (?, ?, ?, ?)"
_CHANGE_ACCOUNT = "UPDATE accounts SET level = ?, until = ? WHERE account = ? AND unit = ?"
_CHANGE_LEVEL = "UPDATE accounts SET level = ? WHERE account = ? AND unit = ?"
"""Without `until`, for that would have its index written too."""
_FORGET = """
DELETE FROM accounts WHERE (account, unit) IN (
    SELECT account, unit FROM accounts INDEXED BY accounts_end
    WHERE until <= ? ORDER BY until, account, unit LIMIT ?
)"""

_ACCOUNTS = """
SELECT account, unit, level, until FROM accounts WHERE (account, unit) > (?, ?) ORDER BY account, unit LIMIT ?"""

_READ = "SELECT body, link FROM event WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?"
_PAYLOAD = "SELECT body FROM payload WHERE digest = ?"
_TRACKED = f"SELECT {COLUMNS} FROM attempt ORDER BY position"  # noqa: S608
_LOG = "SELECT position, run, seq, kind, link, body FROM event WHERE position > ? ORDER BY position LIMIT ?"
_LINKS = "SELECT position, link FROM event WHERE position > ? ORDER BY position LIMIT ?"
_CLOSED = "SELECT coalesce(max(position), 0) FROM event"
_CHECKPOINT = """
INSERT INTO checkpoint (size, place, peaks, at, note) SELECT ?1, ?2, ?3, ?4, ?5
WHERE NOT EXISTS (SELECT 1 FROM checkpoint WHERE size >= ?1)
"""
_CHECKPOINTS = "SELECT size, place, peaks, at, note FROM checkpoint ORDER BY size DESC LIMIT ?"
_PAYLOADS = "SELECT digest, body FROM payload WHERE digest > ? ORDER BY digest LIMIT ?"
_TOUCH = "INSERT OR REPLACE INTO meta (key, value) VALUES ('touched', ?)"
_UNERASE = "DELETE FROM erased WHERE digest = ?"


async def open_sqlite(
    path: str | PathLike[str],
    *,
    busy_timeout_s: float = 5.0,
    factory: type[sqlite3.Connection] = sqlite3.Connection,
) -> "SqliteLedger":
    """The ledger in that file, which is made, private to the user, if it is not there yet.

    A write waits at most `busy_timeout_s` for another process. `factory` is the class of the writing
    connection, as in `sqlite3.connect`: where faults are planted.

    Raises: NotOurLedger, having changed nothing, and LedgerUnavailable.
    """
    async with contextlib.AsyncExitStack() as undo:
        writer = Writer(partial(_connect, Path(path), busy_timeout_s, factory), busy_timeout_s)
        undo.push_async_callback(writer.close)
        opened = await writer.opened()
        reader = file.reader(opened.path, busy_timeout_s)
        undo.push_async_callback(reader.close)
        await _attach(opened.path, reader)
        undo.pop_all()
        return SqliteLedger(opened, writer, reader)


class SqliteLedger:
    """A `Ledger` in one file. Made by `open_sqlite`."""

    def __init__(self, opened: Opened, writer: Writer, reader: aiosqlite.Connection) -> None:
        self._path = opened.path
        self._watch = opened.watch
        self._salt = opened.salt
        self._writer = writer
        self._reader = reader
        self._closed = False
        self._consents = SqliteConsents(writer, self._rows)

    @property
    def salt(self) -> bytes:
        """As `Ledger.salt`."""
        return self._salt

    @property
    def consents(self) -> Consents:
        """As `Ledger.consents`."""
        return self._consents

    @property
    def commits(self) -> int:
        """Transactions that this object has committed, each with at most one fsync."""
        return self._writer.commits

    async def append(self, step: Append) -> None:
        """As `Ledger.append`. Steps are applied in the order of the calls, also when several wait.

        After LedgerUnavailable the step may be in the ledger or not: the commit itself may have failed.
        Whoever is cancelled here has still appended.

        Raises: Conflict, Occupied, Exhausted, LedgerUnavailable; ValueError for what is no step of the run.
        """
        await self._writer.run(partial(_append, step, entries(step)), unhurried=step.unhurried)

    async def read(self, run: str, after: int = 0, *, limit: int | None = None) -> Sequence[tuple[Record, bytes]]:
        """As `Ledger.read`."""
        rows = await self._rows(_READ, run, after, -1 if limit is None else limit)
        return [(decoded(body, link), body) for body, link in rows]

    async def find(
        self, kinds: Sequence[str], *, limit: int = 1000, before: tuple[str, int] | None = None
    ) -> Sequence[Record]:
        """As `Ledger.find`. Kinds of `schema.RARE` have an index; others are looked for from the newest back."""
        if not kinds:
            return []
        rows = await self._rows(*found(sorted(set(kinds)), limit, before))
        return [decoded(body, link) for body, link in rows]

    async def named(self, names: Collection[str]) -> Sequence[Record]:
        """As `Ledger.named`."""
        known = [name for name in names if storable((name,))]
        if not known:
            return []
        return [decoded(body, link) for body, link in await self._rows(named_as(len(known)), *known)]

    async def payload(self, digest: Digest) -> bytes | None:
        """As `Ledger.payload`."""
        for (body,) in await self._rows(_PAYLOAD, digest):
            return intact(bytes(body), digest, self._salt)
        return None

    async def levels(self, accounts: Sequence[str]) -> Mapping[tuple[str, str], int]:
        """As `Ledger.levels`."""
        if not accounts:
            return {}
        rows = await self._rows(levels_of(len(accounts)), *accounts)
        return {(account, unit): level for account, unit, level in rows}

    async def accounts(self, after: tuple[str, str] = ("", ""), *, limit: int = 1000) -> Sequence[Stands]:
        """As `Ledger.accounts`."""
        return [Stands(*row) for row in await self._rows(_ACCOUNTS, *after, limit)]

    async def tracked(self, *, states: Collection[str] | None = None) -> Sequence[Tracked]:
        """As `Ledger.tracked`."""
        sql = _TRACKED if states is None else tracked_in(len(states))
        return await in_slices([*await self._rows(sql, *(states or ()))])

    async def claim(self, seen: Tracked, owner: str, lease_until: float) -> bool:
        """As `Ledger.claim`."""
        was = seen.attempt, seen.owner, seen.lease_until, seen.state
        return await self._writer.run(partial(_change, _CLAIM, (owner, lease_until, *was))) == 1

    async def renew(self, owner: str, attempts: Collection[str], lease_until: float) -> None:
        """As `Ledger.renew`."""
        await self._writer.run(partial(_change, _RENEW, (lease_until, json.dumps([*attempts]), owner)))

    async def now(self) -> float:
        """As `Ledger.now`: the machine's, which all who share the file are on."""
        return time.time()

    async def touch(self, *, store: bool) -> None:
        """As `Ledger.touch`. Without `store` a transaction is begun and ended, and nothing reaches the disk."""
        await self._writer.run(_store if store else _nothing)

    async def once(self, name: str, until: float) -> bool:
        """As `Ledger.once`."""
        return storable((name,)) and await self._writer.run(partial(said.once, name, until))

    async def said(self, name: str) -> bool:
        """As `Ledger.said`."""
        return bool([*await self._rows(said.SAID, name)])

    async def log(self, after: int = 0, *, limit: int = 1000) -> Sequence[Logged]:
        """As `Ledger.log`."""
        return [Logged(*row) for row in await self._rows(_LOG, after, limit)]

    async def strange(self) -> Sequence[str]:
        """As `Ledger.strange`."""
        return strange({name: (kind, sql) for name, kind, sql in await self._rows(LAYOUT)})

    async def lax(self) -> Sequence[str]:
        """As `Ledger.lax`: of the connection that writes."""
        return await self._writer.run(file.lax)

    async def links(self, after: int = 0, *, limit: int = 10_000) -> Sequence[tuple[int, str]]:
        """As `Ledger.links`."""
        return [(place, link) for place, link in await self._rows(_LINKS, after, limit)]

    async def closed(self) -> int:
        """As `Ledger.closed`: places are given under the write lock, and what is committed is all that there is."""
        ((place,),) = await self._rows(_CLOSED)
        return int(place)

    async def checkpoint(self, made: Checkpoint) -> bool:
        """As `Ledger.checkpoint`."""
        row = made.size, made.place, " ".join(made.peaks), made.at, made.note
        return await self._writer.run(partial(_change, _CHECKPOINT, row)) == 1

    async def checkpoints(self, *, limit: int = 1) -> Sequence[Checkpoint]:
        """As `Ledger.checkpoints`."""
        rows = await self._rows(_CHECKPOINTS, limit)
        return [Checkpoint(size, place, tuple(peaks.split()), at, note) for size, place, peaks, at, note in rows]

    async def payloads(self, after: str = "", *, limit: int = 1000) -> Sequence[tuple[Digest, bytes]]:
        """As `Ledger.payloads`."""
        return [(Digest(digest), body) for digest, body in await self._rows(_PAYLOADS, after, limit)]

    async def erase(self, digests: Collection[Digest], at: float, seen: int) -> int:
        """As `Ledger.erase`. The bytes are overwritten in the file, and are out of its log as well, unless somebody
        reads just then: those leave it with the next erasure, or when the last gateway on the file ends.
        """
        gone = await self._writer.run(partial(erase, list(digests), at, seen))
        if gone:
            await asyncio.to_thread(forget, self._path)
        return gone

    async def erased(self, digests: Collection[Digest]) -> Mapping[Digest, float]:
        """As `Ledger.erased`."""
        sql = f"SELECT digest, at FROM erased WHERE digest IN ({marks(len(digests))})"  # noqa: S608
        return {Digest(digest): at for digest, at in await self._rows(sql, *digests)}

    async def close(self) -> None:
        """As `Ledger.close`."""
        self._closed = True
        try:
            await self._reader.close()
        finally:
            # Last, for the last connection moves the log into the file and removes it.
            await self._writer.close()

    async def _rows(self, sql: str, *values: Any) -> Iterable[sqlite3.Row]:
        if self._closed:
            raise LedgerUnavailable("the ledger is closed")
        if not storable(values):
            return []
        try:
            rows = await self._reader.execute_fetchall(sql, values)
        except sqlite3.Error as error:
            self._watch.check()
            failure = unavailable(self._path, error)
            if damaged(error):
                self._writer.condemn(failure)
            raise failure from error
        # After, not before: what was read then stood in the file that the others share.
        self._watch.check()
        return rows


def _connect(path: Path, busy_timeout_s: float, factory: type[sqlite3.Connection]) -> Opened:
    # Resolved: SQLite keeps its log beside the file, not beside a link to it.
    place = path.resolve()
    db = file.connect(place, busy_timeout_s, factory)
    try:
        return Opened(place, db, salt=file.salt(place, db), watch=file.Watch(place))
    except BaseException:
        db.close()
        raise


async def _attach(path: Path, reader: aiosqlite.Connection) -> None:
    try:
        connected = await reader
        # SQLite opens the log at the first read: now, while `Watch` has seen that it is the right one.
        await connected.execute_fetchall("SELECT key FROM meta")
    except sqlite3.Error as error:
        raise unavailable(path, error) from error


def _append(step: Append, made: Sequence[Entry], db: sqlite3.Connection) -> None:
    check_expected(step, _head(db, step.run))
    if step.beside:
        check_beside(step, partial(_head, db))
    changes = _posted(step, db) if step.postings else ()
    # First what another run may forbid: a step that is refused has then written nothing that must be undone.
    for attempt in step.untrack:
        db.execute(_UNTRACK, (attempt,))
    for tracked in step.track:
        _track(tracked, db)
    for record, body, link in made:
        db.execute(_ADD_EVENT, (step.run, record.seq, record.event.kind, link, body))
    for item in step.payloads.items():
        db.execute(_ADD_PAYLOAD, item)
        db.execute(_UNERASE, item[:1])
    if changes:
        for change in changes:
            _post(change, db)
        if count := forgettable(changes):
            db.execute(_FORGET, (past(step), count))


def _head(db: sqlite3.Connection, run: str) -> tuple[int, str]:
    return db.execute(_HEAD, (run,)).fetchone() or UNOPENED


def _posted(step: Append, db: sqlite3.Connection) -> Sequence[Change]:
    """What the step makes of the accounts. Nothing is written yet: accounts are where many steps are refused, and
    each that left something behind would have its group begun again.

    Raises: Occupied, Exhausted.
    """
    check_holds(step, partial(_holder, db))
    return posted(step.postings, partial(_standing, db))


def _holder(db: sqlite3.Connection, hold: Digest) -> Tracked | None:
    row = db.execute(_HOLDER, (hold,)).fetchone()
    return None if row is None else Tracked(*row)


def _standing(db: sqlite3.Connection, account: Account) -> Standing | None:
    row = db.execute(_STANDING, account).fetchone()
    return None if row is None else Standing(*row)


def _post(change: Change, db: sqlite3.Connection) -> None:
    account, before, after = change
    if before is None:
        db.execute(_MAKE_ACCOUNT, (*after, *account))
    elif before.until == after.until:
        db.execute(_CHANGE_LEVEL, (after.level, *account))
    else:
        db.execute(_CHANGE_ACCOUNT, (*after, *account))


def _track(tracked: Tracked, db: sqlite3.Connection) -> None:
    row = (tracked.attempt, tracked.run, tracked.state, tracked.hold, tracked.owner, tracked.lease_until)
    try:
        db.execute(_TRACK, row)
    except sqlite3.IntegrityError:
        holder = None if tracked.hold is None else _holder(db, tracked.hold)
        if holder is None:
            raise
        raise Occupied(holder) from None


def _store(db: sqlite3.Connection) -> None:
    db.execute(_TOUCH, (bytes(ROOM),))


def _nothing(_: sqlite3.Connection) -> None:
    """Whatever stands in the way of an append has shown itself: the lock, the file, its version."""


def _change(sql: str, values: tuple[Any, ...], db: sqlite3.Connection) -> int:
    """How many rows the statement changed."""
    return db.execute(sql, values).rowcount
