"""What people's side of a ledger reads: counted, by a ledger that notes what it was asked, and never timed."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from gateway.kernel.figures import KINDS, questions, reckoned
from gateway.model.record import Record, utc
from gateway.outbound.ledger import MemoryLedger
from gateway.ports import NoSuchRun
from gateway.runtime import newest, reviews
from gateway.runtime.desk import Desk
from gateway.runtime.inbox import SLICE
from gateway.runtime.reviews import reviews_of
from tests import world
from tests.runtime.office import ANN, Office, office

MANY = 130
"""Questions: some slices and pages of them."""
NEVER = "ap_0000000000000000"


class Noting(MemoryLedger):
    """Notes each read: what was asked, and how many records came."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, int]] = []

    async def read(self, run: str, after: int = 0, *, limit: int | None = None) -> Sequence[tuple[Record, bytes]]:
        found = await super().read(run, after, limit=limit)
        self.asked.append(("read", len(found)))
        return found

    async def find(
        self, kinds: Sequence[str], *, limit: int = 1000, before: tuple[str, int] | None = None
    ) -> Sequence[Record]:
        found = await super().find(kinds, limit=limit, before=before)
        self.asked.append(("find", len(found)))
        return found

    async def named(self, names: Collection[str]) -> Sequence[Record]:
        found = await super().named(names)
        self.asked.append(("named", len(found)))
        return found

    async def tracked(self, *, states: Collection[str] | None = None) -> Sequence[Any]:
        found = await super().tracked(states=states)
        self.asked.append(("tracked", 0))
        return found

    def since(self) -> list[tuple[str, int]]:
        """What was asked since this was asked last."""
        noted, self.asked = self.asked, []
        return noted


@asynccontextmanager
async def crowded(many: int = MANY) -> AsyncIterator[tuple[Office, Noting]]:
    """An office with many questions, and its ledger."""
    ledger = Noting()
    async with office(ledger) as it:
        for number in range(many):
            await it.calls({"n": number})
        ledger.since()
        yield it, ledger


async def test_a_name_that_nobody_knows_costs_a_few_reads_whoever_asks() -> None:
    async with crowded() as (it, ledger):
        book = it.it.book
        assert await it.desk.packet(NEVER, ANN) is None
        assert ledger.since() == [("named", 0)]
        with pytest.raises(NoSuchRun):
            await it.it.engine.questions.of(NEVER, world.USER, None)
        assert ledger.since() == [("named", 0)]
        assert await Desk(book).run_for(NEVER, ANN) is None
        for name in ("run_never.7", "run_never", "ap_", "."):
            assert await it.desk.packet(name, ANN) is None
        assert sum(count for _, count in ledger.since()) == 0


async def test_a_question_that_waits_no_more_is_found_by_one_look_as_well() -> None:
    async with crowded() as (it, ledger):
        one = await it.says("rejected")
        ledger.since()
        assert await Desk(it.it.book).run_for(one.id, ANN) is not None
        assert [asked for asked in ledger.since() if asked[0] != "read"] == [("named", 1)]
        question = await it.it.engine.questions.of(one.id, world.USER, None)
        assert question.id == one.id
        assert [asked for asked in ledger.since() if asked[0] != "read"] == [("named", 1)]


async def test_the_first_look_reads_each_question_once_and_the_next_only_what_is_new() -> None:
    async with crowded() as (it, ledger):
        desk = Desk(it.it.book)
        assert (await desk.inbox(ANN)).total == MANY
        first = [count for what, count in ledger.since() if what == "named"]
        assert (sum(first), max(first)) == (MANY, SLICE)
        it.it.clock.tell(2)
        before = await desk.changed(-1, 0)
        await desk.inbox(ANN)
        assert ledger.since() == [("tracked", 0)]
        await it.calls({"n": "new"})
        answered = await it.says("rejected", of=min((await it.it.book.state_of("run_1")).approvals))
        it.it.clock.tell(2)
        ledger.since()
        page = await desk.inbox(ANN, limit=MANY)
        assert [asked for asked in ledger.since() if asked[0] != "read"] == [("tracked", 0), ("named", 1)]
        assert answered.id not in {row.name for row in page.rows}
        assert (page.total, await desk.changed(before, 0)) == (MANY, before + 1)
        again = await Desk(it.it.book).inbox(ANN, limit=MANY)
        assert again == page, "as if it had been looked at for the first time"


