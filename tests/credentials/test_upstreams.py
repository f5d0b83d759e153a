"""Calls to servers that want tokens: in whose name they are made, and when they are made twice."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.model.party import Behalf
from gateway.model.tool import Answer, NotSent, Silence, Tool, ToolResult
from gateway.outbound.credentials import kept
from gateway.outbound.credentials.grants import TokenExchange
from gateway.outbound.upstream.catalogue import Catalogue
from gateway.outbound.upstream.http1 import Unsendable
from gateway.outbound.upstream.negotiate import Client
from gateway.outbound.upstream.place import Place
from gateway.outbound.upstream.spec import HttpSpec, Patience
from gateway.ports import Dispatch
from tests.credentials.authority import Authority, Guarded, both, response
from tests.credentials.test_tokens import until
from tests.upstream.callers import FakeCaller
from tests.upstream.faults import opened
from tests.upstream.http1_server import Peer, serving

pytestmark = pytest.mark.anyio

PERSONAL = TokenExchange.nobody
SAY = Tool("say", "u", "say", {})


def said(whose: str) -> Answer:
    return ToolResult({"content": [{"type": "text", "text": f"for {whose}"}]})


def caller(who: str, shown: str | None = None, tenant: str = "acme") -> FakeCaller:
    """Who came in with that access token, or without one."""
    behalf = None if shown is None else Behalf(tenant, who, SecretStr(shown))
    return FakeCaller(key=f"http {tenant} {who}", modern=True, behalf=behalf)


async def say(catalogue: Catalogue, by: FakeCaller | None = None, timeout_s: float = 5.0) -> Answer:
    return await catalogue.call(Dispatch(SAY, {}, timeout_s, caller=by))


@asynccontextmanager
async def ours(**more: Any) -> AsyncIterator[tuple[Authority, Guarded, Catalogue]]:
    """A server that is called as ourselves."""
    async with both(**more) as (at, server), opened(server.spec(at.credential())) as catalogue:
        yield at, server, catalogue


@asynccontextmanager
async def personal(**subjects: str) -> AsyncIterator[tuple[Authority, Guarded, Catalogue]]:
    """A server that is called on behalf of principals."""
    async with (
        both(subjects=subjects) as (at, server),
        opened(server.spec(at.credential("token_exchange"))) as catalogue,
    ):
        yield at, server, catalogue


# --- as ourselves -----------------------------------------------------------------------------------------------------


async def test_every_request_carries_the_token_and_one_is_asked_for() -> None:
    async with ours() as (at, server, catalogue):
        assert [await say(catalogue) for _ in range(3)] == [said("gateway")] * 3
        assert (len(at.forms), server.counts["refused"]) == (1, 0)


@pytest.mark.parametrize("challenge", ['Bearer error="invalid_token"', "Basic, bearer realm=x , error=invalid_token"])
async def test_a_call_whose_token_the_server_does_not_know_any_more_is_sent_again_with_another(challenge: str) -> None:
    async with ours() as (at, server, catalogue):
        server.challenge = challenge
        at.good.clear()
        assert await say(catalogue) == said("gateway")
        assert (server.effects, len(at.forms)) == ([("gateway", "say")], 2)


REFUSED = NotSent("the upstream refused the call with status 401: it wants other credentials", refused=True)


@pytest.mark.parametrize(
    "challenge", [None, "Bearer", 'Bearer error="insufficient_scope"', 'Basic realm="invalid_token"']
)
async def test_a_call_is_not_sent_again_where_the_server_does_not_say_that_it_was_the_token(
    challenge: str | None,
) -> None:
    async with ours() as (at, server, catalogue):
        server.challenge, server.refuses, before = challenge, 1, server.counts["tools/call"]
        assert await say(catalogue) == REFUSED
        assert server.counts["tools/call"] == before + 1
        assert await say(catalogue) == said("gateway")  # the next one has another token
        assert len(at.forms) == 2


async def test_a_server_that_refuses_every_token_is_asked_twice_and_then_once_for_each_call() -> None:
    async with ours() as (at, server, catalogue):
        server.refuses = 100
        assert [await say(catalogue) for _ in range(3)] == [REFUSED] * 3
        assert (server.counts["tools/call"], len(at.forms), server.effects) == (4, 2, [])


async def test_what_was_lost_is_never_sent_again() -> None:
    async def script(peer: Peer) -> None:
        message = json.loads((await peer.request()).body)
        if message["method"] == "tools/call":
            return
        answer = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 9, "cacheScope": "private"}
        await peer.say(response(200, {"jsonrpc": "2.0", "id": message["id"], "result": answer}))

    async with both() as (at, _), serving(script) as served:
        async with opened(HttpSpec("u", served.url, transport="http", credential=at.credential())) as catalogue:
            assert isinstance(await say(catalogue), Silence)
        assert [one.body.count(b"tools/call") for one in served.asked].count(1) == 1


async def test_without_a_token_nothing_is_sent_and_the_reason_is_said() -> None:
    async with both(answer=response(401, {"error": "invalid_client"})) as (at, server):
        async with opened(server.spec(at.credential())) as catalogue:
            why = "there is no access token for it: the provider refuses one (`invalid_client`)"
            answer = await say(catalogue)
            assert isinstance(answer, NotSent)
            assert answer.reason.endswith(why)
            assert catalogue.health()["u"]["reason"].endswith(why)
        assert server.served.asked == []


async def test_the_upstream_comes_back_once_the_provider_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "DOWN_S", 0.02)
    async with both(answer=response(503, {})) as (at, server), opened(server.spec(at.credential())) as catalogue:
        assert isinstance(await say(catalogue), NotSent)
        at.answer = None
        await until(lambda: catalogue.health()["u"]["state"] == "healthy")
        assert await say(catalogue) == said("gateway")


async def test_a_call_whose_second_token_cannot_be_had_was_not_sent() -> None:
    async with ours() as (at, server, catalogue):
        server.refuses, at.answer = 1, response(503, {})
        assert await say(catalogue) == REFUSED
        assert server.effects == []


async def test_no_token_goes_to_where_it_could_be_read_on_the_way() -> None:
    async with both() as (at, _):
        with pytest.raises(ValueError, match="gets access tokens, so its address must be https://"):
            async with opened(HttpSpec("u", "http://crm.example/mcp", credential=at.credential())):
                pass


async def test_a_redirect_is_not_followed_with_the_token_or_without() -> None:
    async def elsewhere(peer: Peer) -> None:
        await peer.request()

    async with both() as (at, _), serving(elsewhere) as other:

        async def script(peer: Peer) -> None:
            while True:
                await peer.request()
                await peer.say(response(307, {}, f"location: {other.url}"))

        async with serving(script) as served:
            spec = HttpSpec("u", served.url, transport="http", credential=at.credential())
            async with opened(spec) as catalogue:
                assert isinstance(await say(catalogue), NotSent)
        assert (other.asked, served.asked == []) == ([], False)


async def test_as_ourselves_everybody_is_served_over_one_connection_in_our_name() -> None:
    async with ours() as (at, server, catalogue):
        for by in (caller("ann", "a1"), caller("bob", "b1"), caller("eve"), None):
            assert await say(catalogue, by) == said("gateway")
        assert (len(at.forms), len(server.connections)) == (1, 1)
        assert b"a1" not in at.heard


# --- on behalf of who calls -------------------------------------------------------------------------------------------


async def test_each_call_is_made_in_the_name_of_who_calls_over_connections_of_their_own() -> None:
    async with personal(a1="ann", a2="ann", b1="bob") as (at, server, catalogue):
        callers = [caller("ann", "a1"), caller("bob", "b1"), caller("ann", "a2")] * 8
        answers = await asyncio.gather(*(say(catalogue, by) for by in callers))
        assert answers == [said("ann"), said("bob"), said("ann")] * 8
        assert len(at.forms) == 3  # one for each access token
        assert {len(names) for names in server.connections.values()} == {1}
        ann, bob = caller("ann", "a1").party, caller("bob", "b1").party
        assert [one["name"] for one in (await catalogue.listed("tools", ann)).items] == ["say", "of-ann"]
        assert [one["name"] for one in (await catalogue.listed("tools", bob)).items] == ["say", "of-bob"]


async def test_the_inbound_token_goes_to_the_token_endpoint_and_to_nobody_else() -> None:
    async with personal(**{"inbound-cAnArY": "ann"}) as (at, server, catalogue):
        by = caller("ann", "inbound-cAnArY")
        assert await say(catalogue, by) == said("ann")
        assert "inbound-cAnArY" in at.forms[0].values()
        assert b"inbound-cAnArY" not in server.heard
        assert "inbound-cAnArY" not in repr(by.party) + repr(catalogue.health())


async def test_whoever_came_in_without_an_access_token_calls_in_nobodys_name() -> None:
    async with personal(a1="ann") as (at, server, catalogue):
        for by in (caller("ann"), None):
            answer = await say(catalogue, by)
            assert isinstance(answer, NotSent)
            assert PERSONAL in answer.reason
        assert await say(catalogue, caller("ann", "a1")) == said("ann")
        assert isinstance(await say(catalogue, caller("ann")), NotSent)  # nor over the connection that there is by now
        assert (len(at.forms), server.effects) == (1, [("ann", "say")])


async def test_the_same_name_at_another_tenant_is_another_principal() -> None:
    async with personal(a1="ann-acme", a2="ann-other") as (_, server, catalogue):
        same = {"key": "one and the same"}
        for tenant, shown in (("acme", "a1"), ("other", "a2")):
            by = caller("ann", shown, tenant)
            by.key = same["key"]
            assert await say(catalogue, by) == said(f"ann-{tenant}")
        assert {len(names) for names in server.connections.values()} == {1}


async def test_an_access_token_that_is_not_exchanged_is_no_reason_to_refuse_the_next_one() -> None:
    async with personal(good="ann") as (_, server, catalogue):
        refused = await say(catalogue, caller("ann", "expired"))
        assert isinstance(refused, NotSent)
        assert "the provider refuses one (`invalid_grant`)" in refused.reason
        assert "expired" not in refused.reason
        assert await say(catalogue, caller("ann", "good")) == said("ann")
        assert server.effects == [("ann", "say")]


async def test_a_token_endpoint_that_gives_the_inbound_token_back_gives_none() -> None:
    async with personal(a1="ann") as (at, server, catalogue):
        at.answer = response(200, {"access_token": "a1", "token_type": "Bearer"})
        answer = await say(catalogue, caller("ann", "a1"))
        assert isinstance(answer, NotSent)
        assert "gives back the one it was shown" in answer.reason
        assert server.served.asked == []


async def test_such_an_upstream_is_healthy_while_somebody_is_connected_to_it() -> None:
    async with personal(a1="ann") as (_, _, catalogue):
        before = catalogue.health()["u"]
        assert (before["state"], before["personal"], before["reason"]) == ("unhealthy", True, PERSONAL)
        await say(catalogue, caller("ann", "a1"))
        assert catalogue.health()["u"]["state"] == "healthy"


async def test_an_access_token_for_which_there_is_no_other_spoils_nothing_for_the_next_call() -> None:
    async with personal(a1="ann") as (_, server, catalogue):
        assert await say(catalogue, caller("ann", "a1")) == said("ann")
        for _ in range(2):
            assert isinstance(await say(catalogue, caller("ann", "expired")), NotSent)
            assert await say(catalogue, caller("ann", "a1")) == said("ann")
        assert server.effects == [("ann", "say")] * 3
        assert len(server.connections) == 1
        assert catalogue.health()["u"]["state"] == "healthy"


async def test_after_a_loss_the_token_of_whoever_calls_next_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "REFUSED_S", 0.0)
    async with personal(a1="ann", a2="ann") as (at, _, catalogue):
        for shown in ("a1", "a2"):
            assert await say(catalogue, caller("ann", shown)) == said("ann")
        del at.subjects["a2"]
        at.good.clear()
        (link,) = catalogue._upstreams["u"].links[1:]
        link._connection._lose("is gone")  # type: ignore[attr-defined]
        await until(lambda: link.health.state == "unhealthy" and "provider" in (link.health.reason or ""))
        assert await say(catalogue, caller("ann", "a1")) == said("ann")


async def test_nothing_is_sent_over_a_connection_in_another_name_than_it_was_made_in() -> None:
    ann, other = (Behalf(tenant, "ann", SecretStr("a1")) for tenant in ("acme", "other"))
    async with both(subjects={"a1": "ann"}) as (at, server):
        place = Place(server.spec(at.credential("token_exchange")), Client("x", "1"), Patience(), ann)
        with pytest.raises(Unsendable, match="another principal's"):
            await place.send("POST", {}, b"{}", behalf=other)
        assert (at.served.asked, server.served.asked) == ([], [])
        await place.close()
