"""What becomes of a call over streamable HTTP that its client wants no more."""

import asyncio

import pytest

from gateway.model.tool import Answer, ToolResult
from gateway.outbound.upstream import http
from gateway.outbound.upstream.call import CANCELLED
from gateway.outbound.upstream.spec import HttpSpec
from gateway.outbound.upstream.wire import Ask
from tests.upstream.callers import FakeCaller
from tests.upstream.links import called, reached, until
from tests.upstream.scripted import Reply, Sent, answer, notice, polite, scripted

LEGACY, MODERN = "legacy", "modern"


class Slow:
    """A server whose calls are answered when the test says so."""

    def __init__(self, era: str) -> None:
        self.era = era
        self.go_on = asyncio.Event()
        self.hung_up = asyncio.Event()

    async def __call__(self, sent: Sent, reply: Reply) -> None:
        if self.era == MODERN and sent.asks == "server/discover":
            reply.plain(200, answer(sent, {"supportedVersions": ["2026-07-28"], "capabilities": {}}))
        elif sent.asks == "tools/call":
            reply.stream()
            reply.event(notice("vendor/begun"))
            await reply.writer.drain()
            gone = asyncio.get_running_loop().create_task(reply.reader.read())
            go_on = asyncio.get_running_loop().create_task(self.go_on.wait())
            await asyncio.wait({gone, go_on}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                self.hung_up.set()
            go_on.cancel()
            gone.cancel()
            reply.event(answer(sent, {"done": 1.0}))
        elif not polite(sent, reply):
            reply.plain(405)


async def test_in_the_older_era_the_server_is_told_and_its_answer_waited_for() -> None:
    caller, server = FakeCaller(), Slow(LEGACY)
    async with scripted(server) as place, reached(HttpSpec("r", place.url)) as upstream:
        task = asyncio.get_running_loop().create_task(called(upstream.house, "t", caller))
        await until(lambda: caller.told)
        caller.withdrawal.say(cancelled=True)
        await until(lambda: place.asked("notifications/cancelled"))
        server.go_on.set()
        assert await task == ToolResult({"done": 1.0})
    cancelled = place.asked("notifications/cancelled")[0]
    assert cancelled.message["params"]["requestId"] == place.asked("tools/call")[0].message["id"]
    assert cancelled.headers["mcp-session-id"] == "s1"


async def test_in_the_older_era_a_late_answer_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "AFTER_CANCEL_S", 0.05)
    caller, server, late = FakeCaller(), Slow(LEGACY), list[Answer]()
    async with scripted(server) as place, reached(HttpSpec("r", place.url)) as upstream:
        ask = Ask("tools/call", {"name": "t"}, 5, late=late.append)
        task = asyncio.get_running_loop().create_task(upstream.house.ask(ask, caller))
        await until(lambda: caller.told)
        caller.withdrawal.say(cancelled=True)
        assert await task == CANCELLED
        server.go_on.set()
        await until(lambda: late)
    assert late == [ToolResult({"done": 1.0})]


async def test_in_the_newer_era_the_stream_is_closed_and_nothing_waited_for() -> None:
    caller, server = FakeCaller(modern=True), Slow(MODERN)
    async with scripted(server) as place, reached(HttpSpec("r", place.url)) as upstream:
        task = asyncio.get_running_loop().create_task(called(upstream.house, "t", caller))
        await until(lambda: caller.told)
        caller.withdrawal.say(cancelled=True)
        assert await task == CANCELLED
        await server.hung_up.wait()
    assert place.asked("notifications/cancelled") == []


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_write_whose_client_is_lost_goes_on(era: str) -> None:
    caller, server = FakeCaller(), Slow(era)
    async with scripted(server) as place, reached(HttpSpec("r", place.url)) as upstream:
        task = asyncio.get_running_loop().create_task(called(upstream.house, "t", caller))
        await until(lambda: caller.told)
        caller.withdrawal.say(cancelled=False)
        await asyncio.sleep(0.05)
        server.go_on.set()
        assert await task == ToolResult({"done": 1.0})
    assert place.asked("notifications/cancelled") == []
