"""One link to a real server of the SDK, in each era and over each transport."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.model.tool import InputRequired, ProtocolError, ToolResult
from gateway.outbound.upstream.listing import METHODS
from gateway.outbound.upstream.supervisor import Upstream
from gateway.outbound.upstream.wire import Ask
from gateway.ports import Party
from tests.upstream.callers import FakeCaller
from tests.upstream.faults import children
from tests.upstream.links import SHAPES, Ears, called, facts, party, reached, serving, until

QUICK = {"stdio modern", "http legacy"}
"""Each server takes a second or two to start."""


def shaped(shapes: list[str]) -> pytest.MarkDecorator:
    marked = [
        shape if shape in QUICK else pytest.param(shape, marks=[pytest.mark.slow, pytest.mark.long]) for shape in shapes
    ]
    return pytest.mark.parametrize("shape", marked)


EVERY = shaped(SHAPES)
LEGACY = shaped(["stdio legacy", "http legacy", "sse"])
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}, "roots": {"listChanged": True}}


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No test leaves a child of ours behind."""
    before = set(children())
    yield
    assert set(children()) <= before


def accepted(_: str, __: Any) -> ToolResult:
    return ToolResult({"action": "accept", "content": {"name": "Zoë"}})


async def joined(upstream: Upstream, who: Party) -> Any:
    link = await upstream.reach(who, 10.0)
    assert link.health.state == "healthy", link.health
    return link


@EVERY
async def test_all_four_lists_are_there_when_it_is_up(shape: str) -> None:
    with serving(shape) as spec:
        async with reached(spec) as upstream:
            assert upstream.health.state == "healthy"
            lists = {kind: [item["name"] for item in upstream.house.listing(kind).items] for kind in METHODS}
    assert lists.pop("tools")[:3] == ["who", "steps", "say"]
    assert lists == {"prompts": ["greet"], "resources": ["one"], "resourceTemplates": ["any"]}


@EVERY
async def test_any_request_is_carried(shape: str) -> None:
    with serving(shape) as spec:
        async with reached(spec) as upstream:
            link = upstream.house
            prompt = await link.ask(
                Ask("prompts/get", {"name": "greet", "arguments": {"name": "Zoë"}}, 5, name="greet")
            )
            resource = await link.ask(Ask("resources/read", {"uri": "mem://one"}, 5, name="mem://one"))
            reference = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": ""}}
            completion = await link.ask(Ask("completion/complete", reference, 5))
            unknown = await link.ask(Ask("vendor/nothing", {}, 5))
    assert isinstance(prompt, ToolResult)
    assert prompt.result["messages"][0]["content"]["text"] == "hello Zoë"
    assert isinstance(resource, ToolResult)
    assert resource.result["contents"][0]["text"] == "one"
    assert isinstance(completion, ToolResult)
    assert completion.result["completion"]["values"] == ["a", "b"]
    assert isinstance(unknown, ProtocolError)
    assert unknown.error["code"] == -32601


@EVERY
async def test_the_client_is_introduced_as_it_is(shape: str) -> None:
    caller = FakeCaller(capabilities={**CAPABILITIES, "tasks": {"list": {}}}, client={"name": "them", "version": "7"})
    with serving(shape) as spec:
        async with reached(spec) as upstream:
            link = await joined(upstream, caller.party)
            who = await facts(link, "who", caller)
            modern = link.health.agreement.modern
            house = await facts(upstream.house, "who")
    assert who["meta"]["vendor/key"] == {"a": None}
    assert isinstance(who["meta"]["progressToken"], int)
    if modern:
        assert who["meta"]["io.modelcontextprotocol/clientInfo"] == {"name": "them", "version": "7"}
        assert who["meta"]["io.modelcontextprotocol/clientCapabilities"] == CAPABILITIES
        assert house["meta"]["io.modelcontextprotocol/clientCapabilities"] == {}
    else:
        assert (who["client"], who["capabilities"]) == ({"name": "them", "version": "7"}, CAPABILITIES)
        assert (house["client"]["name"], house["capabilities"]) == ("us", {})
        assert link is not upstream.house


@EVERY
async def test_progress_comes_to_its_call_in_order_and_as_it_was_sent(shape: str) -> None:
    callers = [FakeCaller() for _ in range(3)]
    with serving(shape) as spec:
        async with reached(spec) as upstream:
            link = await joined(upstream, callers[0].party)
            await asyncio.gather(*(facts(link, "steps", caller) for caller in callers))
            assert "stray_progress" not in link.counts
    for caller in callers:
        steps = caller.heard("notifications/progress")
        assert [(step["progress"], step["message"]) for step in steps] == [(n, f"step {n}") for n in range(3)]
        assert len({step["progressToken"] for step in steps}) == 1


@EVERY
async def test_a_log_comes_to_the_call_that_it_is_about(shape: str) -> None:
    caller, other = FakeCaller(log_level="info"), FakeCaller()
    with serving(shape) as spec:
        async with reached(spec) as upstream:
            link = await joined(upstream, caller.party)
            await asyncio.gather(facts(link, "say", caller), facts(upstream.house, "who", other))
    assert caller.heard("notifications/message") == [{"level": "info", "logger": "here", "data": {"a": 1}}]
    assert other.told == []


