"""Calls to a server that wants what its callers agreed to: over connections of their own, and over none afterwards."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from gateway.model.offer import Kind
from gateway.model.tool import NotSent
from gateway.outbound.credentials.consented import Consented
from gateway.outbound.credentials.grants import TokenExchange
from gateway.outbound.credentials.vault import Vault
from gateway.outbound.payload_keys import Keyring
from gateway.outbound.upstream.catalogue import Catalogue
from gateway.outbound.upstream.wire import Ask
from tests.credentials.authority import Guarded
from tests.credentials.consenting import AGAIN, KEY, PAGE, Consulted, Shared, behalf
from tests.credentials.test_tokens import until
from tests.credentials.test_upstreams import caller, said, say
from tests.upstream.callers import FakeCaller
from tests.upstream.faults import opened
from tests.upstream.http1_server import Peer, serving

pytestmark = pytest.mark.anyio


def by_key(who: str, tenant: str = "acme") -> FakeCaller:
    """Who came in by something else than an access token."""
    return FakeCaller(key=f"http {tenant} {who}", modern=True, behalf=behalf(who, tenant))


@dataclass
class Slow(Guarded):
    """As `Guarded`, and a call waits until it is let go on."""

    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0

    async def script(self, peer: Peer) -> None:
        while True:
            asked = await peer.request()
            self.heard += asked.head + asked.body
            if json.loads(asked.body)["method"] == "tools/call":
                self.waiting += 1
                await self.goes_on.wait()
            await peer.say(self._answered(peer, asked))


@asynccontextmanager
async def ground() -> AsyncIterator[tuple[Shared, Slow, Consented, Catalogue]]:
    provider = Consulted()
    server = Slow(provider)
    server.goes_on.set()
    async with serving(provider.script) as tokens, serving(server.script) as tools:
        provider.served, server.served = tokens, tools
        at = Shared(provider)
        mail = at.gateway(upstream="u")
        async with opened(server.spec(mail)) as catalogue:
            mail.open(
                Vault(at.ledger.consents, Keyring([KEY]), at.clock, "gw_1"),
                partial(catalogue.end, "u"),
            )
            yield at, server, mail, catalogue


async def test_each_call_is_made_with_its_principals_own_account_and_nobodys_else() -> None:
    async with ground() as (at, server, mail, catalogue):
        await at.connected(mail, "ann")
        await at.connected(mail, "bob")
        await at.connected(mail, "ann", "other")
        callers = [by_key("ann"), by_key("bob"), by_key("ann", "other"), caller("ann", "inbound-cAnArY")] * 4
        answers = await asyncio.gather(*(say(catalogue, by) for by in callers))
        names = ["acme-ann", "acme-bob", "other-ann", "acme-ann"]
        assert answers == [said(name) for name in names] * 4
        assert {len(whose) for whose in server.connections.values()} == {1}
        assert b"inbound-cAnArY" not in server.heard + at.provider.heard
        listed = await catalogue.listed("tools", by_key("bob").party)
        assert [one["name"] for one in listed.items] == ["say", "of-acme-bob"]


async def test_whoever_has_connected_nothing_is_told_where_and_nothing_is_sent() -> None:
    async with ground() as (at, server, mail, catalogue):
        await at.connected(mail, "ann")
        assert await say(catalogue, by_key("ann")) == said("acme-ann")
        heard = len(server.served.asked)
        told = await say(catalogue, by_key("bob"))
        assert isinstance(told, NotSent)
        assert "cannot be reached" not in told.reason, "nothing is wrong with the server"
        assert told.needs_account
        tool = await catalogue.tool("say", by_key("bob").party)
        assert tool is not None
        assert (tool.healthy, tool.needs_account) == (False, True)
        assert told.reason == f"`bob` has not connected an account there: connect it at {PAGE}"
        for nobody in (None, FakeCaller(key="http local anonymous", modern=True)):
            answer = await say(catalogue, nobody)
            assert isinstance(answer, NotSent)
            assert (mail.nobody in answer.reason, answer.needs_account) == (True, False)
        assert len(server.served.asked) == heard
        health = catalogue.health()["u"]
        assert (health["personal"], "bob" in str(health)) == (True, False)


async def test_whoever_connects_is_served_at_once_and_whoever_disconnects_is_not_and_their_connections_end() -> None:
    async with ground() as (at, server, mail, catalogue):
        by = by_key("ann")
        assert isinstance(await say(catalogue, by), NotSent)
        await at.connected(mail)
        assert await say(catalogue, by) == said("acme-ann")
        links = [link for link in catalogue._upstreams["u"].links if link.behalf is not None]
        await mail.disconnect("acme", "ann")
        assert [link for link in catalogue._upstreams["u"].links if link.behalf is not None] == []
        await until(lambda: links[0].health.reason == "the connection to it was closed")
        before = len(server.effects)
        assert isinstance(await say(catalogue, by), NotSent)
        assert len(server.effects) == before


async def test_a_call_that_is_under_way_when_its_principal_disconnects_has_its_answer() -> None:
    async with ground() as (at, server, mail, catalogue):
        await at.connected(mail)
        await at.connected(mail, "bob")
        server.goes_on.clear()
        under_way = asyncio.ensure_future(say(catalogue, by_key("ann")))
        await until(lambda: server.waiting == 1)
        await mail.disconnect("acme", "ann")
        server.goes_on.set()
        assert await under_way == said("acme-ann")
        assert await say(catalogue, by_key("bob")) == said("acme-bob")


async def test_a_call_over_a_connection_that_is_up_is_told_too_that_what_was_agreed_to_is_over() -> None:
    async with ground() as (at, _server, mail, catalogue):
        await at.connected(mail)
        assert await say(catalogue, by_key("ann")) == said("acme-ann")
        at.provider.refreshing.clear()
        at.clock.tell(700)
        told = await say(catalogue, by_key("ann"))
        assert isinstance(told, NotSent)
        assert (AGAIN in told.reason, told.needs_account) == (True, True)


async def test_another_account_is_another_connection() -> None:
    async with ground() as (at, server, mail, catalogue):
        await at.connected(mail)
        assert await say(catalogue, by_key("ann")) == said("acme-ann")
        code = dict(at.provider.agree(mail.flow.address("s", "v" * 43), "anns-other-account"))["code"]
        await mail.connect("acme", "ann", code, "v" * 43)
        assert await say(catalogue, by_key("ann")) == said("anns-other-account")
        assert sorted(map(sorted, server.connections.values())) == [["acme-ann"], ["anns-other-account"]]


async def test_a_connection_that_ends_with_its_account_says_nothing_more_in_the_name_of_the_next_one() -> None:
    async with ground() as (at, server, mail, catalogue):
        await at.connected(mail)
        server.goes_on.clear()
        under_way = asyncio.ensure_future(say(catalogue, by_key("ann")))
        await until(lambda: server.waiting == 1)
        (old,) = [link for link in catalogue._upstreams["u"].links if link.behalf is not None]
        code = dict(at.provider.agree(mail.flow.address("s", "v" * 43), "anns-other-account"))["code"]
        await mail.connect("acme", "ann", code, "v" * 43)
        assert await mail.token(behalf()) in at.provider.good
        more = await old.ask(Ask("prompts/list", {}, 5.0))
        assert isinstance(more, NotSent)
        assert "has connected another account by now" in more.reason
        server.goes_on.set()
        assert await under_way == said("acme-ann")
        assert list(server.connections.values()) == [{"acme-ann"}]


async def test_no_connection_of_one_account_is_shown_a_token_of_another_given_at_another_gateway() -> None:
    async with ground() as (at, server, mail, catalogue):
        other = at.gateway("gw_2", upstream="u")
        await at.connected(mail)
        assert await say(catalogue, by_key("ann")) == said("acme-ann")
        code = dict(at.provider.agree(other.flow.address("s", "v" * 43), "anns-other-account"))["code"]
        await other.connect("acme", "ann", code, "v" * 43)
        at.clock.tell(700)  # so that a token is wanted before anybody has looked
        told = await say(catalogue, by_key("ann"))
        assert isinstance(told, NotSent)
        assert "is another one by now" in told.reason
        assert await say(catalogue, by_key("ann")) == said("anns-other-account")
        assert sorted(map(sorted, server.connections.values())) == [["acme-ann"], ["anns-other-account"]]


async def test_a_call_whose_token_the_server_does_not_know_any_more_is_sent_again_with_a_renewed_one() -> None:
    async with ground() as (at, server, mail, catalogue):
        await at.connected(mail)
        assert await say(catalogue, by_key("ann")) == said("acme-ann")
        at.provider.good.clear()
        assert await say(catalogue, by_key("ann")) == said("acme-ann")
        assert at.provider.forms[-1]["grant_type"] == "refresh_token"
        assert server.effects == [("acme-ann", "say")] * 2


async def test_who_listens_in_that_name_hears_that_the_lists_are_others() -> None:
    class Hears:
        def __init__(self, by: FakeCaller) -> None:
            self.party, self.heard = by.party, list[Kind]()

        def changed(self, kind: Kind) -> None:
            self.heard.append(kind)

    async with ground() as (at, _, mail, catalogue):
        ann, bob = Hears(by_key("ann")), Hears(by_key("bob"))
        catalogue.attach(ann)  # type: ignore[arg-type]
        catalogue.attach(bob)  # type: ignore[arg-type]
        await at.connected(mail)
        assert (ann.heard, bob.heard) == (["tools"], [])


async def test_who_shows_no_access_token_is_not_served_by_one_that_somebody_of_their_name_showed() -> None:
    provider = Consulted(subjects={"a1": "ann"})
    server = Guarded(provider)
    async with serving(provider.script) as tokens, serving(server.script) as tools:
        provider.served, server.served = tokens, tools
        async with opened(server.spec(provider.credential("token_exchange"))) as catalogue:
            assert await say(catalogue, caller("ann", "a1")) == said("ann")
            answer = await say(catalogue, by_key("ann"))
            assert isinstance(answer, NotSent)
            assert TokenExchange.nobody in answer.reason
            assert server.effects == [("ann", "say")]
