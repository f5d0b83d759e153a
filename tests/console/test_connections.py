"""Connecting an account at another provider: whoever went comes back, in the session in which they went, once."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from typing import Any
from urllib.parse import urlencode

import anyio
import httpx2
import pytest

from gateway.inbound.console import connecting
from gateway.inbound.console.connecting import AT_ONCE, AWAY_S, TABS
from gateway.inbound.console.credentials import mint
from gateway.model.consent import Holder
from gateway.model.review import Reviewer
from gateway.outbound.credentials.consented import Consented
from gateway.outbound.ledger.memory_consents import MemoryConsents
from gateway.ports import LedgerUnavailable
from tests.console.office import KEYS, PRESSED, Office, Visitor, office, text_of
from tests.credentials.authority import response
from tests.credentials.consenting import Consulted, behalf, consented
from tests.upstream.http1_server import serving
from tests.world import ToldClock

pytestmark = pytest.mark.anyio

ANN = Reviewer("acme", "ann", frozenset(), via="link")
BOB = Reviewer("acme", "bob", frozenset({"owner"}), via="link")
MALLORY = Reviewer("acme", "mallory", frozenset(), via="link")
URL = "http://127.0.0.1:8321"
CAME_BACK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@dataclass
class Ground:
    """A console with two servers that want what people agree to, and the provider of both."""

    at: Office
    provider: Consulted
    mail: Consented
    crm: Consented

    async def gone(self, browser: Visitor, upstream: str = "mail") -> str:
        """They press Connect; the address of the provider to which the page goes on."""
        page = await browser.read("/connections")
        sent = await browser.send(f"/connections/{upstream}/connect", page)
        assert sent.status_code == 200, sent.text
        found = re.search(r'http-equiv="refresh" content="0; url=([^"]*)"', sent.text)
        assert found is not None, sent.text
        return unescape(found[1])

    def agreed(self, address: str, whose: str = "anns-account") -> list[tuple[str, str]]:
        """Somebody agrees there; the query with which they are sent back."""
        return self.provider.agree(address, whose)

    async def back(self, browser: Visitor, said: Any, upstream: str = "mail") -> httpx2.Response:
        path = f"/console/connections/{upstream}/callback?{urlencode(said)}"
        return await browser.http.get(path, headers=CAME_BACK)

    async def whose(self, who: str = "ann", upstream: str = "mail") -> str | None:
        """Whose account is used for calls of theirs."""
        if await self.at.it.ledger.consents.read(Holder("acme", who, upstream)) is None:
            return None
        return self.provider.good[await (self.mail if upstream == "mail" else self.crm).token(behalf(who))]


@asynccontextmanager
async def ground() -> AsyncIterator[Ground]:
    with anyio.fail_after(20):
        async with serving((provider := Consulted()).script) as served:
            provider.served = served
            clock = ToldClock()
            page = f"{URL}/console/connections"
            made = [consented(provider, clock.monotonic, name, page) for name in ("mail", "crm")]
            async with office(URL, consented=made) as at:
                yield Ground(at, provider, *made)


def alarm(page: str) -> str:
    """What is said to have gone wrong."""
    found = re.search(r'role="alert">(.*?)</p>', page)
    assert found is not None, page
    return text_of(found[1]).strip()


# --- as it is meant ---------------------------------------------------------------------------------------------------


async def test_somebody_connects_an_account_sees_it_and_takes_it_back() -> None:
    async with ground() as it:
        browser = await it.at.visitor(ANN)
        page = await browser.read("/connections")
        assert 'href="/console/connections" aria-current="page">Connections' in page
        assert text_of(page).count("Not connected.") == 2
        assert "you will be asked for mail.read offline_access" in text_of(page)
        answer = await it.back(browser, it.agreed(await it.gone(browser)))
        assert (answer.status_code, answer.headers["location"]) == (
            303,
            "/console/connections?about=mail&told=connected",
        )
        page = text_of(await browser.read("/connections?about=mail&told=connected"))
        assert "mail : Your account is connected." in page
        assert (page.count("Connected at"), page.count("Not connected."), page.count("you agreed to mail.read")) == (
            1,
            1,
            1,
        )
        assert await it.whose() == "anns-account"
        sent = await browser.send("/connections/mail/disconnect", await browser.read("/connections"))
        assert sent.headers["location"] == "/console/connections?about=mail&told=revoked"
        assert "says that what it gave us is void" in await browser.read("/connections?about=mail&told=revoked")
        assert await it.whose() is None


async def test_everybody_sees_and_changes_their_own_alone_whatever_else_they_see() -> None:
    async with ground() as it:
        ann = await it.at.visitor(ANN)
        await it.back(ann, it.agreed(await it.gone(ann)))
        for other in (BOB, Reviewer("other", "ann", via="link"), Reviewer("local", "x", via="local", everywhere=True)):
            browser = await it.at.visitor(other)
            page = await browser.read("/connections")
            assert text_of(page).count("Not connected.") == 2
            sent = await browser.send("/connections/mail/disconnect", page)
            assert sent.headers["location"].endswith("told=nothing")
        assert await it.whose() == "anns-account"


async def test_in_two_tabs_two_accounts_are_connected_at_once_and_the_same_one_twice() -> None:
    async with ground() as it:
        browser = await it.at.visitor(ANN)
        there = [await it.gone(browser), await it.gone(browser, "crm"), await it.gone(browser)]
        said = [it.agreed(address, f"account-{at}") for at, address in enumerate(there)]
        for at, upstream in ((2, "mail"), (1, "crm"), (0, "mail")):
            assert (await it.back(browser, said[at], upstream)).status_code == 303
        assert (await it.whose(), await it.whose(upstream="crm")) == ("account-0", "account-1")
        for _ in range(TABS + 3):
            await it.gone(browser)
        assert max(len(one) for one in browser.http.cookies.values()) < 2_000


async def test_the_page_is_there_only_where_a_server_wants_it() -> None:
    async with office(URL) as at:
        browser = await at.visitor(ANN)
        assert "/connections" not in await browser.read("/")
        assert (await browser.get("/connections")).status_code == 404
    async with ground() as it:
        browser = await it.at.visitor(ANN)
        assert '<a href="/console/connections">Connections</a>' in await browser.read("/runs")
        page = await browser.read("/connections")
        assert (await browser.send("/connections/nowhere/connect", page)).status_code == 404
        assert "nowhere" not in await browser.read("/connections?about=nowhere&told=connected")
        link = await it.at.visitor(Reviewer("acme", "ann", via="link", approval="ap_1"))
        assert (await link.get("/connections")).status_code == 404


# --- as it is not -----------------------------------------------------------------------------------------------------


async def test_an_attackers_code_in_anothers_browser_connects_nothing() -> None:
    """Else what somebody writes in their mail would go to the attacker's account."""
    async with ground() as it:
        attacker, victim = await it.at.visitor(MALLORY), await it.at.visitor(ANN)
        hers = it.agreed(await it.gone(attacker), "mallorys-account")
        assert alarm((await it.back(victim, hers)).text).startswith("This was not begun in this browser")
        await it.gone(victim)  # nor while they are on their way themselves
        answer = await it.back(victim, hers)
        assert answer.status_code == 403
        assert await it.whose() is None


