"""The HTTP door on a real loopback port, and a client that says exactly what it is told to."""

import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import uvicorn
from anyio.abc import SocketStream

from gateway.inbound.mcp import HttpApp, http_app
from gateway.outbound.ids import id_maker
from tests.inbound.fake_gate import FakeGate, FakeTools, ToldClock

KEY = b"0123456789abcdef0123456789abcdef"
BOUND_S = 5.0
"""No wait of these tests is longer."""

MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


@dataclass
class Answer:
    """An HTTP response, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The message; of an SSE body the last one."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            data = [line[5:] for line in self.body.decode().split("\n") if line.startswith("data:")]
            return json.loads(data[-1])
        return json.loads(self.body)

    @property
    def code(self) -> int:
        """Of the JSON-RPC error."""
        code: int = self.json["error"]["code"]
        return code


@dataclass
class Served:
    """A door that is open, and what stands behind it."""

    port: int
    gate: FakeGate
    tools: FakeTools
    clock: ToldClock
    observed: list[Any] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def connect(self) -> SocketStream:
        return await anyio.connect_tcp("127.0.0.1", self.port)

    async def raw(self, data: bytes) -> bytes:
        """All that comes back on a connection of its own, until the server closes it."""
        with anyio.fail_after(BOUND_S):
            async with await self.connect() as stream:
                await stream.send(data)
                return await drained(stream)

    async def post(
        self, body: Any, headers: Mapping[str, str | None] | None = None, *, path: str = "/mcp", method: str = "POST"
    ) -> Answer:
        """The answer to one request. A header of None is not sent; a body that is no bytes is dumped as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return parsed(await self.raw(request(data, headers, path=path, method=method, port=self.port)))

    async def modern(self, method: str, params: Mapping[str, Any], **more: Any) -> Answer:
        """The answer to a well-formed request of 2026-07-28."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": ENVELOPE, **params}}
        return await self.post(body, modern_headers(method, params.get("name")) | more)

    async def session(self, version: str = "2025-06-18") -> dict[str, str]:
        """Headers of a legacy session that has been initialised."""
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "old", "version": "2"}}
        opened = await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert opened.status == 200, opened.body
        headers = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": version}
        noted = await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
        assert noted.status == 202
        return headers


def modern_headers(method: str, name: str | None = None) -> dict[str, str | None]:
    return {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Mcp-Name": name}


def request(
    body: bytes, headers: Mapping[str, str | None] | None = None, *, path: str = "/mcp", method: str = "POST", port: int
) -> bytes:
    """The bytes of one HTTP request, whose connection ends with the answer."""
    all_headers: dict[str, str | None] = {
        "Host": f"127.0.0.1:{port}",
        "Connection": "close",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **(headers or {}),
    }
    lines = [f"{name}: {value}" for name, value in all_headers.items() if value is not None]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode() + body


def parsed(data: bytes) -> Answer:
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = _dechunked(body)
    return Answer(int(status.split()[1]), headers, body)


async def drained(stream: SocketStream) -> bytes:
    data = b""
    while True:
        try:
            data += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return data


def _dechunked(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        whole, body = whole + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return whole


@asynccontextmanager
async def listening(app: HttpApp) -> AsyncIterator[int]:
    """The port on which the app is served."""
    # The protocol is named, since asyncio sets TCP_NODELAY only where it is: without it each answer takes 40 ms.
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="error", lifespan="off", ws="none", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        async with app.running(), anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            with anyio.fail_after(BOUND_S):
                while not server.started:  # uvicorn tells nobody
                    await anyio.sleep(0.005)
            yield listener.getsockname()[1]
            server.should_exit = True


@asynccontextmanager
async def door(prepare: Callable[[FakeGate], None] = lambda _gate: None, **settings: Any) -> AsyncIterator[Served]:
    """The door, open on a loopback port."""
    gate, tools, clock = FakeGate(), FakeTools(), ToldClock()
    prepare(gate)
    app = http_app(
        gate=gate,
        tools=tools,
        make_id=id_maker(clock.now),
        clock=clock,
        version="9.9",
        **{"run_key": KEY, **settings},
    )
    async with listening(app) as port:
        yield Served(port, gate, tools, clock)
