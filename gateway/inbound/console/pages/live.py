"""That something changed in a reviewer's inbox, as Server-Sent Events: bounded in time and number."""

import json

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gateway.inbound.console.streams import Desk, Streams, View
from gateway.inbound.console.visitor import STANDS, Stands, reviewer_of

PAUSE_S = 2.0
"""At least so long between two events, whatever happens."""
MAX_STREAMS = 200
"""Of one process. Beyond them pages are told to come again later, and work without."""
RETRY_MS = 5_000
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
        said = self._streams.events(
            reviewer_of(request), stands, _event, retry_ms=RETRY_MS, pause_s=PAUSE_S, last=b"event: over\ndata: {}\n\n"
        )
        return StreamingResponse(said, media_type="text/event-stream", headers=_HEADERS)


def _event(view: View) -> bytes:
    return b"event: inbox\ndata: %s\n\n" % json.dumps({"total": view.total, "names": view.names}).encode()
