"""Signing in at a provider: the way there and back once, in one browser, and no token believed that is not for it."""

import base64
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import httpx2
import jwt
import pytest
from pydantic import SecretStr

from gateway.outbound.oidc import Flow, OidcSettings, Provider
from gateway.outbound.oidc.provider import ANEW_S, KEPT_S
from gateway.outbound.system_trust import system_trust
from tests.console.ground import FOLLOWED, Browser, Standing, consoles, standing
from tests.console.provider import CLIENT, EC, RSA, SECRET, Asked, OpenId, honest, pem, public, query_of, stage

pytestmark = pytest.mark.anyio

SIGN_IN = "counterfoil-sign-in-8321"


@dataclass
class Signing:
    """A console at whose provider people sign in."""

    console: Standing
    openid: OpenId

    async def there(self, browser: Browser, to: str = "") -> str:
        """The browser goes to the provider, and its owner signs in; the address to which it is sent back."""
        gone = await browser.get(f"/console/login?to={to}")
        assert gone.status_code == 303, gone.text
        async with httpx2.AsyncClient(verify=system_trust()) as elsewhere:
            return str((await elsewhere.get(gone.headers["location"])).headers["location"])

    async def signed_in(self, to: str = "") -> tuple[Browser, httpx2.Response]:
        """A browser that went there and came back, and what it is told."""
        browser = self.console.browser()
        return browser, await browser.get(await self.there(browser, to), FOLLOWED)

    async def refused(self) -> str:
        """Why somebody who came back is not let in."""
        browser, answer = await self.signed_in()
        assert answer.status_code == 401, answer.text
        assert await browser.who() is None
        return answer.text.partition("<h1>")[2].partition("</h1>")[0]


def settings(openid: OpenId, **more: Any) -> OidcSettings:
    told = OidcSettings(
        issuer=openid.url,
        client_id=CLIENT,
        client_secret=SecretStr(SECRET),
        tenant_claim="org",
        roles_claim="groups",
        roles_map={"fin": ("finance", "payments")},
        allowed_tenants=("acme",),
    )
    return replace(told, **more)


@pytest.fixture(scope="module")
def providers() -> Iterator[Callable[[float], OpenId]]:
    with stage() as new:
        yield new


_Signing: TypeAlias = Callable[..., AbstractAsyncContextManager[Signing]]


@pytest.fixture
def signing(providers: Callable[[float], OpenId]) -> _Signing:
    """Makes a console and its provider."""

    @asynccontextmanager
    async def made(**more: Any) -> AsyncIterator[Signing]:
        async with consoles("memory:") as (console,):
            yield at(console, providers(console.clock.now()), **more)

    return made


def at(console: Standing, openid: OpenId, **more: Any) -> Signing:
    """The same console, as one that has that provider."""
    flow = Flow(Provider(settings(openid, **more), console.clock.monotonic), f"{console.access.url}/console/callback")
    ledger = console.access.once.__self__  # type: ignore[attr-defined]
    return Signing(standing(ledger, console.clock, oidc=flow), openid)


