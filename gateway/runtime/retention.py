"""Payloads are kept for as long as the configuration says, and then erased, by whichever gateway looks first."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from gateway.ports import LedgerUnavailable
from gateway.runtime.book import Book
from gateway.runtime.erasing import Citations, Erased, Eraser, Erasure, by_age

_LOG = logging.getLogger("counterfoil.retention")

FIRST_S = 60.0
"""After the start; a gateway that has just come up has other things to do."""
EVERY_S = 6 * 3_600.0
"""Between two looks at the whole log."""
PAUSE_S = 0.02
"""Between two steps of one, so that calls go before."""


@dataclass(frozen=True, slots=True)
class Kept:
    """For how many days payloads are kept. None: for ever."""

    days: float | None = None
    days_of: Mapping[str, float] = field(default_factory=dict)
    """By class of data."""

    @property
    def says(self) -> str:
        """In words, for the record."""
        of = [f"{_days(days)} of `{name}`" for name, days in sorted(self.days_of.items())]
        return f"retention: {', '.join([*([] if self.days is None else [_days(self.days)]), *of])}"


def _days(days: float) -> str:
    return f"{days:g} day" if days == 1 else f"{days:g} days"


class Retention:
    """Erases what was kept for long enough. One for each process that is told how long that is."""

    def __init__(
        self, book: Book, kept: Kept, citations: Callable[[], Citations], pause: Callable[[], Awaitable[None]]
    ) -> None:
        """`pause` is awaited between two steps of a look."""
        self._book = book
        self._pause = pause
        self._kept = kept
        self._citations = citations

    async def keep(self) -> None:
        """Runs for ever."""
        await self._book.clock.sleep(FIRST_S)
        while True:
            try:
                done = await self.look()
            except LedgerUnavailable as error:
                _LOG.warning("what was kept for long enough is not erased now: %s", error)
            else:
                if done.payloads:
                    _LOG.info("%d payloads were erased, %s", done.payloads, self._kept.says)
            await self._book.clock.sleep(EVERY_S)

    async def look(self) -> Erased:
        """What has been kept for long enough is erased.

        Raises: LedgerUnavailable.
        """
        citations = self._citations()
        free = by_age(self._kept.days, self._kept.days_of, self._book.clock.now())
        try:
            return await Eraser(self._book, citations, Erasure(self._kept.says, free), self._pause).run(dry=False)
        finally:
            citations.close()
