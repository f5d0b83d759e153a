"""How one HTTP response is written, and how it tells that its answer has arrived, step by step."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from gateway.inbound.mcp import streams
from gateway.inbound.mcp.door import at_once
from gateway.inbound.mcp.exchange import Exchange
from gateway.inbound.mcp.http import Reply
from gateway.inbound.mcp.identity import ANONYMOUS
from gateway.inbound.mcp.streams import CONNECTION_KEY, Event, Watch, Wire, frame
from gateway.model.answer import Shown
from gateway.model.canonical import JsonObject

pytestmark = pytest.mark.anyio

SHOWN = Shown("r", attempt="a")
ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {}}
NOTE = {"jsonrpc": "2.0", "method": "notifications/message"}


class Client:
    """Both ends of an ASGI server's connection."""

    def __init__(self, *, ours: bool = False) -> None:
        self.left = asyncio.Event()
        self.can_write = asyncio.Event()
        self.can_write.set()
        self.sent: list[Any] = []
        self.told: list[Shown] = []
        self.streaming: set[Wire] = set()
        self.held = False
        self.lost: Callable[[], None] | None = None
        scope = {CONNECTION_KEY: self} if ours else {}
        self.wire = Reply(scope, self.receive, self.send, self.told.append, self.streaming)
        self.exchange = Exchange({"id": 1, "method": "tools/call"}, ANONYMOUS, "http", self.wire, shown=SHOWN)
        self.wire.exchange = self.exchange

    async def receive(self) -> Any:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.can_write.wait()
        if not self.left.is_set():
            self.sent.append(message)

    def is_closing(self) -> bool:
        return self.left.is_set()

    def has_left(self) -> bool:
        return self.left.is_set()

    def abort(self) -> None:
        self.left.set()

    def cork(self) -> None:
        self.held = True

    def uncork(self) -> None:
        assert self.held
        self.held = False

    @property
    def heard(self) -> list[Any]:
        """The bodies of what was sent."""
        return [message["body"] for message in self.sent if message["type"] == "http.response.body"]


async def leave(client: Client) -> None:
    client.left.set()
    if client.lost is not None:
        client.lost()
    await asyncio.sleep(0)


async def leave_unwatched(client: Client) -> None:
    client.left.set()


async def cancel(client: Client) -> None:
    client.exchange.withdrawal.say(cancelled=True)


async def watch(client: Client) -> None:
    client.wire.watch()
    await asyncio.sleep(0)


async def note(client: Client) -> None:
    client.wire.send(NOTE)
    await asyncio.sleep(0.001)


async def answer(client: Client) -> None:
    if client.wire.streams:
        client.wire.push(Event(frame(ANSWER), client.exchange))
        client.wire.end()
        await client.wire.complete()
    else:
        await client.wire.plain(ANSWER, 200, client.exchange)


CASES: list[tuple[str, list[Callable[[Client], Any]], bool]] = [
    ("at once", [answer], True),
    ("watched", [watch, answer], True),
    ("streamed", [note, answer], True),
    ("left after", [answer, leave], True),
    ("streamed, left after", [note, answer, leave], True),
    ("left before", [leave_unwatched, answer], False),
    ("watched, left before", [watch, leave, answer], False),
    ("streamed, left before", [note, leave, answer], False),
    ("streamed, left in that moment", [note, leave_unwatched, answer], False),
    ("cancelled", [cancel, answer], False),
    ("streamed, cancelled", [note, cancel, answer], False),
    ("never", [note], False),
]


