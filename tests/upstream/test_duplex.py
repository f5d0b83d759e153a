"""The calls over one stream each way, without any process: what is written, what comes, and for whom it is."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.model.offer import Kind
from gateway.model.tool import Answer, NotSent, ProtocolError, Silence, ToolResult
from gateway.outbound.upstream import call as calling
from gateway.outbound.upstream import duplex as two_way
from gateway.outbound.upstream import questions
from gateway.outbound.upstream.call import CANCELLED, UNSENT, carry
from gateway.outbound.upstream.calls import Calls
from gateway.outbound.upstream.duplex import Duplex
from gateway.outbound.upstream.wire import Ask
from gateway.ports import Withdrawal
from tests.upstream.callers import FakeCaller
from tests.upstream.links import until

FORM = {"message": "?", "_meta": {"progressToken": "theirs"}}


@dataclass
class Line:
    """Both ends of the stream."""

    modern: bool = False
    written: list[dict[str, Any]] = field(default_factory=list)
    told: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    changed: list[Kind] = field(default_factory=list)
    hooked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.calls = Calls(
            "r", Counter(), told=lambda *what: self.told.append(what), changed=self.changed.append, asked=self.hook
        )
        self.calls.modern = self.modern
        self.duplex = Duplex(self.calls, write=self.write, has_room=lambda: True, room=lambda: asyncio.sleep(0))

    async def hook(self, method: str, _: Mapping[str, Any], __: Any) -> Answer:
        self.hooked.append(method)
        return ToolResult({"hooked": True})

    def write(self, line: bytes, _: object) -> bool:
        self.written.append(json.loads(line))
        return True

    def comes(self, **message: Any) -> None:
        self.duplex.take(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def call(self, caller: FakeCaller | None = None, **more: Any) -> "asyncio.Task[Answer]":
        meta = {"progressToken": "theirs"} if caller is not None else {}
        ask = Ask("tools/call", {}, **{"timeout_s": 5.0, "version": "2025-11-25", "meta": meta, **more})
        return asyncio.get_running_loop().create_task(self._carry(self.calls.open(ask, caller)))

    async def _carry(self, call: Any) -> Answer:
        try:
            return await carry(call, self.duplex)
        finally:
            self.calls.close(call)

    async def asks(self, id_: Any, method: str = "elicitation/create", params: Any = None) -> None:
        self.comes(id=id_, method=method, params=FORM if params is None else params)
        await asyncio.sleep(0.01)

    def answers(self) -> list[dict[str, Any]]:
        return [message for message in self.written if "method" not in message]

    def notices(self) -> list[dict[str, Any]]:
        return [message for message in self.written if "id" not in message]


def ok(_: str, __: Any) -> Answer:
    return ToolResult({"action": "accept", "x": 1.0})


async def test_the_latest_call_that_has_a_client_is_asked_and_its_answer_goes_back_untouched() -> None:
    line, first, latest = Line(), FakeCaller(ok), FakeCaller(ok)
    tasks = [line.call(first), line.call(latest), line.call()]
    await asyncio.sleep(0)
    await line.asks("q")
    await until(line.answers)
    assert line.answers() == [{"jsonrpc": "2.0", "id": "q", "result": {"action": "accept", "x": 1.0}}]
    assert (first.asked, latest.asked) == ([], [("elicitation/create", FORM)])
    for number in (1, 2, 3):
        line.comes(id=number, result={"n": number})
    assert await asyncio.gather(*tasks) == [ToolResult({"n": number}) for number in (1, 2, 3)]
    await line.asks(7, "roots/list")
    await until(lambda: len(line.answers()) == 2)
    assert line.hooked == ["roots/list"]


async def test_an_error_of_the_client_and_its_loss_are_answers_too() -> None:
    error = {"code": -1, "message": "no", "data": None, "vendor": 1}
    for answer, said in (
        (ProtocolError(error), error),
        (Silence("the client is gone"), {"code": -32603, "message": "the client is gone"}),
    ):
        line = Line()
        task = line.call(FakeCaller(lambda *_, answer=answer: answer))
        await asyncio.sleep(0)
        await line.asks(0)
        await until(line.answers)
        assert line.answers() == [{"jsonrpc": "2.0", "id": 0, "error": said}]
        task.cancel()


async def test_a_client_that_cannot_be_asked_does_not_leave_the_upstream_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_: str, __: Any) -> Answer:
        raise KeyError("a bug")

    line = Line()
    task = line.call(FakeCaller(broken))
    await asyncio.sleep(0)
    await line.asks(0)
    await until(line.answers)
    task.cancel()
    assert line.answers()[0]["error"]["message"] == "the client could not be asked"
    assert "r: asking the client failed" in caplog.messages


async def test_what_the_client_says_of_its_work_goes_back_with_the_token_of_the_upstream() -> None:
    line = Line()
    task = line.call(FakeCaller(ok, progress=2))
    await asyncio.sleep(0)
    await line.asks("q")
    await until(line.answers)
    await line.asks("r", params={})  # it gave no token, so it wants to hear nothing
    await until(lambda: len(line.answers()) == 2)
    task.cancel()
    progress = [{"progressToken": "theirs", "progress": step} for step in range(2)]
    assert [message["params"] for message in line.notices()] == progress


async def test_a_question_that_the_upstream_withdraws_is_withdrawn_from_the_client() -> None:
    line, caller = Line(), FakeCaller()
    task = line.call(caller)
    await asyncio.sleep(0)
    await line.asks("q")
    line.comes(method="notifications/cancelled", params={"requestId": "other"})
    line.comes(method="notifications/cancelled", params={"requestId": ["q"]})
    assert caller.given_up == 0
    line.comes(method="notifications/cancelled", params={"requestId": "q"})
    await until(lambda: caller.given_up)
    assert line.answers() == []
    task.cancel()


async def test_questions_are_bounded_and_end_with_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "MAX_OPEN", 2)
    line, caller = Line(), FakeCaller()
    task = line.call(caller)
    await asyncio.sleep(0)
    for number in (1, 1, 2, 3):
        await line.asks(number)
    refusal = {"code": -32603, "message": "too many questions are open"}
    assert [(message["id"], message["error"]) for message in line.answers()] == [(1, refusal), (3, refusal)]
    line.duplex.end("exited")
    assert await task == Silence("the upstream exited before it answered")
    await until(lambda: caller.given_up == 2)


async def test_while_the_client_is_asked_its_call_has_all_the_time() -> None:
    line = Line()
    task = line.call(FakeCaller(ok, after_s=0.4), timeout_s=0.15)
    other = line.call(timeout_s=0.15)
    await asyncio.sleep(0)
    await line.asks("q")
    await until(line.answers)
    assert other.done()
    assert not task.done()
    line.comes(id=1, result={})
    assert await task == ToolResult({})


async def test_after_the_question_the_time_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line()
    task = line.call(FakeCaller(ok, after_s=0.1), timeout_s=0.1)
    await asyncio.sleep(0)
    await line.asks("q")
    assert await task == Silence("no answer within 0.1 s")
    monkeypatch.setattr(calling, "MAX_HELD_S", 0.05)
    task = line.call(FakeCaller(), timeout_s=0.05)
    await asyncio.sleep(0)
    await line.asks("q")
    assert await task == Silence("no answer within 0.05 s")


async def test_a_call_that_the_client_cancelled_is_cancelled_and_its_answer_still_taken() -> None:
    line, caller = Line(), FakeCaller()
    task = line.call(caller)
    await asyncio.sleep(0)
    caller.withdrawal.say(cancelled=True)
    await until(line.notices)
    assert line.notices()[0]["params"]["requestId"] == 1
    line.comes(id=1, result={"done": "in part"})
    assert await task == ToolResult({"done": "in part"})


async def test_without_an_answer_the_cancelled_call_is_silent_and_a_late_one_is_handed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(two_way, "AFTER_CANCEL_S", 0.05)
    line, caller, late = Line(), FakeCaller(), list[Answer]()
    task = line.call(caller, late=late.append)
    await asyncio.sleep(0)
    caller.withdrawal.say(cancelled=True)
    assert await task == CANCELLED
    line.comes(id=1, result={})
    await until(lambda: late)
    assert late == [ToolResult({})]


@pytest.mark.parametrize("heeded", [True, False])
async def test_a_client_that_is_gone_ends_its_call_only_where_that_is_heeded(heeded: bool) -> None:  # noqa: FBT001
    line, caller = Line(), FakeCaller()
    task = line.call(caller, heed_loss=heeded)
    await asyncio.sleep(0)
    caller.withdrawal.say(cancelled=False)
    await asyncio.sleep(0.02)
    assert len(line.notices()) == int(heeded)
    line.comes(id=1, result={})
    assert await task == ToolResult({})
    assert caller.withdrawal.then is None


async def test_what_was_cancelled_before_it_was_sent_is_not_sent() -> None:
    line = Line()
    assert await line.call(FakeCaller(withdrawal=Withdrawal(said=True, gone=True))) == UNSENT
    assert line.written == []


async def test_progress_goes_to_its_call_with_its_numbers_as_they_are_and_to_none_when_that_is_over() -> None:
    line, caller = Line(), FakeCaller()
    task = line.call(caller)
    await asyncio.sleep(0)
    for step in (1, 2.0):
        line.comes(method="notifications/progress", params={"progressToken": 1, "progress": step, "vendor": None})
    line.comes(id=1, result={})
    await task
    for token in (1, "1", True, 9, None):
        line.comes(method="notifications/progress", params={"progressToken": token, "progress": 3})
    await asyncio.sleep(0.01)
    steps = [params["progress"] for params in caller.heard("notifications/progress")]
    assert (steps, [type(step) for step in steps]) == ([1, 2.0], [int, float])
    assert caller.told[0][1]["vendor"] is None
    assert line.calls.counts["stray_progress"] == 5
    assert line.told == []


async def test_what_was_told_comes_before_the_answer() -> None:
    line, caller = Line(), FakeCaller()
    task = line.call(caller)
    await asyncio.sleep(0)
    line.comes(method="notifications/message", params={"level": "info", "data": 1})
    line.comes(id=1, result={})
    task.add_done_callback(lambda _: caller.tell("answered", {}))
    await task
    await asyncio.sleep(0)
    assert [method for method, _ in caller.told] == ["notifications/message", "answered"]


async def test_what_belongs_to_no_call_is_told_and_changes_are_known_by_their_kind() -> None:
    line, caller = Line(), FakeCaller()
    task = line.call(caller)
    await asyncio.sleep(0)
    line.comes(method="notifications/resources/updated", params={"uri": "a"})
    line.comes(method="notifications/elicitation/complete", params={"elicitationId": "e"})
    line.comes(method="notifications/resources/list_changed")
    line.comes(method="notifications/prompts/list_changed")
    await asyncio.sleep(0.01)
    task.cancel()
    complete = ("notifications/elicitation/complete", {"elicitationId": "e"})
    assert line.told == [("notifications/resources/updated", {"uri": "a"}), complete]
    assert line.changed == ["resources", "resourceTemplates", "prompts"]
    assert caller.told == []


async def test_what_nobody_knows_goes_with_the_call_under_way_where_only_one_party_calls() -> None:
    for modern in (False, True):
        line, caller = Line(modern=modern), FakeCaller(log_level="debug")
        line.comes(method="vendor/new", params={"before": None})
        task = line.call(caller)
        await asyncio.sleep(0)
        line.comes(method="vendor/new", params={"a": None})
        await asyncio.sleep(0.01)
        task.cancel()
        before, during = ("vendor/new", {"before": None}), ("vendor/new", {"a": None})
        assert (line.told, caller.told) == (([before, during], []) if modern else ([before], [during]))


async def test_what_comes_of_a_subscription_goes_to_its_stream_and_of_a_closed_one_to_nobody() -> None:
    line, heard = Line(modern=True), list[tuple[str, Mapping[str, Any]]]()
    call = line.calls.open(Ask("subscriptions/listen", {}, 5), hears=lambda *what: heard.append(what))
    about: list[Any] = [call.id, call.id + 1, "1", None]
    for subscription in about:
        meta = {"io.modelcontextprotocol/subscriptionId": subscription}
        line.comes(method="notifications/resources/updated", params={"uri": "a", "_meta": meta})
    line.calls.close(call)
    line.comes(method="notifications/resources/updated", params={"uri": "a", "_meta": {about[0]: 1}})
    await asyncio.sleep(0.01)
    assert [params["_meta"] for _, params in heard] == [{"io.modelcontextprotocol/subscriptionId": call.id}]
    assert [params["_meta"] for _, params in line.told] == [{"io.modelcontextprotocol/subscriptionId": None}, {"1": 1}]
    assert line.calls.counts["stray_events"] == 2


async def test_in_the_newer_era_nothing_is_asked_and_no_log_is_told_to_the_wrong_one() -> None:
    line, one, other = Line(modern=True), FakeCaller(ok, log_level="info"), FakeCaller(key="q")
    tasks = [line.call(one), line.call(other)]
    await asyncio.sleep(0)
    await line.asks("q")
    assert line.answers()[0]["error"]["code"] == -32601
    line.comes(method="notifications/message", params={"level": "info", "data": 1})
    await asyncio.sleep(0)
    other.log_level = "debug"
    line.comes(method="notifications/message", params={"level": "info", "data": 2})
    await asyncio.sleep(0.01)
    assert [params["data"] for params in one.heard("notifications/message")] == [1]
    assert other.told == []
    assert line.calls.counts["stray_logs"] == 1
    for task in tasks:
        task.cancel()


async def test_a_number_that_nobody_can_read_ends_its_call_at_once() -> None:
    line = Line()
    task = line.call()
    await asyncio.sleep(0)
    line.duplex.take(b'{"jsonrpc":"2.0","result":{"a":' + b"9" * 5000 + b'},"id":1}')
    assert await task == Silence("the answer is not valid: a number has more digits than 4300")


async def test_errors_arrive_as_they_were_sent() -> None:
    error = {"code": -32000, "message": "no", "data": None, "vendor": {"a": 1.0}}
    line = Line()
    task = line.call()
    await asyncio.sleep(0)
    line.comes(id=1, error=error)
    said = await task
    assert isinstance(said, ProtocolError)
    assert said.error == error
    assert list(said.error) == list(error)


async def test_a_call_in_want_of_room_is_not_sent_when_its_client_is_gone() -> None:
    line, caller, room = Line(), FakeCaller(), asyncio.Event()
    full = Duplex(line.calls, write=line.write, has_room=room.is_set, room=lambda: asyncio.sleep(0.01))
    call = line.calls.open(Ask("tools/call", {}, 5.0, heed_loss=True), caller)
    task = asyncio.get_running_loop().create_task(carry(call, full))
    await asyncio.sleep(0.02)
    caller.withdrawal.say(cancelled=False)
    room.set()
    assert await task == UNSENT
    room.clear()
    said = await carry(line.calls.open(Ask("tools/call", {}, 0.05)), full)
    assert said == NotSent("the upstream took no input within 0.05 s")