async def test_a_code_of_somebody_who_followed_anothers_link_connects_nothing() -> None:
    """The attacker sends somebody the address of the provider; their code comes back to a browser that never went."""
    async with ground() as it:
        attacker, victim = await it.at.visitor(MALLORY), await it.at.visitor(ANN)
        said = it.agreed(await it.gone(attacker), "anns-account")
        assert (await it.back(victim, said)).status_code == 403
        assert (await it.whose("ann"), await it.whose("mallory")) == (None, None)


async def test_a_stolen_code_is_worth_nothing_in_the_attackers_own_browser() -> None:
    async with ground() as it:
        attacker, victim = await it.at.visitor(MALLORY), await it.at.visitor(ANN)
        stolen = dict(it.agreed(await it.gone(victim)))["code"]
        own = dict(it.agreed(await it.gone(attacker), "mallorys-account"))
        answer = await it.back(attacker, {**own, "code": stolen})
        assert (answer.status_code, alarm(answer.text)) == (
            400,
            (
                "There is no access token for it: the provider refuses one ( invalid_grant ): go back to your "
                "connections and press Connect again."
            ),
        )
        assert await it.whose("mallory") is None


async def test_whoever_has_signed_in_meanwhile_gets_nothing_of_who_went() -> None:
    async with ground() as it:
        browser = await it.at.visitor(ANN)
        said = it.agreed(await it.gone(browser))
        shows = [cookies_of(browser, await it.at.visitor(other)) for other in (MALLORY, ANN)]
        for cookies in shows:  # nor in a session that is a later one of the same person
            shown = {**CAME_BACK, "cookie": cookies}
            answer = await browser.http.get(f"/console/connections/mail/callback?{urlencode(said)}", headers=shown)
            assert answer.status_code == 403
            assert alarm(answer.text).startswith("You have signed in anew since this was begun")
        assert (await it.whose("ann"), await it.whose("mallory")) == (None, None)


