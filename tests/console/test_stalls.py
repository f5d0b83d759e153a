"""What an agent writes must not make a page hold up the event loop, by which all calls are served."""

import asyncio
import gc
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests import world
from tests.console.office import MAIL, STRANGER, Office, Visitor, office

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

MIXED = "\u0430bc "
"""Latin and Cyrillic in one word: each letter of it is marked."""
TOO_LONG_S = 0.5
"""Far more than a page takes, and far less than any of these took; other tests run at the same time."""
TOO_LARGE = 1_000_000


@pytest.fixture(autouse=True)
def _nothing_of_others() -> Iterator[None]:
    """The garbage collector, whose turn is measured as well, does not go through what earlier tests have left."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


async def stall(visitor: Visitor, path: str) -> tuple[float, int]:
    """The most processor time in which nothing else had its turn while the page was made, and the page's size."""
    worst, done = 0.0, False

    async def tick() -> None:
        nonlocal worst
        while not done:
            began = time.thread_time()
            await asyncio.sleep(0.005)
            worst = max(worst, time.thread_time() - began)

    ticking = asyncio.ensure_future(tick())
    await asyncio.sleep(0.02)
    worst = 0.0
    page = await visitor.get(path)
    done = True
    await ticking
    assert page.status_code == 200
    return worst, len(page.content)


async def opened(at: Office, arguments: Mapping[str, Any]) -> Visitor:
    await at.ask("mail", arguments)
    return await at.visitor()


@pytest.mark.parametrize("body", [MIXED * 75_000, "x" * 3_000_000], ids=["mixed", "plain"])
async def test_the_timeline_shows_the_beginning_of_what_is_long_and_links_the_whole(body: str) -> None:
    async with office() as at:
        visitor = await opened(at, {**MAIL, "body": body})
        worst, size = await stall(visitor, "/runs/run_1")
        assert size < TOO_LARGE
        assert worst < TOO_LONG_S
        (link,) = set(re.findall(r'href="/console(/runs/run_1/steps/\d+)"', await visitor.read("/runs/run_1")))
        worst, size = await stall(visitor, link)
        assert "part 1 of" in await visitor.read(link)
        assert worst < TOO_LONG_S
        assert (await (await at.visitor(STRANGER)).get(link)).status_code == 404
        assert (await visitor.get("/runs/run_1/steps/1")).status_code == 404
        assert (await visitor.get("/runs/run_1/steps/99999")).status_code == 404


@pytest.mark.parametrize(
    "arguments",
    [
        {**MAIL, "body": MIXED * 75_000},
        {**MAIL, "subject": MIXED * 25_000},
        {f"a{number:03}": MIXED * 1_800 for number in range(100)},
        {MIXED * 2_000 + str(number): number for number in range(100)},
        {"path": "/a", "edits": [{"oldText": "a", "newText": (MIXED * 400 + "\n") * 20} for _ in range(50)]},
        {"command": "a@" * 20_000},
        {"text": "e\U000e0041" * 100_000},
    ],
    ids=["body", "subject", "many", "names", "edits", "command", "tags"],
)
async def test_the_page_of_a_question_shows_so_much_and_no_more(arguments: Mapping[str, Any]) -> None:
    async with office() as at:
        name = await at.ask("shell", arguments)
        worst, size = await stall(await at.visitor(), f"/approvals/{name}")
        assert worst < TOO_LONG_S
        assert size < 3 * TOO_LARGE


async def called(at: Office, times: int) -> None:
    for number in range(times):
        await at.it.engine.call(world.proposal("read", {"path": f"/{number}"}, run="run_1"), world.PatientCaller())


async def test_a_timeline_is_told_a_page_at_a_time() -> None:
    async with office(accounts={}, budgets={"calls": 1_000}) as at:
        await called(at, 200)
        visitor = await at.visitor()
        last = await visitor.read("/runs/run_1")
        assert last.count('<li class="step') == 150
        (before,) = re.findall(r'href="\?before=(\d+)"', last)
        first = await visitor.read(f"/runs/run_1?before={before}")
        assert first.count('<li class="step') == 51
        assert 'id="step-100"' in first
        assert "before=" not in first


@pytest.mark.long
async def test_a_run_of_ten_thousand_events_stands_in_nobodys_way() -> None:
    async with office(accounts={}, budgets={"calls": 100_000}) as at:
        await called(at, 5_000)
        for path in ("/runs/run_1", "/runs/run_1?before=5000", "/"):
            worst, _ = await stall(await at.visitor(), path)
            assert worst < TOO_LONG_S, path


async def test_a_run_of_others_is_refused_without_being_read() -> None:
    """A guess would tell by its time, and cost the gateway."""
    async with office(accounts={}, budgets={"calls": 100_000}) as at:
        await called(at, 1_000)
        visitor = await at.visitor(STRANGER)
        took: dict[str, list[float]] = {"run_none": [], "run_1": []}
        for name in (*took, *took, *took):
            began = time.thread_time()
            assert (await visitor.get(f"/runs/{name}")).status_code == 404
            took[name].append(time.monotonic() - began)
        assert min(took["run_1"]) < 10 * min(took["run_none"]) + 0.02, took
