"""uvicorn as we run it: HTTP parsed by httptools, with the checks that neither of the two makes.

httptools refuses what h11 let pass (a bare LF, a folded header line, a length beside chunks); what it takes and we
do not is refused here or by the `Guard`, before anything reads it [hardening T27, appendix A].
"""

import asyncio
import select
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.inbound.mcp.door import MAX_HEADER_BYTES, App, Scope
from gateway.inbound.mcp.streams import CONNECTION_KEY
from gateway.model.limits import DEFAULT

HEAD_TIMEOUT_S = 30.0
"""As long as a body may take. A client that sends nothing at all costs no more than that either."""
KEEP_ALIVE_S = 75
"""A client that thinks for a minute between calls keeps its connection; uvicorn's own 5 s would close it."""

STALL_S = 60.0
"""A client that takes nothing for so long of what waits for it is gone, and its answers are let go [nginx:
send_timeout]. Without that whoever does not read could have any number of answers kept for it."""

_LEFT = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
"""Where a system cannot tell that the other end was closed (macOS), what the event loop has seen must do."""

_BAD = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Corkable:
    """A transport whose writes can be held together: uvicorn writes head and body apart, which costs a system call."""

    __slots__ = ("_held", "_transport", "lost")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held: list[bytes] | None = None
        self.lost: Callable[[], None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """As the transport says."""
        return self._transport.is_closing()

    def has_left(self) -> bool:
        """The client's end of the connection is closed."""
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), _LEFT)
        return bool(poll.poll(0))

    def write(self, data: bytes) -> None:
        """It goes out, now or with the rest."""
        if self._held is None:
            self._transport.write(data)
        else:
            self._held.append(data)

    def close(self) -> None:
        """What is held goes out before."""
        self.uncork()
        self._transport.close()

    def cork(self) -> None:
        """What is written from now on is held back."""
        self._held = []

    def uncork(self) -> None:
        """What was held back goes out, at once."""
        held, self._held = self._held, None
        if held:
            self._transport.writelines(held)  # one system call, and a large body is not copied


