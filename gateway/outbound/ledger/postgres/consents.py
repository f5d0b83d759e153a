"""Consents, in a ledger's schema."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from gateway.outbound.ledger.chain import storable
from gateway.outbound.ledger.consents import consent_in
from gateway.outbound.ledger.postgres.connections import Connection
from gateway.outbound.ledger.postgres.statements import Statements
from gateway.outbound.ledger.postgres.writer import Writer
from gateway.ports import Consent, Holder, Stand

_Rows = Callable[..., Awaitable[Sequence[Any]]]
_Change = Callable[..., Awaitable[int]]


class PostgresConsents:
    """As `Consents`, through the ledger's own connections."""

    def __init__(self, sql: Statements, writer: Writer, rows: _Rows, change: _Change) -> None:
        self._sql = sql
        self._writer = writer
        self._rows = rows
        self._change = change

    async def read(self, holder: Holder) -> Consent | None:
        """As `Consents.read`."""
        return next((consent_in(row) for row in await self._rows(self._sql.consent, *holder)), None)

    async def stands(self, holders: Collection[Holder]) -> Mapping[Holder, Stand]:
        """As `Consents.stands`."""
        asked = [one for one in holders if storable(one)]
        rows = await self._rows(self._sql.consents, *([*part] for part in zip(*asked, strict=True))) if asked else ()
        return {Holder(*row[:3]): Stand(*row[3:]) for row in rows}

    async def put(self, made: Consent, seen: Consent | None) -> bool:
        """As `Consents.put`."""
        row = *made.holder, made.name, made.version, made.sealed, made.owner, made.lease_until
        if seen is None:
            return await self._change(self._sql.add_consent, *row) == 1
        return await self._change(self._sql.change_consent, *row, seen.name, seen.version) == 1

    async def claim(self, seen: Consent, owner: str, lease_until: float) -> bool:
        """As `Consents.claim`."""
        was = seen.name, seen.version, seen.owner, seen.lease_until
        return await self._change(self._sql.claim_consent, *seen.holder, owner, lease_until, *was) == 1

    async def drop(self, holder: Holder) -> Consent | None:
        """As `Consents.drop`."""
        if not storable(holder):
            return None
        gone = await self._writer.run(partial(_fetched, self._sql.drop_consent, holder))
        return None if gone is None else consent_in(gone)

    async def held(self, principal: str, tenant: str | None = None) -> Sequence[Holder]:
        """As `Consents.held`."""
        return sorted(Holder(*row) for row in await self._rows(self._sql.consents_held, principal, tenant))


async def _fetched(sql: str, holder: Holder, connection: Connection) -> Sequence[Any] | None:
    row: Sequence[Any] | None = await connection.fetchrow(sql, *holder)
    return row
