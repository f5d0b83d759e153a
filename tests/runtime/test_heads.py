"""The state of a run that several processes write to."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.kernel.reduce import fold
from gateway.model.canonical import Digest
from gateway.model.events import Held, Outcome
from gateway.model.record import Record, link
from gateway.model.run import Run
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.ports import Append
from gateway.runtime import heads
from gateway.runtime.heads import PAGE, WEIGHT, Heads
from tests import world
from tests.runtime.house import House, house


class Noted(MemoryLedger):
    """Notes from where on a run is read and how many records came of it, and lets others go on meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.read_after: list[int] = []
        self.came: list[int] = []

    async def read(self, run: str, after: int = 0, *, limit: int | None = None) -> Sequence[tuple[Record, bytes]]:
        self.read_after.append(after)
        found = await super().read(run, after, limit=limit)
        self.came.append(len(found))
        await asyncio.sleep(0.001)
        return found


async def folded(ledger: MemoryLedger, run: str = "run_1") -> Run:
    """The run as its records have it."""
    return fold([(record, link(body)) for record, body in await MemoryLedger.read(ledger, run)], Run(run))


async def noted(it: House, run: str = "run_1", reason: str = "") -> Run:
    """One more record of the run."""
    event = Held(tool="write", arguments=Digest("c1:a"), policy=Digest("c1:p"), phase="open", outcome=Outcome.HELD,
                 reason=reason, checks=())  # fmt: skip
    return await it.book.say(run, lambda *_: (event,))


async def test_of_a_run_that_is_known_only_what_is_new_is_read() -> None:
    ledger = Noted()
    async with house(ledger) as one, house(ledger, "you") as two:
        await one.call("write", {"n": 1})
        known = await two.book.fresh_state_of("run_1")
        await one.call("write", {"n": 2})
        ledger.read_after.clear()
        assert await two.book.fresh_state_of("run_1") == await one.book.state_of("run_1")
        assert await two.book.fresh_state_of("run_1") == await two.book.state_of("run_1")
        assert ledger.read_after[0] == known.version
        assert 0 not in ledger.read_after


class Slow:
    """A gateway's way to a ledger that takes its appends only once it may."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self.may = asyncio.Event()

    async def append(self, step: Append) -> None:
        await self.may.wait()
        await self._ledger.append(step)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


async def test_a_run_is_never_told_without_what_others_wrote_while_an_append_of_ours_is_under_way() -> None:
    ledger = MemoryLedger()
    slow = Slow(ledger)
    slow.may.set()
    async with house(slow, "you") as two, house(ledger) as one:
        slow.may.clear()
        ours = asyncio.ensure_future(noted(two, reason="ours"))
        await asyncio.sleep(0)
        assert (await two.book.state_of("run_1")).version == 2, "what is queued here counts for who decides here"
        await noted(one, reason="theirs")
        assert await two.book.fresh_state_of("run_1") == await folded(ledger)
        slow.may.set()
        await ours
        assert await two.book.fresh_state_of("run_1") == await folded(ledger)


async def test_what_is_queued_here_is_kept_while_nobody_else_writes() -> None:
    slow = Slow(MemoryLedger())
    slow.may.set()
    async with house(slow, "you") as it:
        slow.may.clear()
        both = [asyncio.ensure_future(noted(it, reason=str(turn))) for turn in range(2)]
        await asyncio.sleep(0)
        assert (await it.book.fresh_state_of("run_1")).version == 3
        slow.may.set()
        await asyncio.gather(*both)
        assert await it.book.fresh_state_of("run_1") == await folded(slow._ledger)


async def test_gateways_that_alternate_on_a_run_read_what_the_other_wrote_and_one_record_more() -> None:
    ledger = Noted()
    async with house(ledger) as one, house(ledger, "you") as two:
        for turn in range(300):
            ledger.came.clear()
            await noted(one if turn % 2 else two)
            assert sum(ledger.came) <= 3, turn
        assert (await one.book.fresh_state_of("run_1")).version == 301
        assert await one.book.state_of("run_1") == await folded(ledger)


class Turning(MemoryLedger):
    """Notes in which turn of the event loop each read comes, and how many records came of it; it never waits itself."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = 0
        self.reads: list[tuple[int, int]] = []

    async def read(self, run: str, after: int = 0, *, limit: int | None = None) -> Sequence[tuple[Record, bytes]]:
        found = await super().read(run, after, limit=limit)
        self.reads.append((self.turn, len(found)))
        return found

    async def count(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)


