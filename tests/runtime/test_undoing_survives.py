"""Whenever a gateway dies, and however many there are: what is owed is undone, and never twice."""

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.model.canonical import Digest, parse
from gateway.model.tool import InputRequired, TaskStarted, Tool
from gateway.outbound.ledger import open_ledger
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.ports import Append, Dispatch, Ledger, LedgerUnavailable
from gateway.runtime.undo import MISSING_S
from tests import world
from tests.runtime.house import House, house, refused
from tests.runtime.test_undoing_merges import MERGE, SAGA, back
from tests.runtime.undoing import (
    PAID,
    POLICY,
    REFUNDED,
    answer,
    finds,
    kinds,
    says,
    sent,
    standing,
    swept,
    transitions,
    undoing,
    upstreams,
)


class Dying:
    """A ledger as a process sees it that dies at its n-th append: before it is made, or before it is acknowledged.

    Nothing goes out any more afterwards, for nothing can be recorded or read.
    """

    def __init__(self, ledger: Ledger, left: int, *, landed: bool) -> None:
        self.ledger, self.left, self.landed, self.dead = ledger, left, landed, False
        self.salt = ledger.salt

    def __getattr__(self, name: str) -> Any:
        if self.dead:
            raise LedgerUnavailable("this process is dead")
        return getattr(self.ledger, name)

    async def append(self, step: Append) -> None:
        self.left -= 1
        if self.left == 0 and self.landed:
            await self.ledger.append(step)
        if self.left <= 0:
            self.dead = True
            raise LedgerUnavailable("this process is dead")
        await self.ledger.append(step)


async def dies(ledger: Ledger, left: int, *, landed: bool, calls: Any, **fields: Any) -> world.ScriptedUpstreams:
    """These calls, in a gateway that dies at that append; what it gives has the effects that were made."""
    made = upstreams()
    dying = Dying(ledger, left, landed=landed)
    async with house(dying, "first", upstreams=made, **fields) as it:
        for name, arguments in calls:
            if not dying.dead:
                await it.call(name, arguments, deliver=False)
    return made


async def goes_on(ledger: Ledger, made: world.ScriptedUpstreams, **fields: Any) -> House:
    """What another gateway makes of it: it sweeps until nothing changes, and a person settles what is unknown."""
    async with undoing(ledger, "second", upstreams=made, **fields) as it:
        for _ in range(12):
            await swept(it)
            for name in list((await it.book.fresh_state_of("run_1")).unsettled):
                attempt = (await it.book.fresh_state_of("run_1")).attempts[name]
                if attempt.state == "unknown":
                    sought = (attempt.intent.tool, await arguments_of(it, attempt.intent.arguments))
                    await finds(it, name, happened=sought in sent(it))
                    it.engine.carrier.take_up(await it.book.fresh_state_of("run_1"), name)
                    await it.settle()
        return it


async def arguments_of(it: House, cited: Digest) -> dict[str, Any]:
    body = await it.ledger.payload(cited)
    assert body is not None
    return dict(parse(body))


