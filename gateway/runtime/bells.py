"""Whoever waits for a person is woken once something was said: at once if it was in this process, else within seconds.

All that wait share one look at the ledger a second, for the newest decisions of all runs: it costs the same for one as
for thousands, and nothing while nobody waits.
"""

import asyncio
from collections.abc import Callable, Sequence

from gateway.model.events import ApprovalRequested, Event
from gateway.model.record import Record
from gateway.model.run import Run
from gateway.ports import LedgerUnavailable
from gateway.runtime.book import Book

LOOK_S = 1.0
"""Between two looks for what other processes have written."""
PAGE = 20
"""Of the newest decisions, looked at each time; where all of them are new, everybody is woken."""
KINDS = ("approval.decided",)
"""What most wait for, and has an index of its own. For all else whoever waits looks by itself, more rarely."""

Ring = Callable[[], None]


class Bells:
    """The bells of one process, by the approval that is waited for."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._hung: dict[str, set[Ring]] = {}
        self._runs: dict[str, set[str]] = {}
        """By run, the approvals that are waited for."""
        self._looking: asyncio.Task[None] | None = None
        self._last: tuple[str, int] | None = None
        """The newest decision that was looked at: its run, and its place there."""
        book.heard = self._heard

    def hang(self, approval: str, run: str, ring: Ring) -> Ring:
        """`ring` is called whenever something was said about the approval. The result takes it down."""
        self._hung.setdefault(approval, set()).add(ring)
        self._runs.setdefault(run, set()).add(approval)
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._look())

        def take_down() -> None:
            rings = self._hung[approval]
            rings.discard(ring)
            if rings:
                return
            del self._hung[approval]
            self._runs[run].discard(approval)
            if not self._runs[run]:
                del self._runs[run]
            if not self._hung and self._looking is not None:
                self._looking.cancel()
                self._looking = None

        return take_down

    def hung(self, approval: str) -> bool:
        """Whether somebody waits for it."""
        return approval in self._hung

    def __len__(self) -> int:
        return sum(map(len, self._hung.values()))

    def _ring(self, approval: str) -> None:
        for ring in list(self._hung.get(approval, ())):
            ring()

    def _heard(self, run: Run, events: Sequence[Event]) -> None:
        """This process has recorded these."""
        waited = self._runs.get(run.id)
        if not waited:
            return
        about = list(waited) if run.stopped is not None else [name for event in events for name in _about(event)]
        for approval in about:
            self._ring(approval)

    async def _look(self) -> None:
        while True:
            await self._book.clock.sleep(LOOK_S)
            try:
                self._look_at(await self._book.ledger.find(KINDS, limit=PAGE))
            except LedgerUnavailable:
                continue  # who waits looks for itself now and then, and is told

    def _look_at(self, newest: Sequence[Record]) -> None:
        places = [(record.run, record.seq) for record in newest]
        known = places.index(self._last) if self._last in places else len(places)
        about = list(self._hung) if known == PAGE else [name for one in newest[:known] for name in _about(one.event)]
        self._last = places[0] if places else None
        for approval in about:
            self._ring(approval)


def _about(event: Event) -> tuple[str, ...]:
    """The questions about which the event says something."""
    named = getattr(event, "approval", None)
    superseded = event.supersedes if isinstance(event, ApprovalRequested) else ()
    return superseded if named is None else (named, *superseded)
