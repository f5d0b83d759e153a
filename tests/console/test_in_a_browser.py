"""The console in a real Chromium: with the keyboard, with and without its script, on a desk and on a phone."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.browser import axe, browser
from tests.console.office import BOSS, HOSTILE, MAIL, Office, fill, served

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

Theme = Literal["light", "dark"]
WIDTHS = (1280, 390, 360)
TALLER = "document.documentElement.scrollHeight - Math.max(innerHeight, document.body.scrollHeight)"
"""How much there is below the end of the page, which is nothing but a mistake of its style."""


@pytest.fixture(scope="module")
async def by() -> AsyncIterator[Browser]:
    """One browser for all; each visit has a profile of its own."""
    async with browser() as one:
        yield one


@asynccontextmanager
async def visiting(
    at: Office, by: Browser, *, script: bool = True, width: int = 1280, theme: Theme = "light"
) -> AsyncIterator[Page]:
    """A page before a reviewer who has come in by their link. Nothing in it fails or is refused by our own policy."""
    around: BrowserContext = await by.new_context(
        java_script_enabled=script, viewport={"width": width, "height": 900}, color_scheme=theme
    )
    page = await around.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    await page.goto(at.link())
    await page.click("button")
    await page.wait_for_url(f"{at.url}/console/**")
    page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
    yield page
    await around.close()
    assert [one for one in troubles if not re.search("status of 40[49]", one)] == []


async def press(page: Page, *keys: str) -> None:
    """Keys, once the page's script is there to hear them."""
    await page.wait_for_load_state()
    for key in keys:
        await page.keyboard.press(key)


async def decision_of(at: Office, name: str) -> str | None:
    return (await at.it.book.fresh_state_of("run_1")).approvals[name].decision


async def places(at: Office) -> Sequence[str]:
    """Every page that there is, with something on it."""
    run = await at.it.book.state_of("run_1")
    pay = [name for name, one in run.approvals.items() if one.tool == "pay"]
    return (
        "/",
        *(f"/approvals/{name}" for name in at.asked.values()),
        *(f"/attempts/{name}" for name in run.unsettled),
        "/together?" + "&".join(f"q={name}" for name in pay),
        "/runs",
        "/runs/run_1",
        "/search?kind=approval",
        "/registry",
        "/policies",
        f"/policies/{run.policy}",
        "/accounts",
        "/switches",
        "/health",
        f"/values/{at.asked['mail']}",
        "/approvals/ap_none",
    )


async def test_a_reviewer_decides_with_the_keyboard_alone_and_hears_what_is_new(by: Browser) -> None:
    async with served() as at:
        await fill(at)
        async with visiting(at, by) as page:
            await press(page, "?")
            await expect(page.locator("#keys")).to_be_visible()
            await press(page, "Escape", "j", "j", "k")
            await expect(page.locator(".here h2")).to_have_text("sql")
            await page.keyboard.press("Enter")
            await expect(page.locator("h1")).to_have_text("May sql be called?")
            await press(page, "a", "Enter")
            await expect(page.locator(".result")).to_contain_text("You approved it")
            await press(page, "u")
            await page.wait_for_url(f"{at.url}/console/")
            before = await page.locator("article[data-item]").count()
            await at.ask("mail", {**MAIL, "subject": "Another"})
            await expect(page.locator("#news a")).to_have_text("1 new: show", timeout=10_000)
            assert await page.locator("article[data-item]").count() == before, "no row moves under a finger"
            await page.click("#news a")
            await expect(page.locator("h1 .count")).to_have_text("8 for you, 1 for others")


async def test_a_rejection_has_its_reason_and_how_long_it_was_looked_at(by: Browser) -> None:
    async with served() as at:
        await fill(at)
        name = at.asked["pay"]
        async with visiting(at, by) as page:
            await page.goto(f"{at.url}/console/approvals/{name}")
            assert await page.title() == "pay: awaiting · Counterfoil", "nothing of the agent's has run"
            await expect(page.locator("dl.tree").first).to_contain_text(HOSTILE)
            await page.wait_for_timeout(1_100)
            await press(page, "r")
            await page.keyboard.type("the order is paid back already")
            await press(page, "Tab", "Enter")
            await expect(page.locator(".result")).to_contain_text("You rejected it")
        (record,) = await at.it.ledger.find(["approval.decided"], limit=1)
        assert record.event.reason == "the order is paid back already"
        assert 1 <= record.event.active_s < 60


async def test_everything_is_decided_without_a_script(by: Browser) -> None:
    async with served() as at:
        await fill(at)
        async with visiting(at, by, script=False, width=390) as page:
            await page.click("text=mail")
            await page.click("summary:has-text('More evidence')")
            await page.fill("details[open] textarea", "which order?")
            await page.click("details[open] button")
            await expect(page.locator(".result")).to_contain_text("You asked for more evidence")
            await page.goto(f"{at.url}/console/")
            await page.click("text=Look at those ticked")
            await page.click("button[value=approved]")
            await expect(page.locator("h1")).to_have_text("3 of 3 answers were taken")
            await page.goto(f"{at.url}/console/")
            await page.click("text=Did write happen?")
            await page.check("input[value=did_not_happen]")
            await page.fill(".decide textarea", "no such row")
            await page.click("text=Record it")
            await expect(page.locator(".result")).to_contain_text("Your answer was recorded")
        assert await decision_of(at, at.asked["mail"]) == "returned"
        assert await decision_of(at, at.asked["pay"]) == "approved"


