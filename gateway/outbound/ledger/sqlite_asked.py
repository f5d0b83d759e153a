"""Statements of the SQLite ledger that depend on how much is asked for."""

from collections.abc import Sequence
from typing import Any

from gateway.outbound.ledger.schema import NAME_SQL, NAMED_SQL, RARE, RARE_SQL

COLUMNS = "attempt, run, state, hold, owner, lease_until"

_BEFORE = "position < coalesce((SELECT position FROM event WHERE run = ?2 AND seq = ?3), ?4)"
_NEWEST_RARE = f"""
SELECT * FROM (
    SELECT position, body, link FROM event INDEXED BY event_rare
    WHERE kind = {{}} AND {RARE_SQL} AND {_BEFORE} ORDER BY position DESC LIMIT ?1
)"""  # noqa: S608
_EVER = 2**63 - 1


def marks(count: int) -> str:
    """A place for each of so many values."""
    return ", ".join("?" * count)


def levels_of(count: int) -> str:
    """What stands on so many accounts."""
    return f"SELECT account, unit, level FROM accounts WHERE account IN ({marks(count)})"  # noqa: S608


def tracked_in(count: int) -> str:
    """What is listed in so many states."""
    return f"SELECT {COLUMNS} FROM attempt WHERE state IN ({marks(count)}) ORDER BY position"  # noqa: S608


def named_as(count: int) -> str:
    """The records of so many names."""
    return f"SELECT body, link FROM event INDEXED BY event_named WHERE {NAMED_SQL} AND {NAME_SQL} IN ({marks(count)})"  # noqa: S608


def found(kinds: Sequence[str], limit: int, before: tuple[str, int] | None = None) -> tuple[Any, ...]:
    """The query and its values. Each rare kind gives its own newest, and the newest of those are taken."""
    marks = [f"?{5 + at}" for at in range(len(kinds))]
    values = (limit, *(("", 0, _EVER) if before is None else (*before, 0)), *kinds)
    if set(kinds) <= set(RARE):
        each = " UNION ALL ".join(_NEWEST_RARE.format(mark) for mark in marks)
        return f"SELECT body, link FROM ({each}) ORDER BY position DESC LIMIT ?1", *values  # noqa: S608
    wanted = f"kind IN ({', '.join(marks)}) AND {_BEFORE}"
    return f"SELECT body, link FROM event WHERE {wanted} ORDER BY position DESC LIMIT ?1", *values  # noqa: S608
