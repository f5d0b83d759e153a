"""That something changed in the inbox, as Server-Sent Events: bounded in time and number, so that a door asks again."""

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gateway.inbound.console.pages.inbox import ROWS
from gateway.inbound.console.pages.site import Site
from gateway.inbound.console.visitor import reviewer_of
from gateway.model.review import Reviewer
from gateway.ports import LedgerUnavailable

LASTS_S = 300.0
"""Then the browser comes again, and the door looks whether its session still lives."""
QUIET_S = 20.0
"""After so long without news a comment shows that both are there."""
PAUSE_S = 2.0
"""At least so long between two events, whatever happens."""
MAX_STREAMS = 200
"""Of one process. Beyond them pages are told to come again later, and work without."""


class Live:
    """The streams of one process."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._open = 0

    async def events(self, request: Request) -> Response:
        """Begins a stream."""
        if self._open >= MAX_STREAMS:
            return Response(status_code=503, headers={"retry-after": "60"})
        return StreamingResponse(self._stream(request), media_type="text/event-stream")

    async def _stream(self, request: Request) -> AsyncIterator[str]:
        self._open += 1
        try:
            yield "retry: 5000\n\n"
            by, known, told = reviewer_of(request), 0, ""
            until = asyncio.get_running_loop().time() + LASTS_S
            while asyncio.get_running_loop().time() < until:
                now = await self._site.desk.changed(known, QUIET_S)
                news = await self._news(by) if now != known else ""
                yield f"event: inbox\ndata: {news}\n\n" if news and news != told else ": still here\n\n"
                known, told = now, news or told
                await asyncio.sleep(PAUSE_S)
            yield "event: over\ndata: {}\n\n"
        except LedgerUnavailable:
            return  # the browser comes again
        finally:
            self._open -= 1

    async def _news(self, by: Reviewer) -> str:
        page = await self._site.desk.inbox(by, limit=ROWS)
        return json.dumps({"total": page.total, "names": [one.name for one in page.rows]})
