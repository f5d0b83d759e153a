"""A server that says what it is told to, byte for byte, and remembers what it was asked."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from gateway.outbound.upstream.http1 import CannotConnect, Http

TIME_LIMIT_S = 10.0

LOOPS: Sequence[Any] = ["asyncio", ("asyncio", {"use_uvloop": True})]
NAMES = ["asyncio", "uvloop"]


def ok(body: bytes = b"hi", *headers: bytes) -> bytes:
    """A whole response."""
    lines = b"".join(header + b"\r\n" for header in headers)
    return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (lines, len(body), body)


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    head: bytes
    body: bytes

    def header(self, name: bytes) -> list[bytes]:
        lines = [line.partition(b": ") for line in self.head.split(b"\r\n")[1:]]
        return [value for said, _, value in lines if said.lower() == name]


@dataclass(eq=False)
class Peer:
    """The server's end of one connection."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    asked: list[Asked]

    async def request(self) -> Asked:
        """The next request. Raises: asyncio.IncompleteReadError, when there is none any more."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = Asked(head, b"").header(b"content-length")
        asked = Asked(head, await self.reader.readexactly(int(length[0])) if length else b"")
        self.asked.append(asked)
        return asked

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def spell(self, data: bytes) -> None:
        """So that each byte comes alone."""
        for at in range(len(data)):
            await self.say(data[at : at + 1])
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def closed(self) -> bool:
        """True once the other side has closed, and what it said until then is thrown away."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass
        return True


@dataclass(eq=False)
class Served:
    """What came to a server."""

    port: int = 0
    peers: list[Peer] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"


Script = Callable[[Peer], Awaitable[None]]


@asynccontextmanager
async def serving(script: Script, context: ssl.SSLContext | None = None) -> AsyncIterator[Served]:
    """A server whose every connection follows the script, and is closed at its end. All of it is bounded in time."""
    served = Served()
    tasks: set[asyncio.Task[None]] = set()

    async def follow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(len(served.peers), reader, writer, served.asked)
        served.peers.append(peer)
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                await script(peer)
        finally:
            tasks.discard(task)
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    with anyio.fail_after(TIME_LIMIT_S):
        server = await asyncio.start_server(follow, "127.0.0.1", 0, ssl=context)
        served.port = server.sockets[0].getsockname()[1]
        try:
            yield served
        finally:
            server.close()
            for task in list(tasks):
                task.cancel()
            while tasks:
                await anyio.sleep(0.001)


def saying(response: bytes, *, spelled: bool = False, last: bool = False) -> Script:
    """The same to each request; `last`: and nothing after it."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await (peer.spell if spelled else peer.say)(response)
            if last:
                return

    return script


@asynccontextmanager
async def client(url: str, **options: Any) -> AsyncIterator[Http]:
    """Of that address; closed at the end. All of it is bounded in time."""
    http = Http(url, **{"connect_s": 5.0, "reuse_s": 60.0, **options})
    try:
        with anyio.fail_after(TIME_LIMIT_S):
            yield http
    finally:
        await http.close()


async def ask(http: Http, body: bytes = b"{}", headers: Mapping[str, str] | None = None) -> bytes:
    """The whole body of the answer."""
    response = await http.send("POST", headers or {}, body)
    return await response.read(1 << 25)


async def cannot(http: Http) -> str:
    """Why there was no connection; and nobody was told that there was one."""
    reached: list[None] = []
    with pytest.raises(CannotConnect) as failed:
        await http.send("POST", {"Authorization": "secret"}, on_reached=lambda: reached.append(None))
    assert reached == []
    return str(failed.value)
