"""An authorization server that is strict, and an MCP server that takes nothing but its tokens. Both remember all."""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote_plus

from pydantic import SecretStr

from gateway.outbound.credentials import credential_of
from gateway.outbound.credentials.credential import Credential
from gateway.outbound.credentials.endpoint import OAuthClient
from gateway.outbound.credentials.entries import Auth
from gateway.outbound.upstream.spec import HttpSpec
from tests.upstream.http1_server import Asked, Peer, Served, serving

CLIENT, SECRET = "counterfoil", "client-secret-cAnArY: ü"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS = "urn:ietf:params:oauth:token-type:access_token"


def response(status: int, said: Any, *headers: str) -> bytes:
    """A whole response with JSON."""
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    lines = "".join(f"{line}\r\n" for line in ("content-type: application/json", *headers))
    return f"HTTP/1.1 {status} x\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body


@dataclass
class Authority:
    """The authorization server."""

    lasts_s: Any = 600
    """What it says of the life of its tokens; None for nothing."""
    answer: bytes | None = None
    """What it says instead of a token."""
    subjects: dict[str, str] = field(default_factory=dict)
    """Whose access token is whose: those that it exchanges."""
    good: dict[str, str] = field(default_factory=dict)
    """Its tokens that an upstream may take, and on whose behalf."""
    forms: list[dict[str, str]] = field(default_factory=list)
    """What it was asked."""
    heard: bytearray = field(default_factory=bytearray)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    """It answers only while this is set."""
    served: Served = field(default_factory=Served)

    def __post_init__(self) -> None:
        self.goes_on.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.served.port}/token"

    def client(self, **more: Any) -> OAuthClient:
        return OAuthClient(self.url, CLIENT, SecretStr(SECRET), **more)

    def credential(self, kind: Any = "client_credentials", monotonic: Any = None, **more: Any) -> Credential:
        """As a gateway asks this server."""
        now = monotonic or asyncio.get_running_loop().time
        return credential_of(Auth(kind, self.client(**more)), now, lambda: 0.5)

    async def script(self, peer: Peer) -> None:
        while True:
            asked = await peer.request()
            self.heard += asked.head + asked.body
            await self.goes_on.wait()
            await peer.say(self.answer or self._answered(asked))

    def _answered(self, asked: Asked) -> bytes:
        form = {name: values[0] for name, values in parse_qs(asked.body.decode(), strict_parsing=True).items()}
        self.forms.append(form)
        if not self._known(asked, form):
            return response(401, {"error": "invalid_client"}, "www-authenticate: Basic")
        whose = "gateway" if form["grant_type"] == "client_credentials" else self._subject(form)
        if whose is None:
            return response(400, {"error": "invalid_grant", "error_description": f"no {form.get('subject_token')}"})
        token = f"upstream-tOkEn-{len(self.forms)}-for-{whose}"
        self.good[token] = whose
        lasts = {} if self.lasts_s is None else {"expires_in": self.lasts_s}
        kind = {} if form["grant_type"] == "client_credentials" else {"issued_token_type": ACCESS}
        return response(200, {"access_token": token, "token_type": "Bearer", **lasts, **kind})

    def _subject(self, form: Mapping[str, str]) -> str | None:
        kinds = form.get("subject_token_type"), form.get("requested_token_type")
        if form["grant_type"] != EXCHANGE or kinds != (ACCESS, ACCESS):
            return None
        return self.subjects.get(form.get("subject_token", ""))

    def _known(self, asked: Asked, form: Mapping[str, str]) -> bool:
        shown = asked.header(b"authorization")
        if not shown:
            return (form.get("client_id"), form.get("client_secret")) == (CLIENT, SECRET)
        name, _, secret = base64.b64decode(shown[0].removeprefix(b"Basic ")).decode().partition(":")
        return "client_id" not in form and (unquote_plus(name), unquote_plus(secret)) == (CLIENT, SECRET)


@dataclass
class Guarded:
    """An MCP server of the newer era, behind those tokens."""

    authority: Authority
    challenge: str | None = 'Bearer realm="x", error="invalid_token"'
    """What it says to who shows no good token."""
    refuses: int = 0
    """How many requests more it refuses, whatever they show."""
    effects: list[tuple[str, str]] = field(default_factory=list)
    """On whose behalf which tool did what it does."""
    connections: dict[int, set[str]] = field(default_factory=dict)
    """In whose names anything was said over each."""
    counts: Counter[str] = field(default_factory=Counter)
    heard: bytearray = field(default_factory=bytearray)
    served: Served = field(default_factory=Served)

    def spec(self, credential: Credential | None, name: str = "u") -> HttpSpec:
        return HttpSpec(name, self.served.url, transport="http", credential=credential)

    async def script(self, peer: Peer) -> None:
        while True:
            asked = await peer.request()
            self.heard += asked.head + asked.body
            await peer.say(self._answered(peer, asked))

    def _answered(self, peer: Peer, asked: Asked) -> bytes:
        shown = b", ".join(asked.header(b"authorization")).decode()
        whose = self.authority.good.get(shown.removeprefix("Bearer "))
        message = json.loads(asked.body)
        self.counts[message["method"]] += 1
        if whose is None or self.refuses:
            self.refuses = max(0, self.refuses - 1)
            self.counts["refused"] += 1
            return response(401, {"error": "no"}, *([f"www-authenticate: {self.challenge}"] if self.challenge else []))
        self.connections.setdefault(peer.number, set()).add(whose)
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] not in {"server/discover", "tools/list", "tools/call"}:
            return response(200, {**answer, "error": {"code": -32601, "message": "Method not found"}})
        return response(200, {**answer, "result": self._result(message, whose)})

    def _result(self, message: Mapping[str, Any], whose: str) -> Mapping[str, Any]:
        private = {"ttlMs": 60_000, "cacheScope": "private"}
        if message["method"] == "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **private}
        if message["method"] == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("say", f"of-{whose}")]
            return {"tools": tools, **private}
        self.effects.append((whose, message["params"]["name"]))
        return {"content": [{"type": "text", "text": f"for {whose}"}]}


@asynccontextmanager
async def both(**more: Any) -> AsyncIterator[tuple[Authority, Guarded]]:
    """The two, while they run."""
    authority = Authority(**more)
    guarded = Guarded(authority)
    async with serving(authority.script) as tokens, serving(guarded.script) as tools:
        authority.served, guarded.served = tokens, tools
        yield authority, guarded
