"""Live updates: told to whoever is still let in, and to everybody, however many one visitor asks for."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from gateway.inbound.console.streams import EACH
from gateway.model.review import Reviewer
from tests.console.office import BOSS, MAIL, OPENED, PRESSED, Office, fill, served

pytestmark = pytest.mark.anyio
HEARD = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}


@asynccontextmanager
async def entered(at: Office, by: Reviewer = BOSS) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser of that reviewer, which opens as many streams as it likes."""
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(base_url=at.url, timeout=30, limits=limits) as http:
        ticket = parse_qs(urlsplit(at.link(by)).query)["ticket"][0]
        await http.post("/console/enter", data={"ticket": ticket}, headers=PRESSED)
        yield http


async def until(stream: httpx2.Response, wanted: str) -> list[str]:
    """The lines up to the one that has this."""
    lines: list[str] = []
    async with asyncio.timeout(15):
        async for line in stream.aiter_lines():
            lines.append(line)
            if wanted in line:
                break
    return lines


@pytest.mark.slow
async def test_a_stream_ends_with_its_session_and_says_nothing_of_what_came_after() -> None:
    async with served() as at:
        await fill(at)
        async with entered(at) as http, http.stream("GET", "/console/events", headers=HEARD) as stream:
            reading = stream.aiter_lines()
            async with asyncio.timeout(15):
                lines = [line async for line in _first(reading, "data: ")]
            assert at.asked["mail"] in lines[-1]
            page = (await http.get("/console/", headers=OPENED)).text
            found = re.search(r'name="csrf" value="([^"]*)"', page)
            assert found is not None
            left = await http.post("/console/leave", data={"csrf": found[1]}, headers=PRESSED)
            assert left.status_code == 303
            name = await at.ask("mail", {**MAIL, "subject": "after that"})
            async with asyncio.timeout(15):
                rest = [line async for line in reading]
            assert "event: over" in rest
            assert not any(name in line for line in rest)


async def _first(lines: AsyncIterator[str], wanted: str) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        if line.startswith(wanted):
            return


async def test_one_visitor_leaves_streams_for_others() -> None:
    """The oldest of theirs ends when one too many begins."""
    guest = Reviewer("other", "guest", via="link", approval="ap_none")
    async with served() as at, AsyncExitStack() as streams:
        await fill(at)
        theirs = await streams.enter_async_context(entered(at, guest))
        ours = await streams.enter_async_context(entered(at))
        opened = [
            await streams.enter_async_context(theirs.stream("GET", "/console/events", headers=HEARD))
            for _ in range(EACH + 1)
        ]
        assert "event: over" in await until(opened[0], "event: over")
        async with ours.stream("GET", "/console/events", headers=HEARD) as heard:
            assert heard.status_code == 200
            assert "event: inbox" in await until(heard, "event: inbox")