def cookies_of(*browsers: Visitor) -> str:
    """What a browser shows in which one person went, and the next one has signed in since."""
    shown = {one.name: one.value for browser in browsers for one in browser.http.cookies.jar}
    return "; ".join(f"{name}={value}" for name, value in shown.items())


async def test_whoever_has_signed_out_meanwhile_connects_nothing() -> None:
    async with ground() as it:
        browser = await it.at.visitor(ANN)
        said = it.agreed(await it.gone(browser))
        cookies = cookies_of(browser)
        await browser.send("/leave", await browser.read("/connections"))
        shown = {**CAME_BACK, "cookie": cookies}
        answer = await browser.http.get(f"/console/connections/mail/callback?{urlencode(said)}", headers=shown)
        assert answer.status_code == 401
        assert dict(said)["code"] not in answer.text
        assert await it.whose() is None


async def test_what_came_back_once_is_good_for_nothing_more_not_even_with_the_same_cookie() -> None:
    async with ground() as it:
        browser = await it.at.visitor(ANN)
        said = it.agreed(await it.gone(browser))
        cookies = cookies_of(browser)
        assert (await it.back(browser, said)).status_code == 303
        assert alarm((await it.back(browser, said)).text).startswith("This was not begun in this browser")
        asked = len(it.provider.forms)
        path = f"/console/connections/mail/callback?{urlencode(said)}"
        answer = await browser.http.get(path, headers={**CAME_BACK, "cookie": cookies})
        assert (answer.status_code, alarm(answer.text).partition(":")[0]) == (403, "This was used already")
        assert len(it.provider.forms) == asked


async def test_an_answer_of_another_server_s_provider_is_for_nobody() -> None:
    async with ground() as it:
        browser = await it.at.visitor(ANN)
        said = it.agreed(await it.gone(browser, "crm"))
        assert (await it.back(browser, said, "mail")).status_code == 403  # it is bound to where it was begun
        here = dict(it.agreed(await it.gone(browser)))
        answer = await it.back(browser, {**here, "iss": "https://evil.example"})
        assert alarm(answer.text).startswith("The answer is from another provider")
        assert await it.whose() is None
        assert it.provider.forms == []


async def test_what_is_said_twice_is_not_believed() -> None:
    async with ground() as it:
        browser = await it.at.visitor(ANN)
        said = it.agreed(await it.gone(browser))
        for twice in ("state", "code"):
            answer = await it.back(browser, [*said, (twice, "x")])
            assert answer.status_code in {400, 403}
        assert it.provider.forms == []


async def test_whoever_takes_too_long_begins_again() -> None:
    async with ground() as it:
        browser = await it.at.visitor(ANN)
        said = it.agreed(await it.gone(browser))
        it.at.it.clock.tell(AWAY_S)
        assert (await it.back(browser, said)).status_code == 403
        assert await it.whose() is None


async def test_nothing_is_begun_or_ended_but_by_a_page_of_ours_in_this_session() -> None:
    async with ground() as it:
        browser, other = await it.at.visitor(ANN), await it.at.visitor(MALLORY)
        page, theirs = await browser.read("/connections"), await other.read("/connections")
        for what in ("connect", "disconnect"):
            path = f"/console/connections/mail/{what}"
            assert (await browser.http.get(path, headers=PRESSED)).status_code == 405
            assert (await browser.http.post(path, headers=PRESSED)).status_code == 403
            assert (await browser.send(f"/connections/mail/{what}", theirs)).status_code == 403
            crossed = {**PRESSED, "sec-fetch-site": "cross-site", "origin": "https://evil.example"}
            csrf = re.search(r'name="csrf" value="([^"]*)"', page)
            assert csrf is not None
            sent = await browser.http.post(path, data={"csrf": csrf[1]}, headers=crossed)
            assert sent.status_code == 403
        framed = {**CAME_BACK, "sec-fetch-dest": "iframe"}
        said = it.agreed(await it.gone(browser))
        answer = await browser.http.get(f"/console/connections/mail/callback?{urlencode(said)}", headers=framed)
        assert answer.status_code == 403
        assert (await browser.get("/connections")).headers["x-frame-options"] == "DENY"


