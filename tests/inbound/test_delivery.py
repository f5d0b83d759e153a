"""An answer is delivered once a client that is still there has it; nothing less counts [design, 5: repeats]."""

import json
import socket
from typing import Any

import anyio
import pytest
from mcp import Client

from gateway.inbound.mcp.exchange import Exchange
from gateway.model.canonical import JsonObject
from tests.inbound.fake_relay import FakeRelay, Held, text
from tests.inbound.served import BOUND_S, ENVELOPE, Served, door, drained, modern_headers, request

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """When a client is seen to leave is the loop's doing; we ship both."""
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "slow"}}
MODERN_CALL = {**CALL, "params": {"name": "slow", "_meta": ENVELOPE}}
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


async def calling(served: Served, era: str) -> tuple[dict[str, Any], dict[str, str | None]]:
    if era == "modern":
        return MODERN_CALL, modern_headers("tools/call", "slow")
    return CALL, dict(await served.session())


def delivered(served: Served) -> list[str | None]:
    return [shown.attempt for shown in served.relay.deliveries]


def holding() -> tuple[FakeRelay, Held]:
    """A relay whose `slow` waits."""
    relay, held = FakeRelay(), Held()
    relay.tools["slow"] = held
    return relay, held


@ERAS
@pytest.mark.parametrize("parts", [{"content": []}, {"error": {"code": -32602, "message": "no"}}])
@pytest.mark.parametrize("said_before", [0, 3])
async def test_whatever_the_client_has_read_is_delivered_once(
    era: str, parts: dict[str, Any], said_before: int
) -> None:
    async def slow(exchange: Exchange) -> JsonObject:
        for _ in range(said_before):
            exchange.line.send({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
        return parts

    async with door() as served:
        served.relay.tools["slow"] = slow
        answer = await served.post(*await calling(served, era))
        streamed = said_before or era == "legacy"
        assert answer.headers["content-type"] == ("text/event-stream" if streamed else "application/json")
        assert delivered(served) == ["slow"]


@ERAS
async def test_it_is_delivered_before_the_client_can_ask_again(era: str) -> None:
    async with door() as served:
        seen: list[int] = []

        async def counts(_exchange: Exchange) -> JsonObject:
            seen.append(len(served.relay.deliveries))
            return text("counted")

        served.relay.tools["count"] = counts
        with anyio.fail_after(BOUND_S):
            async with Client(served.url, mode="2026-07-28" if era == "modern" else "legacy") as client:
                for _ in range(20):
                    await client.call_tool("count", {})
    assert seen == list(range(20))


@ERAS
async def test_a_client_that_left_before_the_answer_was_told_nothing(era: str) -> None:
    relay, held = holding()
    async with door(relay) as served:
        body, headers = await calling(served, era)
        async with await served.connect() as stream:
            await stream.send(whole(served, body, headers))
            with anyio.fail_after(BOUND_S):
                await relay.until(lambda: len(relay.calls) == 1)
        await settled(served)  # the door sees the client leave
        held.gate.set()
        with anyio.fail_after(BOUND_S):
            await relay.until(lambda: relay.calls[0] in relay.finished)
        await settled(served)
        assert delivered(served) == []


@ERAS
@pytest.mark.parametrize("said_before", [0, 1])
async def test_a_client_that_left_while_the_loop_was_busy_was_told_nothing(era: str, said_before: int) -> None:
    async with door() as served:
        body, headers = await calling(served, era)
        client = socket.create_connection(("127.0.0.1", served.port))

        async def slow(exchange: Exchange) -> JsonObject:
            for _ in range(said_before):
                exchange.line.send({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
                await anyio.sleep(0.05)
            client.close()
            return text("done")

        served.relay.tools["slow"] = slow
        client.sendall(whole(served, body, headers))
        with anyio.fail_after(BOUND_S):
            await served.relay.until(lambda: served.relay.finished)
        await settled(served)
        assert delivered(served) == []


async def test_a_modern_client_that_leaves_has_withdrawn_and_a_legacy_one_has_not() -> None:
    relay, held = holding()
    async with door(relay) as served:
        for era in ("modern", "legacy"):
            body, headers = await calling(served, era)
            async with await served.connect() as stream:
                await stream.send(whole(served, body, headers))
                with anyio.fail_after(BOUND_S):
                    await relay.until(lambda: len(relay.calls) == (1 if era == "modern" else 2))  # noqa: B023
        await settled(served)
        assert [(call.withdrawal.said, call.withdrawal.gone) for call in relay.calls] == [(False, True), (False, False)]
        held.gate.set()


async def test_an_id_is_not_free_while_the_call_of_a_client_that_left_goes_on() -> None:
    """Else a cancel could find another request than its client meant."""
    relay, held = holding()
    async with door(relay) as served:
        body, headers = await calling(served, "legacy")
        async with await served.connect() as stream:
            await stream.send(whole(served, body, headers))
            with anyio.fail_after(BOUND_S):
                await relay.until(lambda: len(relay.calls) == 1)
        await settled(served)
        assert (await served.post(body, headers)).status == 400
        held.gate.set()
        await settled(served)
        assert (await served.post(body, headers)).status == 200
        assert len(delivered(served)) == 1


@pytest.mark.parametrize("heeds", [True, False])
async def test_a_legacy_request_that_was_cancelled_is_not_delivered(heeds: bool) -> None:  # noqa: FBT001
    relay, held = holding()
    relay.heeds = heeds
    async with door(relay) as served:
        body, headers = await calling(served, "legacy")
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        async with await served.connect() as stream:
            await stream.send(whole(served, body, headers))
            with anyio.fail_after(BOUND_S):
                await relay.until(lambda: len(relay.calls) == 1)
                assert (await served.post(cancel, headers)).status == 202
                held.gate.set()
                assert (b"-32800" in await drained(stream)) == heeds
        await settled(served)
        assert delivered(served) == []


async def test_a_session_cannot_cancel_the_request_of_another() -> None:
    relay, held = holding()
    async with door(relay) as served:
        body, headers = await calling(served, "legacy")
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        async with await served.connect() as stream:
            await stream.send(whole(served, body, headers))
            with anyio.fail_after(BOUND_S):
                await relay.until(lambda: len(relay.calls) == 1)
                await served.post(cancel, dict(await served.session()))
                held.gate.set()
                assert b'"result"' in await drained(stream)
        assert len(delivered(served)) == 1


async def test_a_session_that_ends_in_the_middle_of_a_call_was_told_nothing() -> None:
    relay, held = holding()
    async with door(relay) as served:
        body, headers = await calling(served, "legacy")
        async with await served.connect() as stream:
            await stream.send(whole(served, body, headers))
            with anyio.fail_after(BOUND_S):
                await relay.until(lambda: len(relay.calls) == 1)
                assert (await served.post(b"", headers, method="DELETE")).status == 200
                held.gate.set()
                await drained(stream)
        await settled(served)
        assert delivered(served) == []
        assert relay.ended == [headers["Mcp-Session-Id"]]


def whole(served: Served, body: Any, headers: dict[str, str | None]) -> bytes:
    return request(json.dumps(body).encode(), headers, port=served.port)


async def settled(served: Served) -> None:
    """Whatever the door had still to do is done: a later request has gone all the way, and clients are watched."""
    for _ in range(3):
        await served.modern("tools/list", {})
    await anyio.sleep(0.03)  # a client is watched only after 10 ms
