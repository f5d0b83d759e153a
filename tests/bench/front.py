"""What the fronts cost: CPU of the server for each call, with a relay that answers at once.

    python -m tests.bench.front [--calls 20000] [--clients 16] [--profile]

`bare` is uvicorn with an application that reads the body and answers with the same bytes: what is left is ours. In
`turn` the relay waits for one turn of the loop, as a real one would; `legacy` is a call within a session, which is
answered by an event stream, and `stdio` is the other front, one call at a time.
One run takes some seconds; the server is another process, whose time on a CPU the kernel tells in nanoseconds.
"""

import argparse
import asyncio
import cProfile
import json
import os
import pstats
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import uvicorn

from gateway.inbound.mcp import http_app, serve_stdio, server_config
from gateway.inbound.mcp.exchange import Exchange, Session
from gateway.model.answer import Shown
from gateway.model.canonical import JsonObject

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}
PARAMS = {"name": "echo", "arguments": {"text": "hello", "n": 1}, "_meta": {**ENVELOPE, "progressToken": 1}}
CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": PARAMS}).encode()
RESULT = {"content": [{"type": "text", "text": "hello"}], "structuredContent": {"text": "hello"}, "isError": False}
ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", **RESULT}}
PLAIN = {
    "host": "127.0.0.1",
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "user-agent": "bench/1",
}
VERSION = "2025-06-18"
OLD_PARAMS = {"name": "echo", "arguments": {"text": "hello", "n": 1}}
OLD_CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": OLD_PARAMS}).encode()
ENDS = (b"}", b"0\r\n\r\n")
"""Of a plain answer, and of an event stream."""


def spelled(body: bytes, more: dict[str, str]) -> bytes:
    """The bytes of a request."""
    length = {"content-length": str(len(body))}
    lines = b"".join(f"{name}: {value}\r\n".encode() for name, value in (PLAIN | more | length).items())
    return b"POST /mcp HTTP/1.1\r\n" + lines + b"\r\n" + body


REQUEST = spelled(CALL, {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"})
SHOWN = Shown("run")
WARM = 500
ROUNDS = 4


class AtOnce:
    """A relay that answers without waiting, or in the next turn of the loop."""

    def __init__(self, *, turn: bool) -> None:
        self._turn = turn

    async def request(self, exchange: Exchange) -> JsonObject | None:
        if exchange.message["method"] == "initialize" and exchange.session is not None:
            exchange.session.version = VERSION
            return ANSWER
        if self._turn:
            await asyncio.sleep(0)
        exchange.shown = SHOWN
        return {**ANSWER, "id": exchange.message["id"]}

    def notice(self, exchange: Exchange) -> None:
        raise NotImplementedError

    def leaving(self, _session: Session) -> None:
        """Nothing waits here."""

    def closed(self, _session: Session) -> None:
        """It has ended."""


async def bare(_scope: Any, receive: Any, send: Any) -> None:
    """The least that an application can do."""
    await receive()
    body = json.dumps(ANSWER).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def serve(kind: str, profile: str | None) -> None:
    """Serve on the socket that is file descriptor 3, until killed; or on stdio."""
    if kind == "stdio":
        await serve_stdio(relay=AtOnce(turn=True), delivered=lambda _shown: None)
        return
    app = http_app(relay=AtOnce(turn=kind == "turn"), delivered=lambda _shown: None, now=time.time)
    server = uvicorn.Server(server_config(bare if kind == "bare" else app))
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    async with app.running():
        await server.serve(sockets=[socket.socket(fileno=3)])
    if profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def on_cpu_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def legacy(port: int) -> bytes:
    """A request of a session that has begun."""
    asked = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(spelled(asked, {}))
        head = connection.recv(65_536).decode()
    session = head.partition("mcp-session-id: ")[2].partition("\r\n")[0]
    return spelled(OLD_CALL, {"mcp-session-id": session, "mcp-protocol-version": VERSION})


def drive(port: int, calls: int, requests: list[bytes]) -> None:
    """So many calls, over a connection for each request, one under way on each."""
    connections = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in requests]
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(calls // len(requests)):
        for connection, request in zip(connections, requests, strict=True):
            connection.sendall(request)
        for connection in connections:
            answer = connection.recv(65_536)
            while not answer.endswith(ENDS):
                answer += connection.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 200"), answer
    for connection in connections:
        connection.close()


def measure(kind: str, calls: int, clients: int, *, profile: bool) -> float:
    """Microseconds of server CPU for each call."""
    if kind == "stdio":
        return measure_stdio(calls)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        command = [sys.executable, "-m", "tests.bench.front", "--serve", kind, *(["--profile"] if profile else [])]
        os.dup2(listening.fileno(), 3)
        process = subprocess.Popen(command, pass_fds=(3,))
        try:
            port = listening.getsockname()[1]
            requests = [legacy(port) if kind == "legacy" else REQUEST for _ in range(clients)]
            drive(port, WARM, requests)
            before = on_cpu_s(process.pid)
            drive(port, calls, requests)
            return (on_cpu_s(process.pid) - before) / calls * 1e6
        finally:
            process.terminate()
            process.wait(10)


def measure_stdio(calls: int) -> float:
    """Microseconds of server CPU for each call, one under way at a time."""
    command = [sys.executable, "-m", "tests.bench.front", "--serve", "stdio"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        before = 0.0
        for number in range(WARM + calls):
            if number == WARM:
                before = on_cpu_s(process.pid)
            process.stdin.write(CALL + b"\n")
            answer = process.stdout.read(65_536)
            assert answer.endswith(b"}\n"), answer
        return (on_cpu_s(process.pid) - before) / calls * 1e6
    finally:
        process.terminate()
        process.wait(10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--serve")
    parser.add_argument("--profile", action="store_true")
    told = parser.parse_args()
    if told.serve:
        try:
            import uvloop  # noqa: PLC0415 - the bench also runs without it

            uvloop.run(serve(told.serve, told.profile))
        except ImportError:
            asyncio.run(serve(told.serve, told.profile))
        return
    figures: dict[str, float] = {}
    for _ in range(ROUNDS):  # the quietest counts: whatever else the machine does makes a call dearer, never cheaper
        for kind in ("bare", "at once", "turn", "legacy", "stdio"):
            figure = measure(kind, told.calls // ROUNDS, told.clients, profile=told.profile)
            figures[kind] = min(figure, figures.get(kind, figure))
    for kind, figure in figures.items():
        ours = figure if kind == "stdio" else figure - figures["bare"]
        print(f"{kind:8} {figure:6.1f} us/call   ours {ours:6.1f}")


if __name__ == "__main__":
    main()
