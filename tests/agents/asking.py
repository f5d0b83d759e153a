"""Requests at the HTTP front, without a server: who they come from is said, and what comes back is told."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.inbound.mcp import http_app
from gateway.inbound.mcp.doorkeeper import Doorkeeper
from gateway.inbound.mcp.mount import HttpApp
from gateway.model.answer import Shown
from gateway.model.principal import Principal
from tests.inbound.fake_relay import FakeRelay
from tests.inbound.served import ENVELOPE, MODERN

FAR = ("203.0.113.9", 4711)
NEAR = ("127.0.0.1", 4711)


@dataclass
class Told:
    """What was answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def why(self) -> str:
        """The message of a refusal."""
        message: str = self.json["error"]["message"]
        return message

    @property
    def challenge(self) -> str | None:
        return self.headers.get("www-authenticate")


@dataclass
class Front:
    """A front, and what its relay was asked."""

    keeper: Doorkeeper
    relay: Any = field(default_factory=FakeRelay)
    """A fake one, unless a test wants the real one."""
    delivered: Callable[[Shown], None] = lambda _: None
    each: int = 100
    """How many requests of one principal's may be open."""

    def __post_init__(self) -> None:
        self.app: HttpApp = http_app(
            relay=self.relay, delivered=self.delivered, now=lambda: 0.0, keeper=self.keeper, each=self.each
        )

    async def call(self, headers: Mapping[str, str] | None = None, *, tool: str = "echo", **more: Any) -> Told:
        """A tool call of the newer era."""
        params = {"name": tool, "arguments": {}}
        return await self.ask("tools/call", params, {"mcp-name": tool, **(headers or {})}, **more)

    async def ask(self, method: str, params: Mapping[str, Any], headers: Mapping[str, str], **more: Any) -> Told:
        """A request of the newer era."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": ENVELOPE, **params}}
        modern = {"mcp-protocol-version": MODERN, "mcp-method": method}
        return await self.send({**modern, **headers}, json.dumps(body).encode(), **more)

    async def send(
        self,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        path: str = "/mcp",
        query: bytes = b"",
        verb: str = "POST",
        peer: tuple[str, int] | None = NEAR,
        twice: Mapping[str, str] | None = None,
        version: str = "1.1",
    ) -> Told:
        """One request; the headers in `twice` stand there beside the others of the same name."""
        named = {
            "host": "localhost",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
        }
        lines = [*{**named, **headers}.items(), *(twice or {}).items()]
        scope = {
            "type": "http",
            "http_version": version,
            "method": verb,
            "path": path,
            "query_string": query,
            "client": peer,
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in lines],
        }
        parts: list[Any] = [{"type": "http.request", "body": body}]
        sent: list[Any] = []

        async def receive() -> Any:
            if not parts:
                await asyncio.Event().wait()
            return parts.pop()

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        told = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
        return Told(sent[0]["status"], told, b"".join(one.get("body", b"") for one in sent[1:]))

    @property
    def came(self) -> Principal:
        """Whose the last request was that got in."""
        principal: Principal = self.relay.begun[-1].principal
        return principal