async def test_no_program_and_no_agent_connects_an_account() -> None:
    async with ground() as it:
        now = it.at.it.clock.now()
        token, _ = mint(KEYS.tokens, "reviewer", ANN, now=now, lives_s=3600)
        program = {"authorization": f"Bearer {token}", "accept": "text/html"}
        http = (await it.at.visitor(BOB)).http
        http.cookies.clear()
        looked = await http.get("/console/connections", headers=program)
        assert (looked.status_code, "<button>Connect" in looked.text) == (200, False)
        for path in ("mail/connect", "mail/disconnect"):
            assert (await http.post(f"/console/connections/{path}", headers=program)).status_code == 403
        said = urlencode({"code": "c", "state": "s"})
        assert (await http.get(f"/console/connections/mail/callback?{said}", headers=program)).status_code == 403
        for agents in ({"authorization": "Bearer cfk_x"}, {"counterfoil-run": "x"}, {"mcp-session-id": "x"}):
            assert (await http.get("/console/connections", headers=agents)).status_code == 403
        assert (await http.get("/console/connections", headers=CAME_BACK)).status_code == 401


async def test_a_provider_that_does_not_take_the_code_or_is_down_connects_nothing_and_says_why() -> None:
    async with ground() as it:
        browser = await it.at.visitor(ANN)
        for answer, told in ((response(503, {}), "status 503"), (response(200, {}), "holds none")):
            said = it.agreed(await it.gone(browser))
            it.provider.answer = answer
            page = await it.back(browser, said)
            it.provider.answer = None
            assert told in alarm(page.text)
            assert "cAnArY" not in page.text
        there = await it.gone(browser)
        state = dict(it.agreed(there))["state"]
        page = await it.back(browser, {"error": "access_denied", "state": state, "iss": "https://login.example"})
        assert alarm(page.text).startswith("You did not agree there")
        assert await it.whose() is None


async def test_the_provider_is_not_flooded_through_us_and_nobody_uses_up_what_others_need() -> None:
    async with ground() as it:
        browser, other = await it.at.visitor(ANN), await it.at.visitor(BOB)
        answers = []
        for _ in range(AT_ONCE + 1):
            said = it.agreed(await it.gone(browser))
            answers.append((await it.back(browser, said)).status_code)
        assert answers == [303] * AT_ONCE + [429]
        assert (await it.back(other, it.agreed(await it.gone(other)))).status_code == 303


async def test_of_very_many_people_the_one_who_came_back_first_is_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "MAX_PACES", 1)
    async with ground() as it:
        for who in (ANN, BOB, ANN):
            browser = await it.at.visitor(who)
            assert (await it.back(browser, it.agreed(await it.gone(browser)))).status_code == 303


async def test_no_token_no_code_and_no_verifier_is_on_any_page_or_in_any_cookie() -> None:
    async with ground() as it:
        browser = await it.at.visitor(ANN)
        there = await it.gone(browser)
        said = it.agreed(there)
        answer = await it.back(browser, said)
        pages = [
            answer.text,
            str(answer.headers),
            *[await browser.read(path) for path in ("/connections", "/", "/runs")],
        ]
        pages += [str(one.value) for one in browser.http.cookies.jar]
        assert [one for one in pages if "cAnArY" in one] == []
        assert it.provider.forms[0]["code_verifier"] not in there + "".join(pages)


async def test_without_the_ledger_nothing_is_connected_and_nothing_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ground() as it:
        browser = await it.at.visitor(ANN)
        said = it.agreed(await it.gone(browser))
        page = await browser.read("/connections")
        it.at.it.ledger.trouble = "gone"
        assert (await it.back(browser, said)).status_code == 503
        assert (await browser.send("/connections/mail/disconnect", page)).status_code == 503
        it.at.it.ledger.trouble = None
        monkeypatch.setattr(MemoryConsents, "drop", _gone)  # the door could ask it a moment ago
        answer = await browser.send("/connections/mail/disconnect", page)
        assert (answer.status_code, alarm(answer.text).partition(":")[0]) == (
            503,
            "The ledger cannot be asked for what its principal lets us do there",
        )
        assert await it.whose() is None


async def _gone(*_: Any) -> None:
    raise LedgerUnavailable("gone")
