"""A stream that says that something for people has changed, and nothing of what: whoever hears it looks anew.

So nothing leaves by it that its reader might not see. A stream ends by itself after some minutes: a browser comes back
with what it saw last, and is let in, or not, by the credential that it has then.
"""

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from starlette.responses import Response, StreamingResponse

from gateway.inbound.console.api.problems import Troubled

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
        try:
            ends = self._monotonic() + LIFE_S
            seen = await self._desk.changed(-1, 0.0) if since is None else since
            yield b"retry: %d\n\n" % RETRY_MS
            if since is None:
                yield _event(seen)
            while self._monotonic() < ends:
                now = await self._desk.changed(seen, BEAT_S)
                yield _event(now) if now != seen else b": still here\n\n"
                seen = now
        finally:
            self._open -= 1


def _event(counter: int) -> bytes:
    return b'id: %d\nevent: changed\ndata: {"counter":%d}\n\n' % (counter, counter)
