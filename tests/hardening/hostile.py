"""A whole gateway before a server that says the bytes it is told to, and clients that send any bytes they like.

What counts is what the server heard: `effects`, from its own log.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from tests.fidelity.cells import BOUND_S, Cell, Kind, cell
from tests.fidelity.clients import ENVELOPE, MODERN, OverHttp

KIND = Kind("http", "modern", "http", "legacy")
OK = b'{"content":[{"type":"text","text":"ok"}]}'


@dataclass
class Answer:
    """An HTTP response; `status` is 0 where the connection was closed without one."""

    status: int
    body: bytes

    @property
    def code(self) -> int | None:
        """Of the JSON-RPC error; None for a result."""
        error = json.loads(self.body).get("error")
        return None if error is None else int(error["code"])


@dataclass
class Ground:
    """The gateway, and what its server did."""

    cell: Cell
    port: int

    def effects(self) -> int:
        """How many calls the server has had since it was last told what to say."""
        return sum(1 for message in self.cell.heard() if message.get("method") == "tools/call")

    async def raw(self, data: bytes) -> bytes:
        """All that comes back on a connection of its own until it is closed."""
        with anyio.fail_after(BOUND_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(data)
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()

    async def post(self, body: bytes, headers: Mapping[str, str] | None = None, *, name: str = "raw__echo") -> Answer:
        """The answer to these bytes as a body, with the headers of a good modern call unless others are given."""
        known = {
            "Host": f"127.0.0.1:{self.port}",
            "Connection": "close",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "tools/call",
            "Mcp-Name": name,
            "Content-Length": str(len(body)),
        }
        lines = "\r\n".join(f"{key}: {value}" for key, value in {**known, **(headers or {})}.items() if value)
        said = await self.raw(f"POST /mcp HTTP/1.1\r\n{lines}\r\n\r\n".encode("latin-1") + body)
        head, _, rest = said.partition(b"\r\n\r\n")
        return Answer(int(head.split()[1]) if head else 0, rest)

    async def still_good(self) -> None:
        """A good call is made, once."""
        self.cell.answers(OK)
        assert (await self.cell.call()).result["content"] == [{"type": "text", "text": "ok"}]
        assert self.effects() == 1


def call(arguments: str = "{}", *, name: str = "raw__echo", more: str = "", meta: str = "", id_: str = "1") -> bytes:
    """A modern `tools/call`, as text: whatever is put in stands there as it is."""
    held = ",".join(part for part in (meta, ENVELOPE) if part)
    members = f'"name":"{name}","arguments":{arguments},"_meta":{{{held}}}{more}'
    return f'{{"jsonrpc":"2.0","id":{id_},"method":"tools/call","params":{{{members}}}}}'.encode()


@asynccontextmanager
async def ground(folder: Path, kind: Kind = KIND) -> AsyncIterator[Ground]:
    """All of it, for as long as the block lasts."""
    async with cell(kind, folder) as it:
        it.answers(OK)
        yield Ground(it, it.client._port if isinstance(it.client, OverHttp) else 0)


def text_of(answer: Any) -> str:
    """What a result of ours says in its text block."""
    text: str = answer["content"][0]["text"]
    return text
