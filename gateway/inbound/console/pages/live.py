"""That something changed in the inbox, as Server-Sent Events: bounded in time and number, so that a door asks again."""

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gateway.inbound.console.pages.inbox import ROWS
from gateway.inbound.console.visitor import STANDS, Stands, reviewer_of
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
MAX_OF_ONE = 10
"""Of one reviewer; the oldest of them ends when another begins."""
_HEADERS = {"x-accel-buffering": "no"}


class Live:
    """The streams of one process."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._open: OrderedDict[asyncio.Event, tuple[str, str]] = OrderedDict()
        """What ends each, and whose it is; the oldest first."""
        self._closed = False

    def close(self) -> None:
        """All of them end at once, so that a server that stops need not wait for them."""
        self._closed = True
        for over in self._open:
            over.set()

    async def events(self, request: Request) -> Response:
        """Begins a stream."""
        by = reviewer_of(request)
        self._make_room(by)
        if len(self._open) >= MAX_STREAMS:
            return Response(status_code=503, headers={"retry-after": "60"})
        stands: Stands = request.scope[STANDS]
        return StreamingResponse(self._said(by, stands), media_type="text/event-stream", headers=_HEADERS)

    def _make_room(self, by: Reviewer) -> None:
        mine = [over for over, whose in self._open.items() if whose == (by.tenant, by.id)]
        for over in mine[: max(0, len(mine) + 1 - MAX_OF_ONE)]:
            over.set()
            del self._open[over]

    async def _said(self, by: Reviewer, stands: Stands) -> AsyncIterator[str]:
        over, loop = asyncio.Event(), asyncio.get_running_loop()
        self._open[over] = (by.tenant, by.id)
        try:
            yield "retry: 5000\n\n"
            known, told, until = -1, "", loop.time() + LASTS_S
            while loop.time() < until and not (over.is_set() or self._closed):
                now = await self._next(known, over)
                if over.is_set() or not await stands():
                    break  # whoever has signed out, or may come in no more, is told nothing
                news = await self._news(by) if now != known else ""
                yield f"event: inbox\ndata: {news}\n\n" if news and news != told else ": still here\n\n"
                known, told = now, news or told
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), PAUSE_S)
            yield "event: over\ndata: {}\n\n"
        except LedgerUnavailable:
            return  # the browser comes again
        finally:
            self._open.pop(over, None)

    async def _next(self, known: int, over: asyncio.Event) -> int:
        """The desk's counter, as soon as it is another; the same one after a while, or when the stream ends."""
        changed, ended = asyncio.ensure_future(self._desk.changed(known, QUIET_S)), asyncio.ensure_future(over.wait())
        waited: set[asyncio.Future[Any]] = {changed, ended}
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            return changed.result() if changed.done() else known
        finally:
            changed.cancel()
            ended.cancel()

    async def _news(self, by: Reviewer) -> str:
        page = await self._desk.inbox(by, limit=ROWS)
        return json.dumps({"total": page.total, "names": [one.name for one in page.rows]})
