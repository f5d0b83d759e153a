"""Runs in a list: page after page, for whoever may see them, and no more looked at than is said."""

from datetime import timedelta

import pytest

from gateway.model.record import utc
from gateway.model.review import Reviewer
from gateway.runtime.levels import levels
from gateway.runtime.listing import MAX_STATES, Runs, Wanted, runs
from tests import world
from tests.runtime.house import House, house

pytestmark = pytest.mark.anyio

EVERYWHERE = Reviewer("local", "boss", everywhere=True)
OTHER = Reviewer("other", "olga")


async def opened(it: House, count: int) -> None:
    """So many more runs, a second apart."""
    for number in range(count):
        it.clock.tell(1)
        await it.open(f"run_{number + 2}")


async def all_of(it: House, wanted: Wanted, limit: int = 50) -> list[Runs]:
    """Every page."""
    pages, after = list[Runs](), None
    for _ in range(100):
        pages.append(await runs(it.book, EVERYWHERE, wanted, after=after, limit=limit))
        after = pages[-1].next
        if after is None:
            return pages
    raise AssertionError("it never ends")


async def test_pages_of_runs_follow_one_another_without_a_gap() -> None:
    async with house() as it:
        await opened(it, 600)
        pages = await all_of(it, Wanted())
        found = [row.run for page in pages for row in page.rows]
        assert found == [f"run_{number}" for number in range(601, 0, -1)]


async def test_a_state_is_looked_for_so_far_and_that_is_said() -> None:
    async with house() as it:
        await opened(it, 250)
        await it.call("write", {"n": 1})
        pages = await all_of(it, Wanted(state="infeasible"))
        assert [(len(page.rows), page.looked) for page in pages] == [(0, MAX_STATES), (0, 51)]
        since = Wanted(since=utc(world.T0) + timedelta(seconds=241))
        assert [len(page.rows) for page in await all_of(it, since)] == [10]


async def test_who_is_of_another_tenant_sees_neither_runs_nor_accounts() -> None:
    async with house(accounts={"all": {"per": ["tenant"]}, "each": {"per": ["tool"]}}) as it:
        await it.call("write", {"n": 1})
        assert (await runs(it.book, OTHER, Wanted())).rows == ()
        assert (await levels(it.book, OTHER)).rows == ()
        mine = await levels(it.book, Reviewer("local", "ann"))
        assert {row.account for row in mine.rows} == {"accounts.all"}
        assert {row.account for row in (await levels(it.book, EVERYWHERE)).rows} == {"accounts.all", "accounts.each"}