async def test_who_signs_in_is_whom_the_provider_vouches_for(signing: _Signing) -> None:
    async with signing() as it:
        browser, back = await it.signed_in(to="/console/runs/run_1")
        assert (back.status_code, back.headers["location"]) == (303, "/console/runs/run_1")
        who = await browser.who() or {}
    assert (who["id"], who["tenant"], who["via"], who["everywhere"]) == ("anna", "acme", "oidc", False)
    assert who["roles"] == ["finance", "payments"]
    assert SIGN_IN not in browser.cookies
    assert it.openid.secrets == ["header"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its own
async def test_a_real_provider_signs_people_in() -> None:
    from oidc_provider_mock import User, run_server_in_thread  # noqa: PLC0415 - half a second, for this test alone

    people = [User(sub="anna", claims={"email": "anna@acme.example", "email_verified": True, "groups": ["fin"]})]
    with run_server_in_thread(user_claims=people) as server:
        issuer = f"http://localhost:{server.server_port}"
        told = OidcSettings(issuer, "c", SecretStr("s"), scopes=("email",), id_claim="email", roles_claim="groups")
        flow = Flow(Provider(told, time.monotonic), "http://127.0.0.1:8321/console/callback")
        async with (
            consoles("memory:", oidc=flow, now=time.time) as (console,),
            httpx2.AsyncClient(verify=system_trust()) as elsewhere,
        ):
            browser = console.browser()
            page = await browser.get("/console/runs/run_1", accept="text/html")
            assert 'href="/console/login?to=/console/runs/run_1"' in page.text
            gone = await browser.get("/console/login?to=/console/runs/run_1")
            back = await elsewhere.post(gone.headers["location"], data={"sub": "anna"})
            entered = await browser.get(back.headers["location"], FOLLOWED)
            assert (entered.status_code, entered.headers["location"]) == (303, "/console/runs/run_1"), entered.text
            who = await browser.who() or {}
            assert (who["id"], who["tenant"], who["roles"]) == ("anna@acme.example", "local", ["fin"])


async def test_who_is_not_signed_in_there_is_nobody_here(signing: _Signing) -> None:
    async with signing() as it:
        browser = it.console.browser()
        for said, why in (
            ("error=access_denied&code=code-0", "The provider did not sign you in"),
            ("code=", "The provider gave no code"),
            (f"code={'a' * 5000}", "The provider gave no code"),
        ):
            state = query_of(await it.there(browser))["state"]
            answer = await browser.get(f"/console/callback?state={state}&{said}", FOLLOWED)
            assert answer.status_code == 401
            assert why in answer.text
        assert await browser.who() is None


# --- tokens that say too much ---------------------------------------------------------------------------------------


def signed(key: Any = RSA[0], algorithm: str = "RS256", kid: str | None = "one", **more: Any) -> Callable[[Asked], str]:
    def token(asked: Asked) -> str:
        claims = {name: value for name, value in {**asked.claims, **more}.items() if value is not None}
        return jwt.encode(claims, key, algorithm, {} if kid is None else {"kid": kid})

    return token


def hs256_with_the_public_key(asked: Asked) -> str:
    """By hand: libraries that know of the trick refuse to sign so."""

    def part(value: Any) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    said = part({"alg": "HS256", "typ": "JWT", "kid": "one"}) + b"." + part(asked.claims)
    mac = base64.urlsafe_b64encode(hmac.digest(pem(RSA[0]), said, "sha256")).rstrip(b"=")
    return (said + b"." + mac).decode()


NOT_SIGNED = "The ID token is not signed with a key that only the provider has"
FORGED = "The ID token was not signed by the provider"
ELSE = "The ID token is meant for somebody else"
ANOTHER = "The ID token is from another provider"
LACKS = "The ID token lacks what is needed, or is malformed"
GIVEN = "The ID token was given to somebody else"
SIGN_INS = "The ID token is for another sign-in"


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (signed(RSA[1]), FORGED),
        (signed(RSA[1], kid="two"), FORGED),
        (signed("", "none"), NOT_SIGNED),
        (signed(SECRET.encode() * 3, "HS256"), NOT_SIGNED),
        (hs256_with_the_public_key, NOT_SIGNED),
        (signed(EC, "ES256"), FORGED),
        (signed(RSA[0], "RS512"), FORGED),
        (signed(aud="somebody-else"), ELSE),
        (signed(aud=["somebody-else", "others"]), ELSE),
        (signed(aud=None), LACKS),
        (signed(iss="https://evil.example"), ANOTHER),
        (signed(iss=None), LACKS),
        (signed(exp=1), "The ID token has expired"),
        (signed(exp=None), LACKS),
        (signed(exp="soon"), LACKS),
        (signed(iat=2**33), "The ID token is from the future: compare the clocks of the gateway and the provider"),
        (signed(nbf=2**33), "The ID token is from the future: compare the clocks of the gateway and the provider"),
        (signed(azp="somebody-else"), GIVEN),
        (signed(aud=[CLIENT, "somebody-else"]), GIVEN),
        (signed(aud=[CLIENT, "somebody-else"], azp="somebody-else"), GIVEN),
        (signed(nonce="of another sign-in"), SIGN_INS),
        (signed(nonce=None), LACKS),
        (signed(nonce=7), SIGN_INS),
        (signed(sub=None), LACKS),
        (lambda asked: honest(asked)[:-6], FORGED),
        (lambda _: "a.b", "The provider&#x27;s ID token is malformed"),
        (lambda _: "a" * 70_000, "The provider&#x27;s ID token is too long"),
        (signed(org="other"), "People of your organisation do not review here"),
        (signed(org=None), "The provider does not say your `org`"),
        (signed(org=["acme"]), "The provider does not say your `org`"),
        (signed(sub="local:root"), "A name that begins with `local:` is for users of the gateway&#x27;s own machine"),
    ],
    ids=range(31),
)
async def test_no_token_is_believed_that_is_not_the_providers_word_on_this_sign_in(
    signing: _Signing, token: Callable[[Asked], str], why: str
) -> None:
    async with signing() as it:
        it.openid.token = token
        assert (await it.refused()).replace("<code>", "`").replace("</code>", "`") == why


