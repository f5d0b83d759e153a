"""The schema: made whole or not at all, recognised before it is touched, migrated while nobody writes."""

import secrets
from typing import Any

from gateway.outbound.ledger.postgres import schema
from gateway.outbound.ledger.postgres.address import Address
from gateway.outbound.ledger.postgres.connections import Connection
from gateway.outbound.ledger.postgres.faults import WORLD, unavailable
from gateway.ports import NotOurLedger

_MAKING = schema.KEY + 1
"""The first half of the lock under which schemas are made; the second is a hash of the name, for no table is there."""


async def prepared(address: Address, connection: Connection, *, make: bool) -> bytes:
    """The salt of the ledger in the schema, which is of this version now; whoever else opens it waits.

    Raises: NotOurLedger, having changed nothing, and LedgerUnavailable.
    """
    try:
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({_MAKING}, hashtext('{address.schema}'))")
            found = await _found(address, connection)
            if found is None:
                if not make:
                    raise NotOurLedger(f"there is no ledger at `{address.shown}` yet; `--ledger` names another")
                return await _make(address.schema, connection)
            version, salt = found
            if version > schema.VERSION:
                raise NotOurLedger(
                    f"the ledger `{address.shown}` has schema {version} and this version knows only {schema.VERSION}: "
                    "upgrade, or give another address"
                )
            await _migrate(address.schema, version, connection)
            return salt
    except WORLD as error:
        raise unavailable(address, error) from error


async def _found(address: Address, connection: Connection) -> tuple[int, bytes] | None:
    """Version and salt of the ledger; None if there may be one made.

    Raises: NotOurLedger.
    """
    name = address.schema
    if await connection.fetchval("SELECT to_regclass($1)", f"{name}.ledger") is None:
        others = await connection.fetchval(
            "SELECT count(*) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1", name
        )
        if others:
            raise _not_ours(address)
        return None
    columns: list[Any] = await connection.fetch(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped",
        f"{name}.ledger",
    )
    if not {"format", "version", "salt"} <= {one for (one,) in columns}:
        raise _not_ours(address)
    row = await connection.fetchrow(f"SELECT format, version, salt FROM {name}.ledger")  # noqa: S608 - a checked name
    if row is None or row["format"] != schema.FORMAT:
        raise _not_ours(address)
    return row["version"], row["salt"]


def _not_ours(address: Address) -> NotOurLedger:
    return NotOurLedger(
        f"the schema `{address.schema}` at `{address.shown}` belongs to another program: give another, `?schema=name`"
    )


async def _make(name: str, connection: Connection) -> bytes:
    salt = secrets.token_bytes(32)
    # Not IF NOT EXISTS: that would ask for the right to make schemas also where an administrator has made this one.
    if await connection.fetchval("SELECT to_regnamespace($1)", name) is None:
        await connection.execute(f"CREATE SCHEMA {name}")
    await _apply(name, 0, connection)
    await connection.execute(
        f"INSERT INTO {name}.ledger (format, version, salt) VALUES ($1, $2, $3)",  # noqa: S608
        schema.FORMAT,
        schema.VERSION,
        salt,
    )
    return salt


async def _migrate(name: str, version: int, connection: Connection) -> None:
    if version == schema.VERSION:
        return
    # Nobody is within a transaction that writes, and who comes next finds the new version.
    await connection.execute(f"SELECT pg_advisory_xact_lock({schema.KEY}, '{name}.event'::regclass::oid::integer)")
    await _apply(name, version, connection)
    await connection.execute(f"UPDATE {name}.ledger SET version = $1", schema.VERSION)  # noqa: S608


async def _apply(name: str, version: int, connection: Connection) -> None:
    for migration in schema.MIGRATIONS[version:]:
        for statement in schema.statements(migration, name):
            await connection.execute(statement)
