"""What principals let us do at another provider, renewed by one gateway of several, whatever becomes of that one."""

import asyncio
from collections.abc import Mapping

import anyio
import pytest

from gateway.model.consent import Consent, Holder
from gateway.outbound.credentials import consented as module
from gateway.outbound.credentials import own, vault
from gateway.outbound.credentials.consented import Consented
from gateway.outbound.credentials.credential import NoToken
from gateway.outbound.credentials.sealed_grants import opened
from gateway.outbound.payload_keys import Keyring
from gateway.ports import Stand
from tests.credentials.authority import response
from tests.credentials.consenting import (
    AGAIN,
    ANN,
    CONNECT,
    KEY,
    behalf,
    kept,
    shared,
    why,
)
from tests.credentials.test_tokens import until

pytestmark = pytest.mark.anyio


async def test_two_gateways_renew_it_ahead_once_and_both_go_on_with_what_was_given() -> None:
    async with shared() as at:
        one, other = at.gateway("gw_1"), at.gateway("gw_2")
        await at.connected(one)
        first = await one.token(behalf())
        assert await other.token(behalf()) == first
        at.clock.tell(600 * 0.76)
        assert {await gateway.token(behalf()) for gateway in (one, other)} == {first}  # nobody waits
        await until(lambda: len(at.provider.forms) == 2)
        with anyio.fail_after(5):
            while first in [await gateway.token(behalf()) for gateway in (one, other)]:
                await asyncio.sleep(0.001)
        assert await one.token(behalf()) == await other.token(behalf()) == "access-cAnArY-3-for-acme-ann"
        assert [form["grant_type"] for form in at.provider.forms] == ["authorization_code", "refresh_token"]
        assert at.provider.forms[1].keys() == {"grant_type", "refresh_token", "resource"}


async def test_many_gateways_whose_token_has_ended_ask_once_and_wait_for_it() -> None:
    async with shared() as at:
        gateways = [at.gateway(f"gw_{number}") for number in range(5)]
        await at.connected(gateways[0])
        at.clock.tell(700)
        tokens = await asyncio.gather(*(one.token(behalf()) for one in gateways for _ in range(3)))
        assert set(tokens) == {"access-cAnArY-3-for-acme-ann"}
        assert len(at.provider.forms) == 2


async def test_a_gateway_that_dies_while_it_renews_is_followed_by_another_after_its_lease() -> None:
    async with shared() as at:
        gateway = at.gateway()
        await at.connected(gateway)
        stored = await kept(at)
        at.clock.tell(700)
        assert await at.ledger.consents.claim(stored, "gw_dead", at.clock.now() + vault.LEASE_S)
        waits = asyncio.ensure_future(gateway.token(behalf()))
        await asyncio.sleep(0.02)
        at.clock.tell(own.WAIT_S)
        with pytest.raises(NoToken, match="another gateway renews what its principal agreed to, and is not done"):
            await waits
        assert len(at.provider.forms) == 1
        at.clock.tell(vault.LEASE_S - own.WAIT_S)
        assert await gateway.token(behalf()) == "access-cAnArY-3-for-acme-ann"


async def test_a_provider_that_is_down_leaves_the_old_token_until_its_end_and_then_is_the_reason() -> None:
    async with shared() as at:
        gateway, other = at.gateway(), at.gateway("gw_2")
        await at.connected(gateway)
        first = await gateway.token(behalf())
        at.provider.answer = response(503, {})
        for _ in range(4):
            at.clock.tell(140)
            assert await gateway.token(behalf()) == first
            await asyncio.sleep(0.01)
        assert len(at.provider.served.asked) > 1
        at.clock.tell(40)
        assert "the provider refuses one (status 503)" in await why(gateway)
        at.provider.answer = None
        assert await other.token(behalf()) != first  # the lease was given back, and nobody waits for its end