@pytest.fixture(params=["memory", "sqlite"])
def ledgers(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """How to open one ledger, as often as one likes."""
    if request.param == "memory":
        one = MemoryLedger()

        async def same() -> Ledger:
            return one

        return same

    async def opened() -> Ledger:
        return await open_ledger(str(tmp_path / "ledger.db"))

    return opened


STEPS = {
    2: "the payment's intent",
    3: "the payment's receipt",
    4: "the evidence against it",
    5: "the refund's intent",
    6: "the refund's receipt",
}


@pytest.mark.parametrize("landed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS, ids=STEPS.values())
async def test_whenever_it_dies_the_payment_is_refunded_once(ledgers: Any, step: int, *, landed: bool) -> None:
    first = await ledgers()
    made = await dies(first, step, landed=landed, calls=[("pay", {"amount": 5})], **POLICY)
    paid = [one.tool.name for one in made.sent].count("pay")
    assert paid == (0 if step == 2 else 1)
    second = await ledgers()
    left = await goes_on(second, made, **POLICY)
    lost = (step, landed) == (3, False)
    assert sent(left) == [PAID, REFUNDED][: 2 * paid - lost]
    if lost:  # what must be refunded stood in the answer that nobody has
        undone = await standing(left, "run_1.2")
        assert undone.state == "failed"
        assert undone.reason.endswith("its argument `payment`: `result` is missing")
    elif paid:
        assert (await standing(left, "run_1.2")).state == "undone"
    await first.close()
    if second is not first:
        await second.close()


@pytest.mark.slow
@pytest.mark.parametrize("landed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(2, 13))
async def test_whenever_it_dies_in_the_middle_of_undoing_a_merge_the_rest_is_undone(step: int, *, landed: bool) -> None:
    ledger = MemoryLedger()
    calls = [("write", {"n": 1}), ("write", {"n": 2}), ("pay", MERGE)]
    made = await dies(ledger, step, landed=landed, calls=calls, **SAGA)
    left = await goes_on(ledger, made, **SAGA)
    tools = [one.tool.name for one in made.sent]
    if "pay" not in tools:
        assert "refund" not in tools
        return
    wrote: list[int] = [given["n"] for name, given in sent(left) if name == "write"]
    assert sent(left, "refund") == [back(number) for number in reversed(wrote)]
    assert {one.state for one in (await left.book.fresh_state_of("run_1")).undo.values()} == {"undone"}


# --- several gateways -----------------------------------------------------------------------------------------------


async def test_two_gateways_that_see_it_at_once_refund_once() -> None:
    ledger, made = MemoryLedger(), upstreams()
    asks = POLICY | {"transitions": transitions({"name": "refund", "tools": ["refund"], "approval": {}})}
    async with (
        undoing(ledger, "one", upstreams=made, **asks) as one,
        undoing(ledger, "two", upstreams=made, **asks) as two,
    ):
        await one.call("pay", {"amount": 5})
        await says(one, approve=True)
        for _ in range(3):
            await asyncio.gather(
                swept(one), swept(two), one.engine.undoer.undo("run_1"), two.engine.undoer.undo("run_1")
            )
        assert sent(one) == [PAID, REFUNDED]
        assert (await kinds(one)).count("intent.recorded") == 2


async def test_one_that_is_about_to_refund_is_left_to_it() -> None:
    ledger, made = MemoryLedger(), upstreams()
    inside, go = anyio.Event(), anyio.Event()

    async def slowly(_: Dispatch) -> Any:
        inside.set()
        await go.wait()
        return answer(refunded=True)

    made.will("refund", slowly)
    async with undoing(ledger, "one", upstreams=made) as one, undoing(ledger, "two", upstreams=made) as two:
        async with anyio.create_task_group() as group:
            group.start_soon(one.call, "pay", {"amount": 5})
            with anyio.fail_after(5):
                await inside.wait()
            assert await two.engine.undoer.sweep() == 0
            assert refused(await two.call("write")) == ("in_flight", "write")
            go.set()
        assert sent(one) == [PAID, REFUNDED]


async def test_a_gateway_that_does_not_serve_the_server_leaves_it_to_one_that_does() -> None:
    ledger, made = MemoryLedger(), upstreams()
    made.offer(Tool("refund", "fake", "refund", made.tools["refund"].definition, healthy=False, trouble="ill"))
    async with undoing(ledger, "one", upstreams=made) as one:
        await one.call("pay", {"amount": 5})
    elsewhere = world.ScriptedUpstreams()
    elsewhere.offer(Tool("pay", "other", "pay", {"name": "pay"}))
    async with undoing(ledger, "two", upstreams=elsewhere) as two:
        two.clock.tell(3_600)
        assert await swept(two) == 0
        assert elsewhere.sent == []
        assert (await standing(two, "run_1.2")).state == "owed"
    made.offer(world.tool("refund"))
    async with undoing(ledger, "three", upstreams=made) as three:
        assert await swept(three) == 1


async def test_a_tool_is_missing_only_for_as_long_as_somebody_looks_for_it() -> None:
    ledger, clock, made = MemoryLedger(), world.ToldClock(), upstreams()
    refund = made.tools.pop("refund")
    async with undoing(ledger, "one", upstreams=made, clock=clock) as one:
        await one.call("pay", {"amount": 5})
    clock.tell(3_600)
    async with undoing(ledger, "two", upstreams=made, clock=clock) as two:
        assert await swept(two) == 0
        clock.tell(MISSING_S - 60)
        assert await two.recovery.sweep() == 0
        ledger.trouble = "away"
        clock.tell(3_600)
        with pytest.raises(LedgerUnavailable):
            await two.recovery.sweep()
        ledger.trouble = None
        assert await swept(two) == 0
        made.offer(refund)
        assert await swept(two) == 1
        assert sent(two) == [PAID, REFUNDED]


async def test_a_ledger_that_fails_for_a_while_is_waited_for() -> None:
    ledger = MemoryLedger()
    asks = POLICY | {"transitions": transitions({"name": "refund", "tools": ["refund"], "approval": {}})}
    async with undoing(ledger, **asks) as it:
        await it.call("pay", {"amount": 5})
        await says(it, approve=True)
        dying = Dying(ledger, 1, landed=False)
        it.book.ledger, it.book._heads._ledger = dying, dying
        assert await it.engine.undoer.undo("run_1") == 0
        assert sent(it) == [PAID]
        it.book.ledger, it.book._heads._ledger = ledger, ledger
        assert await swept(it) == 1
        assert sent(it) == [PAID, REFUNDED]


# --- nobody is there to be asked ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asks",
    [
        InputRequired({"resultType": "input_required", "inputRequests": {}, "requestState": "s"}),
        TaskStarted({"resultType": "task", "taskId": "t", "status": "working"}),
    ],
    ids=["input", "task"],
)
async def test_a_refund_whose_server_asks_for_more_is_unknown_in_the_end(asks: Any) -> None:
    async with undoing() as it:
        it.upstreams.will("refund", asks)
        shown = await it.call("pay", {"amount": 5})
        assert shown.refusal is not None
        assert (shown.refusal.undone or ())[0].state == "under_way"
        it.clock.tell(8 * 86_400)
        assert await swept(it) == 1
        assert refused(await it.call("write")) == ("held", "write")
        await finds(it, "run_1.6", happened=True)
        assert (await standing(it, "run_1.2")).state == "undone"


async def test_what_was_erased_is_not_guessed_at() -> None:
    asks = POLICY | {"transitions": transitions({"name": "refund", "tools": ["refund"], "approval": {}})}
    async with undoing(**asks) as it:
        await it.call("pay", {"amount": 5})
        result = (await it.book.state_of("run_1")).attempts["run_1.2"].result
        assert result is not None
        await it.ledger.erase([result], it.clock.now(), await it.ledger.closed())
        assert await swept(it) == 1
        assert (await standing(it, "run_1.2")).reason.startswith("what was asked or answered was erased")