@pytest.mark.parametrize(
    "token",
    [signed(), signed(aud=[CLIENT]), signed(azp=CLIENT), signed(aud=[CLIENT, "x"], azp=CLIENT), signed(kid=None)],
    ids=range(5),
)
async def test_what_is_the_providers_word_is_believed(signing: _Signing, token: Callable[[Asked], str]) -> None:
    async with signing() as it:
        it.openid.token = token
        browser, _ = await it.signed_in()
        assert await browser.who() is not None


async def test_a_key_for_secrets_among_the_providers_keys_is_no_key(signing: _Signing) -> None:
    async with signing() as it:
        it.openid.keys = [{"kty": "oct", "kid": "one", "k": "c2VjcmV0", "alg": "HS256"}, {"kty": "odd", "kid": "x"}, 7]  # type: ignore[list-item]
        it.openid.token = signed(kid="one")
        assert await it.refused() == FORGED


# --- keys that change -----------------------------------------------------------------------------------------------


async def test_a_new_key_is_fetched_once_it_is_met_and_forged_ones_do_not_have_us_ask_for_each(
    signing: _Signing,
) -> None:
    async with signing() as it:
        await it.signed_in()
        it.openid.keys, it.openid.token = [public("ec", EC)], signed(EC, "ES256", "ec")
        assert (await it.refused(), it.openid.fetched) == (FORGED, 1)
        it.console.clock.tell(ANEW_S)
        it.openid.now += ANEW_S
        browser, _ = await it.signed_in()
        assert (await browser.who() is not None, it.openid.fetched) == (True, 2)
        it.openid.token = signed(RSA[1], kid="forged")
        for _ in range(3):
            assert await it.refused() == FORGED
        assert it.openid.fetched == 2
        it.console.clock.tell(ANEW_S)
        it.openid.now += ANEW_S
        for _ in range(3):
            assert await it.refused() == FORGED
        assert it.openid.fetched == 3


async def test_a_key_that_was_withdrawn_is_good_for_an_hour_at_most(signing: _Signing) -> None:
    async with signing() as it:
        await it.signed_in()
        it.openid.keys = [public("two", RSA[1])]
        it.console.clock.tell(KEPT_S)
        it.openid.now += KEPT_S
        assert await it.refused() == FORGED


# --- the way there and back -----------------------------------------------------------------------------------------


async def test_the_way_back_can_be_walked_once(signing: _Signing) -> None:
    async with signing() as it:
        browser = it.console.browser()
        back = await it.there(browser)
        kept = browser.cookies[SIGN_IN]
        assert (await browser.get(back, FOLLOWED)).status_code == 303
        thief = it.console.browser()
        for cookie in (f"{SIGN_IN}={kept}", "", f"{SIGN_IN}=x"):
            again = await thief.get(back, FOLLOWED, cookie=cookie)
            assert again.status_code == 401
        assert await thief.who() is None
        replayed = await thief.get(back, FOLLOWED, cookie=f"{SIGN_IN}={kept}")
        assert "This sign-in is over" in replayed.text


async def test_who_comes_back_must_have_gone_from_the_same_browser(signing: _Signing) -> None:
    async with signing() as it:
        attackers, victims = it.console.browser(), it.console.browser()
        planted = await it.there(attackers)
        for prepare in (False, True):
            if prepare:  # the victim was about to sign in as well
                await victims.get("/console/login")
            answer = await victims.get(planted, FOLLOWED)
            assert answer.status_code == 401
            assert "This sign-in was not begun in this browser" in answer.text
            assert await victims.who() is None
        assert (await attackers.get(planted, FOLLOWED)).status_code == 303


async def test_another_reviewers_nonce_is_worth_nothing(signing: _Signing) -> None:
    async with signing() as it:
        mine = it.console.browser()
        stolen: list[str] = []

        def first(asked: Asked) -> str:
            stolen.append(honest(asked))
            return stolen[0]

        it.openid.token = first
        await it.signed_in()
        answer = await mine.get(await it.there(mine), FOLLOWED)
        assert answer.status_code == 401
        assert SIGN_INS in answer.text
        assert len(stolen) == 2


async def test_a_code_from_another_sign_in_is_worth_nothing(signing: _Signing) -> None:
    async with signing() as it:
        theirs = query_of(await it.there(it.console.browser()))["code"]
        mine = it.console.browser()
        state = query_of(await it.there(mine))["state"]
        answer = await mine.get(f"/console/callback?code={theirs}&state={state}", FOLLOWED)
        assert answer.status_code == 401
        assert "The provider does not take the code that it gave" in answer.text