async def test_page_after_page_is_the_whole_in_order_also_where_rows_come_and_go() -> None:
    async with crowded() as (it, _):
        whole = [row.name for row in (await it.desk.inbox(ANN, limit=MANY)).rows]
        names, after = list[str](), None
        for _ in range(MANY):
            page = await it.desk.inbox(ANN, limit=7, after=after)
            names += [row.name for row in page.rows]
            after = page.next
            if after is None:
                break
        assert names == whole
        page = await it.desk.inbox(ANN, limit=7)
        for name in (page.rows[-1].name, whole[8]):
            await it.says("rejected", of=name)
        further = await it.desk.inbox(ANN, limit=3, after=page.next)
        assert [row.name for row in further.rows] == [whole[7], *whole[9:11]]


async def test_a_second_packet_reads_no_verdict_of_others_again() -> None:
    async with crowded() as (it, ledger):
        first, second, *_ = (await it.desk.inbox(ANN)).rows
        ledger.since()
        packet = await it.desk.packet(first.name, ANN)
        assert sum(count for what, count in ledger.since() if what == "find") >= MANY
        assert await it.desk.packet(second.name, ANN) is not None
        assert [asked for asked in ledger.since() if asked[0] == "find"] == [("find", newest.PAGE)]
        fresh = await Desk(it.it.book).packet(first.name, ANN)
        assert fresh == packet, "what was seen before says the same"


async def test_a_tool_is_told_as_it_was_last_called_in_any_run() -> None:
    async with office() as it:
        await it.calls()
        one = await it.asked()
        before = await it.desk.packet(one.id, ANN)
        assert before is not None
        await it.it.open("run_2")
        await it.it.call("read", {"n": 1}, run="run_2")
        after = await it.desk.packet(one.id, ANN)
        assert after == await Desk(it.it.book).packet(one.id, ANN)
        assert after is not None
        assert after != before, "a tool more is known"


async def test_figures_are_read_in_pages_and_say_what_all_at_once_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "PAGE", 10)
    async with crowded(25) as (it, ledger):
        await it.says("rejected")
        await it.says("approved", of=min((await it.it.book.state_of("run_1")).approvals))
        for number in range(40):
            await it.it.call("read", {"n": number})
        ledger.since()
        told = await reviews_of(it.it.book)
        pages = ledger.since()
        assert {count for what, count in pages if what == "find"} <= set(range(11))
        records = [*reversed(await ledger.find(KINDS))]
        now = utc(it.it.clock.now())
        assert told == reckoned(questions(records, now), since=None, now=now, partial=False)
        assert (told.all.asked, told.all.rejected, told.all.approved) == (25, 1, 1)
        it.it.clock.tell(3_600)
        await it.calls({"n": "late"})
        ledger.since()
        late = await reviews_of(it.it.book, since=utc(it.it.clock.now() - 60))
        assert (late.all.asked, late.partial) == (1, False)
        assert sum(count for what, count in ledger.since() if what == "find") == 10, "no further back than it must"
        monkeypatch.setattr(reviews, "MOST", 12)
        assert (await reviews_of(it.it.book)).partial


async def test_while_figures_are_read_others_are_served() -> None:
    async with crowded(3) as (it, ledger):
        for number in range(3 * newest.PAGE):
            await it.it.call("read", {"n": number})
        served = list[int]()
        find = ledger.find

        async def noting(*given: Any, **more: Any) -> Sequence[Record]:
            served.append(turns[0])
            return await find(*given, **more)

        turns = [0]

        async def others() -> None:
            for turns[0] in range(1, 1_000_000):
                await asyncio.sleep(0)

        ledger.find = noting  # type: ignore[method-assign]
        beside = asyncio.ensure_future(others())
        await reviews_of(it.it.book, by=replace(ANN, everywhere=True))
        beside.cancel()
        assert len(served) > 3
        assert len(set(served)) == len(served), "somebody had a turn between each two pages"