@EVERY
async def test_a_question_is_answered_by_the_client_of_its_call(shape: str) -> None:
    caller = FakeCaller(accepted, capabilities=CAPABILITIES)
    with serving(shape) as spec:
        async with reached(spec) as upstream:
            link = await joined(upstream, caller.party)
            said = await facts(link, "ask", caller)
    assert (said["action"], said["content"]) == ("accept", {"name": "Zoë"})
    assert [method for method, _ in caller.asked] == ["elicitation/create"]
    assert caller.asked[0][1]["message"] == "your name?"


@pytest.mark.parametrize("shape", ["stdio modern", "http modern"])
async def test_a_client_of_the_newer_era_drives_the_rounds_itself(shape: str) -> None:
    caller = FakeCaller(accepted, modern=True, capabilities=CAPABILITIES)
    with serving(shape) as spec:
        async with reached(spec) as upstream:
            first = await called(upstream.house, "ask", caller)
            assert isinstance(first, InputRequired)
            responses = {"name": {"action": "decline"}}
            params = {"name": "ask", "inputResponses": responses, "requestState": first.result["requestState"]}
            second = await upstream.house.ask(Ask("tools/call", params, 5, name="ask"), caller)
    assert isinstance(second, ToolResult)
    assert second.result["structuredContent"]["action"] == "decline"
    assert second.result["structuredContent"]["state"] == "state-1"
    assert caller.asked == []


@LEGACY
async def test_a_question_aside_is_asked_of_the_call_under_way(shape: str) -> None:
    caller = FakeCaller(accepted, capabilities=CAPABILITIES)
    with serving(shape) as spec:
        async with reached(spec) as upstream:
            link = await joined(upstream, caller.party)
            await asyncio.sleep(0.2)  # for the stream that belongs to no call
            assert await facts(link, "ask_aside", caller) == {"action": "accept"}


@LEGACY
async def test_a_question_of_nobody_is_asked_of_the_hook(shape: str) -> None:
    ears = Ears(answer=ToolResult({"roots": [{"uri": "file:///a"}]}))
    with serving(shape) as spec:
        async with reached(spec, ears) as upstream:
            link = await joined(upstream, party(**CAPABILITIES))
            await asyncio.sleep(0.2)
            assert await facts(link, "roots") == {"roots": ["file:///a"]}
    assert ears.asked == ["roots/list"]


@EVERY
async def test_changes_are_heard_and_the_lists_are_fresh_then(shape: str) -> None:
    ears = Ears()
    with serving(shape) as spec:
        async with reached(spec, ears) as upstream:
            await asyncio.sleep(0.3)  # until the stream of changes is open
            before = upstream.house.listing("tools").items
            ears.changed.clear()
            await facts(upstream.house, "change", add="another")
            await until(lambda: {"tools", "prompts", "resources"} <= set(ears.changed))
            after = upstream.house.listing("tools").items
    assert [tool["name"] for tool in after][-1] == "another"
    assert all(tool is known for tool, known in zip(after, before, strict=False))


@EVERY
async def test_a_watched_resource_is_told_of_until_nobody_watches_it(shape: str) -> None:
    ears = Ears()
    with serving(shape) as spec:
        async with reached(spec, ears) as upstream:
            link = await joined(upstream, party())
            await asyncio.sleep(0.2)
            assert await link.subscribe("mem://one") == ToolResult({})
            assert await link.subscribe("mem://one") == ToolResult({})
            assert await link.unsubscribe("mem://one") == ToolResult({})
            await facts(link, "touch")
            await until(lambda: ears.told)
            assert ears.told == [("notifications/resources/updated", {"uri": "mem://one"})]
            await link.unsubscribe("mem://one")
            who = await facts(link, "who")
    assert who["watched"] == []


@LEGACY
async def test_a_level_is_set_where_there_is_one(shape: str) -> None:
    with serving(shape) as spec:
        async with reached(spec) as upstream:
            assert await upstream.house.set_level("debug") == ToolResult({})
            assert (await facts(upstream.house, "who"))["level"] == ["debug"]


@LEGACY
async def test_the_levels_of_requests_become_the_one_level_of_a_server_of_the_older_era(shape: str) -> None:
    with serving(shape) as spec:
        async with reached(spec) as upstream:
            told = []
            for level in (None, "error", "info", "warning", "loud"):
                caller = FakeCaller(modern=True, log_level=level)
                told.append((await facts(upstream.house, "who", caller))["level"])
    assert told == [[], ["error"], ["info"], ["info"], ["info"]]


@EVERY
async def test_a_call_that_the_client_cancelled_is_cancelled_there(shape: str) -> None:
    caller = FakeCaller()
    with serving(shape) as spec:
        async with reached(spec) as upstream:
            link = await joined(upstream, caller.party)
            slow = asyncio.get_running_loop().create_task(called(link, "slow", caller))
            await asyncio.sleep(0.3)
            caller.withdrawal.say(cancelled=True)
            while "was_cancelled" not in [tool["name"] for tool in link.listing("tools").items]:
                link._lists.changed("tools")
                await asyncio.sleep(0.1)
            slow.cancel()
            await asyncio.wait({slow})


async def test_the_rest_of_a_stream_that_the_server_ended_is_fetched() -> None:
    caller = FakeCaller()
    with serving("http legacy") as spec:
        async with reached(spec) as upstream:
            link = await joined(upstream, caller.party)
            assert await facts(link, "poll", caller) == {}
    assert [step["progress"] for step in caller.heard("notifications/progress")] == [1, 2]
    assert caller.pauses == [100]
