"""A condition is true, false, or undecided with the reason; nothing else, and never an exception."""

import contextlib
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.conditions import (
    VARIABLES,
    BadCondition,
    Condition,
    Undecided,
    activation,
    compile_condition,
)

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
ARGS = {
    "amount": 5,
    "price": 1.5,
    "name": "x",
    "none": None,
    "to": ["a@x.org", "b@x.org"],
    "deep": {"a": {"b": 1}},
    "odd key": 1,
}
VALUES: dict[str, Any] = {
    "args": ARGS,
    "run.id": "run_1",
    "run.phase": "check",
    "run.workflow": "repair",
    "run.calls": 3,
    "run.mutations": 1,
    "run.elapsed_s": 12.5,
    "principal.id": "local:ann",
    "principal.tenant": "local",
    "principal.roles": ["owner"],
    "tool.name": "fs__write_file",
    "tool.upstream": "fs",
    "tool.effect": "write",
    "evidence": {
        "tests": {"verdict": "pass", "fresh": True, "at": "2026-11-29T11:59:00+00:00", "scope": {"tests": "all"}}
    },
    "now": NOW,
}


def decide(expression: str, **changed: Any) -> bool | Undecided:
    return compile_condition(expression, "transition").decide(VALUES | changed)


@pytest.mark.parametrize(
    "expression",
    [
        "args.amount > 3",
        "args.amount == 5.0",
        "args.price < 2",
        "args.none == null",
        'args["odd key"] == 1',
        'args.to.all(one, one.endsWith("@x.org"))',
        "args.deep.a.b == 1",
        'args.name.matches("^x$")',
        "has(args.amount) && !has(args.missing)",
        'run.phase == "check" && run.calls < 10 && run.elapsed_s > 12.0',
        '"owner" in principal.roles',
        'tool.effect in ["write", "destructive"]',
        'evidence.tests.verdict == "pass" && evidence.tests.fresh == true',
        'now - timestamp(evidence.tests.at) < duration("600s")',
        '!("lint" in evidence)',
        "args.amount > 3 || args.missing > 3",
    ],
)
def test_what_holds_is_true_and_its_opposite_is_false(expression: str) -> None:
    assert decide(expression) is True
    assert decide(f"!({expression})") is False


UNDECIDED = {
    "args.missing > 3": "`args.missing` is missing",
    "!has(args.gone) && args.missing > 3": "`args.missing` is missing",
    "args.deep.x.y == 1": "`args.deep.x` is missing",
    'args["no such"] == 1': "`args['no such']` is missing",
    "evidence.lint.fresh == true": "`evidence.lint` is missing",
    "evidence[args.name].fresh == true": "a key that it asks for is missing",
    "args.none.x == 1": "`args.none` has no fields",
    "args.to.exists(one, one.mail == 1)": "something in it has no fields",
    "args.to[0].x == 1": "`args.to[0]` has no fields",
    "args.to[7] == 1": "a list has no such element",
    "args.name > 3": "`>` cannot take a string and an integer",
    "evidence.tests.at > now": "`>` cannot take a string and a time",
    "-args.name == 1": "`-` cannot take a string",
    "size(args.amount) == 1": "`size` cannot take an integer",
    "args.name.startsWith(args.none)": "`startsWith` cannot take a string and null",
    "!args.name": "something in it is neither true nor false",
    "args.name && true": "something in it is neither true nor false",
    "args.amount / 0 == 1": "it divides by zero",
    "args.amount % 0 == 1": "it divides by zero",
    "run.calls + 9223372036854775807 > 1": "a number leaves the range of 64 bits",
    'args.name.matches("(")': "a regular expression in it is not valid",
    "timestamp(args.name) < now": "a string is no time",
    'duration(args.name) < duration("1s")': "a string is no duration",
    "int(args.name) == 1": "a string is no number",
    "timestamp(args.amount) < timestamp(args.name)": "a string is no time",
}


