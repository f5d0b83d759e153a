"""A query of a SQLite file, which is opened for reading alone and can do nothing but select."""

import sqlite3
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from gateway.outbound.looks.faults import CannotLook
from gateway.outbound.looks.places import SQLITE, DatabasePlace
from gateway.outbound.looks.rows import MAX_ROWS, as_seen, named_once

BUSY_S = 5.0
MAX_VALUE = 1_000_000
"""Bytes of one value, also of those that the statement makes on its way."""

_STEPS = 10_000
"""Of SQLite's machine, between two looks whether anybody still waits."""

_ALLOWED = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, getattr(sqlite3, "SQLITE_RECURSIVE", 33)}
)


def query(
    place: DatabasePlace, statement: str, values: Mapping[str, Any], called_off: threading.Event
) -> dict[str, Any]:
    """What the statement selects.

    Raises: CannotLook.
    """
    path = Path(place.url.removeprefix(SQLITE))
    try:
        with closing(_opened(path)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
            connection.set_authorizer(_authorized)
            connection.set_progress_handler(called_off.is_set, _STEPS)
            cursor = connection.execute(statement, dict(values))
            names = [one[0] for one in cursor.description or ()]
            named_once(place.name, names)
            found = cursor.fetchmany(MAX_ROWS + 1)
    except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
        raise CannotLook(f"`{place.name}` refused the query: {_words(error)}") from None
    rows = [dict(zip(names, row, strict=True)) for row in found]
    return as_seen(rows, more=len(found) > MAX_ROWS)


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=BUSY_S, isolation_level=None)
    connection.text_factory = lambda body: body.decode(errors="replace")
    return connection


def _authorized(action: int, _first: str | None, second: str | None, _database: str | None, _by: str | None) -> int:
    if action not in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and second == "load_extension"):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _words(error: Exception) -> str:
    """What SQLite says, which names tables and columns and no values; on one line."""
    said = " ".join(str(error).split())[:200]
    return said.lower() if said else "it fails"