class Room:
    """Of one server: how many connections there may be, and which of them wait for the head of a request."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[StrictProtocol, None] = {}

    def take(self, there: int) -> bool:
        """Whether a connection may stay, of which `there` are with it: perhaps the one that waits longest has left."""
        if there <= self._most:
            return True
        longest = next(iter(self._waiting), None)
        if longest is None:
            return False
        longest.give_way()
        return True

    def waits(self, one: "StrictProtocol") -> None:
        """It does from now on."""
        self._waiting[one] = None

    def waits_no_more(self, one: "StrictProtocol") -> None:
        """It has its head, or has left."""
        self._waiting.pop(one, None)


class StrictProtocol(HttpToolsProtocol):
    """Bounds a request's head in length and time, and keeps trailers out of it."""

    def __init__(self, *args: Any, room: "Room | None" = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self._room = Room(DEFAULT.connections) if room is None else room

    _waiting: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _owed = 0
    """Bytes of a body that the parser leaves to us."""
    _stalled: asyncio.TimerHandle | None = None
    _in_head = True
    """Between two requests, or within the head of one."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The first request must come."""
        super().connection_made(cast("asyncio.Transport", Corkable(transport)))
        if not self._room.take(len(self.connections)):
            self._refuse(_FULL)
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for, and whoever is answering knows."""
        self._stop_waiting()
        self.resume_writing()
        super().connection_lost(exc)
        lost = cast("Corkable", self.transport).lost
        if lost is not None:
            lost()

    def pause_writing(self) -> None:
        """More waits for the client than it takes: it is watched until that has changed."""
        super().pause_writing()
        self._watch_stall()

    def resume_writing(self) -> None:
        """It has taken most of it."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    def _watch_stall(self) -> None:
        waits = self.transport.get_write_buffer_size()
        self._stalled = self.loop.call_later(STALL_S, self._look_for_a_stall, waits)

    def _look_for_a_stall(self, waited: int) -> None:
        if self.transport.get_write_buffer_size() >= waited:
            self.transport.abort()
        else:
            self._watch_stall()

    def data_received(self, data: bytes) -> None:
        """What completes no head counts against its length and its time."""
        while data and not self.transport.is_closing():
            data = self._take(data) if self._owed else self._parse(data)

    def _parse(self, data: bytes) -> bytes:
        """What is left: the parser ends where another protocol was asked for."""
        if self._in_head:
            self._head_bytes += len(data)
        self._unset_keepalive_if_required()
        left = b""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            left = data[upgrade.args[0] :]
        except httptools.HttpParserError:
            self._refuse(_BAD)
        else:
            self._bound_head()
        return left

    def _take(self, data: bytes) -> bytes:
        """What is left: the parser takes no body where another protocol was asked for, and it may be a body."""
        part = data[: self._owed]
        self._owed -= len(part)
        super().on_body(part)
        if not self._owed:
            self.on_message_complete()
        return data[len(part) :]

    def _bound_head(self) -> None:
        if not self._in_head or self.transport.is_closing():
            return
        if self._head_bytes > 2 * MAX_HEADER_BYTES:
            self._refuse(_TOO_LONG)
        elif self._waiting is None and self._head_bytes:
            self._await_head()

    def on_message_begin(self) -> None:
        """Another head begins; its scope holds the connection."""
        self._in_head = True
        super().on_message_begin()
        cast("Scope", self.scope)[CONNECTION_KEY] = self.transport

    def on_header(self, name: bytes, value: bytes) -> None:
        """What comes after the body is no header: uvicorn would put it where the headers are."""
        if self._in_head:
            super().on_header(name, value.strip(b" \t"))  # what stands around a value is no part of it [RFC 9110, 5.5]

    def on_headers_complete(self) -> None:
        """The request begins; its target is a path, so that no second host is named."""
        self._in_head, self._head_bytes = False, 0
        self._stop_waiting()
        if not self.url.startswith(b"/") or self.parser.get_http_version() not in {"1.0", "1.1"}:
            raise ValueError("only paths, over HTTP/1")  # to the parser a request that is no HTTP
        if self.parser.should_upgrade():
            # Some HTTP clients (Java's) ask for HTTP/2 with each request. They are answered in HTTP/1, and must be
            # heard to the end: httptools would leave their body to the other protocol.
            self._owed = _length(self.headers)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """What comes next is a head."""
        if not self._owed:
            self._in_head = True
            super().on_message_complete()

    def _await_head(self) -> None:
        self._waiting = self.loop.call_later(HEAD_TIMEOUT_S, self._refuse, _TOO_LATE)
        self._room.waits(self)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
            self._room.waits_no_more(self)

    def give_way(self) -> None:
        """Others want to come in, and of all that wait for a head this one has waited longest."""
        self._refuse(_FULL)

    def _refuse(self, said: bytes) -> None:
        self._stop_waiting()
        if self.transport.is_closing():
            return
        answering = bool(self.cycle) and self.cycle.response_started and not self.cycle.response_complete
        if not answering:  # else it would stand within another answer
            self.transport.write(said)
        self.transport.close()


def _length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Of the body.

    Raises: ValueError for chunks.
    """
    found = 0
    for name, value in headers:
        if name == b"transfer-encoding":
            raise ValueError("chunks, and another protocol")
        if name == b"content-length":
            found = int(value)  # the parser lets nothing but digits pass, once
    return found


def server_config(app: App, *, connections: int = DEFAULT.connections, **more: Any) -> uvicorn.Config:
    """How uvicorn serves the application, to at most so many connections at one time."""
    return uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", partial(StrictProtocol, room=Room(connections))),
        ws="none",
        log_level="warning",
        lifespan="off",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        **more,
    )
