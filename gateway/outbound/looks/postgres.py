"""A query of a PostgreSQL database in a transaction that cannot write."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gateway.model.sql_parameters import named, spelled
from gateway.outbound.ledger.postgres.address import parse
from gateway.outbound.looks.faults import CannotLook
from gateway.outbound.looks.places import DatabasePlace
from gateway.outbound.looks.rows import MAX_ROWS, as_seen, named_once

NO_DRIVER = "PostgreSQL needs the extra `postgres`: pip install 'counterfoil[postgres]'"
GOODBYE_S = 1.0


async def query(place: DatabasePlace, statement: str, values: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """What the statement selects.

    Raises: CannotLook.
    """
    try:
        import asyncpg  # noqa: PLC0415 - an extra
    except ImportError:
        raise CannotLook(NO_DRIVER) from None
    world = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError)
    settings = {
        "application_name": "counterfoil verifier",
        "default_transaction_read_only": "on",
        "statement_timeout": str(int(timeout_s * 1000)),
        "lock_timeout": str(int(timeout_s * 1000)),
    }
    try:
        connection = await asyncpg.connect(
            parse(place.url).dsn, timeout=timeout_s, statement_cache_size=0, server_settings=settings
        )
    except (*world, TimeoutError) as error:
        raise CannotLook(f"`{place.name}` cannot be reached{_state(error)}") from None
    try:
        return await _selected(place.name, connection, statement, values)
    except world as error:
        raise CannotLook(f"`{place.name}` refused the query{_state(error)}") from None
    finally:
        await _goodbye(connection)


async def _selected(place: str, connection: Any, statement: str, values: Mapping[str, Any]) -> dict[str, Any]:
    places = {name: at for at, name in enumerate(dict.fromkeys(named(statement)), start=1)}
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        prepared = await connection.prepare(spelled(statement, lambda name: f"${places[name]}"))
        named_once(place, [one.name for one in prepared.get_attributes()])
        cursor = await prepared.cursor(*(values[name] for name in places))
        found = await cursor.fetch(MAX_ROWS + 1)
    return as_seen([dict(row) for row in found], more=len(found) > MAX_ROWS)


async def _goodbye(connection: Any) -> None:
    """It is closed, or given up; a statement that is under way is not waited for."""
    with suppress(Exception):
        async with asyncio.timeout(GOODBYE_S):
            await connection.close()
            return
    connection.terminate()


def _state(error: Exception) -> str:
    """The server's code for it. Its words may quote values."""
    code = getattr(error, "sqlstate", None)
    return f" (SQLSTATE {code})" if isinstance(code, str) else ""
