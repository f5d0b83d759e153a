"""A condition that is certainly wrong about a tool or about its policy is refused at load; no other one is."""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.kernel.condition_text import field_name
from gateway.kernel.conditions import BadCondition, Kind
from gateway.kernel.shapes import Shape, check_types

PAY = {
    "type": "object",
    "properties": {
        "amount": {"type": "number"},
        "count": {"type": "integer"},
        "currency": {"enum": ["EUR", "USD"]},
        "note": {"type": ["string", "null"]},
        "urgent": {"type": "boolean"},
        "to": {"type": "array", "items": {"type": "string"}},
        "x-y": {"type": "string"},
        "in": {"type": "string"},
        "customer": {"type": "object", "properties": {"name": {"type": "string"}, "since": {"const": 2020}}},
        "n" * 3000: {"type": "string"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "mixed": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "free": {},
        "open": {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    },
    "$defs": {"line": {"type": "object", "properties": {"qty": {"type": "integer"}, "sub": {"$ref": "#/$defs/line"}}}},
}
SHAPE = Shape(
    tool="pay",
    args=PAY,
    probe="look",
    result={"type": "object", "properties": {"exit_code": {"type": "integer"}, "ok": {"type": "boolean"}}},
    evidence=("tests", "unit-tests"),
    accounts={"team": ("calls", "cost")},
    values={"limit": 500, "limits": {"EUR": 1, "USD": 2.5}, "hosts": ["a", "b"], "empty": [], "none": None},
)


def refusal(expression: str, kind: Kind = "transition", shape: Shape = SHAPE) -> str | None:
    try:
        check_types(expression, kind, shape)
    except BadCondition as error:
        return f"{error.line}:{error.column} {error.message}"
    return None


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("args.amuont > 3", "1:6 the tool `pay` takes no argument `amuont` (did you mean `amount`?)"),
        ('args["amuont"] > 3', "1:7 the tool `pay` takes no argument `amuont` (did you mean `amount`?)"),
        ("true &&\n  has(args.amuont)", "2:12 the tool `pay` takes no argument `amuont` (did you mean `amount`?)"),
        ("'é' == 'é' && args.zzz == 1", "1:20 the tool `pay` takes no argument `zzz`"),
        ("args . zzz == 1", "1:8 the tool `pay` takes no argument `zzz`"),
        ('args["x-z"] == "a"', "1:7 the tool `pay` takes no argument `x-z` (did you mean `x-y`?)"),
        ("args.`x-z` == 'a'", "1:7 the tool `pay` takes no argument `x-z` (did you mean `x-y`?)"),
        ('args["x-y"] == 3', "1:13 `==` cannot take a string and an integer"),
        ('args["in"] == 3', "1:12 `==` cannot take a string and an integer"),
        ('args.amount > "100"', "1:13 `>` cannot take a number and a string"),
        ('args.count > "x"', "1:12 `>` cannot take an integer and a string"),
        ("args.currency == 3", "1:15 `==` cannot take a string and an integer"),
        ("args.customer == 'x'", "1:15 `==` cannot take an object and a string"),
        ("args.customer.nmae == 'x'", "1:15 `args.customer` has no field `nmae` (did you mean `name`?)"),
        ("args.customer.since == '2020'", "1:21 `==` cannot take an integer and a string"),
        ("args.lines.exists(l, l.qy > 3)", "1:24 `args.lines[…]` has no field `qy` (did you mean `qty`?)"),
        ("args.lines[0].sub.qty == ''", None),  # a reference that leads back to itself is anything
        ("args.lines.qty == 1", "1:11 a list has no fields"),
        ("args.to.all(a, a > 3)", "1:18 `>` cannot take a string and an integer"),
        ("args.count.all(a, a > 3)", "1:5 an integer has no elements"),
        ("args.count in values.hosts", "1:12 `in` cannot take an integer and a list"),
        ("3 in args.labels", "1:3 `in` cannot take an integer and an object"),
        ("args.count.startsWith('x')", "1:22 `startsWith` cannot take an integer and a string"),
        ("args.labels.startsWith('x')", "1:23 `startsWith` cannot take an object and a string"),
        ("args.note ? true : false", "1:11 something in it is neither true nor false"),
        ("args.urgent && args.note", "1:13 something in it is neither true nor false"),
        ("args.to + 'x' == args.to", "1:9 `+` cannot take a list and a string"),
        ("-args.note == 'x'", "1:1 `-` cannot take a string"),
        ('args.to["x"] == "a"', "1:8 a list has no fields"),
        ("args.to[args.note] == 'a'", "1:8 `[]` cannot take a list and a string"),
        ("evidence.test.verdict == 'pass'", "1:10 no verifier is named `test` (did you mean `tests`?)"),
        ("evidence.tests.verdit == 'pass'", "1:16 `evidence.tests` has no field `verdit` (did you mean `verdict`?)"),
        ("evidence['unit-test'].fresh == true", "1:11 no verifier is named `unit-test` (did you mean `unit-tests`?)"),
        ("evidence.tests.fresh == 'yes'", "1:22 `==` cannot take a truth value and a string"),
        ("accounts.taem.calls > 1", "1:10 no account is named `taem` (did you mean `team`?)"),
        ("accounts.team.tokens_left > 1", "1:15 `accounts.team` has no field `tokens_left` (did you mean `tokens`?)"),
        ("accounts.team.calls_left > '1'", "1:26 `>` cannot take an integer and a string"),
        ("args.count > values.limt", "1:21 the policy has no value named `limt` (did you mean `limit`?)"),
        ("values.limits.GBP > 1", "1:15 `values.limits` has no field `GBP`"),
        ("run.call > 1", "1:1 nothing is named `run.call` here (did you mean `run.calls`?)"),
        ("args.amount >", "1:14 the expression ends too early"),
        ("principal.roles.x == ''", "1:16 a list has no fields"),
        ("run.calls.all(x, x > 1)", "1:4 an integer has no elements"),
        ('args["a"]["b"].all(x, x)', "1:10 write `dyn(…)` around what stands before this macro, if that has elements"),
    ],
)
def test_what_is_certainly_wrong_is_refused_with_its_place(expression: str, said: str | None) -> None:
    assert refusal(expression) == said


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("result.structuredContent.exit_code == 0 && result.isError == false", None),
        ("result.content[0].text.contains('x') && has(result._meta)", None),
        ("result.structuredContent.ok && args.amount > values.limit", None),
        (
            "result.structuredContent.exitcode == 0",
            "1:26 the result of the tool `look` has no field `exitcode` (did you mean `exit_code`?)",
        ),
        ("result.structuredContent.ok == 0", "1:29 `==` cannot take a truth value and an integer"),
        ("result.isErr == false", "1:8 `result` has no field `isErr` (did you mean `isError`?)"),
        ("args.amuont == 0", "1:6 the tool `pay` takes no argument `amuont` (did you mean `amount`?)"),
    ],
)
def test_a_verifier_is_checked_against_what_its_probe_gives(expression: str, said: str | None) -> None:
    assert refusal(expression, "verifier") == said


