"""Kill switches through the reviewers' door: by its API, and on a page."""

import os

import pytest
from playwright.async_api import expect

from tests.browser import axe, browser
from tests.console.office import ANN as CLERK
from tests.console.office import BOSS, office, served, text_of
from tests.console.reviewing import API, EVE, ROOT_USER, problem, reviewing
from tests.console.test_in_a_browser import WIDTHS, _audited, visiting
from tests.runtime.house import refused

pytestmark = pytest.mark.anyio


async def test_a_program_stops_a_tool_and_lets_it_go_on() -> None:
    async with reviewing() as at, at.as_(ROOT_USER) as client:
        thrown = await client.post(f"{API}/switches", json={"stops": {"tool": "write"}, "reason": "it writes twice"})
        assert (thrown.status_code, thrown.json()["switch"], thrown.json()["tool"]) == (200, 1, "write")
        assert refused(await at.it.call("write")) == ("denied", "switch")
        assert [one["reason"] for one in (await client.get(f"{API}/switches")).json()["rows"]] == ["it writes twice"]
        lifted = await client.post(f"{API}/switches/1", json={"what": "lift", "reason": "mended"})
        assert (lifted.status_code, lifted.json()) == (200, {"name": "1", "state": "lifted"})
        assert refused(await at.it.call("write")) is None
        assert problem(await client.post(f"{API}/switches/1", json={"what": "lift", "reason": "x"})) == (404, "unknown")


async def test_everything_is_stopped_only_in_so_many_words_and_by_whoever_sees_all() -> None:
    async with reviewing() as at:
        async with at.as_(ROOT_USER) as client:
            for stops in ({}, {"run": "run_1"}, {"tool": ""}, "all", None):
                nothing = await client.post(f"{API}/switches", json={"stops": stops, "reason": "x"})
                assert problem(nothing)[0] == 422
        async with at.as_(EVE) as client:
            all_of_it = {"stops": "everything", "reason": "x"}
            assert problem(await client.post(f"{API}/switches", json=all_of_it)) == (403, "role")
            mine = await client.post(f"{API}/switches", json={"stops": {"tenant": EVE.tenant}, "reason": "x"})
            assert mine.status_code == 200
        async with at.as_(None) as client:
            assert (await client.post(f"{API}/switches", json=all_of_it)).status_code == 401
        assert refused(await at.it.call("write")) is None


async def test_a_person_stops_a_tool_on_the_page_and_lets_it_go_on() -> None:
    async with office() as at:
        boss, clerk = await at.visitor(BOSS), await at.visitor(CLERK)
        page = await boss.read("/switches")
        assert "Nothing is stopped." in page
        nothing = await boss.send("/switches", page, reason="why")
        assert (nothing.status_code, "fill in at least one name" in nothing.text) == (409, True)
        sent = await boss.send("/switches", page, tool="read", reason="it reads <b>too much</b>")
        assert sent.status_code == 303
        assert refused(await at.it.call("read")) == ("denied", "switch")
        shown = await clerk.read("/switches")
        assert (
            "it reads <b>too much</b>" in text_of(shown.replace("&lt;", "<").replace("&gt;", ">"))
            or "&lt;b&gt;" in shown
        )
        theirs = await clerk.send("/switches/1/lift", shown, reason="I want it")
        assert (theirs.status_code, "no switch" in text_of(theirs.text)) == (409, True)
        lifted = await boss.send("/switches/1/lift", await boss.read("/switches"), reason="mended")
        assert lifted.status_code == 303
        assert refused(await at.it.call("read")) is None


@pytest.mark.slow
async def test_in_a_browser_a_tool_is_stopped_and_goes_on_and_everybody_can_use_the_page() -> None:
    async with browser() as by, served() as at, visiting(at, by) as page:
        await page.goto(f"{at.url}/console/switches")
        await page.fill("input[name=tool]", "read")
        await page.fill("section[aria-labelledby=throw] textarea", "it reads too much")
        await page.click("button:has-text('Stop it')")
        await expect(page.locator("h3")).to_have_text("the tool read")
        assert refused(await at.it.call("read")) == ("denied", "switch")
        assert await _audited(page, axe(), "") == {}
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            if shots := os.environ.get("SHOTS"):
                await page.screenshot(path=f"{shots}/switches-{width}.png", full_page=True)
        await page.click("text=Let it go on")
        await page.fill(".card textarea", "mended")
        await page.click("text=Lift switch 1")
        await expect(page.locator("text=Nothing is stopped.")).to_be_visible()
        assert refused(await at.it.call("read")) is None
