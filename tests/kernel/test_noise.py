"""What equal steps have in common, whatever policy declares noise."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.noise import asked_alike, noise_of, step_alike, without
from gateway.kernel.rules import Rules
from gateway.model.canonical import Digest, digest
from gateway.model.run import Attempt
from gateway.model.tool import Answer, InputRequired, NotSent, ProtocolError, Silence, TaskStarted, ToolResult
from tests import world
from tests.kernel.loops import TOOLS, rules
from tests.kernel.made import MANY
from tests.kernel.test_decide import judge
from tests.policy.test_conditions import ANYTHING

RULES = rules(noise=["request_id"])
AT = frozenset({("at",)})


@pytest.mark.parametrize(
    ("noise", "value", "left"),
    [
        ("at", {"at": 1, "a": 2}, {"a": 2}),
        ("at", {"a": [{"at": 1}, [{"at": 2, "b": 3}]]}, {"a": [{}, [{"b": 3}]]}),
        ("at", [1, "at", None], [1, "at", None]),
        ("meta.id", {"meta": {"id": 1, "n": 2}, "id": 3}, {"meta": {"n": 2}, "id": 3}),
        ("meta.id", {"in": {"meta": [{"id": 1}, {"x": {"id": 2}}]}}, {"in": {"meta": [{}, {"x": {"id": 2}}]}}),
        ("meta.id", {"meta": {"meta": {"id": 1}}}, {"meta": {"meta": {}}}),
        ("a.b.c", {"a": {"b": {"c": 1}, "c": 2}, "b": {"c": 3}}, {"a": {"b": {}, "c": 2}, "b": {"c": 3}}),
    ],
)
def test_a_field_is_left_out_at_any_depth(noise: str, value: Any, left: Any) -> None:
    before = digest(value, b"")
    assert without(value, frozenset({tuple(noise.split("."))})) == left
    assert digest(value, b"") == before, "and the value itself is as it was"


def test_a_result_may_be_as_deep_as_results_are() -> None:
    value: Any = {"at": 1, "n": 2}
    for _ in range(255):
        value = [{"a": value}]
    found = without(value, AT)
    for _ in range(255):
        found = found[0]["a"]
    assert found == {"n": 2}


def test_the_noise_of_a_tool_is_its_own_and_that_of_all() -> None:
    own = {("at",), ("meta", "id"), ("request_id",)}
    assert noise_of(RULES, RULES.ruled(TOOLS["read"]), "read") == own
    assert noise_of(RULES, None, "read") == own, "also while nobody offers it"
    assert noise_of(RULES, RULES.ruled(TOOLS["write"]), "write") == {("request_id",)}
    assert noise_of(RULES, None, "else") == {("request_id",)}


def test_arguments_without_noise_are_cited_only_where_there_is_some() -> None:
    assert asked_alike({"n": 1}, AT, b"s") is None
    assert asked_alike({"n": 1, "at": 2}, AT, b"s") == digest({"n": 1}, b"s")


def attempt(tool: str = "read", arguments: dict[str, Any] | None = None) -> Attempt:
    """It was sent."""
    run = world.opened(RULES)
    intent = judge(run, RULES, world.proposal(tool, arguments), tool=TOOLS[tool])
    (made,) = world.after(run, intent).attempts.values()
    return made


def alike(
    answer: Answer, tool: str = "read", arguments: dict[str, Any] | None = None, by: Rules = RULES
) -> Digest | None:
    payload = getattr(answer, "result", None) or getattr(answer, "error", None)
    cited = digest(dict(payload), world.SALT) if payload else None
    sent = attempt(tool, arguments)
    return step_alike(sent, arguments or {}, answer, cited, by, by.ruled(TOOLS[tool]), world.SALT)


def result(**fields: Any) -> ToolResult:
    return ToolResult({"content": [], **fields})


def test_steps_are_alike_by_tool_arguments_and_answer() -> None:
    one = alike(result(structuredContent={"rows": [], "at": 1}), arguments={"n": 1, "at": 1})
    assert one is not None
    assert one == alike(result(structuredContent={"rows": [], "at": 2}), arguments={"n": 1, "at": 2})
    others = [
        alike(result(structuredContent={"rows": [1], "at": 1}), arguments={"n": 1}),
        alike(result(structuredContent={"rows": [], "at": 1}), arguments={"n": 2}),
        alike(result(structuredContent={"rows": [], "at": 1}), "write", {"n": 1}),
        alike(result(structuredContent={"rows": []}, isError=True), arguments={"n": 1}),
    ]
    assert len({one, *others}) == 5


def test_what_a_server_says_beside_its_result_tells_no_step_from_another() -> None:
    plain = rules()
    one = alike(result(structuredContent={"n": 1}, _meta={"trace": 1}), "write", by=plain)
    assert one == alike(result(structuredContent={"n": 1}, _meta={"trace": 2}), "write", by=plain)
    assert one != alike(result(structuredContent={"n": 2}, _meta={"trace": 1}), "write", by=plain)


def text(said: str) -> ToolResult:
    return ToolResult({"content": [{"type": "text", "text": said}, {"type": "image", "data": "x"}]})


def test_json_as_text_is_read_and_other_text_is_as_it_stands() -> None:
    assert alike(text('{"at": 1, "n": 2}')) == alike(text('{"n": 2, "at": 9}'))
    assert alike(text(' [{"at": 1}]')) == alike(text('[{"at": 2}]'))
    assert alike(text("at 1")) != alike(text("at 2"))
    assert alike(text("{at: 1}")) != alike(text("{at: 2}"))
    assert alike(text('{"n": 1}')) != alike(text('{"n": 2}'))


def test_only_an_end_that_somebody_counts_is_reckoned() -> None:
    for answer in (InputRequired({"a": 1}), TaskStarted({"a": 1}), NotSent("x"), Silence("x")):
        assert alike(answer) is None
    assert alike(result(), by=world.rules()) is None, "policy counts nothing"
    assert alike(result(), "poll") is None
    assert alike(result(isError=True), "poll") is not None, "who fails while it polls may do so for ever"
    assert alike(ProtocolError({"code": 1, "message": "at"}), "poll") is not None


@MANY
@given(ANYTHING, st.sampled_from(["at", "meta.id"]))
def test_what_is_left_has_no_noise_and_stays_so(value: Any, noise: str) -> None:
    declared = frozenset({tuple(noise.split("."))})
    once = without(value, declared)
    assert without(once, declared) == once
