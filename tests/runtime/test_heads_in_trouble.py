"""Two gateways over one ledger that fails by chance: their states are its own, and nothing acknowledged is lost."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
import pytest

from gateway.model.events import Held
from gateway.model.record import Record
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.ports import Append, Conflict, LedgerUnavailable
from tests.runtime.house import House, house
from tests.runtime.test_heads import folded, noted

RUNS = ("run_1", "run_2")


class Moody(MemoryLedger):
    """Takes a while, and refuses by chance: before it writes, or having written."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance
        self.calm = True
        self.fell: dict[str, int] = {"before": 0, "after": 0, "conflict": 0, "read": 0}

    def falls(self, on: str, share: float) -> bool:
        """Whether it happens now."""
        if self.calm or self.chance.random() >= share:
            return False
        self.fell[on] += 1
        return True

    async def append(self, step: Append) -> None:
        for _ in range(self.chance.randrange(3)):
            await asyncio.sleep(0)
        if self.falls("before", 0.1):
            raise LedgerUnavailable("nothing was written")
        if self.falls("conflict", 0.05):
            raise Conflict("somebody was faster, it seems")
        await super().append(step)
        if self.falls("after", 0.1):
            raise LedgerUnavailable("it was written all the same")

    async def read(self, run: str, after: int = 0, *, limit: int | None = None) -> Sequence[tuple[Record, bytes]]:
        for _ in range(self.chance.randrange(3)):
            await asyncio.sleep(0)
        if self.falls("read", 0.03):
            raise LedgerUnavailable("it cannot be read")
        found = await super().read(run, after, limit=limit)
        for _ in range(self.chance.randrange(3)):
            await asyncio.sleep(0)
        return found


@dataclass
class Crowd:
    """Many who write to the same few runs at once, by chance; some of them are cancelled on the way."""

    chance: random.Random
    acknowledged: list[tuple[str, str]] = field(default_factory=list)
    """Run and reason."""
    refused: list[str] = field(default_factory=list)

    async def write(self, it: House, name: str) -> None:
        for number in range(25):
            run, reason = self.chance.choice(RUNS), f"{name}.{number}"
            if self.chance.random() < 0.2:
                await asyncio.sleep(0)
            try:
                if self.chance.random() < 0.15:
                    await it.book.fresh_state_of(run)
                await noted(it, run, reason)
            except LedgerUnavailable:
                self.refused.append(reason)
            else:
                self.acknowledged.append((run, reason))

    async def leave(self, it: House, name: str) -> None:
        for number in range(10):
            task = asyncio.ensure_future(noted(it, "run_1", f"{name}.{number}"))
            for _ in range(self.chance.randrange(6)):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_fails_states_are_those_of_the_ledger_and_what_was_acknowledged_is_in_it(seed: int) -> None:
    crowd = Crowd(random.Random(seed))  # noqa: S311 - a seed is there to be repeated
    ledger = Moody(crowd.chance)
    async with house(ledger) as one, house(ledger, "you") as two:
        await one.open("run_2")
        ledger.calm = False
        with anyio.fail_after(20):
            writers = [crowd.write(it, f"{n}{m}") for n, it in enumerate((one, two)) for m in range(5)]
            await asyncio.gather(*writers, crowd.leave(one, "c1"), crowd.leave(two, "c2"))
        ledger.calm = True
        assert crowd.acknowledged
        assert crowd.refused
        assert all(ledger.fell.values()), ledger.fell
        for run in RUNS:
            await check(ledger, run, {reason for at, reason in crowd.acknowledged if at == run}, one, two)


async def check(ledger: Moody, run: str, acknowledged: set[str], *gateways: House) -> None:
    """The run is one chain with each step once, and both gateways know it and go on from it."""
    events = [record.event for record, _ in await ledger.read(run)]
    recorded = [event.reason for event in events if isinstance(event, Held)]
    assert len(recorded) == len(set(recorded)), "a step was recorded twice"
    assert acknowledged <= set(recorded)
    for it in gateways:
        truth = await folded(ledger, run)
        assert await it.book.fresh_state_of(run) == truth
        assert it.book._heads._durable[run] == truth
        assert (await noted(it, run)).version == truth.version + 1
