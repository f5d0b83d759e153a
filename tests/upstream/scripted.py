"""An HTTP server in the test's own loop: every request is noted, and answered as the test says."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "serverInfo": {"name": "scripted", "version": "1"},
    "capabilities": {},
}


@dataclass(frozen=True)
class Sent:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    message: Any
    """Its body; None if there is none."""

    @property
    def asks(self) -> str | None:
        return self.message.get("method") if isinstance(self.message, dict) else None


@dataclass
class Reply:
    """What goes back, piece by piece."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def head(self, status: int, **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())

    def plain(self, status: int, body: Any = None, **headers: str) -> None:
        """The whole response; the body as JSON."""
        raw = b"" if body is None else json.dumps(body).encode()
        self.head(status, Content_Type="application/json", Content_Length=str(len(raw)), **headers)
        self.writer.write(raw)

    def stream(self) -> None:
        """The head of a stream of events, which ends with the connection."""
        self.head(200, Content_Type="text/event-stream")

    def event(self, message: Any = None, *, id_: str | None = None, retry: int | None = None, kind: str = "") -> None:
        """One event of it."""
        data = "" if message is None else message if isinstance(message, str) else json.dumps(message)
        lines = [f"event: {kind}" if kind else "", f"id: {id_}" if id_ else "", f"retry: {retry}" if retry else ""]
        self.writer.write("\n".join([line for line in [*lines, f"data: {data}"] if line] + ["", ""]).encode())


Script = Callable[[Sent, Reply], Awaitable[None]]


@dataclass
class Place:
    """Where it is, and what came."""

    url: str = ""
    sent: list[Sent] = field(default_factory=list)

    def asked(self, method: str) -> list[Sent]:
        return [sent for sent in self.sent if sent.asks == method]

    def got(self) -> list[Sent]:
        return [sent for sent in self.sent if sent.method == "GET"]


@asynccontextmanager
async def scripted(script: Script, path: str = "/mcp") -> AsyncIterator[Place]:
    """A server that runs the script for each request, and hangs up when it has ended."""
    place = Place()
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, where, _ = head[0].split()
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            sent = Sent(method, where, headers, json.loads(body) if body else None)
            place.sent.append(sent)
            await script(sent, Reply(reader, writer))
            await writer.drain()
        writer.close()
        tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    place.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}"
    try:
        yield place
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1)


def answer(sent: Sent, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": sent.message["id"], "result": result}


def error(sent: Sent, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": sent.message["id"], "error": {"code": code, "message": message}}


def notice(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def polite(sent: Sent, reply: Reply, capabilities: Mapping[str, Any] | None = None, session: str = "s1") -> bool:
    """Whether the request was of those that come with every connection of the older era; they are answered."""
    match sent.asks:
        case "server/discover":
            reply.plain(400, error(sent, -32601, "Method not found"))
        case "initialize":
            reply.plain(200, answer(sent, {**INITIALIZED, "capabilities": capabilities or {}}), Mcp_Session_Id=session)
        case str() as method if method.startswith("notifications/"):
            reply.plain(202)
        case None if sent.message is not None:
            reply.plain(202)  # an answer of ours
        case _ if sent.method == "DELETE":
            reply.plain(200)
        case _:
            return False
    return True
