"""Telling people goes on beside everything, whatever the ledger does, and ends in order."""

import asyncio
from collections.abc import Sequence

import pytest

from gateway.model.record import Record
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.ports import Append, DamagedRecord, LedgerUnavailable
from gateway.runtime.announce import Announcer
from gateway.runtime.book import Book
from tests.notices.ground import LINKS, line, telling, until
from tests.notices.receiver import OK, receiving

pytestmark = pytest.mark.anyio


class Failing(MemoryLedger):
    """A ledger that may have no room, be out of reach, or hold a damaged run."""

    full = False
    away = False
    damaged = ""

    async def append(self, step: Append) -> None:
        if self.full:
            raise LedgerUnavailable("the disk is full")
        await super().append(step)

    async def closed(self) -> int:
        if self.away:
            raise LedgerUnavailable("it is away")
        return await super().closed()

    async def find(
        self, kinds: Sequence[str], *, limit: int = 1000, before: tuple[str, int] | None = None
    ) -> Sequence[Record]:
        if self.damaged:
            raise DamagedRecord("record `x` is not what was written")
        return await super().find(kinds, limit=limit, before=before)

    async def read(self, run: str, after: int = 0, *, limit: int | None = None) -> Sequence[tuple[Record, bytes]]:
        if run == self.damaged:
            raise DamagedRecord("record `x` is not what was written")
        return await super().read(run, after, limit=limit)


async def slowly(out: asyncio.StreamWriter) -> None:
    await asyncio.sleep(0.2)
    OK(out)


async def test_what_is_being_sent_is_recorded_before_an_orderly_end() -> None:
    ledger = Failing()
    async with receiving(slowly) as hook, telling(line(hook), ledger=ledger) as it:
        ledger.away = True
        keeping = asyncio.ensure_future(it.announcer.keep())
        await it.house.settle()
        ledger.away = False
        await it.house.call("pay")

        def came() -> bool:
            it.house.clock.tell(1)
            return bool(hook.got)

        await until(came)
        keeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await keeping
        assert [one.outcome for one in await it.sent()] == ["delivered"]


async def test_what_the_ledger_did_not_take_is_recorded_later_and_not_sent_again() -> None:
    ledger = Failing()
    async with receiving() as hook, telling(line(hook), ledger=ledger) as it:
        await it.house.call("pay")
        ledger.full = True
        await it.look()
        assert (len(hook.got), it.announcer.state()["undelivered"]) == (1, 1)
        await it.after(3)
        ledger.full = False
        await it.after(6)
        assert len(hook.got) == 1
        assert [one.outcome for one in await it.sent()] == ["delivered"]
        assert it.announcer.state()["undelivered"] == 0


async def test_a_damaged_run_keeps_nobody_from_being_told_of_others(caplog: pytest.LogCaptureFixture) -> None:
    ledger = Failing()
    async with receiving() as hook, telling(line(hook), ledger=ledger) as it:
        await it.house.open("run_2")
        await it.house.call("pay", run="run_2")
        await it.house.call("pay")
        ledger.damaged = "run_2"
        book = Book(ledger, it.house.book.policies, it.house.clock, it.house.book.options)
        announcer = Announcer(book, [line(hook)], LINKS, lambda: 0.5)
        for _ in range(3):
            await announcer.look()
            await announcer.idle()
            it.house.clock.tell(60)
        assert hook.ids == ["run_1#2:ops"]
        name = await it.approval()
        said = [one.getMessage() for one in caplog.records if one.name == "counterfoil.notices"]
        assert len(said) == 1
        assert said[0].startswith("nobody can be told of ap_")
        assert name not in said[0]
