"""Whether the ledger takes what is to be recorded, and how that is found out and told."""

import asyncio
import logging
from collections.abc import Iterator

import anyio
import pytest

from gateway.outbound.ledger.memory import MemoryLedger
from gateway.ports import LedgerUnavailable
from gateway.runtime.health import LOOK_S, RETRY_S, STORE_S, Health
from tests.runtime.house import House, house, outcome
from tests.world import ToldClock

FULL = "the ledger `l.db` has no space left: free some on its disk, nothing needs a restart"


class Touched(MemoryLedger):
    """Notes each time that it is touched, and whether something had to be stored."""

    def __init__(self) -> None:
        super().__init__()
        self.touches: list[bool] = []

    async def touch(self, *, store: bool) -> None:
        self.touches.append(store)
        await super().touch(store=store)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """What the log says of the ledger, line by line."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, log = Lines(), logging.getLogger("counterfoil.ledger")
    log.addHandler(handler)
    yield lines
    log.removeHandler(handler)
    caplog.clear()


async def pass_by(it: House, seconds: float) -> None:
    """That much time, second by second, with whatever waits for it."""
    for _ in range(int(seconds)):
        it.clock.tell(1)
        await it.settle()


async def test_trouble_is_told_once_with_its_start_and_so_is_its_end(said: list[str]) -> None:
    ledger = Touched()
    async with house(ledger) as it:
        keeping = asyncio.ensure_future(it.book.health.keep(ledger))
        await it.settle()
        assert it.book.health.state() == {"state": "writable"}
        ledger.trouble = FULL
        for _ in range(3):
            assert outcome(await it.call("write", {"n": 1})) == "ledger_unavailable"
        await pass_by(it, 30)
        assert it.book.health.state() == {
            "state": "unavailable",
            "reason": FULL,
            "since": "2027-01-15T08:00:00+00:00",
        }
        assert said == [f"nothing can be recorded, so no call is sent: {FULL}"]
        assert ledger.touches == [True] * 30

        ledger.trouble = None
        await pass_by(it, RETRY_S)
        assert it.book.health.state() == {"state": "writable"}
        assert said[1:] == ["the ledger takes records again, after 31 s; calls are judged and sent as before"]
        assert outcome(await it.call("write", {"n": 1})) == "result"
        assert len(it.upstreams.sent) == 1
        keeping.cancel()


async def test_another_trouble_is_told_too_and_keeps_the_time_of_the_first(said: list[str]) -> None:
    clock = ToldClock()
    health = Health(clock)
    health.refused("a")
    clock.tell(60)
    health.refused("b")
    health.refused("b")
    assert health.state() == {"state": "unavailable", "reason": "b", "since": "2027-01-15T08:00:00+00:00"}
    assert said == [f"nothing can be recorded, so no call is sent: {reason}" for reason in "ab"]


async def test_an_append_that_is_taken_ends_the_trouble_without_a_look() -> None:
    ledger = Touched()
    async with house(ledger) as it:
        ledger.trouble = FULL
        await it.call("write", {"n": 1})
        ledger.trouble = None
        assert it.book.health.state()["state"] == "unavailable"
        await it.call("write", {"n": 1})
        assert it.book.health.state() == {"state": "writable"}
        assert ledger.touches == []


async def test_trouble_is_found_without_a_call_and_an_idle_gateway_hardly_stores_anything() -> None:
    ledger = Touched()
    async with house(ledger) as it:
        keeping = asyncio.ensure_future(it.book.health.keep(ledger))
        await it.settle()
        await pass_by(it, STORE_S)
        assert ledger.touches.count(True) == 1
        assert len(ledger.touches) == STORE_S / LOOK_S
        ledger.trouble = FULL
        await pass_by(it, LOOK_S)
        assert it.book.health.trouble is not None
        assert it.book.health.trouble.reason == FULL
        keeping.cancel()


async def test_a_gateway_that_writes_is_not_looked_after() -> None:
    ledger = Touched()
    async with house(ledger) as it:
        keeping = asyncio.ensure_future(it.book.health.keep(ledger))
        for number in range(60):
            await pass_by(it, 5)
            await it.call("write", {"n": number})
        assert ledger.touches == []
        keeping.cancel()


async def test_leases_that_cannot_be_renewed_are_trouble_as_well() -> None:
    ledger = Touched()
    gone = asyncio.Event()

    async def slowly(_: object) -> None:
        await gone.wait()

    async with house(ledger) as it:
        it.upstreams.will("write", slowly)
        calling = asyncio.ensure_future(it.call("write", {"n": 1}))
        keeping = asyncio.ensure_future(it.engine.carrier.keep_leases())
        with anyio.fail_after(5):
            while not it.engine.carrier.open:
                await asyncio.sleep(0)

        async def renew(owner: str, attempts: object, lease_until: float) -> None:
            raise LedgerUnavailable(f"{attempts} of {owner} until {lease_until}")

        ledger.renew = renew  # type: ignore[method-assign]
        await pass_by(it, 6)
        assert it.book.health.trouble is not None
        for task in (calling, keeping):
            task.cancel()
        gone.set()
