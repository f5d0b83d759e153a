"""Signing in at a provider: the way there and back, once, in one browser; and who that is, here."""

import time
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from gateway.inbound.console.signing_in import AT_ONCE
from gateway.outbound.oidc.flow import Flow
from gateway.outbound.oidc.key_set import DOWN_S
from gateway.outbound.oidc.people import OidcSettings
from gateway.outbound.oidc.provider import Provider
from gateway.outbound.system_trust import system_trust
from tests.console.ground import FOLLOWED, consoles, standing
from tests.console.provider import Asked, honest, query_of
from tests.console.signing import SIGN_IN, Signing, SigningMaker, at

pytestmark = pytest.mark.anyio


async def test_who_signs_in_is_whom_the_provider_vouches_for(signing: SigningMaker) -> None:
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


async def test_who_is_not_signed_in_there_is_nobody_here(signing: SigningMaker) -> None:
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


# --- the way there and back -----------------------------------------------------------------------------------------


async def test_the_way_back_can_be_walked_once(signing: SigningMaker) -> None:
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


async def test_who_is_nobody_has_nothing_kept_and_the_provider_asked_only_so_often(signing: SigningMaker) -> None:
    async with signing() as it:
        said: list[str] = []

        async def once(name: str, until: float) -> bool:
            said.append(name)
            return await it.console.access.once(name, until)

        told = standing(
            it.console.access.once.__self__,  # type: ignore[attr-defined]
            it.console.clock,
            oidc=it.console.access.oidc,
            once=once,
        )
        statuses: list[int] = []
        waits: set[str] = set()
        for number in range(AT_ONCE + 3):
            browser = told.browser()
            gone = await browser.get("/console/login")
            state = query_of(gone.headers["location"])["state"]
            back = await browser.get(f"/console/callback?state={state}&code=made-up-{number}", FOLLOWED)
            statuses.append(back.status_code)
            waits |= {back.headers.get("retry-after", "")}
        assert statuses == [401] * AT_ONCE + [429] * 3
        assert waits == {"", "5"}
        assert said == []
        it.console.clock.tell(1)
        honest_one = Signing(told, it.openid)
        browser, _ = await honest_one.signed_in()
        assert (await browser.who() or {})["id"] == "anna"
        assert len(said) == 1


async def test_who_comes_back_must_have_gone_from_the_same_browser(signing: SigningMaker) -> None:
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


async def test_another_reviewers_nonce_is_worth_nothing(signing: SigningMaker) -> None:
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
        assert "The ID token is for another sign-in" in answer.text
        assert len(stolen) == 2


async def test_a_code_from_another_sign_in_is_worth_nothing(signing: SigningMaker) -> None:
    async with signing() as it:
        theirs = query_of(await it.there(it.console.browser()))["code"]
        mine = it.console.browser()
        state = query_of(await it.there(mine))["state"]
        answer = await mine.get(f"/console/callback?code={theirs}&state={state}", FOLLOWED)
        assert answer.status_code == 401
        assert "The provider does not take the code that it gave" in answer.text


async def test_who_takes_too_long_begins_again(signing: SigningMaker) -> None:
    async with signing() as it:
        browser = it.console.browser()
        back = await it.there(browser)
        it.console.clock.tell(601)
        assert "This sign-in took too long" in (await browser.get(back, FOLLOWED)).text


@pytest.mark.parametrize(("issuer", "status"), [(None, 401), ("https://evil.example", 401), ("own", 303)])
async def test_a_provider_that_names_itself_is_held_to_it(
    signing: SigningMaker, issuer: str | None, status: int
) -> None:
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
async def test_the_way_back_leads_to_a_page_of_ours(signing: SigningMaker, to: str) -> None:
    async with signing() as it:
        _, back = await it.signed_in(to)
        assert (back.status_code, back.headers["location"]) == (303, "/console/")


# --- providers that cannot be used ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (
            {"issuer": "https://evil.example"},
            "The provider calls itself otherwise than the <code>issuer</code> that is configured",
        ),
        (
            {"token_endpoint": "http://idp.example/token"},
            "An endpoint of the provider is missing, or not reached over TLS",
        ),
        ({"jwks_uri": None}, "An endpoint of the provider is missing, or not reached over TLS"),
    ],
)
async def test_a_provider_that_says_odd_things_of_itself_is_not_asked(
    signing: SigningMaker, metadata: dict[str, Any], why: str
) -> None:
    async with signing() as it:
        it.openid.metadata = metadata
        gone = await it.console.browser().get("/console/login")
        assert gone.status_code == 502
        assert why.replace("<code>", "").replace("</code>", "") in gone.text.replace("`", "")


async def test_a_provider_that_is_down_is_asked_again_in_a_moment(signing: SigningMaker) -> None:
    async with signing() as it:
        it.openid.down = True
        assert (await it.console.browser().get("/console/login")).status_code == 502
        it.openid.down = False
        soon = await it.console.browser().get("/console/login")
        assert (soon.status_code, "could not be reached a moment ago" in soon.text) == (502, True)
        it.console.clock.tell(DOWN_S)
        it.openid.now += DOWN_S
        browser, _ = await it.signed_in()
        assert await browser.who() is not None


async def test_a_secret_goes_where_the_provider_takes_it(signing: SigningMaker) -> None:
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
    signing: SigningMaker, person: dict[str, Any], more: dict[str, Any], roles: list[str]
) -> None:
    async with signing(**more) as it:
        it.openid.person |= person
        browser, _ = await it.signed_in()
        assert (await browser.who() or {})["roles"] == roles


async def test_where_no_tenant_is_asked_for_only_who_has_a_role_comes_in(signing: SigningMaker) -> None:
    async with signing(tenant_claim=None, allowed_tenants=()) as it:
        browser, _ = await it.signed_in()
        assert (await browser.who() or {})["tenant"] == "local"
        it.openid.person["groups"] = ["other"]
        assert await it.refused() == "You have no role here: ask whoever runs this gateway for one"


async def test_who_has_no_role_comes_in_where_anybody_connects_and_only_for_that(signing: SigningMaker) -> None:
    async with signing(tenant_claim=None, allowed_tenants=(), anybody_connects=True) as it:
        browser, _ = await it.signed_in()
        assert (await browser.who() or {})["approval"] is None
        it.openid.person["groups"] = ["other"]
        browser, back = await it.signed_in()
        assert (back.status_code, (await browser.who() or {})["approval"]) == (303, "")


async def test_an_address_counts_as_a_name_once_the_provider_has_verified_it(signing: SigningMaker) -> None:
    async with signing(id_claim="email") as it:
        it.openid.person |= {"email": "anna@acme.example", "email_verified": "true"}
        assert await it.refused() == "The provider has not verified your e-mail address"
        it.openid.person["email_verified"] = True
        browser, _ = await it.signed_in()
        assert (await browser.who() or {})["id"] == "anna@acme.example"
