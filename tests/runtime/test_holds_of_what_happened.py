"""What has happened is recorded, whoever holds an equal effect by then."""

import asyncio
from typing import Any

import pytest

from gateway.kernel.approve import resolve
from gateway.model.run import AttemptState
from gateway.model.tool import Answer, Silence
from gateway.ports import Dispatch
from tests import world
from tests.audit.ledgers import found, verified
from tests.runtime.house import ME, house, outcome
from tests.runtime.test_undoing_merges import ASKED, MERGE, SAGA, branches
from tests.runtime.undoing import POLICY, says, sent, upstreams


@pytest.mark.parametrize("again", ["under way", "undelivered", "delivered"])
async def test_a_late_answer_of_what_was_held_for_undone_is_recorded_beside_an_equal_call(again: str) -> None:
    late: list[Any] = []
    go = asyncio.Event()

    async def silent(dispatch: Dispatch) -> Answer:
        late.append(dispatch.late)
        return Silence("no answer in time")

    async def slow(_: Dispatch) -> Answer:
        await go.wait()
        return world.ok("second")

    async with house() as it:
        it.upstreams.will("write", silent, *([slow] if again == "under way" else []))
        await it.call("write", {"n": 1})
        it.clock.tell(91)
        await it.book.say(
            "run_1", lambda run, _, now: resolve(run, "run_1.2", what="did_not_happen", by=ME, reason="looked", now=now)
        )
        second = asyncio.ensure_future(it.call("write", {"n": 1}, deliver=again == "delivered"))
        await it.settle()
        late[0](world.ok("the late answer of the first"))
        await it.settle()
        go.set()
        assert outcome(await second) == "result"
        await it.settle()
        run = await it.book.fresh_state_of("run_1")
        assert {one.state for one in run.attempts.values()} == {AttemptState.ANSWERED}
        assert it.engine.carrier.kept == {}
        assert found(await verified(it.ledger, keys=[])) == []


@pytest.mark.parametrize("how", ["fails", "is rejected", "is held elsewhere"])
async def test_equal_branches_of_a_rejected_merge_are_all_undone(how: str) -> None:
    async with house(upstreams=upstreams(), **POLICY | SAGA) as it:
        await branches(it, 1)
        if how == "is held elsewhere":
            await it.open("run_2")
            await it.call("write", {"n": 1}, run="run_2", deliver=False)
        else:
            await branches(it, 1)
        if how == "is rejected":
            assert outcome(await it.call("pay", ASKED)) == "needs_approval"
            await says(it, approve=False)
        else:
            await it.call("pay", MERGE)
        for _ in range(3):
            await it.settle()
            it.clock.tell(16)
            await it.recovery.sweep()
        assert not (await it.book.fresh_state_of("run_1")).owed
        assert sent(it, "refund")
