"""What people look for in a ledger: found, page after page, and never more looked at than is said."""

from datetime import timedelta

import pytest

from gateway.model.record import utc
from gateway.model.review import Reviewer
from gateway.runtime import searching
from gateway.runtime.searching import Found, Sought, search
from tests import world
from tests.runtime.house import House, house

pytestmark = pytest.mark.anyio

EVERYWHERE = Reviewer("local", "boss", everywhere=True)
LOCAL = Reviewer("local", "ann")
OTHER = Reviewer("other", "olga")
CALLS = 1_900


async def worked(it: House, calls: int) -> None:
    """So many calls, a second apart; each is two records or three."""
    for number in range(calls):
        it.clock.tell(1)
        await it.call("write", {"n": number})


async def all_of(it: House, sought: Sought, by: Reviewer = EVERYWHERE, limit: int = 100) -> list[Found]:
    """Every page."""
    pages, before = list[Found](), None
    for _ in range(100):
        pages.append(await search(it.ledger, by, sought, before=before, limit=limit))
        before = pages[-1].next
        if before is None:
            return pages
    raise AssertionError("it never ends")


async def test_a_search_looks_so_far_and_goes_on_where_it_stopped() -> None:
    async with house() as it:
        await it.call("pay", {"amount": 1})
        await worked(it, CALLS)
        pages = await all_of(it, Sought(tool="pay", kind="intent"))
        assert [len(one.records) for one in pages] == [0, 1]
        assert pages[0].looked == searching.STRETCH * searching.MAX_STRETCHES
        assert sum(one.looked for one in pages) == len(await it.ledger.log(0, limit=100_000))
        first = await search(it.ledger, EVERYWHERE, Sought())
        assert first.records[0].at >= first.records[-1].at, "the newest first"


async def test_no_record_is_missed_or_told_twice_between_pages() -> None:
    async with house() as it:
        await worked(it, 300)
        pages = await all_of(it, Sought(kind="intent"), limit=37)
        found = [record.id for page in pages for record in page.records]
        assert len(found) == len(set(found)) == 300
        within = await all_of(it, Sought(kind="intent", run="run_1"), limit=37)
        assert [record.id for page in within for record in page.records] == found


async def test_a_time_is_found_without_reading_all_that_is_newer() -> None:
    async with house() as it:
        await worked(it, CALLS)
        late = utc(world.T0 + 200)
        found = await search(
            it.ledger, EVERYWHERE, Sought(kind="intent", since=late - timedelta(seconds=9), until=late)
        )
        assert len(found.records) == 10
        assert found.looked < 2 * searching.STRETCH
        assert found.next is None


async def test_what_is_another_tenants_is_not_found() -> None:
    async with house() as it:
        await worked(it, 3)
        assert len((await search(it.ledger, LOCAL, Sought(kind="intent"))).records) == 3
        assert (await search(it.ledger, OTHER, Sought(kind="intent"))).records == ()
        assert (await search(it.ledger, OTHER, Sought(run="run_1"))).records == ()
        assert (await search(it.ledger, LOCAL, Sought(principal="nobody"))).records == ()


async def test_reasons_are_searched_and_so_are_attempts_and_questions() -> None:
    asks = [{"name": "ask", "tools": ["pay"], "approval": {"reason": "refunds are looked at"}}]
    async with house(transitions=[*asks, {"name": "any", "tools": ["write"]}]) as it:
        await it.call("pay", {"amount": 1})
        await it.call("write", {"n": 1})
        await it.call("check", {})
        run = await it.book.state_of("run_1")
        (approval,), (attempt,) = run.approvals, run.attempts
        assert len((await search(it.ledger, LOCAL, Sought(text="Refunds Are"))).records) == 1
        assert len((await search(it.ledger, LOCAL, Sought(text="no transition"))).records) >= 1
        assert len((await search(it.ledger, LOCAL, Sought(approval=approval))).records) == 1
        assert {one.event.kind for one in (await search(it.ledger, LOCAL, Sought(attempt=attempt))).records} >= {
            "intent.recorded",
            "receipt.recorded",
        }
