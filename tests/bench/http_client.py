"""What a call costs its client: `python -m tests.bench.http_client`, about half a minute.

Microseconds of CPU of this process a call, with so many calls at a time, on both event loops; in one run and
interleaved, so that a busy machine slows all alike. `raw` is a socket, a write, and a reader that knows beforehand how
long the answer is: what no client can go below. The server is another process; `split` is one that writes its head
and its body apart, as uvicorn does.
"""

import asyncio
import multiprocessing
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection as Pipe
from typing import cast

import aiohttp
import uvloop

from gateway.outbound.upstream.http1 import Http

ROUNDS = 5
CALLS = {1: 1500, 16: 4000, 64: 6400}
WARM = 200

BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%b"}}}' % (
    b"x" * 200
)
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "Accept-Encoding": "identity",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "echo",
    "User-Agent": "counterfoil/0.1.0",
}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: now\r\nContent-Length: %d\r\n\r\n" % len(BODY)

Call = Callable[[], Awaitable[bytes]]


class Server(asyncio.Protocol):
    """Answers a request as soon as it has its last byte; it knows by which."""

    def __init__(self, *, split: bool) -> None:
        self._split = split
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not data.endswith(b"}}}"):
            return
        if self._split:
            self._transport.write(HEAD)
            self._transport.write(BODY)
        else:
            self._transport.write(HEAD + BODY)


def serve(pipe: Pipe) -> None:
    """Say on which ports, and serve until the pipe says something."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        servers = [
            await loop.create_server(lambda split=split: Server(split=split), "127.0.0.1", 0)  # type: ignore[misc]
            for split in (False, True)
        ]
        pipe.send([server.sockets[0].getsockname()[1] for server in servers])
        await loop.run_in_executor(None, pipe.recv)

    asyncio.run(main())


class Raw(asyncio.Protocol):
    """One connection of the raw client."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.left = 0
        self.answered: asyncio.Future[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.left -= len(data)
        if not self.left:
            self.answered.set_result(None)


@asynccontextmanager
async def raw(port: int) -> AsyncIterator[Call]:
    loop = asyncio.get_running_loop()
    lines = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    request = f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY
    idle: list[Raw] = []
    opened: list[Raw] = []

    async def call() -> bytes:
        if idle:
            connection = idle.pop()
        else:
            _, connection = await loop.create_connection(Raw, "127.0.0.1", port)
            opened.append(connection)
        connection.left = len(HEAD) + len(BODY)
        connection.answered = loop.create_future()
        connection.transport.write(request)
        await connection.answered
        idle.append(connection)
        return BODY

    yield call
    for connection in opened:
        connection.transport.abort()


@asynccontextmanager
async def ours(port: int) -> AsyncIterator[Call]:
    http = Http(f"http://127.0.0.1:{port}/", connect_s=5.0)

    async def call() -> bytes:
        response = await http.send("POST", HEADERS, BODY)
        return await response.read(1 << 20)

    yield call
    await http.close()


@asynccontextmanager
async def of_aiohttp(port: int) -> AsyncIterator[Call]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as http:

        async def call() -> bytes:
            async with http.post(f"http://127.0.0.1:{port}/", data=BODY, headers=HEADERS) as response:
                return await response.read()

        yield call


CLIENTS = {"raw": raw, "ours": ours, "aiohttp": of_aiohttp}


async def cost(client: str, port: int, at_a_time: int) -> float:
    """Microseconds of CPU of this process a call."""
    async with CLIENTS[client](port) as call:

        async def run(calls: int) -> None:
            for _ in range(calls):
                assert len(await call()) == len(BODY)

        await asyncio.gather(*(run(-(-WARM // at_a_time)) for _ in range(at_a_time)))
        each = CALLS[at_a_time] // at_a_time
        begun = time.process_time()
        await asyncio.gather(*(run(each) for _ in range(at_a_time)))
        return (time.process_time() - begun) / (each * at_a_time) * 1e6


def main() -> None:
    """Measure, and print one line a case."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    process.start()
    whole, split = here.recv()
    runs = {"asyncio": asyncio.run, "uvloop": uvloop.run}
    cases = [
        (loop, kind, port, n) for loop in runs for kind, port in (("whole", whole), ("split", split)) for n in CALLS
    ]
    costs: dict[tuple[str, str, int], dict[str, list[float]]] = {}
    for _ in range(ROUNDS):
        for loop, kind, port, at_a_time in cases:
            of = costs.setdefault((loop, kind, at_a_time), {client: [] for client in CLIENTS})
            for client in CLIENTS:
                of[client].append(runs[loop](cost(client, port, at_a_time)))
    here.send("end")
    process.join(10)
    print("CPU us a call      at a time     raw    ours  aiohttp   ours/raw  aiohttp/ours")
    for (loop, kind, at_a_time), of in costs.items():
        base, own, other = (statistics.median(of[client]) for client in CLIENTS)
        print(
            f"{loop:8} {kind:8} {at_a_time:10}  {base:6.1f}  {own:6.1f}  {other:7.1f}"
            f"  {own / base:9.2f}  {other / own:12.2f}"
        )


if __name__ == "__main__":
    main()
