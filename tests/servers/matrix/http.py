"""The server over HTTP, by hand: streamable of both eras, and HTTP+SSE of 2024-11-05, each at its own path."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tests.servers.matrix.features import HANDLERS
from tests.servers.matrix.talk import LEGACY, MODERN, Json, Peer, World

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"} | dict.fromkeys(
    ("tasks/get", "tasks/update", "tasks/cancel"), "taskId"
)
EVENTS = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
_numbers = itertools.count(1)


@dataclass
class Asked:
    """One HTTP request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Reply:
    """Its response: plain, or an event stream once something is said before the answer."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.streams = False
        self.done = asyncio.Event()

    def plain(self, status: int, body: Json | None = None, headers: Mapping[str, str] | None = None) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        self._head(status, {**kind, "Content-Length": str(len(data)), **(headers or {})})
        self._writer.write(data)
        self.done.set()

    def open(self) -> None:
        if not self.streams:
            self.streams = True
            self._head(200, EVENTS)

    def event(self, data: str, kind: str = "message") -> None:
        self.open()
        chunk = f"event: {kind}\ndata: {data}\n\n".encode()
        self._writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")

    def say(self, message: Json) -> None:
        """On the stream; an answer ends it, or is the whole response."""
        answers = "method" not in message
        if answers and not self.streams:
            self.plain(status_of(message), message)
            return
        self.event(json.dumps(message))
        if answers:
            self._writer.write(b"0\r\n\r\n")
            self.done.set()

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        self._writer.write("\r\n".join(lines).encode())


def status_of(message: Json) -> int:
    code = message.get("error", {}).get("code")
    return {-32601: 404, -32020: 400, -32021: 400, -32022: 400}.get(code, 200)


class Server:
    """All three, over one world for each path."""

    def __init__(self) -> None:
        self._worlds = {path: World(HANDLERS) for path in ("/modern", "/legacy", "/sse")}
        self._sessions: dict[str, Peer] = {}
        self._connections: set[asyncio.Task[None]] = set()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        with suppress(OSError, asyncio.IncompleteReadError):
            while (asked := await read(reader)) is not None:
                reply = Reply(writer)
                await self._serve(asked, reply, reader)
                await writer.drain()
        writer.close()
        self._connections.discard(task)

    def close(self) -> None:
        for task in self._connections:
            task.cancel()

    async def _serve(self, asked: Asked, reply: Reply, reader: asyncio.StreamReader) -> None:
        match asked.method, asked.path.partition("?")[0]:
            case "POST", "/modern":
                await self._modern(asked, reply, reader)
            case "POST", "/legacy":
                await self._legacy(asked, reply, reader)
            case "GET", "/legacy" if peer := self._sessions.get(asked.headers.get("mcp-session-id", "")):
                reply.open()
                peer.general = lambda message: reply.event(json.dumps(message))
                await gone(reader)
            case "DELETE", "/legacy":
                self._sessions.pop(asked.headers.get("mcp-session-id", ""), None)
                reply.plain(200)
            case "GET", "/sse":
                name = str(next(_numbers))
                self._sessions[name] = Peer(
                    self._worlds["/sse"], LEGACY, lambda message: reply.event(json.dumps(message))
                )
                reply.event(f"/messages?session={name}", "endpoint")
                await gone(reader)
            case "POST", "/messages" if peer := self._sessions.get(asked.path.rpartition("=")[2]):
                peer.take(json.loads(asked.body), headers=asked.headers)
                reply.plain(202)
            case _:
                reply.plain(405)

    async def _modern(self, asked: Asked, reply: Reply, reader: asyncio.StreamReader) -> None:
        message = json.loads(asked.body)
        wrong = disagreement(asked, message)
        if wrong is not None:
            code = {"code": -32020, "message": wrong}
            reply.plain(400, {"jsonrpc": "2.0", "id": message.get("id"), "error": code})
            return
        peer = Peer(self._worlds["/modern"], MODERN, reply.say)
        peer.take(message, headers=asked.headers)
        await settled(peer, reply, reader)

    async def _legacy(self, asked: Asked, reply: Reply, reader: asyncio.StreamReader) -> None:
        message, name = json.loads(asked.body), asked.headers.get("mcp-session-id")
        if asked.headers.get("mcp-protocol-version") == MODERN:
            reply.plain(400)
            return
        if message.get("method") == "initialize":
            name = f"session-{next(_numbers)}"
            peer = self._sessions[name] = Peer(self._worlds["/legacy"], LEGACY, lambda _: None)
            peer.take(message, lambda answer: reply.plain(200, answer, {"Mcp-Session-Id": name or ""}), asked.headers)
            await reply.done.wait()
            return
        found = self._sessions.get(name or "")
        if found is None:
            reply.plain(404)
        elif "id" in message and "method" in message:
            found.take(message, reply.say, asked.headers)
            await settled(found, reply, reader, cancels=False)
        else:
            found.take(message, headers=asked.headers)
            reply.plain(202)


async def settled(peer: Peer, reply: Reply, reader: asyncio.StreamReader, *, cancels: bool = True) -> None:
    """The response is complete, or the client has left; in the newer era that is to cancel."""
    left, done = asyncio.ensure_future(gone(reader)), asyncio.ensure_future(reply.done.wait())
    flights = [*peer.flights.values()]
    await asyncio.wait([left, done], return_when=asyncio.FIRST_COMPLETED)
    for task in [left, done, *(flights if cancels and not reply.done.is_set() else ())]:
        task.cancel()


async def gone(reader: asyncio.StreamReader) -> None:
    """The client has closed the connection."""
    while not reader.at_eof() and reader.exception() is None:
        await asyncio.sleep(0.005)  # reading would take what comes next


def disagreement(asked: Asked, message: Any) -> str | None:
    """What the headers say otherwise than the body [SEP-2243]."""
    params = message.get("params") or {}
    due = {"mcp-protocol-version": MODERN, "mcp-method": message.get("method")}
    if message.get("method") in NAMED:
        due["mcp-name"] = params.get(NAMED[message["method"]])
    wrong = [name for name, value in due.items() if asked.headers.get(name) != value]
    return f"the headers {wrong} are not what the body says" if wrong else None


async def read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    method, path, _ = first.split(" ")
    return Asked(method, unquote(path), headers, await reader.readexactly(int(headers.get("content-length", 0))))


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    """The address under which all of it is served, on a loopback port."""
    server = Server()
    listener = await asyncio.start_server(server.connection, "127.0.0.1", 0, limit=64 * 2**20)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        server.close()
