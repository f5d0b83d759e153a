"""What a gateway cannot do now is left to those who can, however busy it is with something else."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from gateway.model.tool import Answer, Tool
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.ports import Dispatch
from tests import world
from tests.runtime.house import House, house
from tests.runtime.test_recover import ASKED, asked, lost, state
from tests.runtime.undoing import ASKS, POLICY, REFUNDED, answer, finds, says, sent, sound, upstreams


@asynccontextmanager
async def busy(it: House, tool: str = "pay") -> AsyncIterator[Callable[[float], Awaitable[None]]]:
    """It waits for an answer and renews its leases; what it gives lets time go on meanwhile."""

    async def never(_: Dispatch) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    it.upstreams.will(tool, never)
    work = [asyncio.ensure_future(one) for one in (it.engine.carrier.keep_leases(), it.call(tool))]

    with anyio.fail_after(5):
        while not it.engine.carrier.open:
            await asyncio.sleep(0)

    async def later(seconds: float) -> None:
        for _ in range(int(seconds)):
            await it.settle()
            it.clock.tell(1)
        await it.settle()

    yield later
    for one in work:
        one.cancel()
    await asyncio.gather(*work, return_exceptions=True)


def served(*names: str) -> world.ScriptedUpstreams:
    upstreams = world.ScriptedUpstreams()
    upstreams.offer(*(world.tool(name, read=name != "write") for name in names))
    return upstreams


async def test_what_a_gateway_has_asked_after_in_vain_is_anybodys_however_long_it_took() -> None:
    ledger, clock = MemoryLedger(), world.ToldClock()
    async with house(ledger, "busy", clock=clock, **ASKED) as one, busy(one) as later:
        await lost(one)

        async def slow(_: Dispatch) -> Answer:
            await later(12)
            return state("pending")

        one.upstreams.will("read", state("pending"), slow)
        assert await one.recovery.sweep() == 0
        await later(15)
        assert await one.recovery.sweep() == 0
        assert asked(one) == 2
        assert {seen.lease_until for seen in await ledger.tracked(states={"unknown"})} == {0.0}
        one.upstreams.tools.clear()
        async with house(ledger, "able", served("read", "write"), clock, **ASKED) as able:
            able.upstreams.will("read", state("done"))
            assert await able.recovery.sweep() == 1


async def test_what_a_busy_gateway_cannot_verify_any_more_is_verified_by_another() -> None:
    fields: dict[str, Any] = {
        "verifiers": {"t": {"probe": {"tool": "check"}, "pass": ["result.structuredContent.exit == 0"]}},
        "transitions": [{"name": "write", "tools": ["write"], "verify": "t"}, {"name": "any", "tools": ["*"]}],
    }
    ledger, clock = MemoryLedger(), world.ToldClock()
    async with house(ledger, "busy", clock=clock, **fields) as one, busy(one) as later:
        await lost(one)
        del one.upstreams.tools["check"]
        (unknown,) = await ledger.tracked(states={"unknown"})
        await finds(one, unknown.attempt, happened=True)
        async with house(ledger, "able", served("check", "write"), clock, **fields) as able:
            able.upstreams.will("check", world.ok(structuredContent={"exit": 0}))
            assert await able.recovery.sweep() == 0
            await later(15)
            assert await one.recovery.sweep() == 0
            assert await able.recovery.sweep() == 1
        assert (await one.book.fresh_state_of("run_1")).evidence["t"].event.verdict == "pass"


def elsewhere() -> world.ScriptedUpstreams:
    return served("zzz")


def refund_is_down() -> world.ScriptedUpstreams:
    made = upstreams()
    made.offer(Tool("refund", "fake", "refund", made.tools["refund"].definition, healthy=False, trouble="ill"))
    return made


@pytest.mark.parametrize("serves", [elsewhere, refund_is_down])
async def test_what_a_gateway_cannot_undo_is_undone_by_one_that_can(
    serves: Callable[[], world.ScriptedUpstreams],
) -> None:
    ledger, clock, fields = MemoryLedger(), world.ToldClock(), {**POLICY, **ASKS}
    async with house(ledger, "dead", upstreams(), clock, **fields) as dead:
        await dead.call("pay", {"amount": 5})
        await says(dead, approve=True)
    async with (
        house(ledger, "unable", serves(), clock, **fields) as unable,
        house(ledger, "able", upstreams(), clock, **fields) as able,
    ):
        for _ in range(3):
            assert await unable.recovery.sweep() == 0
            clock.tell(8)
            assert sent(able) == []
            _ = await able.recovery.sweep()
            if sent(able):
                break
            clock.tell(8)
        assert sent(able) == [REFUNDED]
        assert sent(unable) == []
        await sound(able)


async def test_what_is_being_undone_stays_ours_however_long_it_takes() -> None:
    ledger, clock = MemoryLedger(), world.ToldClock()
    async with house(ledger, "busy", upstreams(), clock, **POLICY) as one, busy(one, "read") as later:
        go = asyncio.Event()

        async def slow(_: Dispatch) -> Answer:
            await go.wait()
            return answer(refunded=True)

        one.upstreams.will("refund", slow)
        paying = asyncio.ensure_future(one.call("pay", {"amount": 5}))
        with anyio.fail_after(5):
            while not sent(one, "refund"):
                await one.settle()
        async with house(ledger, "other", upstreams(), clock, **POLICY) as other:
            for _ in range(4):
                with anyio.fail_after(5):
                    assert await other.engine.undoer.sweep() == await one.engine.undoer.sweep() == 0
                await later(15)
            assert {seen.owner for seen in await ledger.tracked(states={"owed"})} == {"busy"}
            go.set()
            _ = await paying
            assert sent(other) == []
        assert [undoing.state for undoing in (await one.book.state_of("run_1")).undo.values()] == ["undone"]
