"""A gateway that was held up sends nothing that another one may have settled meanwhile, and tells what is recorded."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway.kernel.approve import resolve
from gateway.model.tool import Answer
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.ports import Dispatch, LedgerUnavailable
from tests import world
from tests.runtime.house import ME, house, outcome
from tests.runtime.test_recover import ASKED, TO, state


class Slow(MemoryLedger):
    """A ledger that takes its time."""

    clock: world.ToldClock
    takes_s = 0.0

    async def append(self, step: Any) -> None:
        await super().append(step)
        self.clock.tell(self.takes_s)


async def test_a_call_that_was_held_up_before_it_could_be_sent_has_less_time_or_is_not_sent_at_all() -> None:
    ledger, clock = Slow(), world.ToldClock()
    ledger.clock = clock
    async with house(ledger, clock=clock) as it:
        for takes_s, left_s in ((0.0, 60.0), (20.0, 40.0), (61.0, None)):
            ledger.takes_s = takes_s
            shown = await it.call("write", {"takes": takes_s}, deliver=False)
            ledger.takes_s = 0.0
            sent = [one for one in it.upstreams.sent if one.arguments == {"takes": takes_s}]
            assert [one.timeout_s for one in sent] == ([] if left_s is None else [left_s])
            assert outcome(shown) == ("upstream_unavailable" if left_s is None else "result")


async def test_who_slept_through_what_a_person_said_tells_that_and_not_the_answer_in_hand() -> None:
    ledger, clock, upstreams = MemoryLedger(), world.ToldClock(), world.ScriptedUpstreams()
    upstreams.offer(world.tool("read", read=True), world.tool("write"))
    go = asyncio.Event()

    async def slow(_: Dispatch) -> Answer:
        await go.wait()
        return world.ok("at last")

    upstreams.will("write", slow)
    async with house(ledger, "asleep", upstreams, clock) as asleep, house(ledger, "b", upstreams, clock) as b:
        calling = asyncio.ensure_future(asleep.call("write", TO))
        await asleep.settle()
        for _ in range(2):
            await b.recovery.sweep()
            clock.tell(16)
        clock.tell(90)
        await b.book.say(
            "run_1", lambda run, _, now: resolve(run, "run_1.2", what="happened", by=ME, reason="seen", now=now)
        )
        go.set()
        told = (await calling).refusal
        assert told is not None
        assert (told.outcome, told.executed, told.evidence[0].says) == ("held", True, "seen")


class Struck(MemoryLedger):
    """A ledger behind whose back something happens once an intent is in it."""

    then: Callable[[], Any] | None = None

    async def append(self, step: Any) -> None:
        await super().append(step)
        if self.then is not None and any(one.event.kind == "intent.recorded" for one in step.records):
            then, self.then = self.then, None
            await then()


@pytest.mark.parametrize("skew_s", [0.0, 300.0, -300.0])
async def test_a_gateway_that_slept_between_intent_and_sending_sends_nothing_whatever_the_clocks_say(
    skew_s: float,
) -> None:
    ledger, upstreams = Struck(), world.ScriptedUpstreams()
    upstreams.offer(world.tool("read", read=True), world.tool("write"))
    slept, other = world.ToldClock(), world.ToldClock(world.T0 + skew_s)
    async with house(ledger, "a", upstreams, slept, **ASKED) as a, house(ledger, "b", upstreams, other, **ASKED) as b:
        await b.call("read")

        async def sleep() -> None:
            upstreams.will("read", *[state("none")] * 20)
            for _ in range(12):
                await b.recovery.sweep()
                other.tell(16)
                slept.seconds += 16
            # A gateway whose clock is behind goes on holding it: no harm.
            assert outcome(await b.call("write", TO)) == ("held" if skew_s < 0 else "result")

        ledger.then = sleep
        assert outcome(await a.call("write", TO)) in {"upstream_unavailable", "timeout_unknown", "denied"}
        assert [one.tool.name for one in upstreams.sent].count("write") == (0 if skew_s < 0 else 1)


async def test_our_own_sweep_leaves_alone_what_is_about_to_be_sent() -> None:
    ledger, upstreams = Struck(), world.ScriptedUpstreams()
    upstreams.offer(world.tool("write"))
    async with house(ledger, "me", upstreams) as it:

        async def swept() -> None:
            assert await it.recovery.sweep() == 0

        ledger.then = swept
        assert outcome(await it.call("write", TO)) == "result"
        kinds = [record.event.kind for record, _ in await ledger.read("run_1")]
        assert "attempt.unknown" not in kinds


async def test_what_was_seen_of_leases_counts_for_nothing_once_the_ledger_was_away() -> None:
    ledger, upstreams, clock = MemoryLedger(), world.ScriptedUpstreams(), world.ToldClock()
    upstreams.offer(world.tool("write"))
    go = asyncio.Event()

    async def slow(_: Dispatch) -> Answer:
        await go.wait()
        return world.ok()

    upstreams.will("write", slow)
    async with house(ledger, "a", upstreams, clock) as a, house(ledger, "b", upstreams, clock) as b:
        calling = asyncio.ensure_future(a.call("write", TO))
        await a.settle()
        assert await b.recovery.sweep() == 0
        ledger.trouble = "away"
        clock.tell(60)
        with pytest.raises(LedgerUnavailable):
            await b.recovery.sweep()
        ledger.trouble = None
        assert await b.recovery.sweep() == 0
        await ledger.renew("a", a.engine.carrier.open, clock.now() + 15)
        clock.tell(14)
        assert await b.recovery.sweep() == 0
        go.set()
        assert outcome(await calling) == "result"
