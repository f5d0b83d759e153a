"""What a client sends, written down as it passes, without what only this machine and this moment know.

python -m tests.real_clients.agents.record FILE -- COMMAND…     stands before a server on stdio
"""

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

Request = dict[str, Any]

HOP = {"host", "content-length", "transfer-encoding", "connection"}
"""What a proxy does not pass on."""
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
HEX = re.compile(r"\b[0-9a-f]{32}\b")
PORT = re.compile(r"127\.0\.0\.1:\d+")
ROOT = re.compile(r"(file://)?/(?:tmp|work|root|home)/[^\s\"',]*")
TIME_MS = re.compile(r"\b1[6-9]\d{11}\b")


def impersonal(text: str) -> str:
    """The JSON text with every id, address, path and time of this run replaced by a constant one."""
    text = UUID.sub("00000000-0000-4000-8000-000000000000", text)
    text = HEX.sub("0" * 32, text)
    text = PORT.sub("127.0.0.1:8321", text)
    text = ROOT.sub(lambda found: f"{found[1] or ''}/home/user", text)
    return TIME_MS.sub("1700000000000", text)


@contextlib.asynccontextmanager
async def proxy(upstream: str, seen: list[Request]) -> AsyncIterator[str]:
    """The address of a reverse proxy before that URL; each request is appended to `seen` before it is passed on."""
    base = upstream.rpartition("/")[0]
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(None), auto_decompress=False) as session:

        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            seen.append(_request(request, body))
            headers = [(name, value) for name, value in request.headers.items() if name.lower() not in HOP]
            async with session.request(
                request.method, f"{base}{request.path_qs}", headers=headers, data=body or None
            ) as answered:
                kept = [(name, value) for name, value in answered.headers.items() if name.lower() not in HOP]
                response = web.StreamResponse(status=answered.status, reason=answered.reason)
                for name, value in kept:
                    response.headers.add(name, value)
                with contextlib.suppress(ConnectionResetError):  # the client has gone
                    await response.prepare(request)
                    async for chunk in answered.content.iter_any():
                        await response.write(chunk)
                    await response.write_eof()
                return response

        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{rest:.*}", handle)
        # As a server of its own, a client that goes away ends the request behind it: cancellation is passed on.
        runner = web.AppRunner(app, shutdown_timeout=1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            host, port = runner.addresses[0][:2]
            yield f"http://{host}:{port}/mcp"
        finally:
            await runner.cleanup()


def _request(request: web.Request, body: bytes) -> Request:
    headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
    seen: Request = {"method": request.method, "path": request.path_qs, "headers": headers}
    if body:
        seen["body"] = json.loads(body)
    return seen


async def tee(file: Path, command: Sequence[str]) -> int:
    """The exit code of the server, each line to which is in the file before it is passed on."""
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    reader = asyncio.StreamReader(limit=64 * 2**20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    with file.open("ab") as lines:
        while line := await reader.readline():
            lines.write(line)
            lines.flush()
            process.stdin.write(line)
            await process.stdin.drain()
    process.stdin.close()
    return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(tee(Path(sys.argv[1]), sys.argv[3:])))