async def test_who_takes_too_long_begins_again(signing: _Signing) -> None:
    async with signing() as it:
        browser = it.console.browser()
        back = await it.there(browser)
        it.console.clock.tell(601)
        assert "This sign-in took too long" in (await browser.get(back, FOLLOWED)).text


@pytest.mark.parametrize(("issuer", "status"), [(None, 401), ("https://evil.example", 401), ("own", 303)])
async def test_a_provider_that_names_itself_is_held_to_it(signing: _Signing, issuer: str | None, status: int) -> None:
    async with signing() as it:
        it.openid.metadata = {"authorization_response_iss_parameter_supported": True}
        browser = it.console.browser()
        back = await it.there(browser)
        named = "" if issuer is None else f"&iss={it.openid.url if issuer == 'own' else issuer}"
        assert (await browser.get(f"{back}{named}", FOLLOWED)).status_code == status


@pytest.mark.parametrize(
    "to",
    ["//evil.example", "https://evil.example/console/", "/mcp", "/console/../mcp", "/console/\\evil", "javascript:x",
     "/console", "%0d%0aSet-Cookie:x", "/console/ü"],
)  # fmt: skip
async def test_the_way_back_leads_to_a_page_of_ours(signing: _Signing, to: str) -> None:
    async with signing() as it:
        _, back = await it.signed_in(to)
        assert (back.status_code, back.headers["location"]) == (303, "/console/")


# --- providers that cannot be used ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (
            {"issuer": "https://evil.example"},
            "The provider calls itself otherwise than <code>console.oidc.issuer</code>",
        ),
        (
            {"token_endpoint": "http://idp.example/token"},
            "An endpoint of the provider is missing, or not reached over TLS",
        ),
        ({"jwks_uri": None}, "An endpoint of the provider is missing, or not reached over TLS"),
    ],
)
async def test_a_provider_that_says_odd_things_of_itself_is_not_asked(
    signing: _Signing, metadata: dict[str, Any], why: str
) -> None:
    async with signing() as it:
        it.openid.metadata = metadata
        gone = await it.console.browser().get("/console/login")
        assert gone.status_code == 502
        assert why.replace("<code>", "").replace("</code>", "") in gone.text.replace("`", "")


async def test_a_provider_that_is_down_is_asked_again_the_next_time(signing: _Signing) -> None:
    async with signing() as it:
        it.openid.down = True
        assert (await it.console.browser().get("/console/login")).status_code == 502
        it.openid.down = False
        browser, _ = await it.signed_in()
        assert await browser.who() is not None


async def test_a_secret_goes_where_the_provider_takes_it(signing: _Signing) -> None:
    async with signing() as it:
        it.openid.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
        await it.signed_in()
        public_client = at(it.console, it.openid, client_secret=None)
        browser, _ = await public_client.signed_in()
        assert it.openid.secrets == ["form", "form"]
        assert await browser.who() is not None


# --- who that is, here ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("person", "more", "roles"),
    [
        ({"groups": ["fin", "other", "fin"]}, {}, ["finance", "payments"]),
        ({"groups": ["x", "y"]}, {"roles_map": {}}, ["x", "y"]),
        ({"groups": "x y"}, {"roles_map": {}}, ["x", "y"]),
        ({"groups": None}, {}, []),
        ({"realm": {"roles": ["fin"]}}, {"roles_claim": "realm.roles"}, ["finance", "payments"]),
        (
            {"https://acme.example/roles": ["fin"]},
            {"roles_claim": "https://acme.example/roles"},
            ["finance", "payments"],
        ),
    ],
)
async def test_roles_are_ours_by_the_map(
    signing: _Signing, person: dict[str, Any], more: dict[str, Any], roles: list[str]
) -> None:
    async with signing(**more) as it:
        it.openid.person |= person
        browser, _ = await it.signed_in()
        assert (await browser.who() or {})["roles"] == roles


async def test_where_no_tenant_is_asked_for_only_who_has_a_role_comes_in(signing: _Signing) -> None:
    async with signing(tenant_claim=None, allowed_tenants=()) as it:
        browser, _ = await it.signed_in()
        assert (await browser.who() or {})["tenant"] == "local"
        it.openid.person["groups"] = ["other"]
        assert await it.refused() == "You have no role here: ask whoever runs this gateway for one"


async def test_an_address_counts_as_a_name_once_the_provider_has_verified_it(signing: _Signing) -> None:
    async with signing(id_claim="email") as it:
        it.openid.person |= {"email": "anna@acme.example", "email_verified": "true"}
        assert await it.refused() == "The provider has not verified your e-mail address"
        it.openid.person["email_verified"] = True
        browser, _ = await it.signed_in()
        assert (await browser.who() or {})["id"] == "anna@acme.example"
