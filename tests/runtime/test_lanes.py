"""How many calls are under way at once: those beyond it wait a while, in order, and are then told so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest

from gateway.model.principal import Principal
from gateway.runtime.book import Options
from gateway.runtime.engine import Engine
from gateway.runtime.lanes import Crowded, Lanes, Limits
from tests import world
from tests.runtime.house import House, house, outcome

pytestmark = pytest.mark.anyio

ANN, BEN = Principal("ann"), Principal("ben")
WIDE = Limits(in_all=None, per_principal=None, per_upstream=None, wait_s=5)


class Held:
    """Calls that are under way until they are let go."""

    def __init__(self, limits: Limits) -> None:
        self.lanes = Lanes(limits)
        self.entered: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.go: dict[str, asyncio.Event] = {}

    async def call(self, name: str, principal: Principal = ANN, upstream: str | None = "bank") -> None:
        self.go[name] = asyncio.Event()

        async def work() -> None:
            lanes = self.lanes.of(principal, upstream)
            await self.lanes.enter(lanes)
            self.entered.append(name)
            await self.go[name].wait()
            self.lanes.leave(lanes)

        self.tasks[name] = asyncio.create_task(work())
        await self.turn()

    async def end(self, *names: str) -> None:
        for name in names:
            self.go[name].set()
            await self.tasks[name]
        await self.turn()

    async def turn(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


async def test_principals_whose_names_only_look_alike_together_keep_one_another_waiting_for_nothing() -> None:
    held = Held(replace(WIDE, per_principal=1))
    await held.call("a", Principal("b/c", "a"))
    await held.call("b", Principal("c", "a/b"))
    assert held.entered == ["a", "b"]
    await held.end("a", "b")


@pytest.mark.parametrize(
    ("limits", "other"),
    [
        ({"in_all": 2}, (BEN, "mail")),
        ({"per_principal": 2}, (ANN, "mail")),
        ({"per_upstream": 2}, (BEN, "bank")),
    ],
    ids=str,
)
async def test_one_more_than_the_limit_waits_until_another_has_ended(
    limits: dict[str, int], other: tuple[Principal, str]
) -> None:
    at = Held(replace(WIDE, **limits))
    await at.call("one")
    await at.call("two")
    await at.call("three", *other)
    assert at.entered == ["one", "two"]
    await at.end("one")
    assert at.entered == ["one", "two", "three"]
    await at.end("two", "three")


async def test_what_no_full_lane_keeps_back_does_not_wait_for_those_that_do() -> None:
    at = Held(replace(WIDE, per_principal=1))
    await at.call("ann 1", ANN)
    await at.call("ann 2", ANN)
    await at.call("ann 3", ANN)
    await at.call("ben 1", BEN)
    assert at.entered == ["ann 1", "ben 1"]
    await at.end("ann 1", "ann 2", "ann 3", "ben 1")
    assert at.entered == ["ann 1", "ben 1", "ann 2", "ann 3"]


async def test_who_waits_too_long_or_behind_too_many_is_told_where_it_is_full() -> None:
    at = Held(replace(WIDE, per_upstream=1, waiting=1, wait_s=0.05))
    await at.call("one")
    waits = asyncio.create_task(once(at, BEN))
    await at.turn()
    with pytest.raises(Crowded, match=r"to the upstream `bank`: 1, as many as may be, and 1 more wait"):
        await once(at, BEN)
    with pytest.raises(Crowded, match=r"none ended in 0\.05 s"):
        await waits
    await at.end("one")
    await at.call("two")
    assert at.entered == ["one", "two"], "whoever gave up has left no trace"
    await at.end("two")


async def once(at: Held, principal: Principal) -> None:
    await at.lanes.enter(at.lanes.of(principal, "bank"))


async def test_whoever_is_cancelled_while_it_waits_takes_nothing_with_it() -> None:
    at = Held(replace(WIDE, per_upstream=1))
    await at.call("one")
    await at.call("two")
    at.tasks["two"].cancel()
    await at.turn()
    await at.call("three")
    await at.end("one", "three")
    assert at.entered == ["one", "three"]


@asynccontextmanager
async def narrow(limits: Limits) -> AsyncIterator[House]:
    async with house() as it:
        it.book.options = replace(Options(owner="me", drain_s=0.1), limits=limits)
        it.engine = Engine(it.book, it.upstreams)
        yield it
        await it.engine.carrier.close()


async def test_a_call_too_many_is_rate_limited_and_leaves_no_record() -> None:
    going = asyncio.Event()

    async def slow(_: Any) -> Any:
        await going.wait()
        return world.ok()

    async with narrow(Limits(per_principal=1, waiting=0)) as it:
        it.upstreams.will("write", slow)
        first = asyncio.create_task(it.call("write", {"n": 1}))
        with anyio.fail_after(5):
            while not it.upstreams.sent:
                await asyncio.sleep(0.001)
        before = len(await it.ledger.read("run_1"))
        second = await it.call("read", {"n": 2})
        assert outcome(second) == "rate_limited"
        assert second.refusal is not None
        assert (second.refusal.retry_after_s, second.refusal.executed) == (1.0, False)
        assert "of `local/local:user`: 1, as many as may be" in second.refusal.reason
        assert len(await it.ledger.read("run_1")) == before
        going.set()
        assert outcome(await first) == "result"
        assert outcome(await it.call("read", {"n": 2})) == "result"


async def test_a_flood_of_calls_that_are_denied_is_recorded_up_to_a_bound_each_minute() -> None:
    async with narrow(Limits(denied=3)) as it:
        told = [outcome(await it.call("none", {"n": number})) for number in range(5)]
        assert told == ["denied"] * 3 + ["rate_limited"] * 2
        before = len(await it.ledger.read("run_1"))
        over = await it.call("read")
        assert over.refusal is not None
        why = "calls of `local/local:user` that this gateway denied within a minute: 3, as many as may be"
        assert (outcome(over), over.refusal.reason, over.refusal.retry_after_s) == ("rate_limited", why, 60.0)
        assert len(await it.ledger.read("run_1")) == before
        other = Principal("somebody")
        await it.engine.open_run(run="run_2", principal=other, origin="process", attribution={})
        theirs = await it.engine.call(world.proposal("read", run="run_2", principal=other), world.PatientCaller())
        assert outcome(theirs) == "result"  # it is nobody else's matter
        it.clock.tell(60)
        assert outcome(await it.call("read")) == "result"
