import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from gateway.model.tool import Answer, InputRequired, NotSent, ProtocolError, Silence, TaskStarted, Tool, ToolResult
from gateway.outbound.upstream import http
from gateway.outbound.upstream.calls import Calls
from gateway.outbound.upstream.http import HttpConnection
from gateway.outbound.upstream.negotiate import Client
from gateway.outbound.upstream.spec import HttpSpec, Patience
from gateway.outbound.upstream.wire import Ask
from gateway.ports import Dispatch
from tests.upstream.faults import Faults, call, opened, said, until

ARGUMENTS = {"one": 1, "one point": 1.0, "big": 2**70, "text": "é\u2028\n", "none": None, "deep": {"a": [True]}}
SESSION_ERROR = ProtocolError({"code": -32602, "message": "bad session id"})

ANSWERS: list[tuple[str, dict[str, Any], Answer]] = [
    ("is_error", {}, ToolResult({"content": [{"type": "text", "text": "it did not work"}], "isError": True})),
    ("rpc_error", {}, ProtocolError({"code": -32000, "message": "no", "data": {"why": ["because"]}})),
    ("nothing_like_it", {}, ProtocolError({"code": -32602, "message": "Unknown tool: nothing_like_it"})),
    ("input_required", {}, InputRequired({"resultType": "input_required", "requestState": "sealed"})),
    ("task", {}, TaskStarted({"resultType": "task", "taskId": "t1", "status": "working"})),
    ("odd_type", {}, Silence("the answer is of the unknown result type `riddle`")),
    ("tell", {}, said("told")),
    ("garbage", {}, said("after the garbage")),
    ("twice", {}, said("first")),
    ("wrong_id", {}, Silence("the answer carries the id of another call")),
    ("text_id", {}, Silence("the answer carries the id of another call")),
    ("duplicate_keys", {}, Silence("the answer is not valid: the key `isError` stands twice in one object")),
    ("nan", {}, Silence("the answer is not valid: `NaN` is not JSON")),
    ("question", {}, Silence("it answered with a message that is no answer")),
    ("half_event", {}, Silence("the stream ended without an answer")),
    ("nan_event", {}, Silence("the answer is not valid: `NaN` is not JSON")),
    ("events", {}, ToolResult({"content": []})),
    ("hang_up", {}, Silence("the answer was not read: it was closed")),
    ("cut_off", {}, Silence("the answer was not read: it was cut off")),
    ("huge", {}, Silence("the answer was not read: the answer is larger than 67108864 bytes")),
    ("gzip", {}, Silence("the answer is encoded as `gzip`, which was not asked for")),
    ("redirect", {}, Silence("it answered with a redirect (status 307), which is not followed")),
    (
        "wrong_type",
        {},
        Silence("it answered with status 200 and the content type `text/html`, which is no answer to a call"),
    ),
    (
        "accepted",
        {},
        Silence("it answered with status 202 and the content type `text/plain`, which is no answer to a call"),
    ),
    ("status", {"status": 500}, Silence("it answered with status 500 and without a JSON-RPC message")),
    (
        "status",
        {"status": 401},
        NotSent("the upstream refused the call with status 401: it wants other credentials", refused=True),
    ),
    ("status", {"status": 500, "id": "ours"}, SESSION_ERROR),
    ("status", {"status": 401, "id": "text"}, SESSION_ERROR),
]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_each_fault_ends_in_its_answer_and_harms_no_other_call(faults: Faults, era: str) -> None:
    with faults.http(era=era) as spec:
        async with opened(spec) as catalogue:
            for name, arguments, answer in ANSWERS:
                dispatch = Dispatch(Tool(name, "f", name, {}), arguments, 10.0)
                assert (name, await catalogue.call(dispatch)) == (name, answer)
            assert isinstance(await call(catalogue, "echo"), ToolResult)
            health = catalogue.health()["f"]
    assert health["era"] == era
    assert (health["counts"]["malformed"], health["counts"]["unsolicited"]) == (10, 5)
    assert "restarts" not in health["counts"]


