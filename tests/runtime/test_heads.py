"""The state of a run that several processes write to."""

import asyncio
from collections.abc import Sequence
from typing import Any

from gateway.model.record import Record
from gateway.outbound.ledger.memory import MemoryLedger
from tests.runtime.house import house


class Noted(MemoryLedger):
    """Notes from where on a run is read, and lets others go on meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.read_after: list[int] = []

    async def read(self, run: str, after: int = 0, *, limit: int | None = None) -> Sequence[tuple[Record, bytes]]:
        self.read_after.append(after)
        found = await super().read(run, after, limit=limit)
        await asyncio.sleep(0.001)
        return found


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
