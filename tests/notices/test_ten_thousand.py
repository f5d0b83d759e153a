"""10,000 questions that wait cost a look nothing while nothing happens, and little memory."""

import tracemalloc
from collections.abc import Collection, Sequence

import pytest

from gateway.model.run import Tracked
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.runtime.heads import KEPT_EVENTS
from tests.notices.ground import line, telling
from tests.notices.receiver import receiving

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.long]

MANY = 10_000
RUNS = 100


class Counting(MemoryLedger):
    """A ledger that counts how often the whole list was read."""

    lists = 0

    async def tracked(self, *, states: Collection[str] | None = None) -> Sequence[Tracked]:
        self.lists += 1
        return await super().tracked(states=states)


async def test_many_questions_are_told_of_once_and_then_cost_nothing() -> None:
    ledger, few = Counting(), 40
    asks = [
        {"name": "few", "tools": ["pay"], "approval": {"risk": "critical"}},
        {"name": "many", "tools": ["write"], "approval": {"risk": "low"}},
    ]
    async with (
        receiving() as hook,
        telling(line(hook, risk="high", timeout_s=30), ledger=ledger, transitions=asks) as it,
    ):
        for number in range(RUNS):
            await it.house.open(f"run_{number}x")
            for n in range(MANY // RUNS):
                await it.house.call("write", {"n": n}, run=f"run_{number}x", deliver=False)
        for n in range(few):
            await it.house.call("pay", {"n": n})
        assert MANY < KEPT_EVENTS, "so that what others keep of the runs is there before it is measured"
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(2 + MANY // 500):
            await it.after(1)
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert len(hook.got) == len(set(hook.ids)) == few
        assert it.announcer.state()["undelivered"] == 0
        assert grown / MANY < 2_000, "bytes for each of them"
        lists = ledger.lists
        for _ in range(10):
            await it.after(1)
        assert ledger.lists == lists, "nothing was recorded, so nothing was read"
