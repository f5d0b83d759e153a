from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from mcp import Client, types

from gateway.inbound.mcp.envelope import meta_of
from gateway.inbound.mcp.exchange import Exchange
from gateway.model.canonical import JsonObject
from tests.inbound.fake_relay import FakeRelay, Held, tell, text
from tests.inbound.served import BOUND_S, ENVELOPE, door, modern_headers

pytestmark = pytest.mark.anyio

MODES = pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])


@MODES
async def test_the_sdk_client_lists_and_calls(mode: str, version: str) -> None:
    with anyio.fail_after(BOUND_S):
        async with door() as served, Client(served.url, mode=mode) as client:
            assert client.protocol_version == version
            listed = await client.list_tools()
            result = await client.call_tool("echo", {"n": 2**70})
    assert [tool.name for tool in listed.tools] == list(FakeRelay().tools)
    assert result.structured_content == {"n": 2**70}
    assert len(served.relay.deliveries) == 1
    assert len(served.relay.ended) == (1 if mode == "legacy" else 0)


@MODES
async def test_the_sdk_client_hears_of_progress_in_order(mode: str, version: str) -> None:
    heard: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        heard.append(progress)

    with anyio.fail_after(BOUND_S):
        async with door() as served, Client(served.url, mode=mode) as client:
            await client.call_tool("progress", {}, progress_callback=on_progress)
            assert client.protocol_version == version
    assert heard == [1, 2, 3]


async def test_a_legacy_client_is_asked_and_answers() -> None:
    async def on_elicit(context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG001
        return types.ElicitResult(action="accept", content={"name": params.message})

    with anyio.fail_after(BOUND_S):
        async with door() as served, Client(served.url, mode="legacy", elicitation_callback=on_elicit) as client:
            result = await client.call_tool("elicit", {})
    assert result.content[0].text == '{"action":"accept","content":{"name":"Who?"}}'  # type: ignore[union-attr]


async def test_the_sdk_client_comes_back_for_the_rest_of_a_stream_that_ended_early() -> None:
    held = Held()

    async def poll(exchange: Exchange) -> JsonObject:
        tell(exchange, "notifications/progress", {"progressToken": token_of(exchange), "progress": 1})
        exchange.line.pause(10)
        await held.gate.wait()
        tell(exchange, "notifications/progress", {"progressToken": token_of(exchange), "progress": 2})
        return text("at last")

    heard: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        heard.append(progress)
        held.gate.set()

    with anyio.fail_after(BOUND_S):
        async with door() as served, Client(served.url, mode="legacy") as client:
            served.relay.tools["poll"] = poll
            result = await client.call_tool("poll", {}, progress_callback=on_progress)
            assert served.relay.calls[0].withdrawal.gone is False
    assert result.content[0].text == "at last"  # type: ignore[union-attr]
    assert heard == [1, 2]
    assert [shown.attempt for shown in served.relay.deliveries] == ["poll"]


def token_of(exchange: Exchange) -> Any:
    return meta_of(exchange.message)["progressToken"]


async def test_a_relay_that_fails_costs_one_request() -> None:
    async def broken(_exchange: Exchange) -> JsonObject:
        raise RuntimeError("a bug")

    def unnoticed(_exchange: Exchange) -> None:
        raise RuntimeError("another")

    async with door() as served:
        headers = dict(await served.session())
        served.relay._methods = {"ping": lambda _relay, exchange: broken(exchange)}
        served.relay.notice = unnoticed
        answer = await served.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers)
        assert (answer.status, answer.json["error"]) == (200, {"code": -32603, "message": "internal error"})
        noted = await served.post({"jsonrpc": "2.0", "method": "notifications/x"}, headers)
        assert noted.status == 202


async def test_open_streams_do_not_delay_the_end() -> None:
    listen = {"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen", "params": {"_meta": ENVELOPE}}
    async with AsyncExitStack() as streams:
        async with door() as served:
            headers = await served.session() | {"Accept": "text/event-stream"}
            for body, more, method in (
                (b"", headers, "GET"),
                (listen, modern_headers("subscriptions/listen"), "POST"),
            ):
                stream = await streams.enter_async_context(served.stream(body, more, method=method))
                await stream.head()
            began = anyio.current_time()
        assert anyio.current_time() - began < 0.9  # uvicorn would wait for a second, and then complain


async def test_pages_are_served_beside_it_and_behind_the_same_guard() -> None:
    async def alive(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"yes"})

    async with door(pages={"/healthz": alive}) as served:
        answers = [
            await served.post(b"", {"Host": host}, path="/healthz", method="GET") for host in ("localhost", "evil.test")
        ]
    assert [answer.status for answer in answers] == [200, 421]
