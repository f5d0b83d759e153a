"""An MCP server that says exactly the bytes that it is told to say, and keeps exactly those that it was told.

    python tests/servers/raw_server.py FOLDER --legacy | --modern

is one on stdio; `over_http` is one on a port. It knows no JSON library on its way out: what it says stands in files of
the folder, and only an id and a progress token are put in.

`FOLDER/script` is what it says to the next request, line by line: `say` a message; `ask` one and wait for the response
to it. What follows `then` is for the requests that bring `inputResponses`. `as json` in its first line: over HTTP the
answer is a plain body. `FOLDER/METHOD`, with `_` for `/`, is its result
for a list. `FOLDER/received` has all that it was told, a message a line.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

CAPABILITIES = (
    b'{"tools":{"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{},'
    b'"resources":{"subscribe":true,"listChanged":true}}'
)
INTRODUCTIONS = {
    "initialize": b'{"protocolVersion":"2025-11-25","capabilities":' + CAPABILITIES + b',"serverInfo":{"name":"raw",'
    b'"version":"1"}}',
    "server/discover": b'{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":'
    + CAPABILITIES
    + b',"ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"raw","version":"1"}}}',
    "ping": b"{}",
    "logging/setLevel": b"{}",
    "tools/list": b'{"tools":[]}',
    "prompts/list": b'{"prompts":[]}',
    "resources/list": b'{"resources":[]}',
    "resources/templates/list": b'{"resourceTemplates":[]}',
}
LISTEN = "subscriptions/listen"
ACKNOWLEDGED = (
    b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":'
    b'{"io.modelcontextprotocol/subscriptionId":@ID@}}}'
)
NOT_OF = {"legacy": "server/discover", "modern": "initialize"}
UNKNOWN = b'{"code":-32601,"message":"Method not found"}'


class Raw:
    """What is said to each message; the same over both transports."""

    def __init__(self, folder: Path, era: str) -> None:
        self._folder = folder
        self._era = era

    def hear(self, body: bytes) -> Any:
        """The message, of which not a byte is lost."""
        with (self._folder / "received").open("ab") as log:
            log.write(body + b"\n")
        return json.loads(body)

    def steps(self, message: Any) -> Iterator[tuple[str, bytes]]:
        """What is said in answer: each a verb and the bytes."""
        method = message["method"]
        own = self._folder / method.replace("/", "_")
        if method == NOT_OF[self._era]:
            yield "say", self._filled(b'{"jsonrpc":"2.0","id":@ID@,"error":' + UNKNOWN + b"}", message)
        elif method == LISTEN:
            yield "say", self._filled(ACKNOWLEDGED, message)
        elif method in INTRODUCTIONS:
            result = own.read_bytes().strip(b"\n") if own.exists() else INTRODUCTIONS[method]
            yield "say", self._filled(b'{"jsonrpc":"2.0","id":@ID@,"result":' + result + b"}", message)
        else:
            script = self._script()
            if b"then" in script:
                turn = script.index(b"then")
                script = script[turn + 1 :] if "inputResponses" in message["params"] else script[:turn]
            for line in script:
                verb, _, said = line.partition(b" ")
                yield verb.decode(), self._filled(said, message)

    def is_plain(self, message: Any) -> bool:
        """Whether the answer is a plain body."""
        method = message["method"]
        return method in INTRODUCTIONS or (method != LISTEN and self._script()[0] == b"as json")

    @property
    def gap(self) -> bytes:
        """What stands for `@GAP@` in an event; the file `FOLDER/gap`."""
        gap = self._folder / "gap"
        return gap.read_bytes() if gap.exists() else b""

    def _script(self) -> list[bytes]:
        return [line for line in (self._folder / "script").read_bytes().split(b"\n") if line]

    def _filled(self, said: bytes, message: Any) -> bytes:
        token = (message.get("params", {}).get("_meta") or {}).get("progressToken")
        return said.replace(b"@ID@", json.dumps(message["id"]).encode()).replace(b"@TOKEN@", json.dumps(token).encode())


def over_stdio(raw: Raw) -> None:
    """Serve until stdin ends."""
    lines, out = sys.stdin.buffer, sys.stdout.buffer
    while line := lines.readline():
        message = raw.hear(line.rstrip(b"\n"))
        if "method" not in message or "id" not in message:
            continue
        for verb, said in raw.steps(message):
            if verb == "as":
                continue  # on stdio there is but one way
            out.write(said + b"\n")
            out.flush()
            while verb == "ask" and "method" in raw.hear(lines.readline().rstrip(b"\n")):
                pass


@asynccontextmanager
async def over_http(raw: Raw) -> AsyncIterator[int]:
    """Serve on a port of 127.0.0.1 for as long as the block lasts; one client at a time is asked something."""
    responses: asyncio.Queue[None] = asyncio.Queue()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _exchange(raw, responses, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _exchange(
    raw: Raw, responses: "asyncio.Queue[None]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    start, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    head = _header(writer.write)
    if not start.startswith("POST"):
        head("405 Method Not Allowed", "content-length: 0")
        return
    message = raw.hear(body)
    if "method" not in message or "id" not in message:
        if "method" not in message:
            responses.put_nowait(None)
        head("202 Accepted", "content-length: 0")
    elif raw.is_plain(message):
        said = next(said for verb, said in raw.steps(message) if verb == "say")
        head("200 OK", "content-type: application/json", "mcp-session-id: raw", f"content-length: {len(said)}")
        writer.write(said)
    else:
        head("200 OK", "content-type: text/event-stream", "mcp-session-id: raw")
        for verb, said in raw.steps(message):
            await writer.drain()
            writer.write(b"event: message\ndata: " + said.replace(b"@GAP@", raw.gap) + b"\n\n")
            if verb == "ask":
                await responses.get()
        if message["method"] == LISTEN:
            await reader.read()  # it stays open until the client has had enough
    await writer.drain()


def _header(write: Callable[[bytes], None]) -> Callable[..., None]:
    def head(status: str, *lines: str) -> None:
        write("\r\n".join([f"HTTP/1.1 {status}", "connection: close", *lines, "", ""]).encode())

    return head


if __name__ == "__main__":
    over_stdio(Raw(Path(sys.argv[1]), sys.argv[2].removeprefix("--")))
