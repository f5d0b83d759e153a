from typing import Any

import anyio
import pytest

from gateway.model.tool import Answer, InputRequired, NotSent, ProtocolError, Silence, TaskStarted, Tool, ToolResult
from gateway.outbound.upstream import duplex
from gateway.outbound.upstream.spec import Patience, StdioSpec
from gateway.ports import Dispatch
from tests.upstream.faults import QUICK, Faults, call, opened, said, until

ARGUMENTS = {"one": 1, "one point": 1.0, "big": 2**70, "text": "é\u2028\n", "none": None, "deep": {"a": [True]}}

ANSWERS: list[tuple[str, Answer]] = [
    ("is_error", ToolResult({"content": [{"type": "text", "text": "it did not work"}], "isError": True})),
    ("rpc_error", ProtocolError({"code": -32000, "message": "no", "data": {"why": ["because"]}})),
    ("nothing_like_it", ProtocolError({"code": -32602, "message": "Unknown tool: nothing_like_it"})),
    ("input_required", InputRequired({"resultType": "input_required", "requestState": "sealed"})),
    ("task", TaskStarted({"resultType": "task", "taskId": "t1", "status": "working"})),
    ("odd_type", Silence("the answer is of the unknown result type `riddle`")),
    ("tell", said("told")),
    ("garbage", said("after the garbage")),
    ("huge_line", said("short")),
    ("twice", said("first")),
    ("wrong_id", Silence("no answer within 0.5 s")),
    ("text_id", Silence("no answer within 0.5 s")),
    ("null_id", Silence("no answer within 0.5 s")),
    ("silent", Silence("no answer within 0.5 s")),
    ("duplicate_keys", Silence("the answer is not valid: the key `isError` stands twice in one object")),
    ("nan", Silence("the answer is not valid: `NaN` is not JSON")),
    ("no_object", Silence("the answer is not valid: the result is not an object")),
    ("exit", Silence("the upstream exited with status 3 before it answered")),
]


async def test_each_fault_ends_in_its_answer_and_harms_no_other_call(faults: Faults) -> None:
    async with opened(faults.stdio()) as catalogue:
        for name, answer in ANSWERS:
            timeout_s = 0.5 if answer == Silence("no answer within 0.5 s") else 10.0
            dispatch = Dispatch(Tool(name, "f", name, {}), {}, timeout_s)
            assert (name, await catalogue.call(dispatch)) == (name, answer)
        await until(catalogue, "echo", healthy=False)
        counts = catalogue.health()["f"]["counts"]
    assert (counts["malformed"], counts["unsolicited"], counts["timed_out"]) == (10, 4, 4)


async def test_arguments_and_results_pass_unchanged(faults: Faults) -> None:
    async with opened(faults.stdio()) as catalogue:
        answer = await call(catalogue, "echo", ARGUMENTS, meta={"traceparent": "00-1"})
    assert isinstance(answer, ToolResult)
    assert answer.result["structuredContent"] == ARGUMENTS
    assert [type(value) for value in answer.result["structuredContent"].values()][:3] == [int, float, int]
    assert answer.result["vendor"] == {"kept": None}
    assert faults.entries("meta") == [{"traceparent": "00-1"}]


@pytest.mark.parametrize("size", [10, 16])
async def test_a_line_may_have_many_megabytes(faults: Faults, size: int) -> None:
    async with opened(faults.stdio()) as catalogue:
        answer = await call(catalogue, "big", {"bytes": size * 2**20})
    assert isinstance(answer, ToolResult)
    assert len(answer.result["content"][0]["text"]) == size * 2**20


async def test_the_reader_goes_on_whatever_the_upstream_asks_or_tells(faults: Faults) -> None:
    told: list[Any] = []
    async with opened(faults.stdio(), on_notification=lambda *what: told.append(what)) as catalogue:
        await call(catalogue, "tell")
        await call(catalogue, "echo")  # when this is answered, our replies have been read
        assert catalogue.health()["f"]["counts"]["stray_progress"] == 1  # nobody asked for any
    assert told == [("f", "notifications/message", {"level": "info", "data": "hello"})]
    refusal = {"code": -32601, "message": "Method not found: sampling/createMessage"}
    assert faults.entries("response") == [
        {"jsonrpc": "2.0", "id": "s1", "result": {}},
        {"jsonrpc": "2.0", "id": 7, "error": refusal},
    ]


