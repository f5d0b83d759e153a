"""That something changed in the inbox, as Server-Sent Events: bounded in time and number, so that a door asks again."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gateway.inbound.console.pages.inbox import ROWS
from gateway.inbound.console.visitor import reviewer_of
from gateway.model.review import Reviewer
from gateway.ports import LedgerUnavailable
from gateway.runtime.desk import Desk

LASTS_S = 300.0
"""Then the browser comes again, and the door looks whether its session still lives."""
QUIET_S = 15.0
"""After so long without news a comment shows that both are there."""
PAUSE_S = 2.0
"""At least so long between two events, whatever happens."""
MAX_STREAMS = 200
"""Of one process. Beyond them pages are told to come again later, and work without."""
_HEADERS = {"x-accel-buffering": "no"}


class Live:
    """The streams of one process."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._open = 0
        self._closed = asyncio.Event()

    def close(self) -> None:
        """All of them end at once, so that a server that stops need not wait for them."""
        self._closed.set()

    async def events(self, request: Request) -> Response:
        """Begins a stream."""
        if self._open >= MAX_STREAMS:
            return Response(status_code=503, headers={"retry-after": "60"})
        return StreamingResponse(self._said(reviewer_of(request)), media_type="text/event-stream", headers=_HEADERS)

    async def _said(self, by: Reviewer) -> AsyncIterator[str]:
        self._open += 1
        closed, loop = asyncio.ensure_future(self._closed.wait()), asyncio.get_running_loop()
        try:
            yield "retry: 5000\n\n"
            known, told, until = -1, "", loop.time() + LASTS_S
            while loop.time() < until and not closed.done():
                now = await self._next(known, closed)
                news = await self._news(by) if now != known else ""
                yield f"event: inbox\ndata: {news}\n\n" if news and news != told else ": still here\n\n"
                known, told = now, news or told
                await asyncio.wait({closed}, timeout=PAUSE_S)
            yield "event: over\ndata: {}\n\n"
        except LedgerUnavailable:
            return  # the browser comes again
        finally:
            closed.cancel()
            self._open -= 1

    async def _next(self, known: int, closed: "asyncio.Future[Literal[True]]") -> int:
        """The desk's counter, as soon as it is another; the same one after a while, or when all streams end."""
        changed = asyncio.ensure_future(self._desk.changed(known, QUIET_S))
        waited: set[asyncio.Future[Any]] = {changed, closed}
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            return changed.result() if changed.done() else known
        finally:
            changed.cancel()

    async def _news(self, by: Reviewer) -> str:
        page = await self._desk.inbox(by, limit=ROWS)
        return json.dumps({"total": page.total, "names": [one.name for one in page.rows]})
