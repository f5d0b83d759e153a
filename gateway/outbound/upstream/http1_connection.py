"""One keep-alive HTTP/1.1 connection, and the response that is being read from it. One request at a time, never twice.

httptools reads (llhttp, the parser of Node, in its strict mode: it refuses a length beside a transfer coding, two
lengths, bare CR or LF, folded lines). What it lets pass and could still be read in two ways is refused here.
"""

import asyncio
import select
import sys
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Self, cast

import httptools

MAX_HEAD = 64 * 1024
"""Of all that comes before, between and after the bytes of a body: heads, interim responses, chunk sizes, trailers."""

MAX_FIELDS = 256
_AT_ONCE = 64 * 1024
"""A request body up to this goes out with its head in one write; a response body whose length says so wakes its
reader once, when it is whole."""

_MUCH = 256 * 1024
"""To write in one turn of the loop; and of unread bytes, from which on the server has to wait."""

_SMALL = 4096
"""Of pieces below it many become one: a chunk of two bytes must not cost forty."""

_INTERIM = frozenset(range(100, 200)) - {101}  # 101 ends HTTP on the connection; nobody asked for that
_FINAL = range(200, 1000)
_NO_BODY = frozenset({204, 304})


class HttpFailure(Exception):
    """Why there is no response, or not all of it, as the rest of a sentence. Shows no address and no credential."""


class Unsendable(HttpFailure):
    """HTTP cannot carry this request. Nothing was sent."""


class CannotConnect(HttpFailure):
    """There was no connection. Nothing was sent."""


class Lost(HttpFailure):
    """The connection ended too early. Nobody knows how much of the request was read."""


class BadResponse(HttpFailure):
    """What came is no response that can be read in only one way."""


class TooLarge(HttpFailure):
    """The body is larger than what we read."""


class Response:
    """Its head is here; its body may still be coming, for one reader. Left unread, it must be released."""

    __slots__ = ("_connection", "_ended", "_error", "_parts", "_size", "_waiter", "_wants", "headers", "status")

    def __init__(self, connection: "Connection") -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        """By lower-case name; a repeated one joined by a comma."""
        self._connection: Connection | None = connection
        self._parts: list[bytes | bytearray] = []
        self._size = 0
        self._wants = 0  # with so many bytes there is reason to wake the reader
        self._ended = False
        self._error: HttpFailure | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def content_type(self) -> str:
        """The media type, lower case, without parameters [RFC 9110, 8.3: what is not said is unknown bytes]."""
        said = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return said or "application/octet-stream"

    async def read(self, limit: int) -> bytes:
        """What is left of the body, whole.

        Raises: TooLarge, Lost, BadResponse.
        """
        self._wants = limit + 1
        if self._connection is not None:
            self._connection.resume()
        while self._size <= limit and not (self._ended or self._error):
            await self.arrived()
        if self._size > limit:
            self.release()
            raise TooLarge(f"the answer is larger than {limit} bytes")
        self.check()
        return self._take()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The next bytes as they come, never empty. The server waits while nobody asks.

        Raises: Lost, BadResponse.
        """
        while not self._parts:
            self.check()
            if self._ended:
                raise StopAsyncIteration
            self._wants = 1
            await self.arrived()
        return self._take()

    def release(self) -> None:
        """The connection is free for others if the body has come to its end, or else closed."""
        if self._connection is not None:
            self._connection.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _take(self) -> bytes:
        taken = b"".join(self._parts)  # no copy where there is but one
        self._parts.clear()
        self._size = 0
        if self._connection is not None:
            self._connection.resume()
        return taken

    # --- what its connection says -----------------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        """There is a head, or there will be none: whoever still writes the request may stop."""
        return self.status != 0 or self._error is not None

    def check(self) -> None:
        """The body has not been cut off.

        Raises: Lost, BadResponse.
        """
        if self._error is not None:
            raise self._error

    async def arrived(self) -> None:
        """Something has come that the reader waits for. If the wait is cancelled, the connection is closed."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        except BaseException:
            self.release()
            raise
        finally:
            self._waiter = None

    def begin(self, status: int, headers: Mapping[str, str], wants: int) -> None:
        """The head is here."""
        self.status, self.headers, self._wants = status, headers, wants

    def add(self, part: bytes) -> None:
        """A piece of the body is here."""
        parts = self._parts
        self._size += len(part)
        if not parts or len(part) >= _SMALL:
            parts.append(part)
        elif isinstance(parts[-1], bytearray):
            parts[-1] += part
        else:
            parts.append(bytearray(part))

    def end(self, error: HttpFailure | None = None) -> None:
        """Nothing more will come."""
        self._connection = None
        self._ended, self._error = error is None, error
        self.wake()

    def wake(self) -> bool:
        """Whoever waits goes on, if there is reason to; whether so much is unread that the server should wait."""
        if self._error is not None or self._ended or (self.status and self._size >= self._wants):
            waiter, self._waiter = self._waiter, None
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
        return self._size >= _MUCH and self._size >= self._wants


