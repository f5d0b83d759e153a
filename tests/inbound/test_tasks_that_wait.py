"""A call that waits for a person as a task of its client: the poll after the answer makes it, and nothing else does."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.model.principal import Principal
from gateway.model.review import Refused
from gateway.model.tool import NotSent
from tests import world
from tests.inbound.desk import FORM, TASKS, TOLD, Desk, desk
from tests.inbound.fake_gate import T0


async def poll(it: Desk, task: Mapping[str, Any], **more: Any) -> Any:
    answer = await it.it.modern("tasks/get", {"taskId": task["taskId"]}, can=TASKS, **more)
    return answer.get("result", answer)


async def test_who_declared_tasks_gets_one_at_once_and_the_poll_after_the_answer_makes_the_call() -> None:
    async with desk(hold_s=30.0) as it:
        task = await it.call(can=TASKS, meta=TOLD)
        (approval,) = await it.asked()
        assert (task["resultType"], task["status"]) == ("task", "working")
        assert f"counterfoil approvals approve {approval}" in task["statusMessage"]
        assert task["ttlMs"] >= 86_400_000
        assert len(task["taskId"]) < 1_000, "clients send it in a header"
        waits = await poll(it, task)
        assert (waits["status"], waits["statusMessage"]) == ("working", task["statusMessage"])
        await it.decide(approval)
        await asyncio.sleep(0.01)
        assert it.sent == [], "an approval runs nothing"
        done = await poll(it, task)
        assert (done["status"], done["result"]["content"][0]["text"]) == ("completed", "ok")
        assert (done["createdAt"], done["ttlMs"]) == (task["createdAt"], task["ttlMs"])
        again = await poll(it, task)
        assert again["result"]["content"] == done["result"]["content"]
        assert it.sent == [{"text": "a"}]


async def test_a_poll_makes_no_call_for_which_its_access_token_lacks_a_scope() -> None:
    async with desk() as it:
        task = await it.call(can=TASKS)
        await it.decide((await it.asked())[0])
        exchange = it.it.modern_exchange("tasks/get", {"taskId": task["taskId"]}, can=TASKS)
        exchange.lacks = lambda tool: frozenset({f"{tool}:pay"})
        answer: Any = await it.it.relay.request(exchange)
        why = "the access token lacks a scope that this call needs: `write:pay`"
        assert answer["error"] == {"code": -32600, "message": why}
        assert it.sent == []
        assert (await poll(it, task))["status"] == "completed"  # by another token


async def test_a_task_outlives_the_gateway_that_gave_it_out() -> None:
    async with desk() as first:
        task = await first.call(can=TASKS, meta={"claudecode/toolUseId": "toolu_1", "x-vendor": {"a": 1}})
        (approval,) = await first.asked()
        first.it.relay.close()
        async with desk(first.ledger, owner="next", clock=first.clock) as second:
            await second.decide(approval)
            done = await poll(second, task)
            assert done["status"] == "completed"
            (dispatch,) = second.upstreams.sent
            assert dispatch.meta["claudecode/toolUseId"] == "toolu_1"
            assert dispatch.meta["x-vendor"] == {"a": 1}
            assert "progressToken" not in dispatch.meta


async def test_whatever_a_poll_can_take_the_servers_cannot_ask_of_it() -> None:
    async with desk() as it:
        task = await it.call(can={**TASKS, **FORM})
        await it.decide((await it.asked())[0])
        await poll(it, task)
        (dispatch,) = it.upstreams.sent
        assert dispatch.caller is not None
        assert dispatch.caller.party.capabilities == {}


async def test_a_call_that_takes_longer_than_a_poll_is_working_and_then_completed() -> None:
    async with desk() as it:
        goes_on = asyncio.Event()

        async def slowly(_: Any) -> Any:
            await goes_on.wait()
            return world.ok("late")

        it.upstreams.will("write", slowly)
        task = await it.call(can=TASKS)
        await it.decide((await it.asked())[0])
        for _ in range(2):
            assert (await poll(it, task))["status"] == "working"
        goes_on.set()
        await asyncio.sleep(0.01)
        assert (await poll(it, task))["result"]["content"][0]["text"] == "late"
        assert len(it.sent) == 1


@pytest.mark.parametrize("how", ["rejected", "expired", "over"])
async def test_a_task_whose_question_came_to_nothing_ends_with_the_reason(how: str) -> None:
    rules = {"budgets": {"elapsed_s": 86_000}, "stops": {}} if how == "over" else {}
    async with desk(approval={"expires_s": 60}, rules=rules) as it:
        task = await it.call(can=TASKS)
        (approval,) = await it.asked()
        if how == "rejected":
            await it.decide(approval, approve=False, reason="never")
        it.clock.tell(61 if how == "expired" else 0)
        if how == "over":
            await it.decide(approval, approve=False, reason="never")
        ended = await poll(it, task)
        told = ended["result"]["structuredContent"]
        assert (ended["status"], ended["result"]["isError"], told["executed"]) == ("completed", True, False)
        assert told["outcome"] == "denied"
        assert approval in told["reason"]
        assert it.sent == []
        assert await it.asked() == [approval], "a poll asks nobody anew"


async def test_a_cancelled_task_takes_its_question_back() -> None:
    async with desk(approval={"self_review": True}) as it:
        task = await it.call(can=TASKS)
        (approval,) = await it.asked()
        assert "error" not in await it.it.modern("tasks/cancel", {"taskId": task["taskId"]}, can=TASKS)
        assert (await it.told(approval))["state"] == "withdrawn"
        assert (await poll(it, task))["status"] == "cancelled"
        with pytest.raises(Refused, match="withdrawn"):
            await it.decide(approval)
        assert it.sent == []


async def test_a_task_that_is_cancelled_after_the_answer_is_not_made_by_a_later_poll() -> None:
    async with desk(approval={"self_review": True}) as it:
        task = await it.call(can=TASKS)
        await it.decide((await it.asked())[0])
        await it.it.modern("tasks/cancel", {"taskId": task["taskId"]}, can=TASKS)
        assert (await poll(it, task))["status"] == "cancelled"
        assert it.sent == []


async def test_a_task_is_answered_by_the_equal_call_that_used_its_answer() -> None:
    async with desk() as it:
        task = await it.call(can=TASKS)
        await it.decide((await it.asked())[0])
        exchange = it.it.modern_exchange("tools/call", it.asks())
        await it.it.relay.request(exchange)
        it.engine.delivered(exchange.shown)  # type: ignore[arg-type]
        await asyncio.sleep(0.05)
        assert (await poll(it, task))["status"] == "completed"
        assert it.sent == [{"text": "a"}]


async def test_what_passes_by_itself_keeps_a_task_working() -> None:
    rules = {"tools": {"write": {"effect": "write", "rate": {"calls": 1, "per": "minute"}}}}
    async with desk(rules=rules) as it:
        first, second = await it.call("a", can=TASKS), await it.call("b", can=TASKS)
        for approval in await it.asked(2):
            await it.decide(approval)
        assert (await poll(it, first))["status"] == "completed"
        limited = await poll(it, second)
        assert (limited["status"], it.sent) == ("working", [{"text": "a"}])
        assert "has 0 of 1 calls left" in limited["statusMessage"]
        it.clock.tell(61)
        assert (await poll(it, second))["status"] == "completed"
        assert it.sent == [{"text": "a"}, {"text": "b"}]


async def test_a_call_that_could_not_be_sent_ends_no_task_and_is_made_with_a_later_poll() -> None:
    async with desk() as it:
        task = await it.call(can=TASKS)
        await it.decide((await it.asked())[0])
        it.upstreams.will("write", NotSent("it is down"))
        down = await poll(it, task)
        assert (down["status"], "it is down" in down["statusMessage"]) == ("working", True)
        assert (await poll(it, task))["status"] == "completed"
        assert len(it.sent) == 2


async def test_a_task_of_others_or_of_erased_arguments_is_an_error_and_nothing_more() -> None:
    async with desk() as it:
        task = await it.call(can=TASKS)
        assert (await poll(it, task, principal=Principal("you")))["error"]["code"] == -32602
        (requested,) = await it.ledger.find(["approval.requested"])
        await it.decide(requested.event.approval)
        await it.ledger.erase([requested.event.arguments], T0, await it.ledger.closed())
        assert "erased" in (await poll(it, task))["error"]["message"]
        assert it.sent == []
