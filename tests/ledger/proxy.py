"""A proxy before a PostgreSQL server that fails where it is told to: at this statement, before or after it was done.

It knows of the protocol only where a message ends and which of them wait for an answer
[postgresql.org/docs/current/protocol-message-formats.html].
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

from tests.postgres_server import Server

WAITS_FOR_ANSWER = b"QSH"
"""Query, Sync, Flush: after each of these the client waits for the server."""


class Then(Enum):
    """What becomes of a connection at a statement."""

    PASS = auto()
    CUT_BEFORE = auto()
    """The server never sees it, and the connection ends on both sides."""
    CUT_AFTER = auto()
    """The server does it, and the client never hears of it: the connection ends on both sides then."""
    LEAVE = auto()
    """The server has it; to the client the connection has ended, and the server does not know that."""
    HANG = auto()
    """Nothing more passes in either direction, and nobody is told."""


Fault: TypeAlias = Callable[[int, int], Awaitable[Then]]
"""(connection, statement), each counted from 0 since the fault was set, to what becomes of the connection there."""


async def _pass(_connection: int, _statement: int) -> Then:
    return Then.PASS


@dataclass
class Proxy:
    """Where it listens, and what it does to what passes."""

    server: Server
    port: int = 0
    statements: int = 0
    """That passed since the last fault was set."""
    _fault: Fault = _pass
    _connections: int = 0
    _left: bool = False
    _clients: list[asyncio.StreamWriter] = field(default_factory=list)
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set)

    def url(self, schema: str) -> str:
        return self.server.url(schema, port=self.port)

    def set(self, fault: Fault | None) -> None:
        """From here on; connections and statements are counted anew."""
        self._fault = fault or _pass
        self.statements = 0

    def leave(self) -> None:
        """To its clients every connection ends, and the server does not know it."""
        self._left = True
        for writer in self._clients:
            writer.close()
        self._clients.clear()

    def cut(self) -> None:
        """Every connection ends, on both sides."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, self._connections = self._connections, self._connections + 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            back_reader, back = await asyncio.open_connection("127.0.0.1", self.server.port)
        except OSError:
            writer.close()
            return
        self._left = False
        self._clients.append(writer)
        self._writers += [writer, back]
        answers = asyncio.ensure_future(_copy(back_reader, writer))
        self._tasks.add(answers)
        # Cancelled only by `close`, and a server's task that ends so is a noise in the log.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            left = await self._forward(number, reader, back, writer, back_reader, answers)
            if left:
                return
        if self._left:
            return
        for one in (writer, back):
            one.close()

    async def _forward(
        self,
        number: int,
        reader: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        writer: asyncio.StreamWriter,
        back_reader: asyncio.StreamReader,
        answers: "asyncio.Task[None]",
    ) -> bool:
        """Whether the server's side is left as it is."""
        back.write(await _startup(reader))
        held = b""
        while True:
            kind, message = await _message(reader)
            held += message
            if kind == b"X":  # the client takes its leave
                back.write(held)
            if kind not in WAITS_FOR_ANSWER:
                continue
            self.statements += 1
            then = await self._fault(number, self.statements - 1)
            if then is Then.CUT_BEFORE:
                return False
            if then is not Then.PASS:
                answers.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await answers
            if then is Then.HANG:
                return True
            back.write(held)
            held = b""
            if then is Then.CUT_AFTER:
                await back_reader.read(1)  # it was done: the server answers
                return False
            if then is Then.LEAVE:
                writer.close()
                return True

    async def close(self) -> None:
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _startup(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size) - 4)


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(int.from_bytes(head[1:]) - 4)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def proxied(server: Server) -> AsyncIterator[Proxy]:
    """A proxy before the server, on a port of loopback."""
    proxy = Proxy(server)
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listening.close()
        await proxy.close()
        await listening.wait_closed()
