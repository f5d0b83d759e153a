"""Tasks, outcomes that are fetched later, and streams of modern clients."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.model.answer import Shown
from gateway.model.events import Outcome
from gateway.model.principal import Principal
from gateway.model.tool import ProtocolError, Silence, TaskStarted, ToolResult
from tests.inbound.asked import Asked, until
from tests.inbound.fake_gate import REFUSAL, answering

CAN: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}}


# --- tasks ------------------------------------------------------------------------------------------------------------

TASK = {"resultType": "task", "taskId": "inner-id", "status": "working", "ttlMs": 60_000, "vendor": None}


async def started(it: Asked) -> str:
    it.offers.owners["t"] = "up"
    it.gate.answers["t"] = answering(result=TASK, awaits="task")
    result = (await it.modern("tools/call", {"name": "t"}, can=CAN))["result"]
    assert {**result, "taskId": "", "_meta": 0} == {**TASK, "taskId": "", "_meta": 0}
    assert "inner-id" not in result["taskId"]
    name: str = result["taskId"]
    return name


async def test_a_task_of_an_upstream_is_reached_under_an_id_of_ours() -> None:
    it = Asked()
    name = await started(it)
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        it.offers.answers[method] = ToolResult({**TASK, "resultType": "complete"})
        await it.modern(method, {"taskId": name, "inputResponses": {}}, can=CAN)
        route = it.offers.asked[-1][0]
        assert (route.upstreams, route.name, route.params["taskId"]) == (("up",), "inner-id", "inner-id")
    got = (await it.modern("tasks/get", {"taskId": name}, can=CAN))["result"]
    assert (got["taskId"], got["status"], got["vendor"]) == (name, "working", None)
    assert it.gate.ends == []


async def test_a_task_gets_no_input_once_a_person_has_stopped_it_and_can_still_be_cancelled() -> None:
    it = Asked()
    name = await started(it)
    it.gate.stopped = "`boss` has stopped everything (switch 1): a fire"
    for method, passed in (("tasks/update", 0), ("tasks/cancel", 1)):
        it.offers.answers[method] = ToolResult({})
        before = len(it.offers.asked)
        answer = await it.modern(method, {"taskId": name, "inputResponses": {}}, can=CAN)
        assert len(it.offers.asked) - before == passed
        assert ("error" in answer) is not bool(passed)


async def test_the_end_of_a_task_is_recorded_before_it_is_told() -> None:
    it = Asked()
    name = await started(it)
    ended = {"resultType": "complete", "taskId": "inner-id", "status": "completed", "result": {"content": []}}
    it.offers.answers["tasks/get"] = ToolResult(ended)
    got = (await it.modern("tasks/get", {"taskId": name}, can=CAN))["result"]
    assert it.gate.ends == [("att_1", ToolResult({"content": []}))]
    assert (got["status"], got["result"]) == ("completed", {"content": []})
    error = {"code": 7, "message": "out"}
    it.offers.answers["tasks/get"] = ToolResult({**ended, "status": "failed", "error": error})
    assert (await it.modern("tasks/get", {"taskId": name}, can=CAN))["result"]["error"] == error
    assert it.gate.ends[-1][1] == ProtocolError(error)
    it.offers.answers["tasks/get"] = ToolResult({**ended, "status": "cancelled"})
    assert (await it.modern("tasks/get", {"taskId": name}, can=CAN))["result"]["status"] == "cancelled"
    last: Any = it.gate.ends[-1][1]
    assert last == Silence("the server's task was cancelled")


async def test_a_task_is_its_principals_alone_and_for_who_declared_tasks() -> None:
    it = Asked()
    name = await started(it)
    other = await it.modern("tasks/get", {"taskId": name}, can=CAN, principal=Principal("you"))
    assert other["error"]["code"] == -32602
    undeclared = (await it.modern("tasks/get", {"taskId": name}))["error"]
    assert undeclared["code"] == -32021
    assert undeclared["data"] == {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
    for wrong in ("inner-id", "", None):
        assert (await it.modern("tasks/get", {"taskId": wrong}, can=CAN))["error"]["code"] == -32602


async def test_a_person_who_stopped_the_call_stops_its_tasks_input_too() -> None:
    it = Asked()
    name = await started(it)
    it.gate.stopped = "`boss` has stopped the tool `t` (switch 1): it pays twice"
    told = await it.modern("tasks/update", {"taskId": name, "inputResponses": {}}, can=CAN)
    assert told["error"] == {"code": -32600, "message": it.gate.stopped}
    assert it.gate.looked == [("me", ("up",), "t")]
    assert it.offers.asked == []
    it.offers.answers["tasks/cancel"] = ToolResult({"resultType": "complete"})
    assert "result" in await it.modern("tasks/cancel", {"taskId": name}, can=CAN)


async def test_a_call_that_outlasts_our_patience_is_a_task_for_who_declared_tasks() -> None:
    it = Asked()
    flying = REFUSAL.model_copy(update={"outcome": Outcome.IN_FLIGHT, "attempt": "att_1"})
    it.gate.answers["t"] = answering(refusal=flying)
    plain = (await it.modern("tools/call", {"name": "t"}))["result"]
    assert plain["structuredContent"]["outcome"] == "in_flight"
    result = (await it.modern("tools/call", {"name": "t"}, can=CAN))["result"]
    assert (result["resultType"], result["status"]) == ("task", "working")
    it.gate.outcomes["att_1"] = Shown("run_x", "att_1", refusal=flying)
    got = (await it.modern("tasks/get", {"taskId": result["taskId"]}, can=CAN))["result"]
    assert (got["taskId"], got["status"], got["createdAt"]) == (result["taskId"], "working", result["createdAt"])
    it.gate.outcomes["att_1"] = Shown("run_x", "att_1", {"content": []})
    got = (await it.modern("tasks/get", {"taskId": result["taskId"]}, can=CAN))["result"]
    assert (got["status"], got["result"]) == ("completed", {"content": []})
    await it.modern("tasks/cancel", {"taskId": result["taskId"]}, can=CAN)
    assert it.gate.withdrawn == ["att_1"]
    assert it.offers.asked == []


async def test_a_task_for_a_client_that_cannot_take_one_is_an_error() -> None:
    it = Asked()
    it.gate.answers["t"] = answering(result=TASK, awaits="task")
    assert (await it.modern("tools/call", {"name": "t"}))["error"]["code"] == -32602
    assert TaskStarted(TASK).result == TASK


# --- the outcome of an earlier call -----------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_outcome_of_an_earlier_call_is_fetched_with_a_tool(era: str) -> None:
    it = Asked()
    it.gate.outcomes["run_x.3"] = Shown("run_x", "run_x.3", {"content": [], "late": True})

    async def ask(arguments: Any) -> Any:
        params = {"name": "gateway__result", "arguments": arguments}
        if era == "modern":
            return await it.modern("tools/call", params)
        return await (await it.session()).ask("tools/call", params)

    assert (await ask({"attempt": "run_x.3"}))["result"]["late"] is True
    unknown = (await ask({"attempt": "run_x.4"}))["result"]["structuredContent"]
    assert (unknown["outcome"], unknown["executed"]) == ("denied", False)
    for wrong in (None, {}, {"attempt": 3}, {"attempt": "run_x.3", "more": 1}):
        assert (await ask(wrong))["result"]["structuredContent"]["outcome"] == "invalid_arguments"
    assert it.gate.proposals == []


# --- streams of a modern client ---------------------------------------------------------------------------------------


async def test_a_stream_carries_what_was_asked_for_and_nothing_else() -> None:
    it = Asked()
    it.offers.said = {"prompts": {}, "tools": {}}
    wanted = {
        "toolsListChanged": True,
        "promptsListChanged": False,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["file:///a", "x:///b"],
    }
    exchange = it.modern_exchange("subscriptions/listen", {"notifications": wanted})
    work = asyncio.ensure_future(it.relay.request(exchange))
    sent = exchange.line.sent  # type: ignore[attr-defined]
    await until(lambda: sent)
    mark = {"io.modelcontextprotocol/subscriptionId": 1}
    assert sent == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {
                "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["file:///a"]},
                "_meta": mark,
            },
        }
    ]
    [listener] = it.offers.listeners
    for kind in ("tools", "prompts", "resources"):
        listener.changed(kind)
    for uri in ("file:///a", "file:///b"):
        listener.told("up", "notifications/resources/updated", {"uri": uri, "_meta": {"k": None}})
    listener.told("up", "notifications/message", {"level": "info"})
    assert [message["params"] for message in sent[1:]] == [
        {"_meta": mark},
        {"uri": "file:///a", "_meta": {"k": None, **mark}},
    ]
    exchange.withdrawal.say(cancelled=False)
    await work
    assert it.offers.listeners == []


@pytest.mark.parametrize("wanted", [None, [], {"resourceSubscriptions": ["file:///"] * 1001}])
async def test_a_filter_that_cannot_be_meant_is_refused(wanted: Any) -> None:
    it = Asked()
    answer = await it.modern("subscriptions/listen", {"notifications": wanted})
    assert answer["error"]["code"] == -32602
    assert it.offers.listeners == []
