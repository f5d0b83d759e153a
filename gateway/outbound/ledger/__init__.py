"""The ledgers that there are, by address: in memory, in one SQLite file that all gateways of a
machine share, or in a PostgreSQL server that gateways on many machines share.
"""

import re

from gateway.outbound.ledger.guarded import GuardedLedger as GuardedLedger
from gateway.outbound.ledger.memory import MemoryLedger as MemoryLedger
from gateway.outbound.ledger.postgres.address import is_postgres
from gateway.outbound.ledger.sqlite import SqliteLedger as SqliteLedger
from gateway.outbound.ledger.sqlite import open_sqlite as open_sqlite
from gateway.outbound.payload_keys import NO_KEYS, Keyring
from gateway.ports import Ledger, Redactor

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

_SUPPORTED = (
    "use `sqlite:///relative.db`, `sqlite:////absolute/path.db`, a plain path, `postgresql://user@host:5432/database`, "
    "or `memory:`"
)


async def open_ledger(
    url: str, *, make: bool = True, keys: Keyring = NO_KEYS, redactor: Redactor | None = None
) -> Ledger:
    """The ledger at that address, made if there is none yet. Without `make` none is made in a PostgreSQL server.

    With `keys` payloads are encrypted at rest; with a redactor, they are stored without their secrets.

    Raises: ValueError for an address of another kind, NotOurLedger, LedgerUnavailable.
    """
    opened = await _open(url, make=make)
    return GuardedLedger(opened, keys, redactor) if keys.ids or redactor is not None else opened


async def _open(url: str, *, make: bool) -> Ledger:
    if url == "memory:":
        return MemoryLedger()
    if is_postgres(url):
        return await _open_postgres(url, make=make)
    return await open_sqlite(path_of(url))


async def _open_postgres(url: str, *, make: bool) -> Ledger:
    try:
        # Only here: who has SQLite needs no driver, and no time to import one.
        from gateway.outbound.ledger.postgres.ledger import open_postgres  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise ValueError("a ledger in PostgreSQL needs a driver: pip install 'counterfoil[postgres]'") from None
    return await open_postgres(url, make=make)


def path_of(url: str) -> str:
    """The file that the address names. Messages never show the rest of an address: it may hold a password.

    Raises: ValueError for an address of another kind.
    """
    scheme = _SCHEME.match(url)
    path = url.removeprefix("sqlite:///")
    if scheme is not None and (scheme[0] != "sqlite:" or path == url):
        raise ValueError(f"a ledger address that starts with `{scheme[0]}` is not supported: {_SUPPORTED}")
    if url != url.strip() or "://" in url.removeprefix("sqlite://"):
        raise ValueError(f"a ledger address has no spaces around it and no second `://` in it: {_SUPPORTED}")
    if scheme is not None and "?" in path:
        raise ValueError(f"a ledger address takes no parameters: {_SUPPORTED}")
    if path in {"", ":memory:"}:
        raise ValueError(f"the ledger address names no file: {_SUPPORTED}")
    return path
