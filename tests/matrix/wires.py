"""The ways from an agent to the gateway: streamable HTTP, and a pair of pipes."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from gateway.inbound.mcp import Relay
from gateway.inbound.mcp.identity import local_user
from gateway.inbound.mcp.pipes import Sink, Source
from gateway.inbound.mcp.stdio import _Pipe
from gateway.model.answer import Shown
from tests.matrix.agent import MODERN, Agent, Json

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"} | dict.fromkeys(
    ("tasks/get", "tasks/update", "tasks/cancel"), "taskId"
)
LIMIT = 64 * 2**20


class HttpWire:
    """Streamable HTTP, as the agent's version has it."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self.url = url
        self.agent: Agent | None = None
        self.session: str | None = None
        self._http = http

    async def post(self, message: Json | list[Json]) -> None:
        async with self._http.post(self.url, data=json.dumps(message), headers=self._headers(message)) as response:
            self.session = self.session or response.headers.get("mcp-session-id")
            await self._hear(response)

    async def listen(self) -> None:
        """What belongs to no request, to a client of the older era."""
        headers = {"Accept": "text/event-stream", **self._legacy()}
        async with self._http.get(self.url, headers=headers) as response:
            assert response.status == 200, response.status
            await self._hear(response)

    async def cancel(self, agent: Agent, request_id: int) -> None:
        if not agent.modern:
            await agent.notify("notifications/cancelled", {"requestId": request_id, "reason": "enough"})

    async def end(self) -> None:
        """The conversation is over, if there is one."""
        if self.session is not None:
            async with self._http.delete(self.url, headers=self._legacy()) as response:
                assert response.status in {200, 204}, response.status

    def _headers(self, message: Any) -> dict[str, str]:
        assert self.agent is not None
        method = message.get("method", "") if isinstance(message, dict) else ""
        common = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if not self.agent.modern:
            return {**common, **({} if method == "initialize" else self._legacy())}
        name = {"Mcp-Name": message["params"][NAMED[method]]} if method in NAMED else {}
        return {**common, "MCP-Protocol-Version": MODERN, "Mcp-Method": method, **name}

    def _legacy(self) -> dict[str, str]:
        assert self.agent is not None
        return {"MCP-Protocol-Version": self.agent.version, "Mcp-Session-Id": self.session or ""}

    async def _hear(self, response: aiohttp.ClientResponse) -> None:
        assert self.agent is not None
        if response.content_type == "application/json":
            self.agent.take(await response.json())
        elif response.content_type == "text/event-stream":
            async for line in response.content:
                if line.startswith(b"data:") and line[5:].strip():
                    self.agent.take(json.loads(line[5:]))
        else:
            assert response.status == 202, response.status


class PipeWire:
    """Lines out, lines in."""

    def __init__(self, write: Callable[[bytes], Any], reader: asyncio.StreamReader) -> None:
        self.agent: Agent | None = None
        self._write = write
        self._reader = reader

    async def post(self, message: Json | list[Json]) -> None:
        self._write(json.dumps(message).encode() + b"\n")

    async def listen(self) -> None:
        """All that comes back."""
        assert self.agent is not None
        while line := await self._reader.readline():
            self.agent.take(json.loads(line))

    async def cancel(self, agent: Agent, request_id: int) -> None:
        await agent.notify("notifications/cancelled", {"requestId": request_id, "reason": "enough"})

    async def end(self) -> None:
        """The pipe is closed by whoever made it."""


@asynccontextmanager
async def over_http(url: str) -> AsyncIterator[HttpWire]:
    """The wire to a gateway at an address."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=LIMIT) as http:
        yield HttpWire(url, http)


@asynccontextmanager
async def over_pipes(relay: Relay, delivered: Callable[[Shown], None]) -> AsyncIterator[PipeWire]:
    """The wire to the real stdio front in this process, on pipes of its own."""
    (front_in, agent_out), (agent_in, front_out) = os.pipe(), os.pipe()
    reader = asyncio.StreamReader(limit=LIMIT)
    heard, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(agent_in, "rb", buffering=0)
    )
    pipe = _Pipe(relay, delivered, local_user(), Sink(front_out))
    source = Source(front_in, pipe.take)
    try:
        yield PipeWire(lambda data: os.write(agent_out, data), reader)
    finally:
        os.close(agent_out)
        await source.ended
        source.close()
        pipe.close()
        heard.close()
        for descriptor in (front_in, front_out):
            os.close(descriptor)
