"""What principals let us do at another provider: whose it is, how it is kept, and how it ends."""

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from gateway.model.consent import Holder
from gateway.outbound.credentials import vault
from gateway.outbound.credentials.consent_flow import NotConsented
from gateway.outbound.credentials.consented import LOOK_S, NOWHERE, Connected
from gateway.outbound.credentials.credential import NoToken
from gateway.outbound.credentials.sealed_grants import CannotOpen, opened, sealed
from gateway.outbound.credentials.vault import Held, Vault
from gateway.outbound.ledger.memory_consents import MemoryConsents
from gateway.outbound.payload_keys import Keyring
from tests.credentials.authority import response
from tests.credentials.consenting import (
    ANN,
    CONNECT,
    KEY,
    OLD_KEY,
    PAGE,
    VERIFIER,
    Consulted,
    behalf,
    consented,
    kept,
    shared,
    why,
)
from tests.credentials.test_tokens import until

pytestmark = pytest.mark.anyio


# --- whose it is ------------------------------------------------------------------------------------------------------


async def test_what_somebody_agrees_to_gives_tokens_for_calls_of_theirs_and_of_nobody_else() -> None:
    async with shared() as at:
        gateway = at.gateway()
        await at.connected(gateway)
        assert await gateway.token(behalf()) == "access-cAnArY-2-for-acme-ann"
        assert await why(gateway, "bob") == CONNECT.replace("ann", "bob")
        assert await why(gateway, "ann", "other") == CONNECT
        with pytest.raises(NoToken, match="on behalf of each principal who has connected an account there"):
            await gateway.token(None)
        assert len(at.provider.forms) == 1


async def test_the_provider_is_asked_as_the_configuration_says() -> None:
    async with shared() as at:
        gateway = at.gateway()
        address = gateway.flow.address("s", VERIFIER)
        assert address.startswith(f"{at.provider.authorization_url}&response_type=code&client_id=counterfoil&")
        for part in ("scope=mail.read+offline_access", "resource=https%3A%2F%2Fmail.example%2Fmcp", "state=s"):
            assert part in address
        await at.connected(gateway)
        assert at.provider.forms == [
            {
                "grant_type": "authorization_code",
                "code": "code-cAnArY-1-acme-ann",
                "redirect_uri": f"{PAGE}/mail/callback",
                "code_verifier": VERIFIER,
                "resource": "https://mail.example/mcp",
            }
        ]


async def test_a_public_client_says_its_name_and_shows_no_secret() -> None:
    async with shared() as at:
        gateway = at.gateway(secret=None)
        await at.connected(gateway)
        assert at.provider.forms[0]["client_id"] == "counterfoil"
        assert b"uthorization:" not in at.provider.heard


async def test_a_code_with_another_verifier_or_of_another_address_gives_nothing() -> None:
    async with shared() as at:
        gateway, other = at.gateway(), at.gateway(upstream="crm")
        for went, verifier, back in ((gateway, "w" * 43, gateway), (gateway, VERIFIER, other)):
            said = dict(at.provider.agree(went.flow.address("s", VERIFIER), "victim"))
            with pytest.raises(NotConsented, match="invalid_grant"):
                await back.connect("acme", "mallory", said["code"], verifier)
        assert await why(gateway, "mallory") == CONNECT.replace("ann", "mallory")


async def test_a_new_consent_takes_the_place_of_the_one_before_and_what_went_over_it_ends() -> None:
    async with shared() as at:
        gateway = at.gateway()
        await at.connected(gateway)
        first = await gateway.token(behalf())
        await at.connected(gateway)
        assert await gateway.token(behalf()) != first
        assert at.ended == [("acme", "ann")] * 2


async def test_before_there_is_a_ledger_there_is_nothing() -> None:
    gateway = consented(Consulted(), lambda: 0.0)
    assert await why(gateway) == NOWHERE
    with pytest.raises(NoToken):
        await gateway.connected("acme", "ann")
    await gateway.look()
    await gateway.close()


# --- how it is kept ---------------------------------------------------------------------------------------------------


async def test_no_token_is_in_the_store_in_a_repr_or_in_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with shared() as at:
        gateway = at.gateway()
        await at.connected(gateway)
        await gateway.token(behalf())
        (own_one,) = gateway._own.values()
        stored = await kept(at)
        grant = opened(Keyring([KEY]), ANN, stored.sealed)
        said = f"{stored!r} {grant!r} {vars(gateway)!r} {own_one.__dict__!r} {own_one.kept.__dict__!r} {caplog.text}"
        assert "has connected an account" in said
        assert "cAnArY" not in said
        assert b"cAnArY" not in stored.sealed