async def test_many_failing_calls_at_once_harm_none_that_is_good(faults: Faults) -> None:
    good: list[Answer] = []

    async def ask(name: str, arguments: dict[str, Any]) -> None:
        answer = await call(catalogue, name, arguments)
        if name == "echo":
            good.append(answer)

    with faults.http() as spec:
        async with opened(spec) as catalogue, anyio.create_task_group() as calls:
            for number in range(20):
                calls.start_soon(ask, "echo", {"n": number})
                for name in ("hang_up", "half_event", "wrong_id", "nan"):
                    calls.start_soon(ask, name, {})
    assert len(good) == 20
    assert all(isinstance(answer, ToolResult) for answer in good)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_arguments_and_results_pass_unchanged(faults: Faults, era: str) -> None:
    with faults.http(era=era, Authorization="Bearer ours") as spec:
        async with opened(spec) as catalogue:
            theirs = {"authorization": "Bearer theirs", "traceparent": "00-1", "mcp-method": "theirs"}
            answer = await call(catalogue, "echo", ARGUMENTS, headers=theirs, meta={"a": 1})
            bad = await call(catalogue, "echo", headers={"X-Key": "1\r\nX-Other: 2"})
    assert bad == NotSent("the header `X-Key` cannot be sent")
    assert isinstance(answer, ToolResult)
    assert answer.result["structuredContent"] == ARGUMENTS
    assert [type(value) for value in answer.result["structuredContent"].values()][:3] == [int, float, int]
    assert answer.result["vendor"] == {"kept": None}
    assert faults.entries("meta")[0]["a"] == 1
    sent = next(
        headers
        for method, headers in zip(faults.entries("method"), faults.entries("headers"), strict=True)
        if method == "tools/call"
    )
    said_here = {
        name: sent.get(name) for name in ("authorization", "traceparent", "mcp-method", "mcp-name", "accept-encoding")
    }
    named = {"mcp-method": "tools/call", "mcp-name": "echo"} if era == "modern" else {"mcp-method": "theirs"}
    assert said_here == {
        "authorization": "Bearer ours",
        "traceparent": "00-1",
        "mcp-name": None,
        "accept-encoding": "identity",
        **named,
    }


@pytest.mark.parametrize(
    ("tool", "arguments", "size"), [("big", {"bytes": 10 * 2**20}, 10 * 2**20), ("big_event", {}, 1_200_000)]
)
async def test_an_answer_may_have_many_megabytes(
    faults: Faults, tool: str, arguments: dict[str, Any], size: int
) -> None:
    with faults.http() as spec:
        async with opened(spec) as catalogue:
            answer = await call(catalogue, tool, arguments)
            assert isinstance(answer, ToolResult)
            text = answer.result["big"] if tool == "big_event" else answer.result["content"][0]["text"]
            assert len(text) == size
            echoed = await call(catalogue, "echo", {"text": text})  # and so may a call
            assert isinstance(echoed, ToolResult)
            assert echoed.result["structuredContent"] == {"text": text}


async def test_what_else_is_on_the_stream_is_heard_and_questions_are_answered(faults: Faults) -> None:
    told: list[Any] = []
    with faults.http() as spec:
        async with opened(spec, on_notification=lambda *what: told.append(what)) as catalogue:
            await call(catalogue, "tell")
            while len(faults.entries("response")) < 2:
                await anyio.sleep(0.01)
        assert catalogue.health()["f"]["counts"]["stray_progress"] == 1  # nobody asked for any
    assert told == [("f", "notifications/message", {"level": "info", "data": "hello"})]
    refusal = {"code": -32601, "message": "Method not found: sampling/createMessage"}
    assert sorted(faults.entries("response"), key=str) == [
        {"jsonrpc": "2.0", "id": "s1", "result": {}},
        {"jsonrpc": "2.0", "id": 7, "error": refusal},
    ]


async def test_a_flood_of_questions_is_not_a_flood_of_answers(faults: Faults) -> None:
    with faults.http() as spec:
        async with opened(spec) as catalogue:
            assert isinstance(await call(catalogue, "pings", {"count": 5000}), ToolResult)
            assert catalogue.health()["f"]["counts"]["unsaid"] > 4000


async def test_who_forgot_our_session_is_asked_for_another_and_the_call_runs_once(faults: Faults) -> None:
    answers: list[Answer] = []

    async def ask() -> None:
        answers.append(await call(catalogue, "echo"))

    with faults.http() as spec:
        async with opened(spec) as catalogue:
            await call(catalogue, "forget")
            async with anyio.create_task_group() as calls:
                for _ in range(5):
                    calls.start_soon(ask)
            assert "restarts" not in catalogue.health()["f"]["counts"]
    assert all(isinstance(answer, ToolResult) for answer in answers)
    assert faults.entries("tool") == ["forget", *["echo"] * 5]
    assert faults.entries("asked").count("initialize") == 2
    assert faults.entries("deleted") == [True]