async def test_many_records_at_once_come_in_pages_between_which_others_have_their_turn() -> None:
    ledger = Turning()
    async with house(ledger) as one, house(ledger, "you") as two:
        for _ in range(3 * PAGE):
            await noted(one)
        counting = asyncio.ensure_future(ledger.count())
        await asyncio.sleep(0)
        for load in (two.book.fresh_state_of("run_1"), Heads(ledger, two.clock).get("run_1")):
            ledger.reads.clear()
            assert (await load) is not None
            turns = [turn for turn, count in ledger.reads if count == PAGE]
            assert len(turns) >= 3
            assert len(set(turns[-3:])) == 3
            assert max(count for _, count in ledger.reads) == PAGE
        counting.cancel()
        assert await two.book.state_of("run_1") == await folded(ledger)


async def test_a_ledger_that_has_another_history_now_is_read_from_its_start() -> None:
    """As after a failover to a replica that lacked the newest records."""
    ledger = MemoryLedger()
    async with house(ledger) as one, house(ledger, "you") as two:
        for _ in range(4):
            await noted(one)
        del ledger._log[-2:], ledger._runs["run_1"][-2:]
        assert (await noted(two, reason="another")).version == 4
        assert (await noted(one)).version == 5
        assert await one.book.state_of("run_1") == await folded(ledger)
        del ledger._log[-2:], ledger._runs["run_1"][-2:]
        for _ in range(4):
            await noted(two, reason="another one")
        assert (await noted(one)).version == 8
        assert await one.book.state_of("run_1") == await folded(ledger)
        del ledger._log[-6:], ledger._runs["run_1"][-6:]
        assert (await noted(one)).version == 3
        assert await one.book.state_of("run_1") == await folded(ledger)


async def test_what_is_kept_is_bounded_by_events_and_what_was_just_used_by_eight_times_as_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heads, "KEPT_EVENTS", 10 * WEIGHT)
    monkeypatch.setattr(heads, "USED_EVENTS", 20 * WEIGHT)
    ledger, clock = Noted(), world.ToldClock()
    many = Heads(ledger, clock)
    for number in range(30):
        await many.get(f"run_{number}")
    assert [many.kept(f"run_{number}") is not None for number in range(30)] == [False] * 10 + [True] * 20
    clock.tell(11)
    await many.get("run_10")  # used again, so that it stays
    await many.get("run_30")
    assert {number for number in range(31) if many.kept(f"run_{number}") is not None} == {10, *range(22, 31)}
    assert many._events == 10 * WEIGHT
    assert set(many._used) == set(many._durable) >= set(many._heads)


async def test_a_run_longer_than_all_that_is_kept_is_kept_while_it_is_the_latest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heads, "KEPT_EVENTS", 10)
    ledger = Noted()
    async with house(ledger) as it:
        for _ in range(40):
            ledger.came.clear()
            await noted(it)
            assert ledger.came == []
        it.clock.tell(11)
        await it.open("run_2")
        assert it.book._heads.kept("run_1") is None
        assert await it.book.state_of("run_1") == await folded(ledger)


async def test_what_is_asked_for_while_others_write_is_never_behind_or_beside_the_ledger() -> None:
    ledger = Noted()
    async with house(ledger) as one, house(ledger, "you") as two:

        async def ask(it: Any) -> None:
            for _ in range(40):
                before = len(await MemoryLedger.read(ledger, "run_1"))
                assert (await it.book.fresh_state_of("run_1")).version >= before

        calls = [it.call("write", {"n": number}, deliver=False) for number in range(20) for it in (one, two)]
        await asyncio.gather(ask(one), ask(two), *calls)
        states = [await it.book.fresh_state_of("run_1") for it in (one, two)]
        assert states[0] == states[1]
        assert states[0].version == len(await MemoryLedger.read(ledger, "run_1"))
        sent = len(one.upstreams.sent) + len(two.upstreams.sent)
        assert sent == 20
