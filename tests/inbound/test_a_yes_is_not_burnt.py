"""A yes by which nothing was sent is still good, and whoever leaves takes nothing from others who wait."""

import asyncio
import time
from typing import Any

import pytest

from gateway.model.tool import NotSent
from tests.inbound.desk import FORM, TASKS, TOLD, desk

pytestmark = pytest.mark.anyio


def outcome(result: dict[str, Any]) -> str:
    return str(result.get("structuredContent", {}).get("outcome", "result"))


@pytest.mark.parametrize("turns", range(6))
async def test_a_client_that_leaves_just_before_its_call_is_sent_finds_the_yes_with_its_repeat(turns: int) -> None:
    async with desk(hold_s=30.0, patience_s=60.0) as it:
        exchange = it.it.modern_exchange("tools/call", it.asks(), meta=TOLD)
        work = asyncio.ensure_future(it.it.relay.request(exchange))
        await it.held()
        (approval,) = await it.asked()
        await it.decide(approval)
        for _ in range(turns):
            await asyncio.sleep(0)
        exchange.withdrawal.say(cancelled=False)
        await work
        assert outcome(await it.call()) == "result", "a person is asked a second time, and nothing was ever sent"
        assert len(it.sent) == 1


@pytest.mark.parametrize("turns", range(6))
async def test_a_poll_that_leaves_just_before_its_call_is_sent_ends_no_task(turns: int) -> None:
    async with desk(hold_s=0.0) as it:
        task = (await it.it.modern("tools/call", it.asks(), can=TASKS))["result"]["taskId"]
        (approval,) = await it.asked()
        await it.decide(approval)
        exchange = it.it.modern_exchange("tasks/get", {"taskId": task}, can=TASKS)
        work = asyncio.ensure_future(it.it.relay.request(exchange))
        for _ in range(turns):
            await asyncio.sleep(0)
        exchange.withdrawal.say(cancelled=False)
        await work
        told = (await it.it.modern("tasks/get", {"taskId": task}, can=TASKS))["result"]
        assert "could not be reached" not in str(told), "the server was never asked: the client had left"
        assert len(it.sent) == 1


async def test_a_yes_is_not_used_up_by_a_server_that_is_down() -> None:
    async with desk(hold_s=0.0) as it:
        await it.call()
        (approval,) = await it.asked()
        await it.decide(approval)
        it.upstreams.will("write", NotSent("connection refused"))
        assert outcome(await it.call()) == "upstream_unavailable"
        assert (await it.told(approval))["state"] == "approved"
        assert outcome(await it.call()) == "result", "the person must agree again, to a call that nobody was sent"


async def test_a_task_outlives_a_server_that_was_down_at_its_first_poll() -> None:
    async with desk(hold_s=0.0) as it:
        task = (await it.it.modern("tools/call", it.asks(), can=TASKS))["result"]["taskId"]
        (approval,) = await it.asked()
        await it.decide(approval)
        it.upstreams.will("write", NotSent("connection refused"))
        told = (await it.it.modern("tasks/get", {"taskId": task}, can=TASKS))["result"]
        assert told["status"] == "working", "`retry_after_s` is told, in a task that is over for ever"


async def test_of_two_windows_that_wait_for_one_question_one_may_leave() -> None:
    """One question stands for equal calls; whoever takes back their own must not take it from the other."""
    async with desk(hold_s=30.0, patience_s=60.0) as it:
        task = (await it.it.modern("tools/call", it.asks(), can=TASKS))["result"]["taskId"]
        exchange = it.it.modern_exchange("tools/call", it.asks(), meta=TOLD)
        work = asyncio.ensure_future(it.it.relay.request(exchange))
        await it.held()
        await it.it.modern("tasks/cancel", {"taskId": task}, can=TASKS)
        (approval,) = await it.asked()
        await it.decide(approval)
        answer = await work
        assert answer is not None
        assert outcome(answer["result"]) == "result"


async def test_an_answer_at_once_is_nobodys_though_it_is_read_late() -> None:
    async with desk(approval={"caller": True, "self_review": True}, hold_s=0.0, reading_s=0.4) as it:
        legacy = await it.it.session(can={"elicitation": {}})
        _, work = legacy.begin("tools/call", it.asks())
        asked: list[Any] = []
        for _ in range(2_000):
            asked = [one for one in legacy.line.sent if one.get("method") == "elicitation/create"]
            if asked:
                break
            await asyncio.sleep(0.001)
        reply = {"id": asked[0]["id"], "result": {"action": "accept", "content": {"decision": "approve"}}}
        asyncio.get_running_loop().call_soon(legacy.reply, reply)  # its bytes are here
        time.sleep(0.5)  # noqa: ASYNC251 - and something else has its turn first
        await asyncio.wait_for(work, 5)
        assert it.sent == [], "a client without a person approved its own call"


async def test_an_answer_comes_only_from_a_client_that_can_be_asked() -> None:
    async with desk(approval={"caller": True, "self_review": True}, hold_s=0.0) as it:
        first = (await it.it.modern("tools/call", it.asks(), can=FORM))["result"]
        it.it.clock.seconds += 5
        it.clock.seconds += 5
        yes = {"approval": {"action": "accept", "content": {"decision": "approve"}}}
        back = {**it.asks(), "requestState": first["requestState"], "inputResponses": yes}
        await it.it.modern("tools/call", back)
        assert it.sent == []


async def test_progress_says_how_many_people_are_still_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.inbound.mcp.holds.EVERY_S", 0.02)
    async with desk(approval={"quorum": 2}, hold_s=30.0, patience_s=60.0) as it:
        exchange: Any = it.it.modern_exchange("tools/call", it.asks(), meta=TOLD)
        work = asyncio.ensure_future(it.it.relay.request(exchange))
        await it.held()
        (approval,) = await it.asked()
        await it.decide(approval)
        for _ in range(500):
            if "a person to approve" in exchange.line.sent[-1]["params"]["message"]:
                break
            await asyncio.sleep(0.01)
        else:
            pytest.fail("it still waits for two")
        exchange.withdrawal.say(cancelled=True)
        await work
