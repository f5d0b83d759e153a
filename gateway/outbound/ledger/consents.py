"""Consents, in a ledger's file."""

import sqlite3
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from gateway.outbound.ledger.chain import storable
from gateway.outbound.ledger.writer import Writer
from gateway.ports import Consent, Holder, Stand

HELD_BY = "tenant = ? AND principal = ? AND upstream = ?"
COLUMNS = "tenant, principal, upstream, name, version, sealed, owner, lease_until"

READ = f"SELECT {COLUMNS} FROM consent WHERE {HELD_BY}"  # noqa: S608 - our own words, as everywhere on this page
STANDS = f"SELECT name, version FROM consent WHERE {HELD_BY}"  # noqa: S608
ADD = f"INSERT INTO consent ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608
CHANGE = f"""
UPDATE consent SET name = ?, version = ?, sealed = ?, owner = ?, lease_until = ?
WHERE {HELD_BY} AND name = ? AND version = ?"""  # noqa: S608
CLAIM = f"""
UPDATE consent SET owner = ?, lease_until = ?
WHERE {HELD_BY} AND name = ? AND version = ? AND owner = ? AND lease_until = ?"""  # noqa: S608
DROP = f"DELETE FROM consent WHERE {HELD_BY} RETURNING {COLUMNS}"  # noqa: S608
HELD = "SELECT tenant, principal, upstream FROM consent WHERE principal = ?1 AND (?2 IS NULL OR tenant = ?2)"

_Rows = Callable[..., Awaitable[Iterable[Any]]]


class SqliteConsents:
    """As `Consents`, through the ledger's own connections."""

    def __init__(self, writer: Writer, rows: _Rows) -> None:
        self._writer = writer
        self._rows = rows

    async def read(self, holder: Holder) -> Consent | None:
        """As `Consents.read`."""
        return next((consent_in(row) for row in await self._rows(READ, *holder)), None)

    async def stands(self, holders: Collection[Holder]) -> Mapping[Holder, Stand]:
        """As `Consents.stands`: one look into the index for each."""
        found = [(one, await self._rows(STANDS, *one)) for one in holders]
        return {one: Stand(*row) for one, rows in found for row in rows}

    async def put(self, made: Consent, seen: Consent | None) -> bool:
        """As `Consents.put`."""
        if not storable(made.holder):
            return False
        now = made.name, made.version, made.sealed, made.owner, made.lease_until
        if seen is None:
            return await self._writer.run(partial(_changed, ADD, (*made.holder, *now))) == 1
        return await self._writer.run(partial(_changed, CHANGE, (*now, *made.holder, seen.name, seen.version))) == 1

    async def claim(self, seen: Consent, owner: str, lease_until: float) -> bool:
        """As `Consents.claim`."""
        was = seen.name, seen.version, seen.owner, seen.lease_until
        return await self._writer.run(partial(_changed, CLAIM, (owner, lease_until, *seen.holder, *was))) == 1

    async def drop(self, holder: Holder) -> Consent | None:
        """As `Consents.drop`."""
        return await self._writer.run(partial(_dropped, holder)) if storable(holder) else None

    async def held(self, principal: str, tenant: str | None = None) -> Sequence[Holder]:
        """As `Consents.held`."""
        return sorted(Holder(*row) for row in await self._rows(HELD, principal, tenant))


def consent_in(row: Sequence[Any]) -> Consent:
    """The consent of a row that has `COLUMNS`."""
    tenant, principal, upstream, name, version, sealed, owner, lease_until = row
    return Consent(Holder(tenant, principal, upstream), name, version, bytes(sealed), owner, lease_until)


def _changed(sql: str, values: tuple[Any, ...], db: sqlite3.Connection) -> int:
    return db.execute(sql, values).rowcount


def _dropped(holder: Holder, db: sqlite3.Connection) -> Consent | None:
    db.execute("PRAGMA secure_delete = ON")  # overwritten, not only unlinked
    gone = db.execute(DROP, holder).fetchone()
    db.execute("PRAGMA secure_delete = OFF")
    return None if gone is None else consent_in(gone)
