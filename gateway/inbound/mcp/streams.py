"""One HTTP response: a plain one, or an event stream once something is said before the answer.

Knows whether the client is still there, and tells when an answer has reached it. A call that is answered within
moments costs no task here: a client is watched only when it has begun to wait, and only where its server does not tell
by itself that it has left.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, MutableSet, Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp_types.jsonrpc import INTERNAL_ERROR

from gateway.inbound.mcp.door import JSON, Headers, Message, Receive, Scope, Send, at_once
from gateway.inbound.mcp.envelope import failure
from gateway.inbound.mcp.exchange import Exchange
from gateway.model.answer import Shown
from gateway.model.canonical import JsonObject, dump_bytes, one_line

_LOG = logging.getLogger("counterfoil.inbound")

WATCH_AFTER_S = 0.01
"""After so long a client is watched; a shorter call is over before its loss would matter to anybody."""
SILENCE_S = 15.0
"""As the SDK's servers: so often something goes over an open stream, so that no proxy takes it for dead."""
MAX_QUEUED_BYTES = 4 * 1024 * 1024
"""Of one response, for a client that reads too slowly; what is said beyond is lost, but never an answer."""
CUT_S = 0.3
"""For the last words on a stream that is cut; a client that does not read must not keep the gateway from its end."""

STREAM_START = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_LIFE: Message = {"type": "http.response.body", "body": b":\n\n", "more_body": True}
_END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


CONNECTION_KEY = "counterfoil.connection"
"""Where our server's scope holds the `Connection`; another server's holds none."""


class Connection(Protocol):
    """What HTTP goes over."""

    lost: Callable[[], None] | None
    """Called when the client has left; set by whoever is answering."""

    def is_closing(self) -> bool:
        """The client has left, or is being left."""
        ...

    def has_left(self) -> bool:
        """The client has hung up, whether or not the event loop has seen it."""
        ...

    def abort(self) -> None:
        """It ends now, whatever was still to be written."""
        ...

    def cork(self) -> None:
        """What is written from now on is held back."""
        ...

    def uncork(self) -> None:
        """What was held back goes out, at once."""
        ...


class Watch:
    """Wires whose clients are watched once they have waited for a while: one timer for all of them."""

    def __init__(self, after_s: float = WATCH_AFTER_S) -> None:
        self._after_s = after_s
        self._young: set[Wire] = set()
        self._older: set[Wire] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, wire: "Wire") -> None:
        """It is watched after one or two periods, if it is still there."""
        self._young.add(wire)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._after_s, self._tick)

    def drop(self, wire: "Wire") -> None:
        """It is not."""
        self._young.discard(wire)
        self._older.discard(wire)

    def _tick(self) -> None:
        for wire in self._older:
            wire.watch()
        self._older, self._young = self._young, set()
        waits = bool(self._older)
        self._timer = asyncio.get_running_loop().call_later(self._after_s, self._tick) if waits else None


@dataclass(slots=True, eq=False)
class Event:
    """One event as it goes over the wire."""

    data: bytes
    answers: Exchange | None = None
    """Whose answer it is, if it is one."""
    number: int = 0
    """Its place among all events of a conversation; 0 for a client that cannot ask for it again."""
    track: int = 0
    """The stream to which it belongs."""
    sent: bool = False
    """It was written to a client that was there."""


def frame(message: JsonObject, event_id: str | None = None) -> bytes:
    """The event that carries this message.

    Raises: ValueError for what is not JSON.
    """
    named = b"" if event_id is None else b"id: %b\n" % event_id.encode()
    return b"event: message\n%bdata: %b\n\n" % (named, one_line(dump_bytes(message)))


def quietly_framed(message: JsonObject, event_id: str | None = None) -> bytes | None:
    """As `frame`; None, and a line in the log, for what is not JSON: whoever says it must not fail for it."""
    try:
        return frame(message, event_id)
    except (TypeError, ValueError):
        _LOG.exception("a message to a client is not JSON")
        return None


