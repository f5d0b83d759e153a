"""Streams of the older era that break, and what is made of the rest."""

import asyncio
from typing import Any

import pytest

from gateway.model.tool import ProtocolError, Silence, ToolResult
from gateway.outbound.upstream.spec import HttpSpec
from gateway.outbound.upstream.wire import Ask
from tests.upstream.callers import FakeCaller
from tests.upstream.links import Ears, called, party, reached, until
from tests.upstream.scripted import Reply, Sent, answer, notice, polite, scripted

CALL = "tools/call"


async def test_a_stream_that_broke_is_resumed_after_its_last_event_and_the_call_is_not_sent_again() -> None:
    caller, first = FakeCaller(), asyncio.Event()

    async def script(sent: Sent, reply: Reply) -> None:
        if polite(sent, reply):
            return
        if sent.asks == CALL:
            reply.stream()
            reply.event(id_="e1", retry=60)
            reply.event(notice("notifications/message", level="info", data=1), id_="e2")
        elif sent.headers.get("last-event-id") == "e2":
            reply.stream()
            reply.event(notice("notifications/message", level="info", data=2), id_="e3")
            first.set()
        elif sent.headers.get("last-event-id") == "e3":
            reply.stream()
            reply.event(answer(place.asked(CALL)[0], {"content": [1.0]}))
        else:
            reply.plain(405)

    async with scripted(script) as place, reached(HttpSpec("r", place.url)) as upstream:
        assert await called(upstream.house, "t", caller) == ToolResult({"content": [1.0]})
    assert [params["data"] for params in caller.heard("notifications/message")] == [1, 2]
    assert caller.pauses == [60, 60]
    assert len(place.asked(CALL)) == 1
    resumed = [sent for sent in place.got() if "last-event-id" in sent.headers]
    assert {sent.headers["mcp-session-id"] for sent in resumed} == {"s1"}
    assert {sent.headers["mcp-protocol-version"] for sent in resumed} == {"2025-11-25"}


async def test_a_rest_that_is_refused_is_no_answer() -> None:
    async def script(sent: Sent, reply: Reply) -> None:
        if polite(sent, reply):
            return
        if sent.asks == CALL:
            reply.stream()
            reply.event(id_="e1", retry=1)
        else:
            reply.plain(405)

    async with scripted(script) as place, reached(HttpSpec("r", place.url)) as upstream:
        said = await called(upstream.house, "t")
    assert said == Silence("the stream ended without an answer, and its rest was refused: 405")


async def test_a_server_that_is_away_is_asked_for_the_rest_until_the_call_has_no_more_time() -> None:
    async def script(sent: Sent, reply: Reply) -> None:
        if polite(sent, reply):
            return
        if sent.asks == CALL:
            reply.stream()
            reply.event(id_="e1", retry=1)
        elif "last-event-id" not in sent.headers:
            reply.plain(405)

    async with scripted(script) as place, reached(HttpSpec("r", place.url)) as upstream:
        assert await called(upstream.house, "t", timeout_s=0.5) == Silence("no answer within 0.5 s")
    assert 2 <= len([sent for sent in place.got() if "last-event-id" in sent.headers]) <= 6


async def test_in_the_newer_era_no_stream_is_resumed() -> None:
    async def script(sent: Sent, reply: Reply) -> None:
        if sent.asks == "server/discover":
            reply.plain(200, answer(sent, {"supportedVersions": ["2026-07-28"], "capabilities": {}}))
        elif sent.asks == CALL:
            reply.stream()
            reply.event(id_="e1", retry=1)

    async with scripted(script) as place, reached(HttpSpec("r", place.url)) as upstream:
        assert await called(upstream.house, "t") == Silence("the stream ended without an answer")
    assert place.got() == []


async def test_what_a_server_says_on_its_own_is_heard_also_after_its_stream_broke() -> None:
    ears, asks = Ears(answer=ToolResult({"roots": []})), 0

    async def script(sent: Sent, reply: Reply) -> None:
        nonlocal asks
        if polite(sent, reply):
            return
        reply.stream()
        if "last-event-id" not in sent.headers:
            reply.event(notice("notifications/resources/updated", uri="a"), id_="g1", retry=10)
            reply.event({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}, id_="g2")
        else:
            assert sent.headers["last-event-id"] == "g2"
            reply.event(notice("vendor/said", n=1.0))
            await asyncio.sleep(20)

    async with scripted(script) as place, reached(HttpSpec("r", place.url), ears, sole=True) as upstream:
        await upstream.reach(party(), 5)
        await until(lambda: len(ears.told) == 2)
        await until(lambda: any(sent.message and "result" in sent.message for sent in place.sent))
    assert ears.told == [("notifications/resources/updated", {"uri": "a"}), ("vendor/said", {"n": 1.0})]
    answers = [sent.message for sent in place.sent if sent.message and "result" in sent.message]
    assert answers == [{"jsonrpc": "2.0", "id": "q", "result": {"roots": []}}]


async def test_without_such_a_stream_it_is_asked_for_once() -> None:
    async def script(sent: Sent, reply: Reply) -> None:
        if not polite(sent, reply):
            reply.plain(405)

    async with scripted(script) as place, reached(HttpSpec("r", place.url)):
        await until(place.got)
        await asyncio.sleep(0.3)
    assert len(place.got()) == 1


