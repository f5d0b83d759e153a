"""Connections to the server: with settings that a ledger can rest on, bounded in time, fenced when they are lost."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any, TypeAlias

import asyncpg

from gateway.outbound.ledger.postgres.address import Address
from gateway.outbound.ledger.postgres.faults import WORLD, unavailable
from gateway.ports import LedgerUnavailable

OLDEST_SERVER = 14
"""The oldest major version that is still maintained, and that the tests have run on one like."""

READERS = 4
"""Connections for reads, made as they are needed; one for writes comes on top."""

Connection: TypeAlias = Any
"""`asyncpg.Connection`; the driver ships no types."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the server is waited for, in seconds."""

    connect_s: float = 5.0
    statement_s: float = 10.0
    """For one statement, on the server; who is not answered even then takes the connection for lost a little later."""
    lock_s: float = 5.0
    """For a lock that another session has."""
    outage_s: float = 5.0
    """How long one operation goes on trying to get a connection, or to be told what became of a lost one."""


_RETRY_S = 0.05, 1.0
"""Between two tries to connect: at first, and at most."""

_OVERDUE_S = 2.0
"""By so much the client's time is longer than the server's own, which says what was wrong."""


def _settings(patience: Patience) -> dict[str, str]:
    """For every session. Durations are in milliseconds."""
    return {
        "application_name": "counterfoil",
        "statement_timeout": f"{patience.statement_s * 1000:.0f}",
        "lock_timeout": f"{patience.lock_s * 1000:.0f}",
        # A gateway that vanished within a transaction must not keep its locks.
        "idle_in_transaction_session_timeout": f"{patience.statement_s * 1000:.0f}",
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
        "default_transaction_isolation": "read committed",
        # Every statement is served by an index. Statistics that are stale, as those of a new ledger are, or of one that
        # grew a thousandfold since, must not talk the planner into reading a whole table.
        "enable_seqscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        "plan_cache_mode": "force_generic_plan",
        "jit": "off",
    }


async def connect(address: Address, patience: Patience) -> Connection:
    """A connection that acknowledges only what is on disk.

    Raises: LedgerUnavailable.
    """
    try:
        connection = await asyncpg.connect(address.dsn, **_options(address, patience))
    except (*WORLD, ValueError) as error:
        raise _unreachable(address, error) from error
    try:
        await _check(address, connection)
    except BaseException as error:
        connection.terminate()
        if isinstance(error, WORLD):
            raise unavailable(address, error) from error
        raise
    return connection


async def open_pool(address: Address, patience: Patience) -> Any:
    """Connections for reads, one of them made.

    Raises: LedgerUnavailable.
    """
    # No least number: the pool would restore it by itself, for ever, and tell a log of each failure.
    pool = asyncpg.create_pool(
        address.dsn,
        min_size=0,
        max_size=READERS,
        max_inactive_connection_lifetime=0,
        reset=_as_it_is,
        **_options(address, patience),
    )
    try:
        await pool
        async with pool.acquire():
            return pool
    except (*WORLD, ValueError) as error:
        pool.terminate()
        raise _unreachable(address, error) from error


def _options(address: Address, patience: Patience) -> dict[str, Any]:
    options: dict[str, Any] = {
        "timeout": patience.connect_s,
        "command_timeout": patience.statement_s + _OVERDUE_S,
        "server_settings": _settings(patience),
    }
    if address.several and "target_session_attrs" not in address.dsn:
        options["target_session_attrs"] = "read-write"
    return options


async def _as_it_is(_: Connection) -> None:
    """Nobody changes a session of the pool, so nothing has to be put back: a round trip less for each read."""


def _unreachable(address: Address, error: Exception) -> LedgerUnavailable:
    if isinstance(error, ValueError):  # the driver's too; its text may hold a part of the address
        return LedgerUnavailable(f"the ledger `{address.shown}` cannot be reached: a part of its address is not valid")
    return unavailable(address, error)


async def _check(address: Address, connection: Connection) -> None:
    """Raises: LedgerUnavailable; and leaves the session so that a commit is acknowledged only when it is durable."""
    version, encoding, fsync, commit = await connection.fetchrow(
        "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),"
        " current_setting('fsync'), current_setting('synchronous_commit')"
    )
    if version < OLDEST_SERVER * 10_000:
        wrong = f"runs PostgreSQL {version // 10_000}: {OLDEST_SERVER} or newer is needed"
    elif encoding != "UTF8":
        wrong = f"is in a database of the encoding {encoding}: create one with `ENCODING 'UTF8'`"
    elif fsync != "on":
        wrong = "is on a server with `fsync = off`, which loses what it acknowledged when its power fails: switch it on"
    else:
        if commit not in {"on", "remote_apply"}:
            await connection.execute("SET synchronous_commit = on")
        return
    raise LedgerUnavailable(f"the ledger `{address.shown}` {wrong}")


class Line:
    """The one connection that writes, made anew when it is lost.

    INVARIANT: no statement is sent on a new connection while one may still be at work on an old one. Without that a
    commit could land after everybody was told that it had not.
    """

    def __init__(self, address: Address, patience: Patience, connection: Connection) -> None:
        self._address = address
        self._patience = patience
        self._connection: Connection | None = connection
        self._backend: tuple[int, Any] | None = None
        self._undecided: list[tuple[int, Any]] = []
        """Backends of lost connections, by process id and start: not yet known to have ended."""

    async def connection(self) -> Connection:
        """One that is open, as far as is known, and the only one of ours.

        Raises: LedgerUnavailable, after `outage_s` without.
        """
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        self.drop()
        deadline, pause = time.monotonic() + self._patience.outage_s, _RETRY_S[0]
        while True:
            try:
                self._connection = await self._made()
            except LedgerUnavailable:
                if time.monotonic() + pause >= deadline:
                    raise
            else:
                return self._connection
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_S[1])

    async def watch(self) -> None:
        """Its backend is known, so that it can be ended from another connection. Once for each connection."""
        if self._connection is not None:
            pid = self._connection.get_server_pid()
            started = await self._connection.fetchval(
                "SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
            )
            self._backend = pid, started

    def drop(self) -> None:
        """The connection is of no use any more."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
        if self._backend is not None:
            self._undecided.append(self._backend)
            self._backend = None

    async def close(self) -> None:
        """Nothing is held open. The server is told, if it listens."""
        if self._connection is not None:
            try:
                await self._connection.close(timeout=self._patience.connect_s)
            except WORLD:
                self._connection.terminate()
            self._connection = None

    async def _made(self) -> Connection:
        made = await connect(self._address, self._patience)
        try:
            for pid, started in self._undecided:
                await self._fence(made, pid, started)
            self._undecided.clear()
            self._connection = made
            await self.watch()
        except BaseException as error:
            made.terminate()
            self._connection = None
            if isinstance(error, WORLD):
                raise unavailable(self._address, error) from error
            raise
        return made

    async def _fence(self, made: Connection, pid: int, started: Any) -> None:
        """That backend has ended, so what it was doing is done or undone. By its start: ids are used again.

        Raises: LedgerUnavailable.
        """
        deadline = time.monotonic() + self._patience.statement_s
        while await made.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2",
            pid,
            started,
        ):
            if time.monotonic() >= deadline:
                raise LedgerUnavailable(f"the ledger `{self._address.shown}` still works on what we have given up")
            await asyncio.sleep(_RETRY_S[0])