@pytest.mark.parametrize(
    "expression",
    [
        "args.amount > 500 && args.amount <= 1e9 && args.amount % 2 == 1 && args.amount * 1.5 > 2.0",
        "args.count > 1.5 || args.count in [1.0, 2.0] || args.count == args.amount",
        "args.note == null || args.note.size() > 3",
        "args.to == null || args.to == [] || args.to == ['a'] || 'a' in args.to",
        'args["x-y"] == args.`x-y` && args["amount"] == args.amount && args["in"] == "a"',
        "args[args.note] == 3 && args.labels[args.note] == 'x' && args.labels.any == 'x'",
        "'amount' in args && size(args) > 1 && args.all(k, k != 'x') && args != {}",
        "args.customer == {'name': 'x'} && 'name' in args.customer && size(args.customer) == 1",
        "args.mixed == 3 || args.mixed == 'x' || args.free.anything.at[0].all == 3",
        "args.open.a == 'x' && args.open.other == 3 && has(args.open.another)",
        "args.grid[0][0] == 3 && args.grid.all(row, size(row) > 1)",
        "args.open.x + 'x' == 'y' || [args.open.x] == ['x'] || args.open.x in args.to || args.to[args.open.x] == 'x'",
        "size(args.open.x) > 1 || (args.open.x ? 1 : 2) == 1 || {'a': args.open.x}.a + 1 == 2 || args.open.x.y == 'z'",
        "args.open.x.all(y, y > 1) || !args.open.x || args.to.all(t, args.open[t] > 1) || args.open.x.startsWith('a')",
        "timestamp(args.amount) < now && int(args.amount) == args.count",
        "(args.urgent ? args.count : args.note) == 3",
        "[args.count, args.note].exists(one, one == 3)",
        "{1: 'a'}[args.amount] == 'a' && args.amount in {1: 'a'} && ['a'][args.amount] == 'a'",
        "args.to + [1] == [1] && args.to + args.to == []",
        "dyn(args).anything == 1 && dyn(args.count) == 'x'",
        f"args.{'n' * 3000} == 'x'",
        "args.lines.map(line, line.qty).exists(qty, qty > 3)",
        "args.lines.all(run, run['qty'] > 3 || run.sub.qty > 3)",
        "values.limits[args.currency] > args.amount && args.note in values.hosts && values.none == null",
        "args.count in values.empty && values.limits.all(k, values.limits[k] > 0)",
        "evidence.all(name, evidence[name].fresh == true) && 'tests' in evidence && has(evidence.tests)",
        "evidence.tests.scope.of == 'x' && timestamp(evidence.tests.at) < now && evidence['unit-tests'].fresh == true",
        "accounts.team.cost_left > 5 && accounts.team.cost > 1.5 && accounts.team.reviews == 0",
        "run.tokens > 3 && run.cost > 1.0 && run.reviews == 0 && run.origin == 'x' && run.parent == ''",
        "run.data.exists(seen, seen == tool.data_class) && 'a' in principal.scopes && 'b' in principal.authority",
        "'args[\"typo\"]' == 'x' && r'args.typo' != 'y' // args.typo == 3",
    ],
)
def test_what_may_hold_for_some_values_is_not_refused(expression: str) -> None:
    assert refusal(expression) is None


