"""A stream that says that something for people has changed, and nothing of what: whoever hears it looks anew.

So nothing leaves by it that its reader might not see. A stream ends by itself after some minutes: a browser comes back
with what it saw last, and is let in, or not, by the credential that it has then.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal, Protocol

from starlette.responses import Response, StreamingResponse

from gateway.inbound.console.api.problems import Troubled
from gateway.ports import LedgerUnavailable

BEAT_S = 15.0
"""A proxy closes what is silent for a minute, and a client that left is noticed when something is sent."""
LIFE_S = 300.0
MAX_STREAMS = 500
"""In this process; a reviewer has one for each open page."""
RETRY_MS = 2_000


class Changing(Protocol):
    """What can be waited for."""

    async def changed(self, since: int, within_s: float) -> int:
        """The counter, once it is beyond `since`; at the latest after so long."""
        ...


class Changes:
    """The open streams of this process."""

    def __init__(self, desk: Changing, monotonic: Callable[[], float]) -> None:
        self._desk = desk
        self._monotonic = monotonic
        self._open = 0
        self._closed = asyncio.Event()

    def close(self) -> None:
        """All of them end at once, so that a server that stops need not wait for them."""
        self._closed.set()

    def stream(self, since: int | None) -> Response:
        """Server-sent events, from that counter on.

        Raises: Troubled, if there are too many.
        """
        if self._open >= MAX_STREAMS:
            raise Troubled(429, "streams", f"{MAX_STREAMS} streams are open here; ask for the inbox now and then")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._said(since), media_type="text/event-stream", headers=headers)

    async def _said(self, since: int | None) -> AsyncIterator[bytes]:
        self._open += 1
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            ends = self._monotonic() + LIFE_S
            seen = await self._desk.changed(-1, 0.0) if since is None else since
            yield b"retry: %d\n\n" % RETRY_MS
            if since is None:
                yield _event(seen)
            while self._monotonic() < ends and not closed.done():
                now = await self._next(seen, closed)
                yield _event(now) if now != seen else b": still here\n\n"
                seen = now
        except LedgerUnavailable:
            return  # whoever listens comes back, and is told why then
        finally:
            closed.cancel()
            self._open -= 1

    async def _next(self, seen: int, closed: "asyncio.Future[Literal[True]]") -> int:
        """The counter, as soon as it is another; the same one after a while, or when all streams end."""
        news = asyncio.ensure_future(self._desk.changed(seen, BEAT_S))
        waited: set[asyncio.Future[Any]] = {news, closed}
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            return news.result() if news.done() else seen
        finally:
            news.cancel()


def _event(counter: int) -> bytes:
    return b'id: %d\nevent: changed\ndata: {"counter":%d}\n\n' % (counter, counter)