async def test_an_answer_that_came_too_late_says_so_and_shows_what_holds(by: Browser) -> None:
    async with served() as at:
        await fill(at)
        async with visiting(at, by) as page:
            await page.goto(f"{at.url}/console/approvals/{at.asked['mail']}")
            visitor = await at.visitor(BOSS)
            other = await visitor.read(f"/approvals/{at.asked['mail']}")
            await visitor.send(f"/approvals/{at.asked['mail']}", other, decision="rejected", reason="no")
            await press(page, "a", "Enter")
            await expect(page.locator(".result.bad")).to_contain_text("This was not taken")
            await expect(page.locator(".decide")).to_contain_text("Rejected")


@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_page_fits_and_keeps_nobody_out(by: Browser, theme: Theme) -> None:
    source = axe()
    async with served() as at:
        await fill(at)
        found: dict[str, Any] = {}
        for width in WIDTHS:
            async with visiting(at, by, width=width, theme=theme) as page:
                for place in await places(at):
                    answer = await page.goto(f"{at.url}/console{place}")
                    assert answer is not None
                    missing = place == "/approvals/ap_none"
                    assert answer.status == (404 if missing else 200), place
                    wide = await page.evaluate("document.documentElement.scrollWidth")
                    tall = await page.evaluate(
                        "document.documentElement.scrollHeight - Math.max(innerHeight, document.body.scrollHeight)"
                    )
                    if wide > width or tall > 0:
                        found[f"{place} at {width}"] = ("does not fit", wide, tall)
                    if width != WIDTHS[-1]:
                        found |= await _audited(page, source, f"{place} at {width}")
        assert found == {}


async def _audited(page: Page, source: str, place: str) -> dict[str, Any]:
    """What axe-core has against the page: our policy lets no page load it, so it is evaluated from outside."""
    await page.evaluate(source)
    said = await page.evaluate("axe.run({resultTypes: ['violations']})")
    worst = {one["id"]: [node["target"] for node in one["nodes"]][:3] for one in said["violations"]}
    return {re.sub(r"ap_[0-9a-f]+", "ap_…", place): worst} if worst else {}


@pytest.mark.long
async def test_one_argument_cannot_paint_over_another(by: Browser) -> None:
    """The recipients look the same whatever the subject is."""
    pile = ("e" + "\u0301" * 400) * 2
    pictures = []
    async with served() as at:
        await fill(at)
        await at.it.open("run_2")
        to = [f"person{number}@example.com" for number in range(12)]
        for subject in ("plain", pile, "e\u0301\u0301" * 20):
            name = await at.ask("mail", {"to": to, "subject": subject, "body": "hello"}, run="run_2")
            async with visiting(at, by) as page:
                await page.goto(f"{at.url}/console/approvals/{name}")
                box = await page.get_by_text("person3@example.com").first.bounding_box()
                assert box is not None
                area = {"x": box["x"], "y": box["y"], "width": 300, "height": box["height"]}
                pictures.append(await page.screenshot(clip=area))  # type: ignore[arg-type]
    assert pictures[0] == pictures[1] == pictures[2]


async def test_on_a_phone_the_way_to_the_answer_opens_no_form_and_lies_over_none(by: Browser) -> None:
    async with served() as at:
        await fill(at)
        for script in (True, False):
            async with visiting(at, by, width=390, script=script) as page:
                await page.goto(f"{at.url}/console/approvals/{at.asked['mail']}")
                bar = page.locator(".to-decide")
                await page.evaluate("scrollTo(0, document.querySelector('#exactly').offsetTop - 100)")
                await expect(bar).to_be_in_viewport()
                await bar.click()
                await expect(page.locator("#decide h2")).to_be_in_viewport()
                assert await page.locator("#decide details[open]").count() == 0
                await page.click("summary:has-text('Approve')")
                button = page.locator("#decide button.yes")
                await button.scroll_into_view_if_needed()
                low, high = await bar.bounding_box(), await button.bounding_box()
                assert low is not None
                assert high is not None
                assert low["y"] + low["height"] <= high["y"]
                if script:
                    await expect(bar).to_be_hidden()


async def test_on_a_phone_every_page_is_in_the_bar(by: Browser) -> None:
    async with served() as at:
        await fill(at)
        async with visiting(at, by, width=360) as page:
            await page.goto(f"{at.url}/console/")
            for link in await page.locator(".top nav a").all():
                box = await link.bounding_box()
                assert box is not None
                assert box["x"] + box["width"] <= 360