@pytest.mark.parametrize("version", ["2025-06-18", "2099-01-01"])
async def test_who_forgot_our_session_and_is_another_now_is_not_sent_the_call(faults: Faults, version: str) -> None:
    with faults.http() as spec:
        async with opened(spec) as catalogue:
            await call(catalogue, "forget", {"protocolVersion": version})
            assert await call(catalogue, "echo") == NotSent("the upstream had forgotten our session")
            await until(catalogue, "echo", healthy=False)
            if version == "2025-06-18":
                await until(catalogue, "echo", healthy=True)
                assert isinstance(await call(catalogue, "echo"), ToolResult)
    assert faults.entries("tool") == (["forget", "echo"] if version == "2025-06-18" else ["forget"])


def calls() -> Calls:
    return Calls("f", Counter(), told=lambda *_: None, changed=lambda _: None)


async def test_an_answer_is_there_though_its_stream_stays_open(faults: Faults) -> None:
    with faults.http() as spec:
        async with opened(spec) as catalogue:
            assert await call(catalogue, "open_end", timeout_s=5) == ToolResult({})


async def test_a_question_that_is_no_call_is_not_read_on_after_its_time(faults: Faults) -> None:
    with faults.http(era="modern") as spec, anyio.fail_after(10):
        connection = HttpConnection(spec, Client("c", "1"), Patience(), calls())
        answer = await connection.ask(Ask("silence", {}, 0.2, "2026-07-28"))
        assert not connection._late
        await connection.close()
    assert answer == Silence("no answer within 0.2 s")


async def test_a_call_is_sent_twice_at_most(faults: Faults) -> None:
    with faults.http() as spec:
        async with opened(spec) as catalogue:
            answer = await call(catalogue, "session_404")
    assert answer == NotSent("the upstream does not know the session that it has just given")
    assert faults.entries("tool") == ["session_404"] * 2


async def test_a_404_about_this_very_call_is_its_answer(faults: Faults) -> None:
    with faults.http() as spec:
        async with opened(spec) as catalogue:
            assert await call(catalogue, "our_404") == ProtocolError({"code": -32001, "message": "Session not found"})
            await until(catalogue, "echo", healthy=False)
            await until(catalogue, "echo", healthy=True)
    assert faults.entries("tool") == ["our_404"]
    assert faults.entries("asked").count("initialize") == 2


async def test_who_changed_its_version_is_negotiated_with_again(faults: Faults) -> None:
    with faults.http(era="modern") as spec:
        async with opened(spec) as catalogue:
            answer = await call(catalogue, "status", {"status": 400, "id": "ours", "code": -32022})
            assert isinstance(answer, ProtocolError)
            tool = await until(catalogue, "echo", healthy=False)
            await until(catalogue, "echo", healthy=True)
    assert tool.trouble == "it speaks another protocol version now"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_an_answer_after_its_time_is_handed_on_once(faults: Faults, era: str) -> None:
    late: list[Answer] = []
    with faults.http(era=era) as spec:
        async with opened(spec) as catalogue:
            answer = await call(catalogue, "late", {"after_s": 0.3}, timeout_s=0.05, late=late.append)
            assert answer == Silence("no answer within 0.05 s")
            assert await call(catalogue, "hang_up", timeout_s=5, late=late.append) != answer
            while not late:
                await anyio.sleep(0.01)
            assert catalogue.health()["f"]["counts"]["late"] == 1
    assert late == [said("late")]


async def test_what_comes_late_and_is_no_answer_is_not_handed_on(faults: Faults) -> None:
    late: list[Answer] = []
    with faults.http() as spec:
        async with opened(spec) as catalogue:
            assert isinstance(await call(catalogue, "silent", timeout_s=0.05, late=late.append), Silence)
    assert late == []