@pytest.mark.parametrize("ours", [True, False], ids=["our server", "another"])
@pytest.mark.parametrize(("steps", "delivered"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
async def test_an_answer_is_delivered_if_all_of_it_went_out_to_a_client_that_was_there(
    steps: list[Callable[[Client], Any]],
    delivered: bool,  # noqa: FBT001
    ours: bool,  # noqa: FBT001
) -> None:
    client = Client(ours=ours)
    for step in steps:
        await step(client)
    assert client.told == ([SHOWN] if delivered else [])
    client.wire.cut()
    await client.wire.complete()
    assert client.streaming == set()


@pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
async def test_our_server_tells_that_a_client_left_before_or_after_it_is_watched(early: bool) -> None:  # noqa: FBT001
    client = Client(ours=True)
    tasks = asyncio.all_tasks()
    for step in [leave, watch] if early else [watch, leave]:
        await step(client)
    assert client.exchange.withdrawal.gone
    assert asyncio.all_tasks() == tasks
    client.wire.release()
    assert client.lost is None


async def test_a_request_that_is_over_leaves_the_connection_to_the_next() -> None:
    client, told = Client(ours=True), list[str]()
    await watch(client)
    client.lost = partial(told.append, "the next")
    client.wire.release()
    client.lost()
    assert told == ["the next"]


async def test_a_client_that_was_too_slow_and_left_was_told_nothing() -> None:
    client = Client()
    await note(client)
    client.can_write.clear()
    client.wire.push(Event(frame(ANSWER), client.exchange))
    client.wire.end()
    await asyncio.sleep(0.001)
    client.left.set()
    client.can_write.set()
    await client.wire.complete()
    assert client.told == []


async def test_a_modern_client_that_leaves_has_withdrawn_without_a_word() -> None:
    client = Client()
    await note(client)
    await leave(client)
    assert (client.exchange.withdrawal.said, client.exchange.withdrawal.gone) == (False, True)
    client.wire.send(NOTE)
    await client.wire.complete()
    assert client.heard == [frame(NOTE)]


async def test_what_is_said_goes_out_in_order_as_one_event_each() -> None:
    client = Client()
    for number in range(3):
        client.wire.send({**NOTE, "params": {"n": number}})
    client.wire.pause(1)
    await answer(client)
    assert client.heard == [*(frame({**NOTE, "params": {"n": number}}) for number in range(3)), frame(ANSWER), b""]
    [start] = [message for message in client.sent if message["type"] == "http.response.start"]
    assert dict(start["headers"]) == {
        b"content-type": b"text/event-stream",
        b"cache-control": b"no-cache, no-transform",
        b"x-accel-buffering": b"no",
    }


async def test_a_plain_answer_is_one_response_with_its_length() -> None:
    client = Client(ours=True)
    await answer(client)
    assert [message["type"] for message in client.sent] == ["http.response.start", "http.response.body"]
    assert dict(client.sent[0]["headers"])[b"content-length"] == b"%d" % len(client.heard[0])
    assert json.loads(client.heard[0]) == ANSWER


async def test_what_a_slow_client_does_not_take_is_lost_and_the_answer_never() -> None:
    client = Client()
    client.can_write.clear()
    for _ in range(10):
        client.wire.send({**NOTE, "params": {"data": "x" * 1_000_000}})
    client.wire.push(Event(frame(ANSWER), client.exchange))
    client.wire.end()
    client.can_write.set()
    await client.wire.complete()
    assert 4 <= len(client.heard) - 2 < 10
    assert client.heard[-2] == frame(ANSWER)


@pytest.mark.parametrize("streamed", [True, False])
async def test_an_answer_that_is_no_json_is_an_internal_error(streamed: bool) -> None:  # noqa: FBT001
    client, broken = Client(), {"jsonrpc": "2.0", "id": 1, "result": {"n": float("nan")}}
    client.wire.send({"n": float("nan")})
    assert not client.wire.streams
    if streamed:
        data = streams.answering_frame(broken, client.exchange)
        assert json.loads(data.partition(b"data: ")[2])["error"]["code"] == -32603
    else:
        await client.wire.plain(broken, 200, client.exchange)
        assert json.loads(client.heard[0])["error"]["code"] == -32603
    assert (client.told, client.exchange.shown) == ([], None)


def test_no_character_within_an_event_ends_a_line() -> None:
    data = frame({"s": "\u2028 \u2029 \x85 \n \r \x0b \x1e \U0001f600"}, "1-2").decode()
    assert data.splitlines()[:2] == ["event: message", "id: 1-2"]
    assert len(data.splitlines()) == 4
    assert json.loads(data.splitlines()[2].removeprefix("data: ")) == {
        "s": "\u2028 \u2029 \x85 \n \r \x0b \x1e \U0001f600"
    }


async def test_to_ask_what_is_there_takes_nothing_from_whoever_waits() -> None:
    parts: asyncio.Queue[JsonObject] = asyncio.Queue()
    assert at_once(parts.get) is None
    parts.put_nowait({"type": "http.request"})
    assert at_once(parts.get) == {"type": "http.request"}
    assert at_once(parts.get) is None


async def test_only_a_client_that_waits_is_watched() -> None:
    watch, short, long = Watch(0.01), Client(), Client()
    watch.add(short.wire)
    watch.add(long.wire)
    watch.drop(short.wire)
    await asyncio.sleep(0.05)
    assert (short.wire._watcher, long.wire._watcher is not None) == (None, True)
    assert watch._timer is None
    long.wire.release()
