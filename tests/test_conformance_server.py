"""The reference server does in each era what its tools say, on either transport."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, Literal

import anyio
import pytest
from mcp import Client, types
from mcp.client.context import ClientRequestContext
from mcp.client.stdio import StdioServerParameters

from tests.conformance import stands
from tests.conformance.agent import MODERN, Agent
from tests.servers.conformance.server import Conformance

LIMIT_S = 30
LEGACY = "2025-11-25"
WATCHED = "test://watched-resource"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with stands.server() as address:
        yield address


async def answer(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    """A person who gives the first thing that is asked for a name."""
    del context
    assert isinstance(params, types.ElicitRequestFormParams)
    [field] = params.requested_schema["properties"]
    return types.ElicitResult(action="accept", content={field: {"name": "Ann", "color": "red"}[field]})


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_a_talk_of_two_steps_comes_to_its_end_in_each_era_on_each_transport(
    mode: Literal["legacy", "2026-07-28"], way: str, url: str
) -> None:
    stdio = StdioServerParameters(command=sys.executable, args=[str(stands.SERVER), "--stdio"])
    with anyio.fail_after(LIMIT_S):
        async with Client(url if way == "http" else stdio, mode=mode, elicitation_callback=answer) as client:
            told = await client.call_tool("test_input_required_result_multi_round", {})
    assert [block.text for block in told.content if block.type == "text"] == ["Ann likes red"]


async def test_an_older_client_hears_of_the_resource_that_it_subscribed_to_and_of_no_other() -> None:
    heard: list[str] = []

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.append(str(message.params.uri))

    with anyio.fail_after(LIMIT_S):
        async with Client(Conformance().server(), mode="legacy", message_handler=hear) as client:
            await client.call_tool("test_trigger_resource_change", {})
            subscribe = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=WATCHED))
            await client.session.send_request(subscribe, types.EmptyResult)
            await client.call_tool("test_trigger_resource_change", {})
            unsubscribe = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=WATCHED))
            await client.session.send_request(unsubscribe, types.EmptyResult)
            await client.call_tool("test_trigger_resource_change", {})
    assert heard == [WATCHED]


def test_a_stream_that_breaks_off_is_taken_up_again(url: str) -> None:
    with agent(url, LEGACY) as older:
        content = older.call("test_reconnection")["content"]
    assert content == [{"type": "text", "text": "Reconnection test completed"}]


def test_a_client_that_declares_no_tasks_waits_for_the_result(url: str) -> None:
    with agent(url, MODERN) as newer:
        content = newer.call("slow_compute", {"seconds": 0, "label": "it"})["content"]
    assert content == [{"type": "text", "text": "computed it"}]


@contextlib.contextmanager
def agent(url: str, version: str) -> Iterator[Agent]:
    one = Agent(url, version)
    try:
        one.start()
        yield one
    finally:
        one.end()
