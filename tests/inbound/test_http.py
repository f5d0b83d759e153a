"""What an ASGI server may do to the HTTP front, without one."""

import asyncio
import json
from typing import Any

import pytest

from gateway.inbound.mcp import http_app, streams
from gateway.inbound.mcp.exchange import Exchange
from gateway.model.canonical import JsonObject
from tests.inbound.fake_relay import FakeRelay, Held
from tests.inbound.served import ENVELOPE, MODERN

pytestmark = pytest.mark.anyio

LEGACY = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}


class Server:
    """One request, and what was sent back."""

    def __init__(self, relay: FakeRelay) -> None:
        self.app = http_app(relay=relay, delivered=relay.delivered, now=lambda: 0.0)
        self.left = asyncio.Event()
        self.sent: list[Any] = []
        self.parts: list[Any] = []

    async def ask(self, method: str, params: JsonObject, *, modern: bool = True, verb: str = "POST") -> None:
        """Return when the application has."""
        more = {"mcp-protocol-version": MODERN, "mcp-method": method} if modern else {}
        if "name" in params:
            more["mcp-name"] = params["name"]
        meta = {"_meta": ENVELOPE} if modern else {}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**meta, **params}}
        self.parts = self.parts or [{"type": "http.request", "body": json.dumps(body).encode()}]
        await self.raw(more, verb)

    async def raw(self, more: dict[str, str], verb: str) -> None:
        headers = {"host": "localhost", "accept": "*/*", "content-type": "application/json", **more}
        scope = {
            "type": "http",
            "method": verb,
            "path": "/mcp",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        await self.app(scope, self.receive, self.send)

    async def receive(self) -> Any:
        if self.parts:
            return self.parts.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status

    @property
    def json(self) -> Any:
        """Of a plain response."""
        return json.loads(self.sent[1]["body"])


def holding() -> tuple[FakeRelay, Held]:
    relay, held = FakeRelay(), Held()
    relay.tools["slow"] = held
    return relay, held


@pytest.mark.parametrize("modern", [True, False])
async def test_a_server_that_waits_no_longer_gives_the_client_an_answer_all_the_same(modern: bool) -> None:  # noqa: FBT001
    relay, _held = holding()
    server, began = Server(relay), asyncio.Event()

    async def initialize(_relay: FakeRelay, exchange: Exchange) -> JsonObject:
        began.set()
        return await relay.tools["slow"](exchange)

    relay._methods = {"tools/call": initialize, "initialize": initialize}
    asked = server.ask("tools/call", {"name": "slow"}) if modern else server.ask("initialize", LEGACY, modern=False)
    task = asyncio.ensure_future(asked)
    await began.wait()
    task.cancel()
    await task
    assert (server.status, server.json["error"]["message"]) == (200, "the gateway is stopping")
    assert relay.begun[0].withdrawal.gone


async def test_a_stream_that_the_server_gives_up_ends_there() -> None:
    relay, held = holding()
    server = Server(relay)
    task = asyncio.ensure_future(server.ask("subscriptions/listen", {}))
    while len(server.sent) < 2:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert relay.begun[0].withdrawal.gone
    held.gate.set()


async def test_a_modern_request_that_the_relay_does_not_answer_is_an_error() -> None:
    async def nothing(exchange: Exchange) -> JsonObject | None:  # noqa: ARG001
        return None

    relay = FakeRelay()
    relay.request = nothing  # type: ignore[method-assign]
    server = Server(relay)
    await server.ask("tools/list", {})
    assert server.json["error"]["code"] == -32603


async def test_a_modern_client_learns_that_its_request_is_worked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SILENCE_S", 0.02)
    relay, held = holding()
    server = Server(relay)
    task = asyncio.ensure_future(server.ask("tools/call", {"name": "slow"}))
    while len(server.sent) < 2:
        await asyncio.sleep(0.001)
    held.gate.set()
    await task
    bodies = [message["body"] for message in server.sent[1:]]
    assert set(bodies[:-2]) == {b":\n\n"}
    assert bodies[-2].startswith(b"event: message\ndata: {")
    assert [shown.attempt for shown in relay.deliveries] == ["slow"]


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ([b"", b'{"jsonrpc":"2.0","id":1,', b'"method":"ping"}'], 400),
        ([b"x" * 3_000_000, b"x" * 3_000_000], 413),
        ([b"x" * 5_000_000], 413),
        ([b""], 400),
    ],
)
async def test_a_body_may_come_in_parts(parts: list[bytes], status: int) -> None:
    server = Server(FakeRelay())
    last = len(parts) - 1
    server.parts = [
        {"type": "http.request", "body": part, "more_body": number < last} for number, part in enumerate(parts)
    ]
    await server.raw({}, "POST")
    assert server.status == status


async def test_no_more_is_read_of_a_body_without_end() -> None:
    server = Server(FakeRelay())
    server.parts = [{"type": "http.request", "body": b"x" * 1_000_000, "more_body": True}] * 100
    await server.raw({}, "POST")
    assert (server.status, len(server.parts)) == (413, 32)


async def test_a_client_that_leaves_within_its_body_gets_no_answer() -> None:
    server = Server(FakeRelay())
    server.parts = [{"type": "http.request", "body": b"x", "more_body": True}]
    server.left.set()
    await server.raw({}, "POST")
    assert server.sent == []


@pytest.mark.parametrize("verb", ["PUT", "OPTIONS", "HEAD"])
async def test_other_methods_are_told_what_there_is(verb: str) -> None:
    server = Server(FakeRelay())
    await server.raw({}, verb)
    assert (server.status, dict(server.sent[0]["headers"])[b"allow"]) == (405, b"GET, POST, DELETE")


async def test_a_session_that_begins_while_we_close_ends_at_once() -> None:
    relay, began, go = FakeRelay(), asyncio.Event(), asyncio.Event()
    server = Server(relay)

    async def initialize(_relay: FakeRelay, exchange: Exchange) -> JsonObject:
        began.set()
        await go.wait()
        assert exchange.session is not None
        exchange.session.version = "2025-11-25"
        return {}

    relay._methods = {"initialize": initialize}
    task = asyncio.ensure_future(server.ask("initialize", LEGACY, modern=False))
    await began.wait()
    server.app.close()
    go.set()
    await task
    assert len(relay.ended) == 1
