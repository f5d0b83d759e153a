"""Clients that send exactly the text that they are given, and keep exactly the bytes that they get."""

import asyncio
import itertools
import json
import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from gateway.model.canonical import parse

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
CAPABILITIES = '{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true},"vendor":{"x":1.0}}'
INFO = '{"name":"exact","version":"1","vendor":null}'
ENVELOPE = (
    f'"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientInfo":{INFO},'
    f'"io.modelcontextprotocol/clientCapabilities":{CAPABILITIES},"io.modelcontextprotocol/logLevel":"debug"'
)
LIMIT = 64 * 1024 * 1024
NAMED = re.compile(r'"(?:name|uri|taskId)":"([^"]*)"')
NAMING = frozenset({"tools/call", "prompts/get", "resources/read", "tasks/get", "tasks/update", "tasks/cancel"})
"""Methods whose requests say in a header what they are about."""


@dataclass
class Reply:
    """All that came of one request."""

    answer: bytes
    before: list[bytes] = field(default_factory=list)
    """Notifications and questions, in order; of a modern client, the results that ask for input as well."""

    @property
    def message(self) -> Any:
        return read(self.answer)

    @property
    def result(self) -> Any:
        return self.message["result"]

    def told(self, method: str) -> list[Any]:
        """The params of the messages of that method."""
        return [message["params"] for message in map(read, self.before) if message.get("method") == method]


def read(body: bytes) -> Any:
    """The value in these bytes. They must please our strict parser, and another one says what they mean."""
    parse(body, max_depth=512)
    return json.loads(body)


class Client:
    """One client of either era; how its messages travel, its children know."""

    def __init__(self, era: str) -> None:
        self.era = era
        self.ids: Iterator[object] = itertools.count(1)
        """Of its requests, as text."""
        self.progress: list[str] = []
        """What it tells of its progress before it answers a question: the members beside the token."""

    async def open(self) -> None:
        """A legacy client introduces itself."""
        if self.era == "modern":
            return
        params = f'"protocolVersion":"{LEGACY}","capabilities":{CAPABILITIES},"clientInfo":{INFO}'
        opened = await self.request("initialize", params)
        assert opened.result["protocolVersion"] == LEGACY
        await self.notify("notifications/initialized")

    async def request(self, method: str, members: str = "", meta: str = "", answer: str = "") -> Reply:
        """The params have these members, and `_meta` those. Whatever is asked meanwhile gets `answer`: a member
        `"result"` or `"error"`, as text.
        """
        reply = await self._round(method, members, meta, answer)
        before: list[bytes] = []
        while (result := reply.message.get("result", {})).get("resultType") == "input_required" and answer:
            before += [*reply.before, reply.answer]
            answers = ",".join(f"{spelled(key)}:{answer.partition(':')[2]}" for key in result.get("inputRequests", {}))
            more = f'"inputResponses":{{{answers}}},"requestState":{spelled(result["requestState"])}'
            reply = await self._round(method, f"{members},{more}", meta, answer)
        return Reply(reply.answer, before + reply.before)

    async def notify(self, method: str, params: str | None = None) -> None:
        """A notification of the client's own, with these params."""
        told = "" if params is None else f',"params":{params}'
        await self._say(f'{{"jsonrpc":"2.0","method":"{method}"{told}}}')

    async def _round(self, method: str, members: str, meta: str, answer: str) -> Reply:
        held = ",".join(part for part in (meta, ENVELOPE if self.era == "modern" else "") if part)
        params = ",".join(part for part in (members, f'"_meta":{{{held}}}' if held else "") if part)
        text = f'{{"jsonrpc":"2.0","id":{next(self.ids)},"method":"{method}","params":{{{params}}}}}'
        named = NAMED.search(members) if method in NAMING else None
        reply = Reply(b"")
        async for body in self._messages(text, method, named[1] if named is not None else None):
            message = read(body)
            if "method" not in message:
                reply.answer = body
                break
            reply.before.append(body)
            if "id" in message:
                for told in self.progress:
                    token = spelled(message["params"]["_meta"]["progressToken"])
                    await self.notify("notifications/progress", f'{{"progressToken":{token},{told}}}')
                await self._say(f'{{"jsonrpc":"2.0","id":{spelled(message["id"])},{answer}}}')
        return reply

    def _messages(self, text: str, method: str, name: str | None) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def _say(self, text: str) -> None:
        raise NotImplementedError


def spelled(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class OverStdio(Client):
    """Through two pipes."""

    def __init__(self, era: str, reader: asyncio.StreamReader, sink: int) -> None:
        super().__init__(era)
        self._reader = reader
        self._sink = sink

    async def _messages(self, text: str, method: str, name: str | None) -> AsyncIterator[bytes]:  # noqa: ARG002
        await self._say(text)
        while line := await self._reader.readline():
            yield line

    async def _say(self, text: str) -> None:
        await asyncio.to_thread(_written, self._sink, text.encode() + b"\n")


def _written(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


class OverHttp(Client):
    """Each message on a connection of its own."""

    def __init__(self, era: str, port: int) -> None:
        super().__init__(era)
        self._port = port
        self._session: str | None = None

    async def _messages(self, text: str, method: str, name: str | None) -> AsyncIterator[bytes]:
        async with self._sent(text, method, name) as (headers, reader):
            self._session = headers.get("mcp-session-id", self._session)
            if not headers["content-type"].startswith("text/event-stream"):
                yield await reader.readexactly(int(headers["content-length"]))
                return
            async for event in _events(reader):
                yield event

    async def _say(self, text: str) -> None:
        async with self._sent(text) as (headers, _):
            assert headers[""] == "202", headers

    @asynccontextmanager
    async def standing(self) -> AsyncIterator[AsyncIterator[bytes]]:
        """A legacy client's stream for what belongs to no request."""
        async with self._sent("", verb="GET") as (headers, reader):
            assert headers[""] == "200", headers
            yield _events(reader)

    @asynccontextmanager
    async def _sent(
        self, text: str, method: str | None = None, name: str | None = None, *, verb: str = "POST"
    ) -> AsyncIterator[tuple[dict[str, str], asyncio.StreamReader]]:
        body = text.encode()
        lines = [
            f"{verb} /mcp HTTP/1.1",
            f"Host: 127.0.0.1:{self._port}",
            "Connection: close",
            "Accept: application/json, text/event-stream",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *self._routing(method, name),
        ]
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=LIMIT)
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            await writer.drain()
            status, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in rest) if key}
            yield {**headers, "": status.split()[1]}, reader
        finally:
            writer.close()

    def _routing(self, method: str | None, name: str | None) -> Iterable[str]:
        if self.era == "modern":
            yield f"MCP-Protocol-Version: {MODERN}"
            yield f"Mcp-Method: {method}"
            if name is not None:
                yield f"Mcp-Name: {name}"
        elif self._session is not None:
            yield f"MCP-Protocol-Version: {LEGACY}"
            yield f"Mcp-Session-Id: {self._session}"


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    body = b""
    while size := int((await reader.readuntil(b"\r\n")), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
        while b"\n\n" in body:
            event, _, body = body.partition(b"\n\n")
            data = [line.removeprefix(b"data:").strip(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
            if data and data[0]:
                yield b"\n".join(data)