@pytest.mark.parametrize(("expression", "reason"), UNDECIDED.items())
def test_what_cannot_be_judged_is_undecided_and_says_why(expression: str, reason: str) -> None:
    assert decide(expression) == Undecided(reason)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (2**63, "`args.x` is an integer beyond 64 bits"),
        (-(2**63) - 1, "`args.x` is an integer beyond 64 bits"),
        (10**4000, "`args.x` is an integer beyond 64 bits"),
        (float("nan"), "`args.x` is no finite number"),
        (float("inf"), "`args.x` is no finite number"),
        ("\ud800", "`args.x` is no text"),
        ({"\ud800": 1}, "`args.x` has a key that is no text"),
        ({1: 2}, "`args.x` has a key that is no text"),
        ((1,), "`args.x` is no JSON value"),
        ({1}, "`args.x` is no JSON value"),
        (b"x", "`args.x` is no JSON value"),
        (object(), "`args.x` is no JSON value"),
        ([0, {"a b": [2**70]}], "`args.x[1]['a b'][0]` is an integer beyond 64 bits"),
    ],
)
def test_what_the_engine_cannot_take_leaves_its_variable_undecided_and_no_other(value: Any, reason: str) -> None:
    args = {"x": value, "y": 1}
    assert decide("args.y == 1", args=args) == Undecided(reason)
    assert decide('run.phase == "check"', args=args) is True
    assert decide('args.y == 1 || run.phase == "check"', args=args) is True


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 0.0, "é", "\U0001f600", [], {}])
def test_what_fits_is_taken_as_it_is(value: Any) -> None:
    assert decide("args.x == args.x", args={"x": value}) is True


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def test_a_value_as_deep_as_the_door_lets_in_is_judged_and_a_deeper_one_is_undecided() -> None:
    assert decide("has(args.a)", args=nested(64)) is True
    deeper = decide("has(args.a)", args=nested(65))
    assert deeper == Undecided(f"`args{'.a' * 64}` is nested deeper than 64 levels")


def test_a_value_so_deep_that_it_kills_the_engine_is_undecided() -> None:
    assert isinstance(decide("has(args.a)", args=nested(50_000)), Undecided)


@pytest.mark.parametrize(
    ("changed", "expression", "reason"),
    [
        ({"args": [1]}, "args.x == 1", "`args` is no object"),
        ({"now": datetime(2026, 1, 1)}, 'now > timestamp("2020-01-01T00:00:00Z")', "`now` is no time with a zone"),  # noqa: DTZ001 - the case
        ({"run.calls": "many"}, "run.calls > 3", "it cannot be evaluated"),
    ],
)
def test_a_variable_of_another_type_is_undecided(changed: dict[str, Any], expression: str, reason: str) -> None:
    assert decide(expression, **changed) == Undecided(reason)


def test_a_variable_that_was_not_given_is_missing() -> None:
    assert compile_condition("run.calls > 3", "transition").decide({}) == Undecided("`run.calls` is missing")


def test_a_condition_that_takes_too_many_steps_is_undecided() -> None:
    many = list(range(200))
    found = decide("args.x.all(a, args.x.all(b, args.x.all(c, true)))", args={"x": many})
    assert found == Undecided("it takes more steps than one condition may")


def test_an_evil_regular_expression_costs_nothing() -> None:
    started = time.process_time()
    assert decide('args.x.matches("^(a+)+$")', args={"x": "a" * 50_000 + "!"}) is False
    assert time.process_time() - started < 2


def test_an_undecided_is_never_taken_for_true_or_false() -> None:
    with pytest.raises(TypeError, match=r"^an undecided condition is neither true nor false; test `is True`$"):
        bool(Undecided("x"))


BAD = {
    "args.amount > ": ("the expression ends too early", 1, 15),
    "": ("the expression ends too early", 1, 1),
    "args.x\n  && )": ("`)` is not expected here", 2, 6),
    "a b": ("`b` is not expected here", 1, 3),
    "args.x = 1": ("`=` is not expected here (did you mean `==`?)", 1, 8),
    "true and false": ("`and` is not expected here (did you mean `&&`?)", 1, 6),
    "args.?x.orValue(1) == 1": ("`.?` is not expected here", 1, 1),
    'args.x == "a': ('`"a` is not expected here', 1, 11),
    'tool.efect == "write"': ("nothing is named `tool.efect` here (did you mean `tool.effect`?)", 1, 1),
    'arg.to == "x"': ("nothing is named `arg.to` here (did you mean `args.to`?)", 1, 1),
    'evidence.no-todo.verdict == "pass"': ('a name with a `-` is written `evidence["no-todo"]`', 1, 13),
    "values.a-b-c > 1": ('a name with a `-` is written `values["a-b"]`', 1, 10),
    "true && run": ("nothing is named `run` here (did you mean `run.id`?)", 1, 9),
    "true\n  && foo(1)": ("nothing is named `foo` here", 2, 6),
    '"é" == bar': ("nothing is named `bar` here", 1, 8),
    'args.x.lowerAscii() == "x"': ("nothing is named `lowerAscii` here", 1, 8),
    'mtches(args.x, "x")': ("nothing is named `mtches` here (did you mean `matches`?)", 1, 1),
    "size(args.to, 3) == 1": ("`size` takes other arguments", 1, 1),
    'run.calls > "x"': ("`>` cannot take an integer and a string", 1, 11),
    'args.to in "x"': ("`in` cannot take anything and a string", 1, 9),
    'duration("1s") > 1': ("`>` cannot take a duration and an integer", 1, 16),
    '{"a": 1}[1] == 1': ("`[]` cannot take an object and an integer", 1, 9),
    "run.phase": ("the expression must be true or false, and this one gives a string", 1, 1),
    "args": ("the expression must be true or false, and this one gives something else", 1, 1),
    "has(run.phase)": ("the expression must be true or false, and this one gives a string", 1, 1),
    "evidence.tests.fresh": (
        "the expression must be true or false for certain; compare what it gives, as in `… == true`",
        1,
        1,
    ),
    "(" * 60 + "true" + ")" * 60: ("the expression is nested deeper than 32 levels", 1, 1),
    "true ||" * 600 + "true": ("the expression is longer than 4000 characters", 1, 1),
    '"\ud800" == "x"': ("the expression is no CEL", 1, 1),
}