async def test_what_is_moved_to_another_holder_or_put_there_as_it_is_does_not_open() -> None:
    async with shared() as at:
        gateway = at.gateway()
        await at.connected(gateway)
        hers, store = await kept(at), at.ledger.consents
        plain = b'{"provider":["%b","counterfoil"],"since":1,"scope":""}' % at.provider.url.encode()
        for who, stored in (("mallory", hers.sealed), ("eve", plain), ("kim", hers.sealed[:-1] + b"x")):
            assert await store.put(replace(hers, holder=Holder("acme", who, "mail"), sealed=stored), None)
            assert (await why(gateway, who)).startswith("what is kept of its principal's consent cannot be opened")
            assert (await gateway.connected("acme", who)).state == "unknown"
        assert await gateway.disconnect("acme", "mallory") == "unknown"  # and can be dropped all the same
        for other in (Holder("other", "ann", "mail"), Holder("acme", "ann", "crm")):
            with pytest.raises(CannotOpen):
                opened(Keyring([KEY]), other, hers.sealed)
        with pytest.raises(CannotOpen):
            sealed(Keyring([]), ANN, opened(Keyring([KEY]), ANN, hers.sealed))


async def test_an_old_key_opens_and_the_new_one_seals_what_is_renewed() -> None:
    async with shared() as at:
        await at.connected(at.gateway(keys=(OLD_KEY,)))
        gateway = at.gateway(keys=(KEY, OLD_KEY))
        assert await gateway.token(behalf())
        at.clock.tell(700)
        assert await gateway.token(behalf())
        assert opened(Keyring([KEY]), ANN, (await kept(at)).sealed).scope == "mail.read"
        assert "the key is not here" in await why(at.gateway(keys=(OLD_KEY,)))


async def test_what_was_agreed_to_is_shown_to_no_other_provider_than_the_one_that_gave_it() -> None:
    async with shared() as at:
        await at.connected(at.gateway())
        moved = at.gateway(client_id="another")
        before = len(at.provider.forms)
        assert await why(moved) == f"its provider is another one than `ann` agreed at: connect it again at {PAGE}"
        assert (await moved.connected("acme", "ann")).state == "over"
        assert len(at.provider.forms) == before


async def test_a_ledger_that_goes_away_changes_nothing_of_what_was_given_and_is_the_reason_for_the_rest() -> None:
    async with shared() as at:
        gateway = at.gateway()
        await at.connected(gateway)
        token, hers = await gateway.token(behalf()), await kept(at)
        store = Vault(at.ledger.consents, Keyring([KEY]), at.clock, "gw_1")
        held = await store.claim(Held(hers, opened(Keyring([KEY]), ANN, hers.sealed)))
        assert held is not None
        at.ledger.trouble = "gone"
        await gateway.look()
        assert await gateway.token(behalf()) == token
        grant = held.grant
        for refused in (
            store.begin(ANN, grant),
            store.stands([ANN]),
            store.drop(ANN),
            store.claim(Held(hers, grant)),
            store.read(ANN),
        ):
            with pytest.raises(NoToken, match="the ledger cannot be asked"):
                await refused
        await store.release(held)
        at.clock.tell(vault.LEASE_S)
        with pytest.raises(NoToken, match="the ledger cannot be asked"):
            await store.renewed(held, grant)


async def test_what_others_change_all_the_time_is_not_fought_over() -> None:
    class Busy(MemoryConsents):
        async def put(self, _made: Any, _seen: Any) -> bool:
            return False

    async with shared() as at:
        store = Vault(Busy(lambda: None), Keyring([KEY]), at.clock, "gw_1")
        await at.connected(at.gateway())
        grant = opened(Keyring([KEY]), ANN, (await kept(at)).sealed)
        with pytest.raises(NoToken, match="others change what is kept"):
            await store.begin(ANN, grant)


async def test_it_is_looked_again_and_again_what_became_of_what_is_used_here() -> None:
    async with shared() as at:
        one, other = at.gateway(), at.gateway("gw_2")
        await at.connected(one)
        assert await other.token(behalf())
        keeping = asyncio.ensure_future(other.keep(at.clock))
        await until(lambda: at.clock.sleepers)
        await one.disconnect("acme", "ann")
        before = len(at.ended)
        at.clock.tell(LOOK_S)
        await until(lambda: len(at.ended) > before)
        assert await why(other) == CONNECT
        keeping.cancel()


async def test_without_the_ledger_there_is_a_reason_and_no_token() -> None:
    async with shared() as at:
        gateway = at.gateway()
        await at.connected(gateway)
        at.ledger.trouble = "gone"
        assert await why(gateway) == "the ledger cannot be asked for what its principal lets us do there"
        assert (await gateway.connected("acme", "ann")).state == "unknown"
        for refused in (gateway.disconnect("acme", "ann"), at.connected(gateway)):
            with pytest.raises(NoToken):
                await refused
        await gateway.look()