async def test_a_session_that_its_own_stream_finds_lost_is_another_one_soon() -> None:
    number = 0

    async def script(sent: Sent, reply: Reply) -> None:
        nonlocal number
        if sent.asks == "initialize":
            number += 1
        if polite(sent, reply, session=f"s{number}"):
            return
        if sent.headers.get("mcp-session-id") == "s1" and "last-event-id" in sent.headers:
            reply.plain(404)
            return
        reply.stream()
        reply.event(notice("vendor/said"), id_="g1", retry=10)
        if number > 1:
            await asyncio.sleep(20)

    async with scripted(script) as place, reached(HttpSpec("r", place.url)) as upstream:
        await until(lambda: number == 2 and upstream.health.state == "healthy")
    assert len(place.asked("initialize")) == 2


async def test_with_a_lost_session_goes_what_it_was_told_and_all_of_it_is_told_again() -> None:
    lost = asyncio.Event()

    async def script(sent: Sent, reply: Reply) -> None:
        stale = lost.is_set() and sent.headers.get("mcp-session-id") == "s1"
        session = "s2" if lost.is_set() else "s1"
        if not stale and polite(sent, reply, {"logging": {}, "resources": {"subscribe": True}}, session):
            return
        if stale:
            reply.plain(404)
        elif sent.method == "GET":
            reply.plain(405)
        else:
            lists: dict[str, Any] = {"resources": [], "resourceTemplates": []}
            reply.plain(200, answer(sent, lists))

    async with scripted(script) as place, reached(HttpSpec("r", place.url)) as upstream:
        assert await upstream.house.subscribe("mem://a") == ToolResult({})
        await upstream.house.set_level("debug")
        lost.set()
        assert isinstance(await called(upstream.house, "t"), ToolResult)
        await until(lambda: len(place.asked("resources/subscribe")) == 2)
        await until(lambda: len(place.asked("logging/setLevel")) == 2)
        assert "restarts" not in upstream.counts
    for method in ("resources/subscribe", "logging/setLevel"):
        assert [sent.headers["mcp-session-id"] for sent in place.asked(method)] == ["s1", "s2"]


async def test_what_is_no_call_says_its_name_beside_the_body_too() -> None:
    async def script(sent: Sent, reply: Reply) -> None:
        if sent.asks == "server/discover":
            reply.plain(200, answer(sent, {"supportedVersions": ["2026-07-28"], "capabilities": {}}))
        else:
            reply.plain(404, {"jsonrpc": "2.0", "id": sent.message["id"], "error": ERROR})

    async with scripted(script) as place, reached(HttpSpec("r", place.url)) as upstream:
        said = await upstream.house.ask(Ask("tasks/get", {"taskId": "t 1"}, 5, name="t 1"))
    assert said == ProtocolError(ERROR)
    assert place.sent[-1].headers["mcp-name"] == "t 1"


async def digits(sent: Sent, reply: Reply) -> None:
    if polite(sent, reply):
        return
    body = b'{"jsonrpc":"2.0","result":{"a":%s},"id":%d}' % (b"9" * 5000, sent.message["id"] if sent.message else 0)
    if sent.asks == CALL and sent.message["params"]["name"] == "stream":
        reply.stream()
        reply.event(body.decode())
        await reply.writer.drain()
        await asyncio.sleep(20)
    elif sent.asks == CALL:
        reply.head(200, Content_Type="application/json", Content_Length=str(len(body)))
        reply.writer.write(body)
    else:
        reply.plain(405)


async def test_a_number_that_nobody_can_read_ends_its_call_at_once() -> None:
    async with scripted(digits) as place, reached(HttpSpec("r", place.url)) as upstream:
        for tool in ("stream", "whole"):
            said = await called(upstream.house, tool)
            assert said == Silence("the answer is not valid: a number has more digits than 4300")


async def test_what_comes_after_its_time_is_told_to_nobody_who_has_been_answered() -> None:
    caller, ears, go_on = FakeCaller(), Ears(answer=ToolResult({"roots": []})), asyncio.Event()

    async def script(sent: Sent, reply: Reply) -> None:
        if polite(sent, reply):
            return
        if sent.asks != CALL:
            reply.plain(405)
            return
        reply.stream()
        await go_on.wait()
        reply.event(notice("notifications/message", level="info", data=1))
        reply.event({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
        await reply.writer.drain()
        await asyncio.sleep(20)

    async with scripted(script) as place, reached(HttpSpec("r", place.url), ears, sole=True) as upstream:
        await upstream.reach(party(), 5)
        assert await called(upstream.house, "t", caller, timeout_s=0.1) == Silence("no answer within 0.1 s")
        go_on.set()
        await until(lambda: ears.asked and ears.told)
    assert (caller.told, caller.asked) == ([], [])
    assert ears.told == [("notifications/message", {"level": "info", "data": 1})]


@pytest.mark.parametrize("address", ["http://u:p%40s@{}/mcp", "http://127.0.0.1:99999/mcp"])
async def test_an_address_may_have_credentials_and_need_not_be_one(address: str) -> None:
    async def script(sent: Sent, reply: Reply) -> None:
        if not polite(sent, reply):
            reply.plain(405)

    async with scripted(script) as place:
        url = address.format(place.url.split("/")[2])
        async with reached(HttpSpec("r", url)) as upstream:
            if "@" not in url:
                assert upstream.health.reason is not None
                assert "its address cannot be used" in upstream.health.reason
    assert {sent.headers["authorization"] for sent in place.sent} == ({"Basic dTpwQHM="} if "@" in url else set())


ERROR = {"code": -32602, "message": "no", "data": None, "vendor": [1.0]}