async def test_a_grant_that_its_provider_ended_is_over_at_every_gateway_and_its_tokens_are_kept_nowhere() -> None:
    async with shared() as at:
        one, other = at.gateway(), at.gateway("gw_2")
        await at.connected(one)
        assert await one.token(behalf()) == await other.token(behalf())
        at.provider.refreshing.clear()
        at.clock.tell(600 * 0.76)
        assert await one.token(behalf())  # while that is found out
        await until(lambda: len(at.provider.forms) == 2)
        with anyio.fail_after(5):
            while (await one.connected("acme", "ann")).state != "over":
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        assert await why(one) == AGAIN  # though the old token would be good for two minutes more
        await other.look()
        with anyio.fail_after(5):  # behind calls, so one or two of them may still get the old one
            while not await _is_refused(other):
                await asyncio.sleep(0.001)
        grant = opened(Keyring([KEY]), ANN, (await kept(at)).sealed)
        assert (grant.access, grant.refresh, grant.scope) == (None, None, "mail.read")
        assert len(at.provider.forms) == 2
        await at.connected(one)
        await other.look()
        assert await one.token(behalf()) == await other.token(behalf())


async def _is_refused(gateway: Consented) -> bool:
    try:
        await gateway.token(behalf())
    except NoToken:
        return True
    return False


async def test_what_another_gateway_renewed_a_moment_ago_is_not_over() -> None:
    async with shared() as at:
        gateway, slow = at.gateway(), at.gateway("gw_slow")
        await at.connected(gateway)
        at.clock.tell(700)
        at.provider.goes_on.clear()
        late = asyncio.ensure_future(slow.token(behalf()))
        await until(lambda: len(at.provider.served.asked) == 2)
        at.clock.tell(vault.LEASE_S + 1)  # its lease is over, and it hangs
        quick = asyncio.ensure_future(gateway.token(behalf()))
        await until(lambda: len(at.provider.served.asked) == 3)
        at.provider.goes_on.set()
        told = await asyncio.gather(late, quick, return_exceptions=True)
        assert sorted(type(one).__name__ for one in told) == ["NoToken", "str"]
        assert "was renewed by another gateway at this moment" in repr(told)
        assert (await gateway.connected("acme", "ann")).state == "connected"
        at.clock.tell(2)
        assert await gateway.token(behalf()) == await slow.token(behalf()) == "access-cAnArY-3-for-acme-ann"


async def test_a_token_that_the_server_does_not_know_any_more_is_replaced_for_all() -> None:
    async with shared() as at:
        gateway = at.gateway()
        await at.connected(gateway)
        first = await gateway.token(behalf())
        assert gateway.refused(behalf(), first)
        second = await gateway.token(behalf())
        assert second != first
        assert not gateway.refused(behalf(), second)
        assert await at.gateway("gw_2").token(behalf()) == second


async def test_what_another_gateway_was_given_is_used_here_soon_though_the_old_token_is_good() -> None:
    async with shared() as at:
        one, other = at.gateway(), at.gateway("gw_2")
        await at.connected(one)
        first = await one.token(behalf())
        assert await other.token(behalf()) == first
        assert one.refused(behalf(), first)
        second = await one.token(behalf())
        assert await other.token(behalf()) == first
        await other.look()
        with anyio.fail_after(5):
            while await other.token(behalf()) != second:
                await asyncio.sleep(0.001)
        assert len(at.provider.forms) == 2


async def test_a_provider_that_gives_nothing_to_renew_it_with_is_believed_until_the_end() -> None:
    async with shared(renews=False) as at:
        gateway = at.gateway()
        await at.connected(gateway)
        first = await gateway.token(behalf())
        assert (await gateway.connected("acme", "ann")).renews is False
        at.clock.tell(580)
        assert await gateway.token(behalf()) == first
        at.clock.tell(20)
        assert await why(gateway) == AGAIN
        assert (await gateway.connected("acme", "ann")).state == "over"
        assert len(at.provider.forms) == 1


async def test_a_provider_that_does_not_say_how_long_is_asked_every_five_minutes() -> None:
    async with shared(lasts_s=None) as at:
        gateway = at.gateway()
        await at.connected(gateway)
        first = await gateway.token(behalf())
        at.clock.tell(100)
        assert await gateway.token(behalf()) == first
        at.clock.tell(300)
        assert await gateway.token(behalf()) != first


async def test_a_provider_that_is_in_trouble_itself_ends_nothing_by_what_it_says() -> None:
    async with shared() as at:
        gateway = at.gateway()
        await at.connected(gateway)
        at.clock.tell(700)
        at.provider.answer = response(500, {"error": "invalid_grant"})
        assert "the provider refuses one (`invalid_grant`)" in await why(gateway)
        assert (await gateway.connected("acme", "ann")).state == "connected"
        at.provider.answer = None
        at.clock.tell(2)
        assert await gateway.token(behalf()) == "access-cAnArY-3-for-acme-ann"


