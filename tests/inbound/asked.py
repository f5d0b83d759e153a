"""The relay without a transport: messages in, what it says before its answer, and the answer."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from gateway.inbound.mcp import http_app
from gateway.inbound.mcp.exchange import Exchange, Session
from gateway.inbound.mcp.identity import Runs
from gateway.inbound.mcp.observing import Observe, unobserved
from gateway.inbound.mcp.relay import Relay
from gateway.inbound.mcp.seals import Seals
from gateway.model.canonical import JsonObject
from gateway.model.principal import Principal
from gateway.outbound.ids import id_maker
from tests.inbound.fake_gate import FakeGate, FakeOffers, ToldClock
from tests.inbound.served import KEY, Served, listening

ME = Principal("me")
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT = "io.modelcontextprotocol/clientInfo"
INFO = {"name": "test", "version": "1"}


@dataclass
class ToldLine:
    """What was sent beside the answers."""

    sent: list[JsonObject] = field(default_factory=list)
    pauses: list[int | None] = field(default_factory=list)
    there: bool = True

    def send(self, message: JsonObject) -> None:
        self.sent.append(message)

    def pause(self, retry_ms: int | None) -> None:
        self.pauses.append(retry_ms)


@dataclass
class Asked:
    """A relay before a fake gate and fake offers."""

    gate: FakeGate = field(default_factory=FakeGate)
    offers: FakeOffers = field(default_factory=FakeOffers)
    clock: ToldClock = field(default_factory=ToldClock)
    observe: Observe = unobserved

    def __post_init__(self) -> None:
        runs = Runs(self.gate, id_maker(self.clock.now), self.clock)
        seals = Seals(b"k" * 32, self.clock.now)
        self.relay = Relay(self.gate, self.offers, runs, seals, version="9.9", observe=self.observe)

    def modern_exchange(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        can: Mapping[str, Any] | None = None,
        principal: Principal = ME,
        headers: Mapping[str, str] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Exchange:
        envelope = {VERSION: "2026-07-28", CAPABILITIES: dict(can or {}), CLIENT: INFO, **(meta or {})}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": envelope, **(params or {})}}
        return Exchange(message, principal, "http", ToldLine(), dict(headers or {}))

    async def modern(self, method: str, params: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """The answer to a request of 2026-07-28 over HTTP."""
        with anyio.fail_after(5):
            return await self.relay.request(self.modern_exchange(method, params, **more))

    async def session(self, *, can: Mapping[str, Any] | None = None, version: str = "2025-11-25") -> "Conversation":
        """A legacy client that is introduced."""
        conversation = Conversation(self, Session("s1", ME, ToldLine()))
        params = {"protocolVersion": version, "capabilities": dict(can or {}), "clientInfo": INFO}
        conversation.opened = await conversation.ask("initialize", params)
        return conversation


@dataclass
class Conversation:
    """A legacy client."""

    asked: Asked
    session: Session
    opened: Any = None
    line: ToldLine = field(default_factory=ToldLine)
    """Of the last request."""

    def exchange(self, message: JsonObject) -> Exchange:
        self.line = ToldLine()
        return Exchange(message, ME, "http", self.line, {}, self.session)

    def begin(
        self, method: str, params: Mapping[str, Any] | None = None, request_id: int | str = 1
    ) -> "tuple[Exchange, asyncio.Task[JsonObject | None]]":
        message: JsonObject = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            message["params"] = dict(params)
        exchange = self.exchange(message)
        assert self.session.flights.board(exchange)
        work = asyncio.ensure_future(self.asked.relay.request(exchange))
        work.add_done_callback(lambda _: self.session.flights.land(exchange))
        return exchange, work

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        with anyio.fail_after(5):
            return await self.begin(method, params)[1]

    def say(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        self.asked.relay.notice(self.exchange({"jsonrpc": "2.0", "method": method, "params": dict(params or {})}))

    def reply(self, message: JsonObject) -> None:
        self.asked.relay.notice(self.exchange({"jsonrpc": "2.0", **message}))


async def until(true: Any) -> None:
    """It is true; asked again and again for a while."""
    with anyio.fail_after(5):
        while not true():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def asked_over_http(asked: Asked | None = None) -> AsyncIterator[tuple[Asked, Served]]:
    """The relay behind the real HTTP front."""
    it = asked or Asked()
    app = http_app(relay=it.relay, delivered=it.gate.delivered, now=it.clock.now, run_key=KEY)
    async with listening(app) as port:
        yield it, Served(port, it.relay, it.clock)
