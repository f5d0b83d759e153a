"""PostgreSQL's, the driver's and the network's errors, in words that say what is wrong and what to do about it."""

import asyncpg

from gateway.outbound.ledger.postgres.address import Address
from gateway.ports import LedgerUnavailable

_GONE = "ended the connection, as a server does that is stopped, restarted or failed over: nothing needs a restart here"

_WRONG = {
    "08": _GONE,
    "57P01": _GONE,
    "57P02": _GONE,
    "57P03": "is starting or stopping: wait until it takes connections",
    "25P03": _GONE,
    "25P04": _GONE,
    "25006": "is read-only, a standby perhaps: give the address of the server that takes writes",
    "28": "does not let this user in: check the user, the password and the server's `pg_hba.conf`",
    "3D000": "has no such database: create it",
    "42501": "does not allow this user what a ledger needs: make the user the owner of the ledger's schema",
    "3F000": "has lost the ledger's schema: restore it from a backup",
    "42P01": "has lost tables of the ledger: restore it from a backup",
    "42883": "has lost functions of the ledger: restore it from a backup",
    "53100": "has no space left: free some on its disk, nothing needs a restart here",
    "53200": "is out of memory: give it more, nothing needs a restart here",
    "53300": "takes no more connections: raise its `max_connections`, or run fewer gateways on it",
    "55P03": "is locked by another session: end the one that holds the lock",
    "57014": "took too long over a statement: see what else it has to do",
    "58030": "gave a disk error: check its disk and its free space",
    "XX001": "is damaged: stop every gateway on it and restore it from a backup",
    "XX002": "is damaged: stop every gateway on it and restore it from a backup",
}
"""By SQLSTATE or its class [postgresql.org/docs/current/errcodes-appendix.html]."""

_LOST = frozenset({"25006", "25P03", "25P04", "57P01", "57P02", "57P03"})
"""After which the connection is of no use: 25006 too, for behind the same address may be another server by now."""

_MOVED = frozenset({"23505", "40001", "40P01"})
"""Somebody else was quicker, or each waited for the other: the same group, decided anew, may do."""

DRIVER = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""All that the driver raises of its own."""

WORLD = (*DRIVER, OSError, TimeoutError)
"""All that can come of talking to a server."""


def unavailable(address: Address, error: BaseException) -> LedgerUnavailable:
    """The failure in the port's words, one line, without a secret."""
    made = LedgerUnavailable(f"the ledger `{address.shown}` {_said(error)}")
    made.__cause__ = error
    return made


def lost(error: BaseException) -> bool:
    """Whether the connection cannot be used any more. What was under way on it may have been done, or may yet be."""
    if isinstance(error, asyncpg.PostgresError):
        return _state(error) in _LOST or _state(error).startswith("08")
    return isinstance(error, WORLD) and not unfit(error)


def moved(error: BaseException) -> bool:
    """Whether the transaction lost against another one, and may be tried again."""
    return _state(error) in _MOVED


def unfit(error: BaseException) -> bool:
    """Whether a value cannot be stored: the step's own fault."""
    # What the driver itself cannot spell for the server is a ValueError of its own.
    return _state(error)[:2] in {"22", "23"} or (isinstance(error, DRIVER) and isinstance(error, ValueError))


def _said(error: BaseException) -> str:
    state = _state(error)
    told = _WRONG.get(state) or _WRONG.get(state[:2])
    if told is not None:
        return told
    if isinstance(error, TimeoutError):
        return "did not answer in time: check the server and the network to it"
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "has no server that takes writes now: wait for the failover, or check the addresses"
    if isinstance(error, OSError):
        return "cannot be reached: see that the server runs and takes connections from here"
    if isinstance(error, (asyncpg.InterfaceError, asyncpg.InternalClientError)):
        return _GONE
    return f"cannot be used now: {str(error).splitlines()[0] if str(error) else state}"


def _state(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")
