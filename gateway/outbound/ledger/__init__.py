"""The ledgers that there are, by address: in memory, or one SQLite file that all gateways of a machine share."""

import re

from gateway.outbound.ledger.memory import MemoryLedger as MemoryLedger
from gateway.outbound.ledger.sqlite import SqliteLedger as SqliteLedger
from gateway.outbound.ledger.sqlite import open_sqlite as open_sqlite
from gateway.ports import Ledger

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

_SUPPORTED = "use `sqlite:///relative.db`, `sqlite:////absolute/path.db`, a plain path, or `memory:`"


async def open_ledger(url: str) -> Ledger:
    """The ledger at that address, made if there is none yet.

    Raises: ValueError for an address of another kind, NotOurLedger, LedgerUnavailable.
    """
    if url == "memory:":
        return MemoryLedger()
    return await open_sqlite(_path(url))


def _path(url: str) -> str:
    """The file that the address names. Messages never show the rest of an address: it may hold a password."""
    scheme = _SCHEME.match(url)
    path = url.removeprefix("sqlite:///")
    if scheme is not None and (scheme[0] != "sqlite:" or path == url):
        raise ValueError(f"a ledger address that starts with `{scheme[0]}` is not supported: {_SUPPORTED}")
    if scheme is not None and "?" in path:
        raise ValueError(f"a ledger address takes no parameters: {_SUPPORTED}")
    if path in {"", ":memory:"}:
        raise ValueError(f"the ledger address names no file: {_SUPPORTED}")
    return path