async def test_who_dies_takes_its_open_calls_with_it_and_no_call_is_sent_twice(faults: Faults) -> None:
    answers: list[Answer] = []

    async def ask(tool: str) -> None:
        answers.append(await call(catalogue, tool))

    async with opened(faults.stdio()) as catalogue:
        async with anyio.create_task_group() as calls:
            calls.start_soon(ask, "silent")
            await anyio.sleep(0.05)
            calls.start_soon(ask, "exit")
        await until(catalogue, "echo", healthy=True)
        assert isinstance(await call(catalogue, "echo"), ToolResult)
    assert answers == [Silence("the upstream exited with status 3 before it answered")] * 2
    assert faults.entries("tool") == ["silent", "exit", "echo"]
    assert len(faults.entries("started")) == 2


async def test_while_it_is_down_nothing_is_sent(faults: Faults) -> None:
    async with opened(faults.stdio(), patience=Patience(first_pause_s=60, last_pause_s=60)) as catalogue:
        await call(catalogue, "exit", {"status": 9})
        assert await call(catalogue, "echo") == NotSent("the upstream exited with status 9")
        tool = await until(catalogue, "echo", healthy=False)
        assert tool.trouble == "it exited with status 9"
        assert await call(catalogue, "echo") == NotSent("the upstream `f` is not there: it exited with status 9")
    assert faults.entries("tool") == ["exit"]


async def test_an_answer_after_its_time_is_handed_on_once(faults: Faults) -> None:
    late: list[Answer] = []
    async with opened(faults.stdio()) as catalogue:
        answer = await call(catalogue, "late", {"after_s": 0.3}, timeout_s=0.05, late=late.append)
        assert answer == Silence("no answer within 0.05 s")
        assert isinstance(await call(catalogue, "echo", late=late.append), ToolResult)
        while not late:
            await anyio.sleep(0.01)
        assert catalogue.health()["f"]["counts"]["late"] == 1
    assert late == [said("late")]


async def test_answers_that_are_hoped_for_are_bounded(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplex, "MAX_LATE", 1)
    late: list[Answer] = []
    async with opened(faults.stdio()) as catalogue:
        for after_s in (0.2, 0.4):
            await call(catalogue, "late", {"after_s": after_s}, timeout_s=0.05, late=late.append)
        while not late:
            await anyio.sleep(0.01)
        assert catalogue.health()["f"]["counts"]["unsolicited"] == 1
    assert late == [said("late")]


async def test_a_call_that_timed_out_is_not_cancelled_and_one_that_was_given_up_is(faults: Faults) -> None:
    async with opened(faults.stdio()) as catalogue:
        await call(catalogue, "silent", timeout_s=0.05)
        async with anyio.create_task_group() as calls:
            calls.start_soon(call, catalogue, "silent")
            while len(faults.entries("tool")) < 2:
                await anyio.sleep(0.01)
            calls.cancel_scope.cancel()
        assert isinstance(await call(catalogue, "echo"), ToolResult)
    told = [entry for entry in faults.entries("params") if entry]
    assert told == [{"requestId": faults.entries("call")[1], "reason": "the caller went away"}]


async def test_an_upstream_that_does_not_read_is_sent_nothing(faults: Faults) -> None:
    async with opened(faults.stdio()) as catalogue:
        await call(catalogue, "deaf")
        arguments = {"text": "x" * 500_000}
        assert await call(catalogue, "echo", arguments, 0.1) == Silence("no answer within 0.1 s")
        assert await call(catalogue, "echo", arguments, 0.1) == NotSent("the upstream took no input within 0.1 s")
        async with anyio.create_task_group() as calls:
            answers: list[Answer] = []

            async def ask() -> None:
                answers.append(await call(catalogue, "echo", arguments))

            calls.start_soon(ask)
            await anyio.sleep(0.05)
            await catalogue.close()
    assert answers == [NotSent("the upstream takes no input any more")]
    assert faults.entries("tool") == ["deaf"]


