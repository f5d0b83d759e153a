"""Results over a policy's size: recorded whole, told in part, and nothing goes missing without a word."""

import base64
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.schema import violations
from gateway.model.artifact import Artifact
from gateway.model.canonical import canonical, parse
from gateway.model.events import OutcomeDelivered
from gateway.model.tool import ProtocolError, ToolResult
from gateway.runtime.bounds import bounded
from gateway.runtime.costs import Wanted, costs_of
from tests import world
from tests.runtime.bounding import CITED, MOST, SCHEMA, STRICT, TEXT, bounding, read, read_all, result, size, text_of
from tests.runtime.house import outcome

# --- what is told -----------------------------------------------------------------------------------------------------


async def test_what_keeps_the_bound_is_told_as_it_came_and_so_is_all_where_policy_says_none() -> None:
    small = result("x" * (MOST - 100), structuredContent={"n": 1.0}, _meta={"of/theirs": None})
    for rule, answers in (({"max_bytes": MOST}, [small]), ({}, [small, result()])):
        async with bounding(result=rule) as it:
            it.upstreams.will("read", *answers)
            for answer in answers:
                shown = await it.call("read")
                assert repr(shown.result) == repr(answer.result)
                assert shown.record is not None
                assert "bounded" not in shown.record
            assert not [one for one, _ in await it.ledger.read("run_1") if isinstance(one.event, OutcomeDelivered)]


async def test_of_what_is_larger_head_and_tail_are_told_and_all_of_it_is_recorded_and_can_be_read() -> None:
    async with bounding() as it:
        it.upstreams.will("read", result())
        shown = await it.call("read")
        assert size(shown) <= MOST
        told = text_of(shown)
        mark = re.search(r"\[counterfoil: bytes (\d+) to (\d+) of (\d+) are left out here\. [^\n]*\]\n", told)
        assert mark is not None
        start, end, of = map(int, mark.groups())
        assert of == len(TEXT.encode())
        assert told[: mark.start()].encode() == TEXT.encode()[:start]
        assert told[mark.end() :].encode() == TEXT.encode()[end:]
        assert told[: mark.start()].endswith("\n")  # between lines
        assert shown.record is not None
        label = shown.record["bounded"]
        assert label["bytes"] == size(shown)
        attempt = (await it.book.state_of("run_1")).attempts[shown.attempt or ""]
        assert (label["digest"], label["artifact"]) == (attempt.result, f"gateway://artifact/{attempt.id}")
        assert parse(await it.ledger.payload(attempt.result)) == result().result
        assert shown.result is not None
        uri = shown.result["content"][1]["uri"]
        assert await read_all(it, uri) == TEXT.encode()
        assert parse(await read_all(it, label["artifact"])) == result().result
        again = re.search(r"read on at (\S+)\]", told)
        assert again is not None
        assert (await read(it, again[1])).start == start


@given(st.text(max_size=6_000), st.integers(2_048, 5_000))
def test_whatever_the_text_what_is_left_of_it_is_its_beginning_and_its_end(text: str, most: int) -> None:
    text += "é\n" * 3_000
    got = bounded(result(text).result, most, Artifact("run_1.2"), CITED, None)
    assert got is not None
    told, label = got
    (out,) = label["bounded"]["left_out"]
    head, tail = text.encode()[: out["from"]].decode(), text.encode()[out["to"] :].decode()
    assert told["content"][0]["text"].startswith(head)
    assert told["content"][0]["text"].endswith(tail)
    assert len(canonical(told)) <= most


BLOB = base64.b64encode(bytes(range(256)) * 400).decode()


LONG = "x" * 100_000