async def test_a_call_that_was_given_up_is_cancelled_and_its_siblings_are_not(faults: Faults) -> None:
    answers: list[Answer] = []

    async def ask() -> None:
        answers.append(await call(catalogue, "late", {"after_s": 0.5}))

    with faults.http() as spec:
        async with opened(spec) as catalogue, anyio.create_task_group() as siblings:
            siblings.start_soon(ask)
            async with anyio.create_task_group() as calls:
                calls.start_soon(call, catalogue, "silent")
                while "silent" not in faults.entries("tool"):
                    await anyio.sleep(0.01)
                calls.cancel_scope.cancel()
            while not any(faults.entries("params")):
                await anyio.sleep(0.01)
    given_up = faults.entries("call")[faults.entries("tool").index("silent")]
    assert [entry for entry in faults.entries("params") if entry] == [
        {"requestId": given_up, "reason": "the caller went away"}
    ]
    assert answers == [said("late")]


async def test_who_is_not_there_was_sent_nothing_and_is_back_when_it_is(faults: Faults) -> None:
    with faults.http() as spec:
        async with opened(HttpSpec("gone", "http://127.0.0.1:9/mcp"), spec, prefix=True) as catalogue:
            reason = "the upstream cannot be reached: connection refused"
            assert catalogue.health()["gone"]["reason"] == reason
            assert await call(catalogue, "gone__x") == NotSent(f"the upstream `gone` is not there: {reason}")
            assert isinstance(await call(catalogue, "f__echo"), ToolResult)
            tool = await catalogue.tool("f__echo")
            assert tool is not None
            assert tool.headers


async def test_who_went_away_is_unhealthy_from_the_first_call_that_found_nobody(faults: Faults) -> None:
    with ExitStack() as server:
        spec = server.enter_context(faults.http())
        async with opened(spec) as catalogue:
            assert isinstance(await call(catalogue, "echo"), ToolResult)
            server.close()
            await anyio.sleep(0.05)  # the end of the old connection arrives
            assert await call(catalogue, "echo") == NotSent("the upstream cannot be reached: connection refused")
            tool = await until(catalogue, "echo", healthy=False)
            assert tool.trouble == "it cannot be reached: connection refused"
            server.enter_context(faults.http(port=urlsplit(spec.url).port or 0))
            await until(catalogue, "echo", healthy=True)
            assert isinstance(await call(catalogue, "echo"), ToolResult)
    assert faults.entries("tool") == ["echo", "echo"]


@contextmanager
def full() -> Iterator[str]:
    """An address where connections are neither accepted nor refused."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address = server.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(address)
        try:
            yield f"http://127.0.0.1:{address[1]}/mcp"
        finally:
            for client in waiting:
                client.close()


async def test_without_a_connection_in_time_nothing_was_sent() -> None:
    patience = Patience(connect_s=0.3, start_s=5.0, first_pause_s=30)
    with full() as url:
        async with opened(HttpSpec("full", url), patience=patience) as catalogue:
            reason = "the upstream cannot be reached: there was no connection in time"
            assert catalogue.health()["full"]["reason"] == reason


async def test_a_deadline_before_there_is_a_connection_is_a_known_nothing() -> None:
    with full() as url, anyio.fail_after(10):
        connection = HttpConnection(HttpSpec("full", url), Client("c", "1"), Patience(connect_s=5.0), calls())
        answer = await connection.ask(Ask("tools/call", {}, 0.1, "2026-07-28"))
        await connection.close()
    assert answer == NotSent("there was no connection within 0.1 s")


async def test_whoever_waits_when_all_is_closed_is_told_so(faults: Faults) -> None:
    answers: list[Answer] = []

    async def ask() -> None:
        answers.append(await call(catalogue, "silent"))

    with faults.http() as spec:
        async with opened(spec) as catalogue, anyio.create_task_group() as calls:
            calls.start_soon(ask)
            while not faults.entries("tool"):
                await anyio.sleep(0.01)
            await catalogue.close()
    assert answers == [Silence("the connection was closed before the answer came")]


async def test_calls_that_are_read_on_after_their_time_are_bounded(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_LATE", 1)
    late: list[Answer] = []
    with faults.http() as spec:
        async with opened(spec) as catalogue:
            await call(catalogue, "late", {"after_s": 0.3}, timeout_s=0.05, late=late.append)
            await call(catalogue, "late", {"after_s": 0.3}, timeout_s=0.05, late=late.append)
            while not late:
                await anyio.sleep(0.01)
            await call(catalogue, "echo")
    assert late == [said("late")]
