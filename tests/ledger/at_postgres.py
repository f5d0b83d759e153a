"""A PostgreSQL server as its owner uses it beside a ledger, and what a ledger says of it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import asyncpg

from gateway.model.record import Record
from gateway.outbound.ledger.postgres import address
from gateway.outbound.ledger.postgres.connections import Patience
from gateway.outbound.ledger.postgres.ledger import PostgresLedger
from tests.postgres_server import Server

SOON = Patience(connect_s=2, statement_s=2, lock_s=0.3, outage_s=2)

LIMIT_S = 30


def said(ledger_url: str, why: str) -> str:
    return f"the ledger `{address.shown(ledger_url)}` {why}"


GONE = "ended the connection, as a server does that is stopped, restarted or failed over: nothing needs a restart here"


@asynccontextmanager
async def admin(server: Server) -> AsyncIterator["asyncpg.Connection"]:
    """A session of the server's owner."""
    connection = await asyncpg.connect(server.dsn)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def configured(server: Server, name: str, value: str) -> AsyncIterator[None]:
    """The server has this setting, for sessions that are open too."""

    async def is_in_force(wanted: str) -> None:
        async with admin(server) as one:
            await one.execute("SELECT pg_reload_conf()")
        with anyio.fail_after(LIMIT_S):
            while True:
                async with admin(server) as other:
                    if await other.fetchval(f"SHOW {name}") == wanted:
                        return
                await anyio.sleep(0.01)

    async with admin(server) as one:
        before = await one.fetchval(f"SHOW {name}")
        await one.execute(f"ALTER SYSTEM SET {name} = {value}")
        await is_in_force(value)
        try:
            yield
        finally:
            await one.execute("SET default_transaction_read_only = off")
            await one.execute(f"ALTER SYSTEM RESET {name}")
            await is_in_force(before)


async def recorded(ledger: PostgresLedger, run: str) -> Sequence[Record]:
    return [record for record, _ in await ledger.read(run)]