@pytest.mark.parametrize(
    "answer",
    [
        *(
            {"content": [block, {"type": "text", "text": "short"}]}
            for block in (
                {"type": "text", "text": "a", "more": LONG},
                {"type": "text", "text": LONG, "_meta": {"more": LONG}},
                {"type": "text", "text": "a", "annotations": {"audience": [LONG]}},
                {"type": "resource", "resource": {"uri": LONG, "text": "a"}},
                {"type": "resource", "resource": {"uri": "x:y", "text": "a", "blob": LONG}},
                {"type": "image", "data": LONG, "mimeType": LONG},
                {"type": "resource_link", "uri": "x:y", "name": LONG},
                {"type": LONG},
                LONG,
            )
        ),
        {"content": LONG},
        {"content": {"type": LONG}},
        {"content": [], "more": LONG},
        {"content": [], "isError": LONG},
        {"content": [], LONG: 1},
    ],
)
async def test_a_server_puts_its_words_nowhere_beyond_the_bound(answer: dict[str, Any]) -> None:
    async with bounding() as it:
        it.upstreams.will("read", ToolResult(answer))
        shown = await it.call("read")
        assert size(shown) <= MOST
        label = (shown.record or {})["bounded"]
        assert label["left_out"]
        assert len(repr(label)) < MOST
        assert parse(await read_all(it, label["artifact"])) == answer
        it.upstreams.will("read", ProtocolError({"code": 1, "message": "m", "more": LONG}))
        error = (await it.call("read", {"n": 2})).error
        assert error is not None
        assert len(repr(error)) < MOST


async def test_a_picture_is_told_whole_or_not_at_all_and_can_be_read() -> None:
    blocks = [
        {"type": "image", "data": BLOB, "mimeType": "image/png"},
        {"type": "text", "text": "and a word"},
        {"type": "resource", "resource": {"uri": "file:///a", "blob": BLOB, "mimeType": "application/zip"}},
        {"type": "resource", "resource": {"uri": "file:///b", "text": TEXT}},
    ]
    async with bounding() as it:
        it.upstreams.will("read", ToolResult({"content": blocks}))
        shown = await it.call("read")
        assert shown.result is not None
        told = shown.result["content"]
        assert size(shown) <= MOST
        assert [one["type"] for one in told] == ["text", "text", "text", "resource", *["resource_link"] * 3]
        assert told[1] == blocks[1]
        assert told[3]["resource"]["text"].startswith("line 0")
        for place, mime in ((4, "image/png"), (5, "application/zip")):
            piece = await read(it, told[place]["uri"] + "?from=256&bytes=512")
            assert (piece.body, piece.mime, piece.binary) == (bytes(range(256)) * 2, mime, True)


async def test_half_of_a_picture_is_in_no_structure_either() -> None:
    pictures = {"content": [{"type": "image", "data": BLOB, "mimeType": "image/png"}], "about": "x"}
    for schema in ({"type": "object"}, None):
        async with bounding(schema) as it:
            it.upstreams.will("read", ToolResult({"content": [], "structuredContent": pictures}))
            shown = await it.call("read")
            assert shown.result is not None
            told = shown.result["structuredContent"]["content"][0]["data"]
            assert told.startswith(f"[counterfoil: {len(BLOB)} bytes of base64 are left out here.")
            piece = await read(it, told.removesuffix("]").rpartition(" ")[2] + "?bytes=4")
            assert (piece.body, piece.binary) == (bytes(range(4)), True)


async def test_of_too_many_blocks_the_ones_between_are_left_out() -> None:
    async with bounding() as it:
        blocks = [{"type": "text", "text": f"row {number}"} for number in range(5_000)]
        it.upstreams.will("read", ToolResult({"content": blocks}))
        shown = await it.call("read")
        assert shown.result is not None
        assert size(shown) <= MOST
        told = shown.result["content"]
        assert (told[0], told[-2]) == (blocks[0], blocks[-1])
        out = (shown.record or {})["bounded"]["left_out"][0]["blocks"]
        assert told[out["from"]]["text"].startswith(f"[counterfoil: blocks {out['from']} to {out['to']} of 5000")
        assert len(told) - 2 == 5_000 - (out["to"] - out["from"])


