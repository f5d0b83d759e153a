"""Coming in by a signed link: looked at as often as one likes, used once at any gateway, and good for one reviewer."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import jwt
import pytest

from gateway.inbound.console import Keys, Links, mint
from gateway.inbound.console.cookies import cookie
from gateway.inbound.console.revoking import OUT, of_credential, of_reviewer
from gateway.inbound.console.sessions import begun
from gateway.inbound.mcp.revoked import KNOWN_S
from gateway.model.review import Reviewer
from gateway.ports import LedgerUnavailable
from tests.console.ground import ANNA, FOLLOWED, KEYS, URL, Browser, Standing, consoles, ticket_of

pytestmark = pytest.mark.anyio


async def test_a_link_lets_its_reviewer_in_and_nobody_else(it: Standing) -> None:
    browser, link = it.browser(), it.link()
    assert await browser.who() is None
    entered = await browser.enter(link)
    assert (entered.status_code, entered.headers["location"]) == (303, "/console/")
    who = await browser.who()
    assert who is not None
    assert (who["id"], who["tenant"], who["roles"], who["via"], who["everywhere"]) == (
        "anna", "acme", ["finance"], "link", False,
    )  # fmt: skip
    assert who["link"] == jwt.decode(ticket_of(link), options={"verify_signature": False})["jti"]
    assert await it.browser().who() is None


async def test_who_only_looks_at_a_link_uses_nothing_up(it: Standing) -> None:
    link, browser = it.link(), it.browser()
    for headers in (FOLLOWED, {}, {"user-agent": "Slackbot-LinkExpanding 1.0"}):
        for method in ("GET", "HEAD"):
            scanned = await it.browser().http.request(method, link, headers=headers)
            assert (scanned.status_code, scanned.headers.get("set-cookie")) == (200, None)
    shown = await browser.get(link)
    assert "Continue as anna</button>" in shown.text
    assert (await browser.enter(link)).status_code == 303


async def test_a_link_is_used_once_and_says_so(it: Standing) -> None:
    link = it.link()
    await it.browser().enter(link)
    late = it.browser()
    for answer in (await late.get(link), await late.press("/console/enter", {"ticket": ticket_of(link)})):
        assert (answer.status_code, answer.headers.get("set-cookie")) == (410, None)
        assert "This link has been used" in answer.text
    assert await late.who() is None


async def test_of_two_who_press_at_once_one_is_let_in(it: Standing) -> None:
    ticket = ticket_of(it.link())
    with anyio.fail_after(5):
        pressed = await asyncio.gather(*(it.browser().press("/console/enter", {"ticket": ticket}) for _ in range(8)))
    assert sorted(one.status_code for one in pressed) == [303] + [410] * 7


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_link_is_used_once_over_all_gateways_of_a_ledger(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else f"sqlite:///{tmp_path / 'ledger.db'}"
    async with consoles(url, url) as (one, other):
        link = one.link()
        browser = one.browser()
        assert (await browser.enter(link)).status_code == 303
        assert (await other.browser().get(link)).status_code == 410
        assert (await other.browser().press("/console/enter", {"ticket": ticket_of(link)})).status_code == 410
        raced = ticket_of(one.link())
        with anyio.fail_after(10):
            pressed = await asyncio.gather(
                *(at.browser().press("/console/enter", {"ticket": raced}) for at in (one, other) * 3)
            )
        assert sorted(each.status_code for each in pressed) == [303] + [410] * 5
        elsewhere = other.browser()
        elsewhere.http.cookies = browser.http.cookies
        assert (await elsewhere.who() or {})["id"] == "anna"
        csrf = (await browser.who() or {})["csrf"]
        assert (await elsewhere.press("/console/leave", {"csrf": csrf})).status_code == 303
        assert await browser.who() is None


async def test_a_link_has_its_time(it: Standing) -> None:
    link = it.link(lives_s=900)
    it.clock.tell(899)
    assert (await it.browser().get(link)).status_code == 200
    it.clock.tell(1)
    for answer in (
        await it.browser().get(link),
        await it.browser().press("/console/enter", {"ticket": ticket_of(link)}),
    ):
        assert answer.status_code == 401
        assert "This link lets nobody in: the link has expired" in answer.text


async def test_a_link_for_one_question_leads_to_it_and_tells_who_may_see_what(it: Standing) -> None:
    browser = it.browser()
    link = Links(KEYS, URL, it.clock.now).link_for(ANNA, "ap_7")
    assert "one question, ap_7" in (await browser.get(link)).text
    assert (await browser.enter(link)).headers["location"] == "/console/approvals/ap_7"
    assert (await browser.who() or {})["approval"] == "ap_7"


async def test_what_a_link_says_of_its_reviewer_is_shown_and_never_run(it: Standing) -> None:
    name = '"><script>alert(1)</script>'
    odd = Reviewer(tenant="<b>", id=name, roles=frozenset({"<i>"}), via="link")
    shown = (await it.browser().get(it.link(odd))).text
    assert "<script>" not in shown
    assert "<b>" not in shown
    assert "<i>" not in shown


async def test_a_revoked_link_lets_nobody_in_and_ends_the_session_that_it_made(it: Standing) -> None:
    link = it.link()
    browser = it.browser()
    await browser.enter(link)
    name = (await browser.who() or {})["link"]
    await it.access.once(of_credential(name), 2**31)
    assert "it has been revoked" in (await it.browser().get(link)).text
    it.clock.tell(KNOWN_S)
    assert (await browser.get("/console")).status_code == 401


async def test_who_is_let_in_no_more_is_signed_out_whichever_way_they_came_and_others_are_not(it: Standing) -> None:
    namesake = Reviewer(tenant="other", id="anna", roles=frozenset(), via="link")
    theirs, others = it.browser(), await it.entered(namesake)
    let_in(it, theirs, Reviewer(tenant="acme", id="anna", roles=frozenset({"finance"}), via="oidc"))
    assert await theirs.who() is not None, "as a provider of identities let them in"
    await it.access.once(of_reviewer("acme", "anna"), 2**31)
    it.clock.tell(KNOWN_S)
    assert (await theirs.who(), await others.who() is None) == (None, False)
    assert OUT in (await it.browser().get(it.link())).text


def let_in(it: Standing, browser: Browser, reviewer: Reviewer) -> None:
    """A session without a link."""
    session = begun(reviewer, it.clock.now())
    named = cookie(it.access, "session")
    browser.http.cookies.set(named.name, it.access.sessions.written(session))


async def test_nobody_is_let_in_where_nobody_can_say_whether_they_were_revoked(it: Standing) -> None:
    browser, link = await it.entered(), it.link()

    async def gone(_: str) -> bool:
        raise LedgerUnavailable("locked")

    async with consoles("memory:", said=gone) as (blind,):
        elsewhere = blind.browser()
        elsewhere.http.cookies = browser.http.cookies
        token, _ = mint(KEYS.tokens, "reviewer", ANNA, now=0, lives_s=2**31)
        bearer = {"authorization": f"Bearer {token}"}
        for answer in (
            await elsewhere.get("/console"),
            await blind.browser().get(link),
            await blind.browser().get("/console", bearer),
        ):
            assert answer.status_code == 503


CLAIMS: dict[str, Any] = {
    "aud": "counterfoil-console",
    "exp": 2**31,
    "iat": 0,
    "jti": "j",
    "roles": ["finance"],
    "sub": "anna",
    "tenant": "acme",
}
OTHER = Keys.of(b"o" * 32)


def forged(key: bytes = KEYS.links, typ: str = "counterfoil-console", algorithm: str = "HS256", **claims: Any) -> str:
    said = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return jwt.encode(said, key, algorithm=algorithm, headers={"typ": typ})


@pytest.mark.parametrize(
    "ticket",
    [
        "",
        "x",
        "a.b.c",
        "é.ü.ß",
        forged(OTHER.links),
        forged(KEYS.tokens),
        forged(KEYS.sessions),
        forged(b"r" * 32),
        forged(typ="counterfoil-reviewer"),
        forged(typ="counterfoil-run"),
        forged(aud="counterfoil"),
        forged(aud=["counterfoil-console", "counterfoil"]),
        forged(KEYS.links + KEYS.links, algorithm="HS512"),
        jwt.encode(CLAIMS, "", algorithm="none", headers={"typ": "counterfoil-console"}),
        forged(exp=1),
        forged(exp=None),
        forged(exp="2147483648"),
        forged(exp=True),
        forged(jti=None),
        forged(jti=""),
        forged(roles="finance"),
        forged(roles=[1]),
        forged(sub=""),
        forged(tenant=None),
        forged(everywhere="yes"),
        forged(approval=7),
        forged(sub="a" * 5000),
        mint(KEYS.tokens, "reviewer", ANNA, now=0, lives_s=2**31)[0],
    ],
    ids=range(28),
)
async def test_what_is_no_link_of_ours_lets_nobody_in(it: Standing, ticket: str) -> None:
    browser = it.browser()
    shown = await browser.http.get("/console/enter", params={"ticket": ticket})
    assert shown.status_code == 401
    assert (await browser.press("/console/enter", {"ticket": ticket})).status_code == 401
    assert await browser.who() is None


async def test_a_link_made_by_hand_as_ours_are_is_taken(it: Standing) -> None:
    browser = it.browser()
    assert (await browser.press("/console/enter", {"ticket": forged()})).status_code == 303


async def test_while_the_ledger_cannot_be_asked_nobody_is_let_in(it: Standing) -> None:
    link, browser = it.link(), await it.entered()
    ledger = it.access.once.__self__  # type: ignore[attr-defined]
    ledger.trouble = "the disk is gone"
    assert (await it.browser().press("/console/enter", {"ticket": ticket_of(link)})).status_code == 503
    assert (await browser.get("/console")).status_code == 503
    ledger.trouble = None
    assert (await it.browser().enter(link)).status_code == 303


async def test_whoever_is_nobody_is_told_how_to_get_in_as_they_can_read_it(it: Standing) -> None:
    browser = it.browser()
    page = await browser.get("/console", accept="text/html")
    assert page.status_code == 401
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<code>counterfoil console</code>" in page.text
    for headers in ({"accept": "application/json"}, {"authorization": "Bearer nonsense"}):
        told = await browser.http.get("/console/decide", headers=headers)
        assert told.status_code == 401
        assert told.headers["www-authenticate"].startswith("Bearer")
        assert "counterfoil reviewer token" in told.json()["next"]


async def test_a_console_behind_a_proxy_is_known_by_its_own_name(it: Standing) -> None:
    async with consoles("memory:", url="https://review.example") as (far,):
        browser = far.browser()
        entered = await browser.enter(far.link())
        cookie = entered.headers["set-cookie"]
        assert cookie.startswith("__Host-counterfoil-session=")
        assert {"Path=/", "HttpOnly", "SameSite=Lax", "Secure"} <= set(cookie.split("; "))
        assert await browser.who() is not None
    assert replace(it.access, url=URL).secure is False
