"""The runs of a ledger for people, newest first: what they may see of them, a page at a time, and never all at once."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from gateway.kernel.reduce import CorruptLedger
from gateway.model.record import Record
from gateway.model.review import Reviewer
from gateway.model.run import Run
from gateway.ports import UnreadableRecord
from gateway.runtime.book import Book

MAX_LOOKED = 2_000
"""Runs of which one page looks at how they began."""
READ = 500
"""Of them so many are read at a time."""
MAX_STATES = 200
"""Runs of which one page looks at how they stand, where a state is asked for."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A run in a list."""

    run: str
    workflow: str
    principal: str
    tenant: str
    opened_at: datetime
    goal: str
    state: str
    """`open`, how it ended, or that it cannot be read."""
    phase: str = ""
    calls: int = 0
    mutations: int = 0
    unsettled: int = 0
    owed: int = 0
    failed: int = 0
    """Effects that a person must undo."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs; all where nothing is said."""

    workflow: str = ""
    principal: str = ""
    """A part of its name."""
    state: str = ""
    """`open`, `unsettled`, or an outcome."""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Runs:
    """A page of runs."""

    rows: tuple[Listed, ...]
    looked: int
    """How many runs were looked at for it."""
    next: str | None
    """The run beyond which to look further; None where there is nothing further."""


async def runs(book: Book, by: Reviewer, wanted: Wanted, *, after: str | None = None, limit: int = 50) -> Runs:
    """The next runs that are wanted and may be seen, from beyond `after`.

    Raises: LedgerUnavailable.
    """
    rows, looked, last = list[Listed](), 0, after
    limited = MAX_STATES if wanted.state else MAX_LOOKED
    async for record in _opened(book, after):
        if wanted.since is not None and record.at < wanted.since:
            return Runs(tuple(rows), looked, None)
        if len(rows) >= limit or looked >= limited:
            return Runs(tuple(rows), looked, last)
        looked, last = looked + 1, record.run
        if _fits(record, wanted) and _seen(record, by):
            row = await _listed(book, record)
            if _stands(row, wanted.state):
                rows.append(row)
    return Runs(tuple(rows), looked, None)


async def _opened(book: Book, after: str | None) -> AsyncIterator[Record]:
    """How runs began, from beyond that one, newest first; none where that one never began."""
    before = None if after is None else (after, 1)  # a run begins with its first record
    while found := await book.ledger.find(["run.opened"], limit=READ, before=before):
        for record in found:
            yield record
        before = (found[-1].run, found[-1].seq)


def _fits(record: Record, wanted: Wanted) -> bool:
    who = getattr(record.event, "principal", None)
    return (not wanted.workflow or getattr(record.event, "workflow", "") == wanted.workflow) and (
        not wanted.principal or (who is not None and wanted.principal.lower() in f"{who.tenant}/{who.id}".lower())
    )


async def _listed(book: Book, record: Record) -> Listed:
    """One damaged run hides no other."""
    opened = record.event
    who = getattr(opened, "principal", None)
    about = (
        record.run,
        str(getattr(opened, "workflow", "")),
        "" if who is None else str(who.id),
        "" if who is None else str(who.tenant),
        record.at,
        str(getattr(opened, "goal", "")),
    )
    try:
        run = await book.fresh_state_of(record.run)
    except (CorruptLedger, UnreadableRecord):
        return Listed(*about, "cannot be read")
    return Listed(*about, _state(run), run.phase, *_counts(run))


def _state(run: Run) -> str:
    return "open" if run.stopped is None else str(run.stopped.outcome)


def _counts(run: Run) -> tuple[int, int, int, int, int]:
    failed = sum(one.state == "failed" for one in run.undo.values())
    return run.spent.calls, run.spent.mutations, len(run.unsettled), len(run.owed), failed


def _stands(row: Listed, state: str) -> bool:
    match state:
        case "":
            return True
        case "unsettled":
            return bool(row.unsettled or row.owed or row.failed)
        case _:
            return row.state == state


def _seen(record: Record, by: Reviewer) -> bool:
    who = getattr(record.event, "principal", None)
    return who is not None and by.sees(who.tenant)
