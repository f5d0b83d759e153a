"""Agents wait before a real gateway while a person decides in a real browser, by the link that it printed."""

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from playwright.async_api import Page

from tests.browser import browser
from tests.cli.agents import LIMIT_S
from tests.cli.test_waiting import PAID, Till, over_http, text

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

QUESTION = "main a.open[href*='/approvals/ap_']"


async def decides(page: Page, inbox: str, key: str, button: str, reason: str = "") -> None:
    """The one question that waits is opened from the inbox, and answered by its form."""
    with anyio.fail_after(LIMIT_S):
        await page.goto(inbox)
        while not await page.locator(QUESTION).count():  # what was seen a moment ago is not looked for again
            await asyncio.sleep(0.2)
            await page.goto(inbox)
    await page.click(QUESTION)
    await page.click(f"details[data-key={key}] summary")
    if reason:
        await page.fill(f"details[data-key={key}] textarea", reason)
    await page.click(f"details[data-key={key}] button:has-text('{button}')")
    await page.wait_for_url("**answered=**")


def named(key: str, value: str) -> Any:
    """The client's own id of its call."""
    return {key: value}


async def test_clients_of_both_kinds_get_what_was_decided_on_the_page(
    effects_server: list[str], tmp_path: Path
) -> None:
    till = Till(tmp_path, effects_server)
    async with browser() as program, over_http(till, "--hold", "45") as (url, gateway):
        link = await gateway.hear(r"reviewers: (\S+?),")
        inbox = url.replace("/mcp", "/console/")
        page = await program.new_page()
        await page.goto(link)
        await page.click("button")
        await page.wait_for_selector("h1:has-text('Inbox')")

        async def hears(progress: float, total: float | None, message: str | None) -> None:
            _ = progress, total, message

        # As Claude Code: it shows progress, names its call, and is kept waiting.
        async with Client(url) as claude:
            mine = named("claudecode/toolUseId", "toolu_01")
            paying = asyncio.ensure_future(claude.call_tool("transfer", PAID, progress_callback=hears, meta=mine))
            with anyio.fail_after(LIMIT_S):
                while not await till.asked():
                    await asyncio.sleep(0.05)
            await decides(page, inbox, "a", "Approve")
            with anyio.fail_after(LIMIT_S):
                paid = await paying
            assert (paid.is_error, text(paid)["amount"], till.paid()) == (False, 5, 1)

        # As Codex: of the older era, without progress: it has the handle at once, asks again, and repeats its call.
        async with Client(url, mode="legacy") as codex:
            asked = text(await codex.call_tool("transfer", {**PAID, "amount": 6}, meta=named("callId", "1")))
            assert asked["outcome"] == "needs_approval"
            await decides(page, inbox, "r", "Reject", "the wrong account")
            handle = {"approval": asked["approval"]["id"]}
            told = await codex.call_tool("gateway__approval", handle)
            assert (text(told)["state"], text(told)["said"]) == ("rejected", "the wrong account")
            again = text(await codex.call_tool("transfer", {**PAID, "amount": 6}, meta=named("callId", "2")))
            assert (again["outcome"], till.paid()) == ("denied", 1)
