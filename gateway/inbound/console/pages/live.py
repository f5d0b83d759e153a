"""That something changed in a reviewer's inbox, as Server-Sent Events: bounded in time and number."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gateway.inbound.console.streams import Desk, Streams
from gateway.inbound.console.visitor import STANDS, Stands, reviewer_of
from gateway.model.review import Reviewer
from gateway.ports import LedgerUnavailable

PAUSE_S = 2.0
"""At least so long between two events, whatever happens."""
MAX_STREAMS = 200
"""Of one process. Beyond them pages are told to come again later, and work without."""
_HEADERS = {"x-accel-buffering": "no"}


class Live:
    """The streams of one process."""

    def __init__(self, desk: Desk) -> None:
        self._streams = Streams(desk, MAX_STREAMS)

    def close(self) -> None:
        """All of them end at once, so that a server that stops need not wait for them."""
        self._streams.close()

    async def events(self, request: Request) -> Response:
        """Begins a stream."""
        if self._streams.is_full():
            return Response(status_code=503, headers={"retry-after": "60"})
        stands: Stands = request.scope[STANDS]
        said = self._said(reviewer_of(request), stands)
        return StreamingResponse(said, media_type="text/event-stream", headers=_HEADERS)

    async def _said(self, by: Reviewer, stands: Stands) -> AsyncIterator[str]:
        yield "retry: 5000\n\n"
        try:
            async with aclosing(self._streams.views(by, pause_s=PAUSE_S)) as views:
                async for view in views:
                    if not await stands():
                        break  # whoever has signed out, or may come in no more, is told nothing
                    told = view and json.dumps({"total": view.total, "names": view.names})
                    yield f"event: inbox\ndata: {told}\n\n" if told else ": still here\n\n"
            yield "event: over\ndata: {}\n\n"
        except LedgerUnavailable:
            return  # the browser comes again
