"""Where one agent comes in over stdin and stdout.

A front of our own before `Server.run`: the SDK's would take what strict JSON does not allow. Descriptors are
polled and then read and written on the event loop itself, never in a thread: a blocked read cannot keep the
process from ending, and an answer is known to be delivered before anything that the client says next is read.
"""

import fcntl
import os
import select
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types.jsonrpc import (
    INVALID_REQUEST,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from gateway.inbound.mcp.envelope import Refused, id_of, is_request, read
from gateway.inbound.mcp.exchange import Exchange, Flights
from gateway.inbound.mcp.identity import Runs, local_user
from gateway.inbound.mcp.ports import Gate, Tools
from gateway.inbound.mcp.server import Observe, build_server, unobserved
from gateway.model.answer import Shown
from gateway.model.canonical import JsonObject, dump
from gateway.model.principal import Principal
from gateway.ports import Clock

MAX_LINE_BYTES = 16 * 1024 * 1024
READ_BYTES = 65_536
ATOMIC_BYTES = 4096
"""PIPE_BUF on Linux: what a descriptor that polls as writable takes without blocking [POSIX, write]."""
LAST_WORDS_S = 5.0
"""How long what is still to be written may take after stdin has ended."""


async def serve_stdio(
    *,
    gate: Gate,
    tools: Tools,
    make_id: Callable[[str], str],
    clock: Clock,
    version: str,
    principal: Principal | None = None,
    observe: Observe = unobserved,
) -> None:
    """Serve the client on stdin and stdout, in the era in which it opens, until stdin ends.

    Nothing else in the process can write to stdout meanwhile, nor read from stdin. The principal is the
    account that the process runs under, unless another is given.
    """
    server = build_server(gate=gate, tools=tools, runs=Runs(gate, make_id, clock), version=version, observe=observe)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception]()
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage]()
    with _taken_over() as (source, sink):
        async with anyio.create_task_group() as tasks:
            pipe = _Pipe(source, sink, principal or local_user(), gate.delivered, tasks.cancel_scope.cancel)
            tasks.start_soon(pipe.read, to_server)
            tasks.start_soon(pipe.write, from_server)
            await server.run(from_client, to_client, server.create_initialization_options())
            tasks.cancel_scope.deadline = anyio.current_time() + LAST_WORDS_S


class _Pipe:
    """Lines in, lines out; knows which request each answer belongs to."""

    def __init__(
        self,
        source: int,
        sink: int,
        principal: Principal,
        delivered: Callable[[Shown], None],
        broken: Callable[[], None],
    ) -> None:
        self._source = source
        self._sink = sink
        self._principal = principal
        self._delivered = delivered
        self._broken = broken
        self._flights = Flights()
        self._lock = anyio.Lock()

    async def read(self, to_server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass on each message until stdin ends; what is refused is answered here."""
        async with to_server:
            async for line in _lines(self._source):
                try:
                    message = self._message(line)
                except Refused as refused:
                    error = {"code": refused.code, "message": refused.message}
                    await self._put({"jsonrpc": "2.0", "id": refused.request_id, "error": error})
                    continue
                await to_server.send(message)

    def _message(self, line: bytes | None) -> SessionMessage:
        if line is None:
            raise Refused(INVALID_REQUEST, f"the line is longer than {MAX_LINE_BYTES} bytes", None)
        message = read(line)
        exchange = Exchange(message, self._principal, "stdio")
        self._flights.note(exchange)
        if is_request(message) and not self._flights.board(exchange):
            raise Refused(INVALID_REQUEST, "a request with that id is still under way", id_of(message))

        async def unanswered() -> None:
            exchange.release()

        return SessionMessage(
            _typed(message), ServerMessageMetadata(request_context=exchange, on_request_unanswered=unanswered)
        )

    async def write(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write each message of the server; an answer that was written counts as delivered."""
        async with from_server:
            async for sent in from_server:
                message = sent.message
                if await self._put(_plain(message)) and isinstance(message, JSONRPCResponse | JSONRPCError):
                    self._landed(message.id)

    def _landed(self, request_id: str | int | None) -> None:
        exchange = self._flights.find(self._principal, None, request_id)
        if exchange is None:
            return
        if exchange.shown is not None and not exchange.cancelled:
            self._delivered(exchange.shown)
        exchange.release()

    async def _put(self, message: JsonObject) -> bool:
        """Whether the client can have it; if nobody reads any more, everything ends."""
        # U+2028 and U+2029 end a line for some readers of lines; in JSON they may as well be escaped.
        text = dump(message).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
        async with self._lock:
            try:
                await _write_all(self._sink, text.encode() + b"\n")
            except BrokenPipeError:
                self._broken()
                return False
        return True


def _typed(message: JsonObject) -> JSONRPCMessage:
    """The SDK's envelope around the very values that were parsed."""
    if is_request(message):
        return JSONRPCRequest.model_validate(message)
    if "method" in message:
        return JSONRPCNotification.model_validate(message)
    return (JSONRPCResponse if "result" in message else JSONRPCError).model_validate(message)


def _plain(message: JSONRPCMessage) -> JsonObject:
    if isinstance(message, JSONRPCResponse):
        return {"jsonrpc": "2.0", "id": message.id, "result": message.result}  # as it is: no model may touch it
    plain: dict[str, Any] = message.model_dump(exclude_unset=True)
    return plain


# --- bytes ------------------------------------------------------------------------------------------------------------


async def _lines(source: int) -> AsyncIterator[bytes | None]:
    """Each line that is not blank; None for one that is too long."""
    line, too_long = bytearray(), False
    while chunk := await _read_some(source):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line += end
            if too_long or len(line) > MAX_LINE_BYTES:
                yield None
            elif not line.isspace() and line:
                yield bytes(line)
            line, too_long = bytearray(), False
        line += rest
        if len(line) > MAX_LINE_BYTES:
            line, too_long = bytearray(), True
    if line and not too_long and not line.isspace():
        yield bytes(line)  # whoever ends without a newline has ended all the same


async def _read_some(source: int) -> bytes:
    while True:
        # Polled first: what is no pipe (a file, the null device) is always ready and cannot be waited for.
        if not _ready(source, select.POLLIN):
            await anyio.wait_readable(source)
        else:
            await anyio.lowlevel.checkpoint()
        try:
            return os.read(source, READ_BYTES)
        except BlockingIOError:
            continue


async def _write_all(sink: int, data: bytes) -> None:
    """All of it is in the hands of the system.

    Raises: BrokenPipeError.
    """
    view = memoryview(data)
    while view:
        if not _ready(sink, select.POLLOUT):
            await anyio.wait_writable(sink)
        try:
            view = view[os.write(sink, view[:ATOMIC_BYTES]) :]
        except BlockingIOError:
            continue


def _ready(descriptor: int, event: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(0))


@contextmanager
def _taken_over() -> Iterator[tuple[int, int]]:
    """Private copies of stdin and stdout; in their places stand the null device and stderr."""
    source, sink = (fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3) for descriptor in (0, 1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout.flush()  # what was printed before goes to stderr as well
    try:
        yield source, sink
    finally:
        sys.stdout.flush()
        os.dup2(source, 0)
        os.dup2(sink, 1)
        os.close(source)
        os.close(sink)