@pytest.mark.parametrize(
    ("schema", "structured", "becomes"),
    [
        (SCHEMA, {"content": TEXT}, "shortened"),
        (STRICT, {"content": TEXT}, "whole"),
        ({"type": "object"}, {"rows": [[1, 2]] * 5_000}, None),
        (None, {"content": TEXT}, "shortened"),
        (None, {"rows": [[1, 2]] * 5_000}, "left_out"),
        ({"$ref": "elsewhere"}, {"content": TEXT}, "whole"),
    ],
)
async def test_what_a_program_reads_keeps_its_schema_and_is_never_cut_without_a_word(
    schema: Any, structured: Any, becomes: str | None
) -> None:
    async with bounding(schema) as it:
        it.upstreams.will("read", result(structuredContent=structured))
        shown = await it.call("read")
        assert shown.result is not None
        told, label = shown.result.get("structuredContent"), (shown.record or {})["bounded"]
        assert label["structured"] == (becomes or "whole")
        if schema is not None and becomes == "shortened":
            assert not violations(schema, told)
        if becomes == "shortened":
            assert told is not None
            assert "are left out here" in told["content"]
            assert size(shown) <= MOST
            assert await read_all(it, label["artifact"] + "/structuredContent/content") == TEXT.encode()
        elif becomes == "left_out":
            assert "structuredContent" not in shown.result
        else:
            assert told == structured


async def test_a_program_is_told_where_its_part_is_if_that_is_all_that_is_left_out() -> None:
    async with bounding() as it:
        rows = {"rows": [[1, 2]] * 5_000}
        it.upstreams.will("read", result("short", structuredContent=rows))
        shown = await it.call("read")
        assert shown.result is not None
        assert text_of(shown) == "short"
        assert "`structuredContent` is left out here" in shown.result["content"][1]["text"]
        assert parse(await read_all(it, shown.result["content"][2]["uri"])) == rows


async def test_errors_are_bounded_as_results_are() -> None:
    async with bounding() as it:
        it.upstreams.will(
            "read", result(isError=True), ProtocolError({"code": -1, "message": TEXT, "data": {"a": TEXT}})
        )
        failed, error = [await it.call("read") for _ in range(2)]
        assert size(failed) <= MOST
        assert failed.result is not None
        assert failed.result["isError"] is True
        assert error.error is not None
        assert error.error["code"] == -1
        assert len(canonical(dict(error.error))) <= MOST
        label = error.error["data"]["counterfoil/record"]["bounded"]
        assert parse(await read_all(it, label["artifact"] + "/data")) == {"a": TEXT}


async def test_a_tool_can_have_a_bound_of_its_own_or_none() -> None:
    for rule, whole in (({"result": {}}, True), ({}, False), ({"result": {"max_bytes": 200_000}}, True)):
        async with bounding(rule=rule) as it:
            it.upstreams.will("read", result())
            assert (size(await it.call("read")) > MOST) is whole


async def test_the_same_is_told_again_however_often_it_is_asked_for() -> None:
    async with bounding() as it:
        it.upstreams.will("write", result())
        first = await it.call("write", {"n": 1}, deliver=False)
        again = await it.call("write", {"n": 1})
        asked = await it.engine.outcome(first.attempt or "", world.USER, world.PatientCaller())
        assert first.result == again.result == asked.result
        assert len(it.upstreams.sent) == 1
        assert (again.record or {})["replayed"]


# --- what is counted --------------------------------------------------------------------------------------------------


async def test_a_budget_counts_the_whole_and_the_context_what_was_told() -> None:
    async with bounding(rule={"result": {"max_bytes": MOST, "repeat": "reference"}}) as it:
        it.upstreams.will("read", result(), result())
        shown = [await it.call("read", {"n": number}) for number in range(2)]
        whole = len(canonical(dict(result().result)))
        run = await it.book.state_of("run_1")
        assert run.spent.tokens == 2 * -(-whole // 4)
        told = await costs_of(it.ledger, Wanted(run="run_1"))
        assert told.all.measured.result_bytes == 2 * whole
        (context,) = told.context
        assert context.results.size_bytes == sum(size(one) for one in shown)
        assert context.again.size_bytes == size(shown[1])
        assert told.results[0].size_bytes == context.results.size_bytes


async def test_a_verifier_sees_all_of_a_result() -> None:
    verifier = {"result": {}, "pass": [f"size(result.content[0].text) == {len(TEXT)}"]}
    transitions = [{"name": "any", "tools": ["write"], "verify": "whole"}]
    async with bounding(verifiers={"whole": verifier}, transitions=transitions) as it:
        it.upstreams.will("write", result())
        shown = await it.call("write")
        assert outcome(shown) == "result"
        assert size(shown) <= MOST
