"""The HTTP door on a real loopback port, and a client that says exactly what it is told to."""

import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import uvicorn
from anyio.abc import SocketStream

from gateway.inbound.mcp import HttpApp, http_app, server_config
from tests.inbound.fake_gate import ToldClock
from tests.inbound.fake_relay import FakeRelay

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
    relay: Any
    """A `FakeRelay`, unless a test wants the real one."""
    clock: ToldClock
    app: HttpApp | None = None
    """For a test that closes it."""

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

    @asynccontextmanager
    async def stream(
        self, body: Any, headers: Mapping[str, str | None] | None = None, *, method: str = "POST"
    ) -> AsyncIterator["Stream"]:
        """A request whose response is read bit by bit; at the end of the block its connection is closed."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with await self.connect() as raw:
            await raw.send(request(data, headers, method=method, port=self.port))
            yield Stream(raw)

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


@dataclass
class Stream:
    """A response that is read event by event."""

    raw: SocketStream
    _data: bytes = b""
    _body: bytes = b""

    async def head(self) -> Answer:
        """Status and headers."""
        while b"\r\n\r\n" not in self._data:
            self._data += await self._more()
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        return parsed(head + b"\r\n\r\n")

    async def event(self) -> dict[str, str] | None:
        """The next event's fields; a comment is one under the empty name. None at the end."""
        while b"\n\n" not in self._body:
            chunk = await self._chunk()
            if not chunk:
                return None
            self._body += chunk
        event, _, self._body = self._body.partition(b"\n\n")
        fields = (line.partition(":") for line in event.decode().split("\n"))
        return {name: value.removeprefix(" ") for name, _, value in fields}

    async def message(self) -> Any:
        """The next message; what only gives an id or a sign of life is passed over. None at the end."""
        while (event := await self.event()) is not None:
            if event.get("data"):
                return json.loads(event["data"])
        return None

    async def _chunk(self) -> bytes:
        while b"\r\n" not in self._data:
            self._data += await self._more()
        size, _, rest = self._data.partition(b"\r\n")
        length = int(size, 16)
        while len(rest) < length + 2:
            rest += await self._more()
        self._data = rest[length + 2 :]
        return rest[:length]

    async def _more(self) -> bytes:
        with anyio.fail_after(BOUND_S):
            return await self.raw.receive()


@asynccontextmanager
async def listening(app: HttpApp, **options: Any) -> AsyncIterator[int]:
    """The port on which the app is served, by the server that we ship."""
    # The protocol is named, since asyncio sets TCP_NODELAY only where it is: without it each answer takes 40 ms.
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(server_config(app, timeout_graceful_shutdown=1, **options))
        async with app.running(), anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            with anyio.fail_after(BOUND_S):
                while not server.started:  # uvicorn tells nobody
                    await anyio.sleep(0.005)
            yield listener.getsockname()[1]
            app.close()
            server.should_exit = True


@asynccontextmanager
async def door(relay: FakeRelay | None = None, connections: int = 1_000, **settings: Any) -> AsyncIterator[Served]:
    """The door before a fake relay, open on a loopback port."""
    relay, clock = relay or FakeRelay(), ToldClock()
    more = {"run_key": KEY, **settings}
    app = http_app(relay=relay, delivered=relay.delivered, now=clock.now, **more)
    async with listening(app, connections=connections) as port:
        yield Served(port, relay, clock, app)
