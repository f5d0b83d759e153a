"""A ledger in a PostgreSQL schema, which any number of gateways on any number of machines share.

Writes go through one task that commits in groups (`writer.py`), reads through connections of their own, which never
wait for a writer. All that must hold across gateways is checked within the transaction: the run's version and head,
the uniqueness of a hold, a lease, the limit of an account.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeVar

from gateway.model.canonical import Digest
from gateway.model.record import Record
from gateway.outbound.ledger.chain import ROOM, decoded, entries, intact, storable
from gateway.outbound.ledger.erasing import uncited
from gateway.outbound.ledger.listed import in_slices
from gateway.outbound.ledger.postgres.address import Address, parse
from gateway.outbound.ledger.postgres.connections import Connection, Line, Patience, connect, open_pool
from gateway.outbound.ledger.postgres.consents import PostgresConsents
from gateway.outbound.ledger.postgres.faults import WORLD, lost, unavailable
from gateway.outbound.ledger.postgres.group import Appending, GroupCommit, migrated
from gateway.outbound.ledger.postgres.making import prepared
from gateway.outbound.ledger.postgres.schema import RARE, VERSION, strange
from gateway.outbound.ledger.postgres.statements import Statements, statements
from gateway.outbound.ledger.postgres.writer import Writer
from gateway.outbound.ledger.said import FORGET, KEPT_S
from gateway.ports import Append, Checkpoint, Consents, LedgerUnavailable, Logged, Stands, Tracked

T = TypeVar("T")

_RETRY_S = 0.05
"""Before a read that lost its connection is made again on another one."""

_PATIENCE = Patience()

SAFE: Mapping[str, Collection[str]] = {
    "fsync": {"on"},
    "full_page_writes": {"on"},
    "synchronous_commit": {"on", "remote_write", "remote_apply", "local"},
}
"""Settings of a server that loses nothing which it has acknowledged [postgresql.org/docs, 19.5]."""


async def open_postgres(url: str, *, make: bool = True, patience: Patience = _PATIENCE) -> "PostgresLedger":
    """The ledger at that address. If there is none yet it is made, or refused without `make`.

    Raises: ValueError for an address that is none, NotOurLedger, having changed nothing, and LedgerUnavailable.
    """
    address = parse(url)
    async with contextlib.AsyncExitStack() as undo:
        connection = await connect(address, patience)
        undo.callback(connection.terminate)
        salt = await prepared(address, connection, make=make)
        line = Line(address, patience, connection)
        await line.watch()
        pool = await open_pool(address, patience)
        undo.pop_all()
    sql = statements(address.schema)
    return PostgresLedger(address, patience, salt, Writer(GroupCommit(address, line, patience, sql), line), pool, sql)


class PostgresLedger:
    """A `Ledger` in PostgreSQL. Made by `open_postgres`."""

    def __init__(
        self, address: Address, patience: Patience, salt: bytes, writer: Writer, pool: Any, sql: Statements
    ) -> None:
        self._address = address
        self._patience = patience
        self._salt = salt
        self._writer = writer
        self._pool = pool
        self._sql = sql
        self._closed = False
        self._consents = PostgresConsents(sql, writer, self._rows, self._change)

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
        """Transactions that this object has committed."""
        return self._writer.commits

    async def append(self, step: Append) -> None:
        """As `Ledger.append`. Steps are applied in the order of the calls, also when several wait.

        After LedgerUnavailable the step may be in the ledger or not: the connection may have been lost between its
        commit and the word of it. Whoever is cancelled here has still appended.

        Raises: Conflict, Occupied, Exhausted, LedgerUnavailable; ValueError for what is no step of the run.
        """
        await self._writer.run(Appending(step, entries(step)), unhurried=step.unhurried)

    async def read(self, run: str, after: int = 0, *, limit: int | None = None) -> Sequence[tuple[Record, bytes]]:
        """As `Ledger.read`."""
        return [(decoded(body, link), body) for body, link in await self._rows(self._sql.read, run, after, limit)]

    async def find(
        self, kinds: Sequence[str], *, limit: int = 1000, before: tuple[str, int] | None = None
    ) -> Sequence[Record]:
        """As `Ledger.find`. Kinds of `schema.RARE` have an index; others are looked for from the newest back."""
        wanted, rare = sorted(set(kinds)), set(kinds) <= set(RARE)
        if before is None:
            rows = await self._rows(self._sql.find_rare if rare else self._sql.find, wanted, limit)
        else:
            place = next((found for (found,) in await self._rows(self._sql.place, *before)), 0)
            rows = await self._rows(self._sql.find_rare_before if rare else self._sql.find_before, wanted, limit, place)
        return [decoded(body, link) for body, link in rows]

    async def named(self, names: Collection[str]) -> Sequence[Record]:
        """As `Ledger.named`."""
        known = [name for name in names if storable((name,))]
        return [decoded(body, link) for body, link in await self._rows(self._sql.named, known)]

    async def payload(self, digest: Digest) -> bytes | None:
        """As `Ledger.payload`."""
        for (body,) in await self._rows(self._sql.payload, digest):
            return intact(bytes(body), digest, self._salt)
        return None

    async def levels(self, accounts: Sequence[str]) -> Mapping[tuple[str, str], int]:
        """As `Ledger.levels`."""
        if not accounts:
            return {}
        rows = await self._rows(self._sql.levels_of, list(accounts))
        return {(account, unit): level for account, unit, level in rows}

    async def accounts(self, after: tuple[str, str] = ("", ""), *, limit: int = 1000) -> Sequence[Stands]:
        """As `Ledger.accounts`."""
        return [Stands(*row) for row in await self._rows(self._sql.accounts, *after, limit)]

    async def tracked(self, *, states: Collection[str] | None = None) -> Sequence[Tracked]:
        """As `Ledger.tracked`."""
        if states is None:
            return await in_slices(await self._rows(self._sql.tracked))
        return await in_slices(await self._rows(self._sql.tracked_in, list(states)))

    async def claim(self, seen: Tracked, owner: str, lease_until: float) -> bool:
        """As `Ledger.claim`."""
        was = seen.attempt, seen.owner, seen.lease_until, seen.state
        return await self._change(self._sql.claim, owner, lease_until, *was) == 1

    async def renew(self, owner: str, attempts: Collection[str], lease_until: float) -> None:
        """As `Ledger.renew`."""
        await self._change(self._sql.renew, lease_until, owner, list(attempts))

    async def now(self) -> float:
        """As `Ledger.now`: the server's, also where gateways' own clocks differ."""
        ((now,),) = await self._rows("SELECT extract(epoch FROM clock_timestamp())::double precision")
        return float(now)

    async def touch(self, *, store: bool) -> None:
        """As `Ledger.touch`. Also without `store` the server must be one that takes writes."""
        if store:
            await self._change(self._sql.store, secrets.token_bytes(ROOM))
        else:
            await self._change(self._sql.touch)

    async def once(self, name: str, until: float) -> bool:
        """As `Ledger.once`."""
        return await self._change(self._sql.once, name, until, KEPT_S, FORGET) == 1

    async def said(self, name: str) -> bool:
        """As `Ledger.said`."""
        return bool(await self._rows(self._sql.said, name))

    async def log(self, after: int = 0, *, limit: int = 1000) -> Sequence[Logged]:
        """As `Ledger.log`."""
        return [Logged(*row) for row in await self._rows(self._sql.log, after, limit)]

    async def strange(self) -> Sequence[str]:
        """As `Ledger.strange`."""
        found = {(kind, name): what for kind, name, what in await self._rows(self._sql.strange)}
        return strange(found, self._address.schema)

    async def lax(self) -> Sequence[str]:
        """As `Ledger.lax`: of the server, as the connection that writes sees it."""

        async def look(connection: Connection) -> Sequence[str]:
            told = [(name, await connection.fetchval("SELECT current_setting($1)", name)) for name in SAFE]
            return [f"`{name}` is `{value}`" for name, value in told if value not in SAFE[name]]

        return list(await self._writer.run(look))

    async def links(self, after: int = 0, *, limit: int = 10_000) -> Sequence[tuple[int, str]]:
        """As `Ledger.links`."""
        return [(place, link) for place, link in await self._rows(self._sql.links, after, limit)]

    async def closed(self) -> int:
        """As `Ledger.closed`. It waits until nobody is within a transaction that writes, for 2 s at most."""
        ((place,),) = await self._rows(self._sql.closed)
        return int(place)

    async def checkpoint(self, made: Checkpoint) -> bool:
        """As `Ledger.checkpoint`."""
        row = made.size, made.place, " ".join(made.peaks), made.at, made.note

        async def add(connection: Connection) -> int:
            await connection.execute(self._sql.lock_checkpoints)
            return await _changed(self._sql.checkpoint, row, connection)

        return bool(await self._writer.run(add) == 1)

    async def checkpoints(self, *, limit: int = 1) -> Sequence[Checkpoint]:
        """As `Ledger.checkpoints`."""
        rows = await self._rows(self._sql.checkpoints, limit)
        return [Checkpoint(size, place, tuple(peaks.split()), at, note) for size, place, peaks, at, note in rows]

    async def payloads(self, after: str = "", *, limit: int = 1000) -> Sequence[tuple[Digest, bytes]]:
        """As `Ledger.payloads`."""
        return [(Digest(digest), body) for digest, body in await self._rows(self._sql.payloads, after, limit)]

    async def erase(self, digests: Collection[Digest], at: float, seen: int) -> int:
        """As `Ledger.erase`. The bytes leave the table with the next VACUUM, and backups when those go.

        In a transaction of its own that holds nothing else, for nobody may be within one that writes: it waits for that
        as `closed` does.
        """
        wanted = [digest for digest in digests if storable((digest,))]

        async def change(connection: Connection) -> int:
            async with connection.transaction():
                await connection.fetchval(self._sql.closed)
                if not await connection.fetchval(self._sql.enter, VERSION):
                    raise migrated(self._address)
                since = [bytes(body) for (body,) in await connection.fetch(self._sql.since, seen)]
                return await _changed(self._sql.erase, (uncited(wanted, since), at), connection)

        if self._closed:
            raise LedgerUnavailable("the ledger is closed")
        try:
            return await self._with(change)
        except WORLD as error:
            raise unavailable(self._address, error) from error

    async def erased(self, digests: Collection[Digest]) -> Mapping[Digest, float]:
        """As `Ledger.erased`."""
        return {Digest(digest): at for digest, at in await self._rows(self._sql.erased, list(digests))}

    async def close(self) -> None:
        """As `Ledger.close`."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._writer.close()
        finally:
            await _end(self._pool, self._patience)

    async def _change(self, sql: str, *values: Any) -> int:
        """How many rows the statement changed, in its turn among the steps."""
        if not storable(values):
            return 0  # what cannot be stored is nowhere
        return int(await self._writer.run(partial(_changed, sql, values)))

    async def _rows(self, sql: str, *values: Any) -> Sequence[Any]:
        if self._closed:
            raise LedgerUnavailable("the ledger is closed")
        if not storable(values):
            return []
        deadline = time.monotonic() + self._patience.outage_s
        for turn in count():
            try:
                return await self._fetched(sql, values)
            except WORLD as error:
                # A read changes nothing and may be made again: a server that restarts is back in a moment, and after
                # a failed append the next read is what decides. Once more also where the first try took all the time.
                if not lost(error) or (turn and time.monotonic() + _RETRY_S >= deadline):
                    raise unavailable(self._address, error) from error
            await asyncio.sleep(_RETRY_S)
        raise AssertionError

    async def _fetched(self, sql: str, values: Sequence[Any]) -> Sequence[Any]:
        async def fetch(connection: Connection) -> Sequence[Any]:
            return list(await connection.fetch(sql, *values))

        return await self._with(fetch)

    async def _with(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """What became of it, over a connection that is no writer's."""
        async with self._pool.acquire(timeout=self._patience.statement_s) as connection:
            try:
                return await work(connection)
            except WORLD as error:
                if lost(error):
                    connection.terminate()
                raise


async def _changed(sql: str, values: Sequence[Any], connection: Connection) -> int:
    return int((await connection.execute(sql, *values)).rpartition(" ")[2])


async def _end(pool: Any, patience: Patience) -> None:
    try:
        await asyncio.wait_for(pool.close(), patience.connect_s)
    except WORLD:
        pool.terminate()