async def test_a_gateway_that_finds_nothing_to_renew_goes_on_with_no_old_token() -> None:
    async with shared() as at:
        one, other = at.gateway(), at.gateway("gw_2")
        await at.connected(one)
        first = await other.token(behalf())
        await one.disconnect("acme", "ann")
        at.clock.tell(600 * 0.76)
        assert await other.token(behalf()) == first  # while that is found out
        await asyncio.sleep(0.01)
        assert await why(other) == CONNECT


async def test_whoever_agrees_anew_while_it_is_renewed_is_served_and_nothing_is_taken_back_at_the_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shared() as at:
        one, other, anew = at.gateway(), at.gateway("gw_2"), asyncio.Event()
        await at.connected(one)
        at.clock.tell(700)
        put = at.ledger.consents.put

        async def late(made: Consent, seen: Consent | None) -> bool:
            if seen is not None and made.name == seen.name:
                await anew.wait()
            return await put(made, seen)

        monkeypatch.setattr(at.ledger.consents, "put", late)
        waits = asyncio.ensure_future(one.token(behalf()))
        await until(lambda: len(at.provider.forms) == 2)
        await at.connected(other)
        anew.set()
        with pytest.raises(NoToken, match="is another one by now: ask again"):
            await waits
        assert await one.token(behalf()) == await other.token(behalf()) == "access-cAnArY-5-for-acme-ann"
        assert at.provider.revoked == []  # providers take back all of a person's with one token


async def test_what_is_renewed_here_while_it_is_looked_how_it_stands_is_not_renewed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shared() as at:
        gateway = at.gateway()
        await at.connected(gateway)
        first = await gateway.token(behalf())
        before = await at.ledger.consents.stands([ANN])
        assert gateway.refused(behalf(), first)
        second = await gateway.token(behalf())

        async def earlier(_: object) -> Mapping[Holder, Stand]:
            return before

        monkeypatch.setattr(at.ledger.consents, "stands", earlier)
        await gateway.look()
        assert await gateway.token(behalf()) == second
        await asyncio.sleep(0.01)
        assert len(at.provider.forms) == 2


async def test_what_is_being_renewed_when_the_gateway_ends_is_kept_all_the_same() -> None:
    async with shared() as at:
        gateway = at.gateway()
        await at.connected(gateway)
        at.clock.tell(700)
        at.provider.goes_on.clear()
        waits = asyncio.ensure_future(gateway.token(behalf()))
        await until(lambda: len(at.provider.served.asked) == 2)
        closing = asyncio.ensure_future(gateway.close())
        await asyncio.sleep(0.01)
        at.provider.goes_on.set()
        await closing
        _ = await asyncio.gather(waits, return_exceptions=True)
        assert await at.gateway("gw_2").token(behalf()) == "access-cAnArY-3-for-acme-ann"
        assert len(at.provider.forms) == 2


async def test_a_provider_that_hangs_does_not_keep_the_gateway_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSE_S", 0.01)
    async with shared() as at:
        gateway = at.gateway()
        await at.connected(gateway)
        at.clock.tell(700)
        at.provider.goes_on.clear()
        waits = asyncio.ensure_future(gateway.token(behalf()))
        await until(lambda: len(at.provider.served.asked) == 2)
        await gateway.close()
        _ = await asyncio.gather(waits, return_exceptions=True)
        at.provider.goes_on.set()


async def test_what_the_ledger_cannot_take_at_once_is_offered_to_it_again() -> None:
    async with shared() as at:
        gateway = at.gateway()
        await at.connected(gateway)
        at.clock.tell(700)
        at.provider.goes_on.clear()
        waits = asyncio.ensure_future(gateway.token(behalf()))
        await until(lambda: len(at.provider.served.asked) == 2)
        at.ledger.trouble = "locked"
        at.provider.goes_on.set()
        await until(lambda: len(at.provider.forms) == 2)
        await asyncio.sleep(0.02)
        at.ledger.trouble = None
        assert await waits == "access-cAnArY-3-for-acme-ann"