@pytest.mark.parametrize(("expression", "wrong"), BAD.items(), ids=range(len(BAD)))
def test_what_is_no_condition_is_refused_with_its_place(expression: str, wrong: tuple[str, int, int]) -> None:
    with pytest.raises(BadCondition) as refused:
        compile_condition(expression, "transition")
    assert (refused.value.message, refused.value.line, refused.value.column) == wrong


def test_a_verifier_judges_an_answer_and_knows_nothing_of_the_run() -> None:
    passes = compile_condition("result.structuredContent.exit_code == 0 && args.all == true", "verifier")
    result = {"content": [], "structuredContent": {"exit_code": 0}}
    assert passes.decide({"args": {"all": True}, "result": result, "now": NOW}) is True
    unstructured = passes.decide({"args": {"all": True}, "result": {"content": []}, "now": NOW})
    assert unstructured == Undecided("`result.structuredContent` is missing")
    with pytest.raises(BadCondition, match=r"^nothing is named `run\.phase` here$"):
        compile_condition('run.phase == "check"', "verifier")


def test_an_activation_is_built_once_and_judged_by_many() -> None:
    values = activation("transition", VALUES)
    found = [compile_condition(one, "transition").decide(values) for one in ("args.amount > 3", "args.missing > 3")]
    assert found == [True, Undecided("`args.missing` is missing")]


def test_an_activation_of_the_other_kind_is_undecided() -> None:
    values = activation("verifier", {"args": {}, "result": {}, "now": NOW})
    wrong = "the values are those of a verifier, the expression is one of a transition"
    assert compile_condition("true", "transition").decide(values) == Undecided(wrong)


def test_equal_expressions_are_equal_conditions() -> None:
    assert compile_condition("true", "transition") == compile_condition("true", "transition")
    assert compile_condition("true", "transition") != compile_condition("true", "verifier")


CANARY = "s3cr3t-canary"


@pytest.mark.parametrize("expression", [*UNDECIDED, "args.canary > 3", "args[args.canary] == 1", "args.canary.x == 1"])
def test_no_reason_shows_a_value(expression: str) -> None:
    secret = {"canary": CANARY, "name": CANARY, "amount": CANARY, "to": [CANARY], "none": CANARY}
    found = decide(expression, args=ARGS | secret)
    assert CANARY not in repr(found)


_SCALARS = st.none() | st.booleans() | st.integers() | st.integers(min_value=-(2**70), max_value=2**70) | st.floats()
_TEXTS = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(["amount", "a", "x"])
ANYTHING = st.recursive(
    _SCALARS | _TEXTS | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4) | st.tuples(inner),
    max_leaves=12,
)
CONDITIONS = [
    compile_condition(expression, "transition")
    for expression in [
        "args.amount > 3",
        'args.a.x == "y" || args.amount < 3',
        "args.x.exists(one, one == 1)",
        'args.a.matches(args.x) && size(args.x) > 1 && run.phase == "check"',
        "has(args.a.x) ? args.a.x == args.x : true",
        'evidence.a.fresh == true && principal.id.startsWith("local")',
        'now - timestamp(args.a) > duration("1s") && run.calls > int(args.x)',
    ]
]


@given(st.sampled_from(CONDITIONS), st.dictionaries(_TEXTS, ANYTHING, max_size=4), ANYTHING)
def test_a_decision_is_true_false_or_undecided_for_any_values(condition: Condition, args: Any, other: Any) -> None:
    values = VALUES | {"args": args, "evidence": other, "run.calls": other}
    found = condition.decide(values)
    assert found is True or found is False or isinstance(found, Undecided)


@given(st.text(st.characters(codec=None), max_size=40) | st.text("argsun.()[]'\"&|!=<>0 ", max_size=40))
def test_any_text_compiles_or_is_refused(expression: str) -> None:
    for kind in VARIABLES:
        with contextlib.suppress(BadCondition):
            compile_condition(expression, kind).decide(VALUES)
