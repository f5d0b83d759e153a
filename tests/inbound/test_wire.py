"""How the HTTP door tells that an answer has arrived, message by message."""

from typing import Any

import anyio
import pytest

from gateway.inbound.mcp.door import _Wire
from gateway.inbound.mcp.exchange import Exchange
from gateway.inbound.mcp.identity import ANONYMOUS
from gateway.model.answer import Shown

pytestmark = pytest.mark.anyio

SHOWN = Shown("r", attempt="a")
START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}
STREAM = {**START, "headers": [(b"content-type", b"text/event-stream; charset=utf-8")]}
FAILED = {**START, "status": 500}
REFUSED = {**START, "status": 400}
ANSWER = {"type": "http.response.body", "body": b'data: {"result":{}}', "more_body": True}
PING = {"type": "http.response.body", "body": b": ping", "more_body": True}
WHOLE = {"type": "http.response.body", "body": b'{"result":{}}'}
END = {"type": "http.response.body", "body": b"", "more_body": False}
GONE = "the client goes"
CANCEL = "the client cancels"
ANSWERED = "the gate answers"

CASES: list[tuple[list[Any], bool]] = [
    ([ANSWERED, START, WHOLE], True),
    ([ANSWERED, REFUSED, WHOLE], True),
    ([ANSWERED, START, WHOLE, GONE], True),
    ([STREAM, ANSWERED, ANSWER], True),
    ([STREAM, ANSWERED, ANSWER, END], True),
    ([STREAM, ANSWERED, ANSWER, GONE, END], True),
    ([STREAM, PING, ANSWERED, PING, ANSWER, END], True),
    ([STREAM, ANSWERED, {**ANSWER, "more_body": False}], True),
    ([START, WHOLE], False),
    ([ANSWERED], False),
    ([ANSWERED, START], False),
    ([ANSWERED, START, {**WHOLE, "more_body": True}], False),
    ([STREAM, ANSWER, ANSWERED, END], False),
    ([STREAM, ANSWERED, PING, END], False),
    ([ANSWERED, FAILED, WHOLE], False),
    ([STREAM, ANSWERED, GONE, ANSWER, END], False),
    ([GONE, ANSWERED, START, WHOLE], False),
    ([ANSWERED, CANCEL, START, WHOLE], False),
    ([STREAM, ANSWERED, CANCEL, ANSWER, END], False),
]


@pytest.mark.parametrize(("steps", "delivered"), CASES, ids=[str(number) for number in range(len(CASES))])
async def test_an_answer_is_delivered_if_all_of_it_went_out_to_a_client_that_was_there(
    steps: list[Any],
    delivered: bool,  # noqa: FBT001
) -> None:
    told: list[Shown] = []
    exchange = Exchange({}, ANONYMOUS, "http")

    async def send(_message: Any) -> None:
        pass

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    wire = _Wire(exchange, b"", receive, send, told.append)
    assert (await wire.receive())["type"] == "http.request"
    for step in steps:
        if step == ANSWERED:
            exchange.shown = SHOWN
        elif step == CANCEL:
            exchange.cancelled = True
        elif step == GONE:
            await wire.receive()
        else:
            await wire.send(step)
    assert told == ([SHOWN] if delivered else [])


async def test_a_disconnect_that_has_arrived_is_seen_before_the_last_word() -> None:
    told: list[Shown] = []
    left = anyio.Event()

    async def send(_message: Any) -> None:
        pass

    async def receive() -> Any:
        await left.wait()
        return {"type": "http.disconnect"}

    wire = _Wire(Exchange({}, ANONYMOUS, "http", shown=SHOWN), b"", receive, send, told.append)
    await wire.receive()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wire.receive)
        await anyio.lowlevel.checkpoint()
        left.set()
        await wire.send(WHOLE)
    assert told == []


async def test_the_body_is_given_once_more_and_then_the_client_is_watched() -> None:
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    wire = _Wire(Exchange({}, ANONYMOUS, "http"), b"body", receive, receive, lambda _: None)  # type: ignore[arg-type]
    assert await wire.receive() == {"type": "http.request", "body": b"body", "more_body": False}
    assert await wire.receive() == {"type": "http.disconnect"}
