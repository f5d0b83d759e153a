"""The older HTTP transport, and how it is found; against a server that is scripted."""

import asyncio
from typing import Any

import pytest

from gateway.model.tool import Answer, NotSent, ProtocolError, Silence, ToolResult
from gateway.outbound.upstream.spec import HttpSpec
from tests.upstream.callers import FakeCaller
from tests.upstream.links import Ears, called, party, reached, until
from tests.upstream.scripted import INITIALIZED, Place, Reply, Sent, answer, error, notice, scripted


class Older:
    """A server of the older transport: one stream, on which everything comes."""

    def __init__(self, endpoint: str = "/messages?s=1", *, refuses: int = 405) -> None:
        self.endpoint = endpoint
        self.refuses = refuses
        self.stream: Reply | None = None
        self.status = 202

    async def __call__(self, sent: Sent, reply: Reply) -> None:
        if sent.method == "GET" and sent.path == "/sse":
            self.stream = reply
            reply.stream()
            reply.event(self.endpoint, kind="endpoint")
            await asyncio.sleep(20)
        elif sent.path == "/sse":
            reply.plain(self.refuses)
        else:
            reply.plain(202 if sent.asks != "tools/call" else self.status)
            self.take(sent)

    def take(self, sent: Sent) -> None:
        if sent.asks == "initialize":
            self.says(answer(sent, INITIALIZED))
        elif sent.asks == "tools/call" and sent.message["params"]["name"] == "echo":
            self.says(notice("notifications/message", level="info", data=1))
            self.says(answer(sent, {"content": [1.0]}))

    def says(self, message: Any) -> None:
        assert self.stream is not None
        self.stream.event(message)


def spec(place: Place, transport: Any = "auto") -> HttpSpec:
    return HttpSpec("r", place.url, {"Authorization": "Bearer ours"}, transport=transport)


@pytest.mark.parametrize(("transport", "refuses"), [("auto", 400), ("auto", 404), ("auto", 405), ("sse", 500)])
async def test_it_is_found_where_the_newer_transport_is_refused(transport: str, refuses: int) -> None:
    caller, server = FakeCaller(), Older(refuses=refuses)
    async with scripted(server, "/sse") as place, reached(spec(place, transport)) as upstream:
        assert await called(upstream.house, "echo", caller) == ToolResult({"content": [1.0]})
    assert caller.heard("notifications/message") == [{"level": "info", "data": 1}]
    posts = [sent for sent in place.sent if sent.path == "/messages?s=1"]
    assert [sent.asks for sent in posts] == ["initialize", "notifications/initialized", "tools/call"]
    assert {sent.headers["authorization"] for sent in place.sent} == {"Bearer ours"}


@pytest.mark.parametrize(("transport", "refuses"), [("http", 405), ("auto", 500)])
async def test_it_is_not_looked_for_elsewhere(transport: str, refuses: int) -> None:
    async with scripted(Older(refuses=refuses), "/sse") as place, reached(spec(place, transport)) as upstream:
        assert upstream.health.state == "unhealthy"
        assert upstream.health.reason is not None
        assert str(refuses) in upstream.health.reason
    assert not [sent for sent in place.sent if sent.method == "GET"]


async def test_who_is_of_neither_transport_is_told_of_by_the_newer() -> None:
    async def nothing(_: Sent, reply: Reply) -> None:
        reply.plain(404)

    async with scripted(nothing) as place, reached(spec(place)) as upstream:
        reason = "the upstream refused the call with status 404: there is nothing at its address"
        assert upstream.health.reason == f"initialize failed: {reason}"


async def test_our_credentials_go_to_no_other_server() -> None:
    elsewhere = Older("http://127.0.0.1:9/messages")
    async with scripted(elsewhere, "/sse") as place, reached(spec(place, "sse")) as upstream:
        assert upstream.health.reason == "it wants its messages sent to another server"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, NotSent("the upstream refused the call with status 401: it wants other credentials", refused=True)),
        (500, Silence("it answered with status 500 and without a JSON-RPC message")),
    ],
)
async def test_a_call_that_was_refused_ends_at_once(status: int, said: Answer) -> None:
    server = Older()
    async with scripted(server, "/sse") as place, reached(spec(place, "sse")) as upstream:
        server.status = status
        assert await called(upstream.house, "other") == said


async def test_with_the_stream_all_calls_end_and_it_is_connected_to_again() -> None:
    server = Older()
    async with scripted(server, "/sse") as place, reached(spec(place, "sse")) as upstream:
        task = asyncio.get_running_loop().create_task(called(upstream.house, "silent"))
        await until(lambda: len(place.asked("tools/call")) == 1)
        assert server.stream is not None
        server.stream.writer.close()
        assert await task in {
            Silence("the upstream ended its stream before it answered"),
            Silence("the upstream cannot be reached: it was cut off before it answered"),
        }
        await until(lambda: len(place.asked("initialize")) == 2 and upstream.health.state == "healthy")
        assert await called(upstream.house, "echo") == ToolResult({"content": [1.0]})


async def test_a_call_that_was_cancelled_is_said_to_be() -> None:
    caller, server = FakeCaller(), Older()
    async with scripted(server, "/sse") as place, reached(spec(place, "sse")) as upstream:
        task = asyncio.get_running_loop().create_task(called(upstream.house, "silent", caller))
        await until(lambda: place.asked("tools/call"))
        caller.withdrawal.say(cancelled=True)
        await until(lambda: place.asked("notifications/cancelled"))
        sent = place.asked("tools/call")[0]
        assert place.asked("notifications/cancelled")[0].message["params"]["requestId"] == sent.message["id"]
        server.says(error(sent, -32800, "cancelled"))
        assert await task == ProtocolError({"code": -32800, "message": "cancelled"})


async def test_its_questions_are_answered_beside_the_stream() -> None:
    ears, server = Ears(answer=ToolResult({"roots": []})), Older()
    async with scripted(server, "/sse") as place, reached(spec(place, "sse"), ears, sole=True) as upstream:
        await upstream.reach(party(), 5)
        server.says({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
        await until(lambda: [sent for sent in place.sent if sent.message and "result" in sent.message])
    assert place.sent[-1].message == {"jsonrpc": "2.0", "id": "q", "result": {"roots": []}}
