"""Runs as a reviewer may see them: those of their own tenant, or all. Nothing is written."""

from collections.abc import Sequence
from typing import NamedTuple

from gateway.kernel.reduce import CorruptLedger
from gateway.model.events import RunOpened
from gateway.model.record import Record
from gateway.model.review import Reviewer
from gateway.model.run import Run
from gateway.ports import UnreadableRecord
from gateway.runtime.book import Book

LOOKED_AT = (400, 2_000, 10_000)
"""Of the newest runs, so many are looked through for a page: more only where fewer did not fill it."""


class RunPage(NamedTuple):
    """Some runs, newest first."""

    rows: Sequence[Run]
    next: str | None
    """The run after which the next page begins; None where there is none, or what was looked through is over."""


async def runs_of(book: Book, by: Reviewer, *, limit: int, after: str | None) -> RunPage:
    """The runs that `by` may see. One that cannot be read stands there with nothing but its name.

    Raises: LedgerUnavailable.
    """
    names: list[str] = []
    for looked_at in LOOKED_AT:
        opened = await book.ledger.find(["run.opened"], limit=looked_at)
        names = _beyond([one.run for one in opened if _theirs(one, by)], after)
        if len(names) > limit or len(opened) < looked_at:
            break
    shown = names[:limit]
    return RunPage([await _run(book, one) for one in shown], shown[-1] if len(names) > limit else None)


def _theirs(opened: Record, by: Reviewer) -> bool:
    event = opened.event
    return isinstance(event, RunOpened) and by.sees(event.principal.tenant)


def _beyond(names: list[str], after: str | None) -> list[str]:
    if after is None:
        return names
    return names[names.index(after) + 1 :] if after in names else []


async def _run(book: Book, name: str) -> Run:
    """As the ledger has it now, whichever gateway wrote to it."""
    try:
        return await book.fresh_state_of(name)
    except (CorruptLedger, UnreadableRecord):
        return Run(name)