@pytest.mark.parametrize(
    ("era", "start", "agreed"),
    [
        ("legacy", "", "2025-11-25"),
        ("both", "", "2026-07-28"),
        ("modern", "", "2026-07-28"),
        ("legacy", "shy", "2025-11-25"),
    ],
)
async def test_the_newest_common_era_is_spoken(faults: Faults, era: str, start: str, agreed: str) -> None:
    async with opened(faults.stdio(era=era, start=start)) as catalogue:
        health = catalogue.health()["f"]
        assert isinstance(await call(catalogue, "echo"), ToolResult)
    assert (health["state"], health["protocol_version"]) == ("healthy", agreed)
    assert health["server"] == {"name": "faults", "version": "1"}


async def test_a_server_that_once_exited_when_it_was_probed_is_not_probed_again(faults: Faults) -> None:
    async with opened(faults.stdio(start="shy")) as catalogue:
        await call(catalogue, "exit")
        await until(catalogue, "echo", healthy=False)
        await until(catalogue, "echo", healthy=True)
    assert len(faults.entries("started")) == 3


async def test_a_server_of_the_newer_era_alone_is_found_when_its_probe_was_missed(faults: Faults) -> None:
    patience = Patience(start_s=10.0, probe_s=0.001)
    async with opened(faults.stdio(era="modern"), patience=patience) as catalogue:
        assert catalogue.health()["f"]["era"] == "modern"


@pytest.mark.parametrize(
    ("start", "trouble"),
    [
        ("exit", "initialize failed: the upstream exited with status 1"),
        pytest.param("hang", "it did not come up within 0.5 s", marks=pytest.mark.slow),
    ],
)
async def test_who_does_not_come_up_is_tried_again_and_nothing_is_left_of_it(
    faults: Faults, start: str, trouble: str
) -> None:
    patience = Patience(start_s=0.5, probe_s=0.2, first_pause_s=0.01, last_pause_s=0.01)
    async with opened(faults.stdio(start=start), patience=patience) as catalogue:
        tool = await catalogue.tool("echo")
        assert tool is not None
        assert (tool.healthy, tool.definition) == (False, {})
        assert tool.trouble in {trouble, trouble + " before it answered"}
        while len(faults.entries("started")) < (2 if start == "hang" else 4):
            await anyio.sleep(0.01)


async def test_what_cannot_be_started_says_why(faults: Faults) -> None:
    async with opened(StdioSpec("x", "/nowhere/to/be/found"), faults.stdio(), prefix=True) as catalogue:
        health = catalogue.health()["x"]
        assert isinstance(await call(catalogue, "f__echo"), ToolResult)
    assert health["reason"] == "`/nowhere/to/be/found` cannot be started: no such file or directory"


@pytest.mark.parametrize(
    "start", ["stubborn", pytest.param("brood", marks=pytest.mark.slow), pytest.param("hang", marks=pytest.mark.slow)]
)
async def test_every_end_is_within_three_seconds_and_leaves_nothing(faults: Faults, start: str) -> None:
    specs = [faults.stdio(f"f{number}", start=start) for number in range(4)]
    patience = Patience(start_s=1.0, probe_s=0.5, first_pause_s=0.01)
    async with opened(*specs, prefix=True, patience=patience) as catalogue:
        begun = anyio.current_time()
        await catalogue.close()
        assert anyio.current_time() - begun < 3


async def test_a_child_sees_only_what_it_is_given(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_SECRET", "canary")
    monkeypatch.setenv("LC_TIME", "C")
    async with opened(faults.stdio(GIVEN="yes")) as catalogue:
        answer = await call(catalogue, "pids")
    assert isinstance(answer, ToolResult)
    seen = answer.result["structuredContent"]["env"]
    assert (seen.get("GIVEN"), seen.get("LC_TIME"), seen.get("OUR_SECRET")) == ("yes", "C", None)


async def test_a_thousand_calls_at_once_get_their_own_answers(faults: Faults) -> None:
    wrong: list[object] = []

    async def ask(number: int) -> None:
        answer = await call(catalogue, "echo", {"n": number})
        if not isinstance(answer, ToolResult) or answer.result["structuredContent"] != {"n": number}:
            wrong.append(answer)

    async with opened(faults.stdio(), patience=QUICK) as catalogue, anyio.create_task_group() as calls:
        for number in range(1000):
            calls.start_soon(ask, number)
    assert wrong == []
