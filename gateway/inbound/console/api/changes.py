"""A stream that says that what its reader may see has changed, and nothing of what: whoever hears it looks anew."""

from collections.abc import Callable

from starlette.responses import Response, StreamingResponse

from gateway.inbound.console.api.problems import Troubled
from gateway.inbound.console.streams import Desk, Streams, View
from gateway.inbound.console.visitor import Stands
from gateway.model.review import Reviewer

MAX_STREAMS = 500
"""In this process, of all reviewers."""
RETRY_MS = 2_000


class Changes:
    """The open streams of this process."""

    def __init__(self, desk: Desk, monotonic: Callable[[], float]) -> None:
        self._streams = Streams(desk, MAX_STREAMS, monotonic)

    def close(self) -> None:
        """All of them end at once, so that a server that stops need not wait for them."""
        self._streams.close()

    def stream(self, by: Reviewer, since: int | None, stands: Stands) -> Response:
        """Server-sent events for that reviewer, who has seen that version, as long as they may come in.

        Raises: Troubled, if there are too many.
        """
        if self._streams.is_full():
            raise Troubled(429, "streams", f"{MAX_STREAMS} streams are open here; ask for the inbox now and then")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        said = self._streams.events(by, stands, _event, retry_ms=RETRY_MS, since=since)
        return StreamingResponse(said, media_type="text/event-stream", headers=headers)


def _event(view: View) -> bytes:
    return b'id: %d\nevent: changed\ndata: {"counter":%d}\n\n' % (view.version, view.version)