# --- how it ends ------------------------------------------------------------------------------------------------------


async def test_what_is_taken_back_is_gone_here_at_once_there_soon_and_void_at_the_provider() -> None:
    async with shared() as at:
        one, other = at.gateway(), at.gateway("gw_2")
        await at.connected(one)
        assert await one.token(behalf()) == await other.token(behalf())
        before = len(at.ended)
        assert await one.disconnect("acme", "ann") == "revoked"
        assert (await why(one), await kept(at)) == (CONNECT, None)
        assert at.provider.revoked == ["refresh-cAnArY-2-for-acme-ann"]
        await other.look()
        assert await why(other) == CONNECT
        assert at.ended[before:] == [("acme", "ann")] * 2
        assert await one.disconnect("acme", "ann") == "nothing"


async def test_it_is_gone_whatever_the_provider_says() -> None:
    async with shared() as at:
        for answer, told, url in (
            (response(503, {}), "unknown", at.provider.revocation_url),
            (response(200, b"no json"), "unknown", at.provider.revocation_url),
            (None, "kept", None),
        ):
            gateway = at.gateway(revocation_url=url)
            await at.connected(gateway)
            at.provider.answer = answer
            assert await gateway.disconnect("acme", "ann") == told
            at.provider.answer = None
            assert await kept(at) is None


@pytest.mark.parametrize("here", [True, False])
async def test_what_is_renewed_while_it_is_taken_back_is_not_kept_and_is_void(here: Any) -> None:
    async with shared() as at:
        gateway = at.gateway()
        other = gateway if here else at.gateway("gw_2")
        await at.connected(gateway)
        at.clock.tell(700)
        at.provider.goes_on.clear()
        waits = asyncio.ensure_future(gateway.token(behalf()))
        await until(lambda: len(at.provider.served.asked) == 2)
        gone = asyncio.ensure_future(other.disconnect("acme", "ann"))
        await until(lambda: len(at.provider.served.asked) == 3)
        at.provider.goes_on.set()
        with pytest.raises(NoToken, match="has not connected"):
            await waits
        await gone
        assert await kept(at) is None
        await until(lambda: "refresh-cAnArY-3-for-acme-ann" in at.provider.revoked)
        assert at.provider.refreshing == {}


async def test_whoever_connects_through_another_gateway_is_served_here_soon() -> None:
    async with shared() as at:
        one, other = at.gateway(), at.gateway("gw_2")
        assert await why(other) == CONNECT
        await at.connected(one)
        await other.look()
        assert await other.token(behalf()) == await one.token(behalf())


async def test_somebody_sees_how_it_stands() -> None:
    async with shared() as at:
        gateway = at.gateway()
        assert await gateway.connected("acme", "ann") == Connected("none")
        await at.connected(gateway)
        assert await gateway.connected("acme", "ann") == Connected("connected", at.clock.now(), "mail.read")
        assert await gateway.connected("other", "ann") == Connected("none")


async def test_of_very_many_principals_the_least_recently_used_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    from gateway.outbound.credentials import consented as module  # noqa: PLC0415

    monkeypatch.setattr(module, "MAX_KEPT", 2)
    async with shared() as at:
        gateway = at.gateway()
        for who in ("ann", "bob", "kim"):
            await at.connected(gateway, who)
            assert await gateway.token(behalf(who))
        assert [one.principal for one in gateway._own] == ["bob", "kim"]
        assert await gateway.token(behalf("ann")) == "access-cAnArY-2-for-acme-ann"
        assert len(at.provider.forms) == 3


# --- what comes back --------------------------------------------------------------------------------------------------

GOOD = [("code", "c"), ("state", "s"), ("iss", "https://login.example")]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ([*GOOD, ("code", "d")], "the provider's answer says one thing twice"),
        ([("code", "c")], "the answer is from another provider"),
        ([("code", "c"), ("iss", "https://evil.example")], "the answer is from another provider"),
        ([("error", "access_denied"), *GOOD[2:]], "you did not agree there"),
        ([("error", "invalid_scope"), *GOOD[2:]], "the provider gave nothing (`invalid_scope`)"),
        ([("error", "<script>"), *GOOD[2:]], "the provider gave nothing"),
        (GOOD[1:], "the provider gave no code"),
        ([("code", "c" * 5000), *GOOD[2:]], "the provider gave no code"),
    ],
)
async def test_what_is_no_code_says_why(said: Any, told: str) -> None:
    flow = consented(Consulted(), lambda: 0.0).flow
    assert flow.code(GOOD) == "c"
    with pytest.raises(NotConsented) as refused:
        flow.code(said)
    assert str(refused.value) == told
