"""What one reviewer may see, each time that it is another: for streams to browsers and programs, bounded for each.

A stream tells of nothing else: neither what it says nor when it says it hangs on questions that its reader may not see.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol, TypeAlias

from gateway.inbound.console.visitor import Stands
from gateway.model.review import Page, Reviewer, Waiting
from gateway.ports import LedgerUnavailable

BEAT_S = 15.0
"""A proxy closes what is silent for a minute, and a client that left is noticed when something is sent."""
LIFE_S = 300.0
"""Then whoever listens comes again, and is let in, or not, by the credential that they have then."""
EACH = 16
"""Streams of one reviewer, who has one for each open page; beyond them their own oldest ends."""
ROWS = 50
"""Questions that are named, as on one page; of the others it is told only that they are others."""

_VERSION_BYTES = 6
"""Every reader of JSON keeps such a number whole."""


class Desk(Protocol):
    """What a stream looks at."""

    async def changed(self, since: int, within_s: float) -> int:
        """The counter of all that waits, once it is beyond `since`; at the latest after so long."""
        ...

    async def inbox(
        self,
        by: Reviewer,
        *,
        limit: int = 50,
        after: str | None = None,
        wanted: Callable[[Waiting], bool] | None = None,
    ) -> Page:
        """What waits, as far as that reviewer may see it."""
        ...


@dataclass(frozen=True, slots=True)
class View:
    """What one reviewer may see."""

    version: int
    """Another one where it is otherwise; the same at every gateway. It counts nothing."""
    total: int
    names: tuple[str, ...]


async def view_of(desk: Desk, by: Reviewer) -> View:
    """As it is now.

    Raises: LedgerUnavailable.
    """
    told: list[str] = []

    def seen(one: Waiting) -> bool:
        told.append(one.name)
        return True

    page = await desk.inbox(by, limit=ROWS, wanted=seen)
    told += [f"{one.agreed} {','.join(one.roles)}" for one in page.rows]
    version = int.from_bytes(sha256("\n".join(told).encode()).digest()[:_VERSION_BYTES])
    return View(version, page.total, tuple(one.name for one in page.rows))


_Whose: TypeAlias = tuple[str, str]


class Streams:
    """The open streams of one kind, in this process."""

    def __init__(self, desk: Desk, most: int, monotonic: Callable[[], float] | None = None) -> None:
        self._desk = desk
        self._most = most
        self._monotonic = monotonic or (lambda: asyncio.get_running_loop().time())
        self._open: dict[_Whose, list[asyncio.Event]] = {}
        self._closed = False

    def is_full(self) -> bool:
        """Whether there is room for nobody more."""
        return sum(map(len, self._open.values())) >= self._most

    def close(self) -> None:
        """All of them end at once, so that a server that stops need not wait for them."""
        self._closed = True
        for over in (each for theirs in self._open.values() for each in theirs):
            over.set()

    async def views(
        self, by: Reviewer, since: int | None = None, pause_s: float = 0.0
    ) -> AsyncGenerator[View | None, None]:
        """What they may see, unless that is `since`, and then whenever it is another; None after a while without news.

        Raises: LedgerUnavailable.
        """
        with self._opened(by) as over:
            now = self._monotonic
            ends, said_at, seen, known = now() + LIFE_S, now(), since, -1
            while now() < ends and not over.is_set():
                known = await self._next(known, max(0.0, said_at + BEAT_S - now()), over)
                view = await view_of(self._desk, by)
                if view.version != seen:
                    seen, said_at = view.version, now()
                    yield view
                    await _waited(over, pause_s)
                elif now() - said_at >= BEAT_S:
                    said_at = now()
                    yield None

    async def events(
        self,
        by: Reviewer,
        stands: Stands,
        says: Callable[[View], bytes],
        *,
        retry_ms: int,
        since: int | None = None,
        pause_s: float = 0.0,
        last: bytes = b"",
    ) -> AsyncIterator[bytes]:
        """The same as server-sent events, as long as they may come in; `last` where it ended in order."""
        yield b"retry: %d\n\n" % retry_ms
        try:
            async with aclosing(self.views(by, since, pause_s)) as views:
                async for view in views:
                    if not await stands():
                        break  # whoever has signed out, or may come in no more, is told nothing
                    yield b": still here\n\n" if view is None else says(view)
            if last:
                yield last
        except LedgerUnavailable:
            return  # whoever listens comes back, and is told why then

    @contextmanager
    def _opened(self, by: Reviewer) -> Iterator[asyncio.Event]:
        theirs, over = self._open.setdefault((by.tenant, by.id), []), asyncio.Event()
        theirs.append(over)
        for oldest in theirs[:-EACH]:
            oldest.set()
        if self._closed:
            over.set()
        try:
            yield over
        finally:
            theirs.remove(over)
            if not theirs:
                self._open.pop((by.tenant, by.id), None)

    async def _next(self, known: int, within_s: float, over: asyncio.Event) -> int:
        """The counter, as soon as it is another; the same one after a while, or when the stream is over."""
        changed = asyncio.ensure_future(self._desk.changed(known, within_s))
        ended = asyncio.ensure_future(over.wait())
        waited: set[asyncio.Future[Any]] = {changed, ended}
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            return changed.result() if changed.done() else known
        finally:
            changed.cancel()
            ended.cancel()


async def _waited(over: asyncio.Event, spell_s: float) -> None:
    if spell_s:
        try:
            await asyncio.wait_for(over.wait(), spell_s)
        except TimeoutError:
            return
