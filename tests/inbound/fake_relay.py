"""A relay in memory: enough of MCP for real clients of both eras, tools by script, and a memory of what it was told."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from gateway.inbound.mcp.envelope import failure, is_modern, meta_of, params_of
from gateway.inbound.mcp.exchange import Exchange, Session
from gateway.model.answer import Shown
from gateway.model.canonical import JsonObject, dump
from gateway.model.tool import ToolResult

INFO = {"name": "fake", "version": "1"}
CAPABILITIES: JsonObject = {"tools": {"listChanged": True}, "logging": {}}

Script = Callable[[Exchange], Awaitable[JsonObject]]
"""One tool: the `CallToolResult`."""


def text(said: str, **more: Any) -> JsonObject:
    return {"content": [{"type": "text", "text": said}], **more}


async def echo(exchange: Exchange) -> JsonObject:
    """The arguments, as text and as they are."""
    arguments = params_of(exchange.message).get("arguments") or {}
    return text(dump(arguments), structuredContent=arguments)


async def progress(exchange: Exchange) -> JsonObject:
    """Three steps are told, each of which lets others run."""
    token = meta_of(exchange.message).get("progressToken")
    for step in range(3):
        tell(exchange, "notifications/progress", {"progressToken": token, "progress": step + 1, "total": 3})
        await asyncio.sleep(0)
    return text("done")


async def elicit(exchange: Exchange) -> JsonObject:
    """What the person at a legacy client says."""
    assert exchange.session is not None
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    asked = {"mode": "form", "message": "Who?", "requestedSchema": schema}
    said = await exchange.session.asks.ask(exchange.line, "elicitation/create", asked)
    return text(dump(dict(said.result)) if isinstance(said, ToolResult) else f"nobody: {said}")


def tell(exchange: Exchange, method: str, params: Mapping[str, Any]) -> None:
    exchange.line.send({"jsonrpc": "2.0", "method": method, "params": dict(params)})


@dataclass
class Held:
    """An answer that waits until it is let go, whether or not its client does."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, exchange: Exchange) -> JsonObject:
        await self.gate.wait()
        return await echo(exchange)


@dataclass
class FakeRelay:
    """Satisfies `Relay`, and is told of deliveries."""

    tools: dict[str, Script] = field(
        default_factory=lambda: {"echo": echo, "progress": progress, "elicit": elicit, "count": echo}
    )
    begun: list[Exchange] = field(default_factory=list)
    finished: list[Exchange] = field(default_factory=list)
    noticed: list[JsonObject] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Sessions."""
    left: list[str] = field(default_factory=list)
    """Sessions from which no more is heard."""
    deliveries: list[Shown] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    heeds: bool = True
    """A request whose client has cancelled is not answered."""

    async def request(self, exchange: Exchange) -> JsonObject | None:
        request_id = exchange.message["id"]
        self.begun.append(exchange)
        await self._tell()
        method = self._methods.get(exchange.message["method"])
        if method is None or (is_modern(exchange.message) and exchange.message["method"] in {"initialize", "ping"}):
            return failure(-32601, "Method not found", request_id)
        result = await method(self, exchange)
        self.finished.append(exchange)
        await self._tell()
        if "error" in result:
            return {"jsonrpc": "2.0", "id": request_id, **result}
        if exchange.withdrawal.said and self.heeds:
            return None
        if is_modern(exchange.message):
            result = {"resultType": "complete", **result}
        return {"jsonrpc": "2.0", "id": request_id, "result": result}

    def notice(self, exchange: Exchange) -> None:
        message = exchange.message
        self.noticed.append(message)
        assert exchange.session is not None
        if "method" not in message:
            exchange.session.asks.answer(message)
        elif message["method"] == "notifications/cancelled":
            found = exchange.session.flights.find(params_of(message).get("requestId"))
            if found is not None:
                found.withdrawal.say(cancelled=True)

    def leaving(self, session: Session) -> None:
        self.left.append(session.id)

    def closed(self, session: Session) -> None:
        session.asks.close()
        self.ended.append(session.id)

    def delivered(self, shown: Shown) -> None:
        self.deliveries.append(shown)

    @property
    def calls(self) -> list[Exchange]:
        """The tool calls that have begun."""
        return [exchange for exchange in self.begun if exchange.message["method"] == "tools/call"]

    async def until(self, true: Callable[[], bool]) -> None:
        """Return once it is true; asked whenever a request begins or ends."""
        async with self.changed:
            await self.changed.wait_for(true)

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def _initialize(self, exchange: Exchange) -> JsonObject:
        session, params = exchange.session, params_of(exchange.message)
        assert session is not None
        if "protocolVersion" not in params:
            return {"error": {"code": -32602, "message": "which version?"}}
        asked = params["protocolVersion"]
        session.version = asked if asked in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
        session.capabilities, session.client = params["capabilities"], params["clientInfo"]
        return {"protocolVersion": session.version, "capabilities": CAPABILITIES, "serverInfo": INFO}

    async def _discover(self, _exchange: Exchange) -> JsonObject:
        lasting = {"ttlMs": 0, "cacheScope": "private"}
        return {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, "serverInfo": INFO, **lasting}

    async def _ping(self, _exchange: Exchange) -> JsonObject:
        return {}

    async def _list(self, exchange: Exchange) -> JsonObject:
        lasting = {"ttlMs": 0, "cacheScope": "private"} if is_modern(exchange.message) else {}
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools], **lasting}

    async def _call(self, exchange: Exchange) -> JsonObject:
        name = params_of(exchange.message).get("name", "")
        if name not in self.tools:
            return {"error": {"code": -32602, "message": "no such tool"}}
        result = await self.tools[name](exchange)
        exchange.shown = Shown("run", attempt=name)
        return result

    async def _listen(self, exchange: Exchange) -> JsonObject:
        """Until the client leaves."""
        left = asyncio.Event()
        exchange.withdrawal.then = left.set
        subscription = {"_meta": {"io.modelcontextprotocol/subscriptionId": exchange.message["id"]}}
        tell(exchange, "notifications/subscriptions/acknowledged", {"notifications": {}, **subscription})
        await left.wait()
        return {}

    _methods: Mapping[str, Callable[["FakeRelay", Exchange], Awaitable[JsonObject]]] = field(
        default_factory=lambda: {
            "initialize": FakeRelay._initialize,
            "server/discover": FakeRelay._discover,
            "ping": FakeRelay._ping,
            "tools/list": FakeRelay._list,
            "tools/call": FakeRelay._call,
            "subscriptions/listen": FakeRelay._listen,
        }
    )
