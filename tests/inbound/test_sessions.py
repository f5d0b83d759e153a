"""Conversations of legacy HTTP clients: how they begin and end, their streams, and how these are taken up again."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from gateway.inbound.mcp import streams
from gateway.inbound.mcp.exchange import Exchange
from gateway.inbound.mcp.sessions import Conversation, Sessions
from gateway.model.canonical import JsonObject
from gateway.model.principal import Principal
from tests.inbound.fake_relay import FakeRelay, Held, echo, tell, text
from tests.inbound.served import BOUND_S, ENVELOPE, Served, Stream, door, modern_headers

pytestmark = pytest.mark.anyio

STREAM = {"Accept": "text/event-stream"}


def call(name: str, request_id: Any = 1) -> JsonObject:
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": {"name": name}}


def note(number: int) -> JsonObject:
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": {"n": number}}


def numbers(messages: list[Any]) -> list[Any]:
    """What was said, in short: numbers of notes, ids of answers."""
    return [message["params"]["n"] if "params" in message else {"id": message["id"]} for message in messages]


async def rest(stream: Stream) -> list[Any]:
    """All messages up to the end."""
    messages = []
    while (message := await stream.message()) is not None:
        messages.append(message)
    return messages


async def eventually(true: Callable[[], bool]) -> None:
    with anyio.fail_after(BOUND_S):
        while not true():
            await anyio.sleep(0.005)


def session_of(served: Served) -> Any:
    return served.relay.begun[0].session


# --- beginning and end ------------------------------------------------------------------------------------------------


async def test_a_session_begins_with_initialize_and_ends_with_delete() -> None:
    async with door() as served:
        headers = dict(await served.session())
        assert (await served.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers)).json["result"] == {}
        assert (await served.post(b"", headers, method="DELETE")).status == 200
        after = await served.post({"jsonrpc": "2.0", "id": 5, "method": "ping"}, headers)
        assert (after.status, after.code, after.json["id"]) == (404, -32600, 5)
        assert (await served.post(b"", headers, method="DELETE")).status == 404
        assert served.relay.ended == [headers["Mcp-Session-Id"]]


async def test_no_session_begins_with_an_error() -> None:
    async with door() as served:
        answer = await served.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})
        assert (answer.status, answer.code) == (200, -32602)
        [exchange] = served.relay.begun
        assert exchange.session is not None
        again = await served.post(
            {"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"Mcp-Session-Id": exchange.session.id}
        )
        assert again.status == 404
    assert served.relay.ended == []


@pytest.mark.parametrize("method", ["ping", "tools/list", "notifications/initialized"])
async def test_all_but_initialize_needs_a_session(method: str) -> None:
    body: JsonObject = {"jsonrpc": "2.0", "method": method}
    if not method.startswith("notifications/"):
        body["id"] = 3
    async with door() as served:
        answer = await served.post(body)
        assert (answer.status, answer.code, answer.json["id"]) == (400, -32600, body.get("id"))
        get = await served.post(b"", STREAM, method="GET")
        assert (get.status, get.code) == (400, -32600)


async def test_two_session_headers_are_none() -> None:
    async with door() as served:
        headers = dict(await served.session())
        twice = {**headers, "mcp-session-id": "other"}
        assert (await served.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, twice)).status == 400


@pytest.mark.parametrize(("version", "status"), [("2025-03-26", 200), ("2025-11-25", 200), ("1999-01-01", 400)])
async def test_a_version_may_be_named_that_is_supported(version: str, status: int) -> None:
    async with door() as served:
        headers = await served.session() | {"MCP-Protocol-Version": version}
        assert (await served.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, dict(headers))).status == status


async def test_an_idle_session_ends_and_one_that_is_used_does_not() -> None:
    async with door(idle_s=0.3) as served:
        idle, listening = dict(await served.session()), dict(await served.session())
        async with served.stream(b"", listening | STREAM, method="GET") as stream:
            assert (await stream.head()).status == 200
            await eventually(lambda: served.relay.ended == [idle["Mcp-Session-Id"]])
        await eventually(lambda: len(served.relay.ended) == 2)


async def test_the_idlest_session_makes_room() -> None:
    relay, held = FakeRelay(), Held()
    relay.tools["slow"] = held
    async with door(relay, max_sessions=2) as served, anyio.create_task_group() as tasks:
        busy, idle = dict(await served.session()), dict(await served.session())
        tasks.start_soon(served.post, call("slow"), busy)
        await eventually(lambda: len(relay.calls) == 1)
        third = dict(await served.session())
        assert relay.ended == [idle["Mcp-Session-Id"]]
        tasks.start_soon(served.post, call("slow"), third)
        await eventually(lambda: len(relay.calls) == 2)
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        full = await served.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert (full.status, full.code) == (503, -32603)
        held.gate.set()


async def test_who_opens_many_sessions_ends_only_their_own() -> None:
    ended: list[str] = []
    sessions = Sessions(lambda session: ended.append(session.id), limit=3)
    mine = Conversation(Principal("ann", "acme"))
    sessions.admit(mine)
    theirs = [Conversation(Principal("ann", "other")) for _ in range(4)]
    for one in theirs:
        sessions.make_room()
        sessions.admit(one)
    assert ended == [one.session.id for one in theirs[:2]]
    assert len(sessions) == 3
    sessions.close()
    assert {*ended} == {mine.session.id, *(one.session.id for one in theirs)}


async def test_open_streams_end_when_the_app_closes_and_nothing_begins() -> None:
    relay, held = FakeRelay(), Held()
    relay.tools["slow"] = held
    async with door(relay) as served:
        headers = dict(await served.session())
        asking = modern_headers("subscriptions/listen")
        async with (
            served.stream(b"", headers | STREAM, method="GET") as general,
            served.stream(listening(), asking) as listens,
            served.stream(call("slow"), headers) as plain,
        ):
            await general.head()
            await listens.head()
            await listens.message()
            await eventually(lambda: len(relay.calls) == 1)
            assert served.app is not None
            served.app.close()
            assert (await general.event(), await listens.event()) == (None, None)
            refused = await served.post(call("slow", 2), headers)
            assert (refused.status, refused.code, refused.headers["connection"]) == (503, -32603, "close")
            held.gate.set()
            assert (await plain.head()).status == 200
        assert relay.ended == [headers["Mcp-Session-Id"]]
        assert relay.deliveries == []
        await eventually(lambda: len(relay.finished) == 3)


async def test_clients_that_come_and_go_leave_nothing_behind() -> None:
    relay, held = chatting(1)
    async with door(relay) as served:
        before = len(asyncio.all_tasks())
        for number in range(30):
            headers = dict(await served.session("2025-11-25"))
            async with (
                served.stream(b"", headers | STREAM, method="GET") as general,
                served.stream(call("chat"), headers) as lost,
                served.stream(listening(), modern_headers("subscriptions/listen")) as listens,
            ):
                for stream in (general, lost, listens):
                    await stream.head()
            if number % 2:
                await served.post(b"", headers, method="DELETE")
        held.gate.set()
        await eventually(lambda: len(relay.finished) == len(relay.begun))
        await eventually(lambda: len(asyncio.all_tasks()) == before)
        assert served.app is not None
        front = served.app._front
        assert (len(front._sessions), front._streaming) == (15, set())
        assert (front._watch._young, front._watch._older) == (set(), set())
        assert all(len(conversation._tracks) == 1 for conversation in front._sessions._open.values())
        assert not any(conversation.busy for conversation in front._sessions._open.values())


def listening() -> JsonObject:
    return {"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen", "params": {"_meta": ENVELOPE}}


# --- the general stream -----------------------------------------------------------------------------------------------


async def test_the_general_stream_carries_what_belongs_to_no_request_and_loses_nothing_in_between() -> None:
    async with door() as served:
        headers = dict(await served.session())
        line = session_of(served).line
        line.send(note(1))
        async with served.stream(b"", headers | STREAM, method="GET") as stream:
            head = await stream.head()
            assert (head.status, head.headers["content-type"]) == (200, "text/event-stream")
            assert await stream.message() == note(1)
            line.send(note(2))
            assert await stream.message() == note(2)
            second = await served.post(b"", headers | STREAM, method="GET")
            assert (second.status, second.code) == (409, -32600)
        await anyio.sleep(0.05)
        line.send(note(3))
        async with served.stream(b"", headers | STREAM, method="GET") as stream:
            await stream.head()
            assert await stream.message() == note(3)


async def test_the_general_stream_is_taken_up_where_it_was_lost() -> None:
    async with door() as served:
        headers = dict(await served.session())
        line = session_of(served).line
        async with served.stream(b"", headers | STREAM, method="GET") as stream:
            await stream.head()
            line.send(note(1))
            first = await stream.event()
            assert first is not None
            line.send(note(2))
            await stream.event()
            async with served.stream(b"", headers | STREAM | {"Last-Event-ID": first["id"]}, method="GET") as again:
                await again.head()
                assert await again.message() == note(2)  # even while the lost one seems open
                line.send(note(3))
                assert await again.message() == note(3)
                assert await stream.event() is None


@pytest.mark.parametrize(
    ("headers", "method", "status"),
    [
        ({"MCP-Protocol-Version": "2026-07-28"}, "GET", 405),
        ({"MCP-Protocol-Version": "2026-07-28"}, "DELETE", 405),
        ({"Accept": "application/json"}, "GET", 406),
        ({"Last-Event-ID": "nonsense"}, "GET", 400),
        ({"Last-Event-ID": "7-1"}, "GET", 400),
        ({"Last-Event-ID": "٣-1"}, "GET", 400),
        ({"Mcp-Session-Id": "another"}, "GET", 404),
    ],
)
async def test_a_stream_is_refused(headers: dict[str, str], method: str, status: int) -> None:
    async with door() as served:
        answer = await served.post(b"", {**await served.session(), **STREAM, **headers}, method=method)
        assert answer.status == status
        assert answer.headers.get("allow") == ("POST" if status == 405 else None)


# --- the stream of a request ------------------------------------------------------------------------------------------


def chatting(before: int, after: int = 0) -> tuple[FakeRelay, Held]:
    """A relay whose `chat` says so much, waits, and says so much more before its answer."""
    relay, held = FakeRelay(), Held()

    async def chat(exchange: Exchange) -> JsonObject:
        for number in range(before):
            tell(exchange, "notifications/message", {"n": number})
        await held.gate.wait()
        for number in range(before, before + after):
            tell(exchange, "notifications/message", {"n": number})
        return text("done")

    relay.tools["chat"] = chat
    return relay, held


@pytest.mark.parametrize(("version", "primed"), [("2025-06-18", False), ("2025-11-25", True)])
async def test_events_have_ids_and_newer_clients_get_one_first(version: str, primed: bool) -> None:  # noqa: FBT001
    relay, held = chatting(2)
    held.gate.set()
    async with door(relay) as served:
        async with served.stream(call("chat"), dict(await served.session(version))) as stream:
            await stream.head()
            events = [event async for event in all_events(stream)]
        assert [event["data"] == "" for event in events] == [True] * primed + [False] * 3
        assert len({event["id"] for event in events}) == len(events)
        assert ("retry" in events[0]) == primed


async def all_events(stream: Stream) -> Any:
    while (event := await stream.event()) is not None:
        yield event


async def test_a_lost_stream_is_taken_up_and_the_answer_delivered_then() -> None:
    relay, held = chatting(2, 1)
    async with door(relay) as served:
        headers = dict(await served.session("2025-06-18"))
        async with served.stream(call("chat"), headers) as stream:
            await stream.head()
            first = await stream.event()
            assert first is not None
        await anyio.sleep(0.05)
        held.gate.set()
        await eventually(lambda: len(relay.finished) == 2)
        assert relay.deliveries == []
        async with served.stream(b"", headers | STREAM | {"Last-Event-ID": first["id"]}, method="GET") as stream:
            await stream.head()
            assert numbers(await rest(stream)) == [1, 2, {"id": 1}]
        assert [shown.attempt for shown in relay.deliveries] == ["chat"]
        async with served.stream(b"", headers | STREAM | {"Last-Event-ID": first["id"]}, method="GET") as stream:
            await stream.head()
            assert numbers(await rest(stream)) == [1, 2, {"id": 1}]
        assert len(relay.deliveries) == 1


async def test_a_stream_that_was_taken_up_goes_on_to_its_answer() -> None:
    relay, held = chatting(1, 2)
    async with door(relay) as served:
        headers = dict(await served.session("2025-11-25"))
        async with served.stream(call("chat"), headers) as stream:
            await stream.head()
            first = await stream.event()
            assert first is not None
        async with served.stream(b"", headers | STREAM | {"Last-Event-ID": first["id"]}, method="GET") as stream:
            await stream.head()
            assert (await stream.message())["params"]["n"] == 0
            held.gate.set()
            assert numbers(await rest(stream)) == [1, 2, {"id": 1}]
        assert [shown.attempt for shown in relay.deliveries] == ["chat"]


async def test_a_paused_stream_ends_and_is_taken_up() -> None:
    relay, held = FakeRelay(), Held()

    async def poll(exchange: Exchange) -> JsonObject:
        exchange.line.pause(50)
        tell(exchange, "notifications/message", {"n": 1})
        await held.gate.wait()
        return text("done")

    relay.tools["poll"] = poll
    async with door(relay) as served:
        headers = dict(await served.session("2025-11-25"))
        async with served.stream(call("poll"), headers) as stream:
            await stream.head()
            primed = await stream.event()
            assert primed is not None
            assert (primed["data"], primed["retry"]) == ("", "50")
            assert await stream.event() is None
        assert (await served.post(call("echo", "1"), headers)).status == 400  # its id is in use all the while
        async with served.stream(b"", headers | STREAM | {"Last-Event-ID": primed["id"]}, method="GET") as stream:
            await stream.head()
            held.gate.set()
            assert numbers(await rest(stream)) == [1, {"id": 1}]
        assert (await served.post(call("echo"), headers)).status == 200
    assert [shown.attempt for shown in relay.deliveries] == ["poll", "echo"]


async def test_an_older_client_is_not_paused() -> None:
    relay = FakeRelay()

    async def poll(exchange: Exchange) -> JsonObject:
        exchange.line.pause(50)
        return await echo(exchange)

    relay.tools["poll"] = poll
    async with door(relay) as served, served.stream(call("poll"), dict(await served.session("2025-06-18"))) as stream:
        await stream.head()
        assert numbers(await rest(stream)) == [{"id": 1}]


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_a_long_silence_is_ended(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SILENCE_S", 0.05)
    relay, held = chatting(0)
    async with door(relay) as served, served.stream(call("chat"), dict(await served.session(version))) as stream:
        await stream.head()
        events = [await stream.event() for _ in range(3)]
        assert events[1:] == [{"": ""}, {"": ""}]
        assert (events[0] == {"": ""}) == (version == "2025-06-18")
        held.gate.set()
        assert numbers(await rest(stream)) == [{"id": 1}]
