"""Connecting an account in a real Chromium, whose own rules for forms, cookies and other sites apply."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser import axe, browser
from tests.console.office import Office, served
from tests.console.test_in_a_browser import TALLER, visiting
from tests.credentials.consenting import Consulted, consented
from tests.upstream import http1_server
from tests.upstream.http1_server import serving
from tests.world import ToldClock

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SHOTS: Path | None = None
"""A folder, for whoever wants to look."""


@pytest.fixture
async def by() -> AsyncIterator[Browser]:
    async with browser() as one:
        yield one


@asynccontextmanager
async def console(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Office, Consulted]]:
    monkeypatch.setattr(http1_server, "TIME_LIMIT_S", 60.0)
    async with serving((provider := Consulted()).script) as there:
        provider.served = there

        def to_connect(url: str) -> Any:
            page = f"{url}/console/connections"
            return [consented(provider, ToldClock().monotonic, name, page) for name in ("mail", "crm")]

        async with served(to_connect) as at:
            yield at, provider


async def looked_at(page: Page, name: str) -> None:
    """Nothing keeps people out of it, and nothing is below or beside it."""
    for width in (1280, 390):
        await page.set_viewport_size({"width": width, "height": 900})
        await page.wait_for_load_state("networkidle")
        for beyond in ("document.documentElement.scrollWidth - innerWidth", TALLER):
            for _ in range(40):  # a page is laid out anew a moment after its window has another size
                if await page.evaluate(beyond) <= 0:
                    break
                await page.wait_for_timeout(50)
            assert await page.evaluate(beyond) <= 0
        if SHOTS is not None:
            await page.screenshot(path=SHOTS / f"{name}-{width}.png")
    await page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.parametrize(("script", "theme"), [(True, "light"), (False, "dark")])
async def test_somebody_connects_an_account_and_takes_it_back(
    by: Browser,
    monkeypatch: pytest.MonkeyPatch,
    script: bool,  # noqa: FBT001 - a parameter of the test
    theme: Any,
) -> None:
    async with console(monkeypatch) as (at, provider), visiting(at, by, script=script, theme=theme) as page:
        await page.click("nav >> text=Connections")
        await expect(page.get_by_text("Not connected.")).to_have_count(2)
        await looked_at(page, f"none-{theme}")
        await page.get_by_role("button", name="Connect for mail").click()
        await page.get_by_role("link", name="Agree").click()
        await expect(page).to_have_url(f"{at.url}/console/connections?about=mail&told=connected")
        await expect(page.get_by_role("status")).to_contain_text("Your account is connected")
        await expect(page.get_by_text("Not connected.")).to_have_count(1)
        await looked_at(page, f"connected-{theme}")
        if script:
            await page.evaluate(axe())
            found = await page.evaluate("axe.run().then(all => all.violations.map(one => one.id))")
            assert found == []
        await page.get_by_role("button", name="Disconnect mail").click()
        await expect(page.get_by_role("status")).to_contain_text("says that what it gave us is void")
        await expect(page.get_by_text("Not connected.")).to_have_count(2)
        assert len(provider.revoked) == 1
        assert "cAnArY" not in await page.content()