def test_what_nobody_knows_may_be_anything() -> None:
    for expression in ("args.x.y == 1", "evidence.any.verdict == 'pass'", "values.x > 1", "accounts.x.calls > 1"):
        assert refusal(expression, shape=Shape()) is None
    assert refusal("result.anything == 1", "verifier", Shape()) is None
    assert refusal("result.structuredContent.x[0] == 1", "verifier", Shape(result={})) is None
    assert refusal("args.x == 1", shape=Shape(args={"type": "object"})) is None
    assert refusal("args.x == 1", shape=Shape(args={"type": "object", "additionalProperties": {}})) is None


def test_what_is_known_to_be_empty_has_nothing() -> None:
    none = Shape(args={"type": "object", "additionalProperties": False}, evidence=(), accounts={}, values={})
    assert refusal("args.x == 1", shape=none) == "1:6 the tool takes no argument `x`"
    assert refusal("evidence.x.fresh == true", shape=none) == "1:10 no verifier is named `x`"
    assert refusal("accounts.x.calls == 1", shape=none) == "1:10 no account is named `x`"
    assert refusal("values.x == 1", shape=none) == "1:8 the policy has no value named `x`"


def test_arguments_are_an_object_though_their_schema_does_not_say_so() -> None:
    said = "1:6 the tool takes no argument `ax` (did you mean `a`?)"
    assert refusal("args.ax == 1", shape=Shape(args={"properties": {"a": {}}})) == said


def test_more_names_than_a_message_can_have_say_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    many = Shape(evidence=tuple(f"v{number}" for number in range(20_000)))
    assert refusal("evidence.other.fresh == true", shape=many) is None
    assert capfd.readouterr().err == ""


def test_a_name_that_is_made_up_to_be_taken_for_another_one_gains_nothing() -> None:
    args = {"type": "object", "properties": {"x-y": {"type": "string"}, field_name("x-y"): {"type": "integer"}}}
    assert refusal('args["x-y"] == "a"', shape=Shape(args=args)) is None


def test_each_tool_is_named_though_their_schemas_are_the_same() -> None:
    first, second = (Shape(tool, {"type": "object", "properties": {"a": {}}}) for tool in ("one", "two"))
    assert refusal("args.x == 1", shape=first) == "1:6 the tool `one` takes no argument `x`"
    assert refusal("args.x == 1", shape=second) == "1:6 the tool `two` takes no argument `x`"
    assert refusal("args.x == 1", shape=replace(second, args={})) is None


