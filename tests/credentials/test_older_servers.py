"""Servers of the older era: a session belongs to one principal, and every request of it carries their token."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.outbound.upstream.spec import HttpSpec
from tests.credentials.authority import Authority, response
from tests.credentials.test_upstreams import caller, said, say
from tests.upstream.faults import opened
from tests.upstream.http1_server import Asked, Peer, Served, serving

pytestmark = pytest.mark.anyio

VERSION = "2025-11-25"


@dataclass
class Older:
    """Sessions over streamable HTTP, or the one stream of HTTP+SSE, behind tokens."""

    authority: Authority
    sse: bool = False
    shown: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """In whose names anything came in each session."""
    verbs: set[str] = field(default_factory=set)
    forgotten: int = 0
    """So many requests more are told that their token is none."""
    effects: int = 0
    served: Served = field(default_factory=Served)
    _streams: list[Peer] = field(default_factory=list)

    async def script(self, peer: Peer) -> None:
        while True:
            asked = await peer.request()
            verb, path = asked.head.decode().split(" ")[:2]
            whose = self.authority.good.get(b"".join(asked.header(b"authorization")).decode().removeprefix("Bearer "))
            self.verbs.add(verb)
            if whose is None or self.forgotten:
                self.forgotten = max(0, self.forgotten - 1)
                await peer.say(response(401, {}, 'www-authenticate: Bearer error="invalid_token"'))
            elif self.sse:
                await self._sse(peer, asked, verb, path, whose)
            else:
                await peer.say(self._http(asked, verb, whose))

    def _http(self, asked: Asked, verb: str, whose: str) -> bytes:
        session = b"".join(asked.header(b"mcp-session-id")).decode()
        if verb == "GET":
            return response(405, {})
        if session:
            self.shown[session].add(whose)
        if verb == "DELETE":
            return response(200, {})
        message = json.loads(asked.body)
        if "id" not in message:
            return response(202, b"")
        if message["method"] != "initialize":
            return response(200, self._answer(message, whose))
        new = f"session-{len(self.shown)}"
        self.shown[new].add(whose)
        return response(200, self._answer(message, whose), f"mcp-session-id: {new}")

    async def _sse(self, peer: Peer, asked: Asked, verb: str, path: str, whose: str) -> None:
        if verb == "GET":
            self._streams.append(peer)
            opened = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            await peer.say(opened + b"event: endpoint\ndata: /messages/%d\n\n" % (len(self._streams) - 1))
            await peer.closed()
            return
        self.shown[path].add(whose)
        await peer.say(response(202, b""))
        message = json.loads(asked.body)
        if "id" in message:
            data = json.dumps(self._answer(message, whose)).encode()
            await self._streams[int(path.rpartition("/")[2])].say(b"event: message\ndata: " + data + b"\n\n")

    def _answer(self, message: Any, whose: str) -> Any:
        result: dict[str, Any] = {"content": [{"type": "text", "text": f"for {whose}"}]}
        match message["method"]:
            case "initialize":
                about = {"serverInfo": {"name": "older", "version": "1"}, "capabilities": {"tools": {}}}
                result = {"protocolVersion": VERSION, **about}
            case "tools/list":
                result = {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                self.effects += 1
            case _:
                return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}


@asynccontextmanager
async def older(*, sse: bool) -> AsyncIterator[tuple[Authority, Older, Any]]:
    """Such a server, which is called on behalf of principals."""
    authority = Authority(subjects={"a1": "ann", "a2": "ann", "b1": "bob"})
    server = Older(authority, sse)
    async with serving(authority.script) as tokens, serving(server.script) as tools:
        authority.served, server.served = tokens, tools
        credential = authority.credential("token_exchange")
        kind: Any = "sse" if sse else "http"
        async with opened(HttpSpec("u", tools.url, transport=kind, credential=credential)) as catalogue:
            yield authority, server, catalogue


@pytest.mark.parametrize("sse", [False, True], ids=["sessions", "sse"])
async def test_a_session_carries_the_tokens_of_one_principal_from_its_first_request_to_its_last(sse: bool) -> None:  # noqa: FBT001
    async with older(sse=sse) as (at, server, catalogue):
        callers = [caller("ann", "a1"), caller("bob", "b1"), caller("ann", "a2")] * 4
        answers = await asyncio.gather(*(say(catalogue, by) for by in callers))
        assert answers == [said("ann"), said("bob"), said("ann")] * 4
        catalogue.leave(callers[1].party.key)
        assert await say(catalogue, callers[0]) == said("ann")
        await asyncio.sleep(0.05)
    assert len(at.forms) == 3  # one for each access token that was shown
    assert sorted(map(sorted, server.shown.values())) == [["ann"], ["bob"]]
    assert server.verbs == ({"GET", "POST"} if sse else {"GET", "POST", "DELETE"})


@pytest.mark.parametrize("sse", [False, True], ids=["sessions", "sse"])
async def test_a_call_whose_token_such_a_server_does_not_know_any_more_does_what_it_does_once(sse: bool) -> None:  # noqa: FBT001
    async with older(sse=sse) as (at, server, catalogue):
        assert await say(catalogue, caller("ann", "a1")) == said("ann")
        server.forgotten = 1
        assert await say(catalogue, caller("ann", "a1")) == said("ann")
        assert (server.effects, len(at.forms)) == (2, 2)