class Connection(asyncio.Protocol):
    """Open, and idle unless a response is under way on it."""

    def __init__(self, free: Callable[["Connection"], None], drop: Callable[["Connection"], None]) -> None:
        """`free` is told each time that it can be used again, `drop` that it cannot any more."""
        self._free = free
        self._drop = drop
        self._transport: asyncio.Transport
        self._readable = select.poll()
        self._parser = httptools.HttpResponseParser(self)
        self._response: Response | None = None
        self._fields: list[tuple[bytes, bytes]] = []
        self._beside = 0  # bytes since the last ones of a body
        self._head_only = False
        self._until_close = False
        self._complete = False
        self._keep = False
        self._sent = False
        self._full = False
        self._held = False
        self._writable: asyncio.Future[None] | None = None
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when its socket is closed."""

    def fresh(self) -> bool:
        """Nothing has come while it was idle, also nothing that the loop has not seen yet, such as its end."""
        return not self._transport.is_closing() and not self._readable.poll(0)

    async def exchange(self, method: str, head: bytes, body: bytes, reached: Callable[[], None] | None) -> Response:
        """The response, as soon as its head is here; a short body of known length is here as well.

        Raises: CannotConnect, Lost, BadResponse. As after a cancellation, the connection is closed then.
        """
        if self._transport.is_closing():
            raise CannotConnect("it was closed")
        response = self._response = Response(self)
        self._fields = []
        self._beside = 0
        self._complete = self._keep = self._sent = False
        self._head_only = method == "HEAD"
        try:
            if reached is not None:
                reached()
            if len(body) <= _AT_ONCE:
                self._sent = True
                self._transport.write(head + body)
            else:
                await self._write(response, head, body)
        except BaseException:
            response.release()
            raise
        if not response.settled:
            await response.arrived()
        if not response.status:
            response.check()
        return response

    async def _write(self, response: Response, head: bytes, body: bytes) -> None:
        # In pieces, and in turns with all else: one write of 10 MiB is one copy that nobody can interrupt.
        self._transport.write(head)
        whole = memoryview(body)
        for start in range(0, len(body), _MUCH):
            await asyncio.sleep(0)
            while self._full and not response.settled:
                self._writable = asyncio.get_running_loop().create_future()
                await self._writable
            if response.settled:
                return  # answered before all was said: the rest is not wanted, and the connection of no more use
            self._transport.write(whole[start : start + _MUCH])
        self._sent = True

    def resume(self) -> None:
        """The server may send again."""
        if self._held:
            self._held = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Closed at once, and never used again."""
        self._over(Lost("it was closed"))

    def _over(self, error: HttpFailure | None, *, keep: bool = False) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.end(error)
        self._go_on_writing()
        if keep:
            self._free(self)
        else:
            self._drop(self)
            self._transport.abort()

    def _go_on_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    # --- what the transport says ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)
        self._readable.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        """As `asyncio.Protocol`."""
        response = self._response
        if response is None:
            self.abort()  # nobody asked: whatever it is, it must not become the answer to the next request
            return
        self._beside += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # If it had come to its end before what is wrong began, the answer stands.
            self._over(None if self._complete else _refusal(error))
            return
        if self._complete:
            self.resume()
            self._over(None, keep=self._keep and self._sent and not self._full)
        elif self._beside > MAX_HEAD:
            self._over(BadResponse(f"there are more than {MAX_HEAD} bytes beside its body"))
        else:
            self._more_to_come(response)

    def _more_to_come(self, response: Response) -> None:
        if response.wake() and not self._held:
            self._held = True
            self._transport.pause_reading()
        if response.status:
            self._go_on_writing()

    def eof_received(self) -> None:
        """As `asyncio.Protocol`."""
        self._no_more(clean=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """As `asyncio.Protocol`."""
        self._no_more(clean=exc is None)
        self.gone.set_result(None)

    def _no_more(self, *, clean: bool) -> None:
        if self._response is None or not self._response.status:
            self.abort()
        else:
            self._over(None if self._until_close and clean else Lost("it was cut off"))

    def pause_writing(self) -> None:
        """As `asyncio.Protocol`."""
        self._full = True

    def resume_writing(self) -> None:
        """As `asyncio.Protocol`."""
        self._full = False
        self._go_on_writing()

    # --- what the parser says ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """As httptools."""
        if self._complete:
            raise BadResponse("more came after its end")

    def on_header(self, name: bytes, value: bytes) -> None:
        """As httptools. Also for trailers, which nobody reads."""
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """As httptools."""
        fields, self._fields = self._fields, []
        status, version = self._parser.get_status_code(), self._parser.get_http_version()
        if status in _INTERIM:
            return
        if status not in _FINAL or version not in {"1.1", "1.0"}:
            raise BadResponse("it switched to another protocol")
        if len(fields) > MAX_FIELDS or (self._beside > MAX_HEAD and sum(map(len, chain(*fields))) > MAX_HEAD):
            raise BadResponse("its head is too large")
        headers = _joined(fields)
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if coding is not None and (coding.lower() != "chunked" or version == "1.0"):
            raise BadResponse("where it ends can be read in two ways")  # [RFC 9112, 6.1]
        self._until_close = coding is None and length is None
        self._complete = self._head_only
        short = length is not None and status not in _NO_BODY and int(length) <= _AT_ONCE
        cast("Response", self._response).begin(status, headers, sys.maxsize if short else 0)

    def on_body(self, body: bytes) -> None:
        """As httptools."""
        if self._complete:
            raise BadResponse("more came after its end")
        self._beside = 0
        cast("Response", self._response).add(body)

    def on_message_complete(self) -> None:
        """As httptools."""
        if cast("Response", self._response).status:
            self._complete = True
            self._keep = self._parser.should_keep_alive()


def _refusal(error: Exception) -> BadResponse:
    ours = error.__context__  # what a callback raised
    return ours if isinstance(ours, BadResponse) else BadResponse("it is not valid HTTP/1.1")


def _joined(fields: list[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in fields:
        name, value = raw_name.decode("ascii").lower(), raw_value.decode("latin-1").strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