@pytest.mark.parametrize("name", ["", "\x00", "é", "a b", "u_", "A" * 999, "a_b", "aB", "AB", "ab", "a__b", "_", "if"])
def test_a_field_is_typed_whatever_its_name_and_those_beside_it(name: str) -> None:
    names = ("", "\x00", "é", "a b", "u_", "A" * 999, "a_b", "aB", "AB", "ab", "a__b", "_", "__", "if", "in")
    shape = Shape(args={"type": "object", "properties": {one: {"type": "string"} for one in names}})
    spelled = f"args[r'{name}']"
    assert refusal(f"{spelled} == 'x'", shape=shape) is None
    assert refusal(f"{spelled} == 1", shape=shape) == f"1:{len(spelled) + 2} `==` cannot take a string and an integer"


def test_names_of_an_upstream_are_shown_on_one_line() -> None:
    shape = Shape(tool="pay\n`x`", args={"type": "object", "properties": {"account\u2028": {"type": "string"}}})
    assert refusal("args.accounts == ''", shape=shape) == (
        "1:6 the tool `pay??x?` takes no argument `accounts` (did you mean `account?`?)"
    )


# --- hostile schemas ------------------------------------------------------------------------------------------------

_DAG = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)}
_FAN = {f"d{i}": {"properties": {f"f{j}": {"$ref": f"#/$defs/d{i + 1}"} for j in range(10)}} for i in range(60)}
_DEEP: dict[str, Any] = {}
for _ in range(200):
    _DEEP = {"type": "object", "properties": {"a": _DEEP}}
HOSTILE: Mapping[str, dict[str, Any]] = {
    "a megabyte": {"properties": {f"p{i}": {"type": "string", "description": "d" * 60} for i in range(9_000)}},
    "as much, in groups": {
        "properties": {f"g{i}": {"properties": {f"p{j}": {"type": "string"} for j in range(500)}} for i in range(60)}
    },
    "doubling references": {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": _DAG},
    "tenfold references": {"properties": {"a": {"type": "object", "$ref": "#/$defs/d0"}}, "$defs": _FAN},
    "references to itself": {"properties": {name: {"type": "object", "$ref": "#"} for name in "abcdef"}},
    "depth": _DEEP,
    "many alternatives": {"anyOf": [{"properties": {f"p{i}": {"type": "string"}}} for i in range(9_000)]},
    "a reference nowhere": {"properties": {"a": {"$ref": "#/$defs/none"}, "b": {"$ref": "http://x/"}}},
    "odd names": {
        "properties": {name: {"type": "string"} for name in ("", "\x00", "\ud800", "é", "a b", "u_", "A" * 999)}
    },
    "like names": {"properties": {name: {"type": "string"} for name in ("a_b", "aB", "AB", "ab", "a__b", "_", "__")}},
    "no schema": {"properties": [1], "type": 3, "enum": {}, "required": "a", "$ref": 5, "anyOf": {"a": 1}},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_costs_little_and_only_says_that_a_condition_is_bad(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    schema = {"type": "object", **HOSTILE[name]}
    started = time.process_time()
    for expression in ("args.a.a.a == 1", "args.zzz == 1", "args.p1 == 'x'", 'args["é"] == 1', 'args[""] == "x"'):
        with contextlib.suppress(BadCondition):
            check_types(expression, "transition", Shape(args=schema))
    assert time.process_time() - started < 2
    assert capfd.readouterr().err == ""  # where protobuf tells of a descriptor that it cannot take


def test_many_rules_over_many_tools_are_checked_in_a_moment() -> None:
    rules = [f"args.amount > {i} && evidence.tests.fresh == true && args.to.all(a, a != 'x{i}')" for i in range(40)]
    tools = [Shape(f"t{i}", {**PAY, "title": f"t{i}"}, evidence=("tests",), values={"a": 1}) for i in range(30)]
    started = time.process_time()
    for tool in tools:
        for rule in rules:
            check_types(rule, "transition", tool)
    assert time.process_time() - started < 1