def answering_frame(answer: JsonObject, exchange: Exchange, event_id: str | None = None) -> bytes:
    """The event that carries the answer; one that is not JSON was none."""
    data = quietly_framed(answer, event_id)
    if data is not None:
        return data
    exchange.shown = None
    return frame(failure(INTERNAL_ERROR, "internal error", exchange.message["id"]), event_id)


class Wire:
    """The response to one request, and its client."""

    __slots__ = (
        "_connection",
        "_delivered",
        "_ending",
        "_headers",
        "_open",
        "_pump",
        "_queue",
        "_queued",
        "_receive",
        "_silence",
        "_wake",
        "_watched",
        "_watcher",
        "_write",
        "ended",
        "gone",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        write: Send,
        delivered: Callable[[Shown], None],
        streaming: MutableSet["Wire"],
        headers: Headers = (),
    ) -> None:
        self._connection: Connection | None = scope.get(CONNECTION_KEY)
        self._receive = receive
        self._write = write
        self._delivered = delivered
        self._open = streaming
        """All wires that are event streams now."""
        self._headers = headers
        self._queue: deque[Event] = deque()
        self._queued = 0
        self._pump: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._watched = False
        self._silence: asyncio.TimerHandle | None = None
        self._wake: asyncio.Event | None = None
        self._ending = False
        self.gone = False
        """The client has left before the end."""
        self.ended = False
        """The response is complete."""

    # --- for whoever owns it ------------------------------------------------------------------------------------------

    def lost(self) -> None:
        """The client has left; called once."""

    def silent(self) -> None:
        """Nothing was said for `SILENCE_S`."""
        self.commit()

    @property
    def there(self) -> bool:
        """Whether the client is, as far as is known; asked at any time."""
        if self.gone or self._connection is None:
            return not self.gone
        return not (self._connection.is_closing() or self._connection.has_left())

    @property
    def streams(self) -> bool:
        """Whether it is an event stream by now."""
        return self._pump is not None

    def watch(self) -> None:
        """The client's leave is noticed from now on, and a long silence ended."""
        if self._watched or self.ended:
            return
        self._watched = True
        if self._connection is None:
            self._watcher = asyncio.ensure_future(self._watch())
        else:  # it tells by itself, and costs no task
            self._connection.lost = self._left
            if self._connection.is_closing():
                asyncio.get_running_loop().call_soon(self._left)
        if not self.streams:
            self._silence = asyncio.get_running_loop().call_later(SILENCE_S, self.silent)

    def commit(self) -> None:
        """It is an event stream from now on, and its client is watched."""
        if self._pump is not None or self.gone or self.ended:
            return
        self._wake = asyncio.Event()
        self._pump = asyncio.ensure_future(self._run())
        self._open.add(self)
        self.watch()

    def push(self, event: Event) -> None:
        """The event goes out as soon as the client takes it."""
        if self.gone or self._ending or (event.answers is None and self._queued > MAX_QUEUED_BYTES):
            return
        self.commit()
        self._queue.append(event)
        self._queued += len(event.data)
        self._stir()

    def end(self) -> None:
        """Nothing follows what was pushed."""
        self._ending = True
        self._stir()

    def cut(self) -> None:
        """An event stream ends here, whatever was still to be said."""
        self._queue.clear()
        self.end()
        if self._connection is not None and self.streams:
            asyncio.get_running_loop().call_later(CUT_S, self._hang_up)

    def _hang_up(self) -> None:
        if not self.ended and self._connection is not None:
            self._connection.abort()

    async def complete(self) -> None:
        """Return when the last word is written, or nobody is there to read it; nothing of ours runs any more."""
        if self._pump is not None:
            await self._pump
        self.release()

    def release(self) -> None:
        """Nobody is watched, nothing is written."""
        self._open.discard(self)
        if self._watched and self._connection is not None and self._connection.lost == self._left:
            self._connection.lost = None  # else it is the next request's already
        if self._silence is not None:
            self._silence.cancel()
        for task in (self._watcher, self._pump):
            if task is not None and not task.done():
                task.cancel()

    async def plain(self, answer: JsonObject, status: int, exchange: Exchange) -> None:
        """The whole response is this answer."""
        try:
            body = dump_bytes(answer)
        except (TypeError, ValueError):
            _LOG.exception("an answer is not JSON")
            exchange.shown = None
            body = dump_bytes(failure(INTERNAL_ERROR, "internal error", exchange.message["id"]))
        if self._connection is None:
            await asyncio.sleep(0)  # a disconnect that has arrived is seen first
        length = (b"content-length", b"%d" % len(body))
        if not self.gone and await self._whole(status, (JSON, length), body):
            self._tell(exchange)
        self.release()

    async def whole_stream(self, events: Sequence[Event]) -> None:
        """The whole response is an event stream of these, which ends with the answer."""
        if self._connection is None:
            await asyncio.sleep(0)  # as above
        if not self.gone and await self._whole(200, STREAM_START, b"".join(event.data for event in events)):
            for event in events:
                event.sent = True
                if event.answers is not None:
                    self._tell(event.answers)
        self.release()

    async def _whole(self, status: int, kind: Headers, body: bytes) -> bool:
        """Whether it was written to a client that was there."""
        if self._connection is not None:
            self._connection.cork()
        try:
            headers = [*kind, *self._headers]
            await self._write({"type": "http.response.start", "status": status, "headers": headers})
            if not self._is_there():
                return False
            await self._write({"type": "http.response.body", "body": body})
        finally:
            if self._connection is not None:
                self._connection.uncork()
        self.ended = True
        return not self.gone

    # --- the client ---------------------------------------------------------------------------------------------------

    def _is_there(self) -> bool:
        if self._connection is not None:
            return not (self.gone or self._connection.is_closing())
        if self._watcher is None:
            # An ASGI server says at once that the client has left, and waits if it has not.
            said = at_once(self._receive)
            self.gone = said is not None and said["type"] == "http.disconnect"
        return not self.gone

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left()

    def _left(self) -> None:
        if self.ended or self.gone:
            return
        self.gone = True
        self._stir()
        self.lost()

    # --- the event stream ---------------------------------------------------------------------------------------------

    def _stir(self) -> None:
        if self._wake is not None:
            self._wake.set()

    async def _run(self) -> None:
        assert self._wake is not None  # noqa: S101 - INVARIANT: `commit` made it
        await self._write({"type": "http.response.start", "status": 200, "headers": [*STREAM_START, *self._headers]})
        while not self.gone:
            while self._queue and not self.gone:
                await self._put(self._queue.popleft())
            if self._ending or self.gone:
                break
            self._wake.clear()
            try:
                async with asyncio.timeout(SILENCE_S):
                    await self._wake.wait()
            except TimeoutError:
                await self._write(_LIFE)
        if not self.gone:
            self.ended = True
            await self._write(_END)
        self._open.discard(self)

    async def _put(self, event: Event) -> None:
        self._queued -= len(event.data)
        if event.answers is not None:
            await asyncio.sleep(0)  # a disconnect that has arrived is seen first
            if not self._is_there():
                return
        await self._write({"type": "http.response.body", "body": event.data, "more_body": True})
        await asyncio.sleep(0)  # and one that came while the client was too slow
        if self._is_there():
            event.sent = True
            if event.answers is not None:
                self._tell(event.answers)

    def _tell(self, exchange: Exchange) -> None:
        # Told at once: the client may repeat the call in the very next moment, and is then taken to mean it.
        shown, exchange.shown = exchange.shown, None  # once
        if shown is None or exchange.withdrawal.gone:
            return
        # Who left while the loop was busy is asked for here: else what it never read would count as read, and the
        # call that it repeats as a new one.
        if self._connection is None or not self._connection.has_left():
            self._delivered(shown)
