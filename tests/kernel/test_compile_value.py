"""An expression may give a value, and what a condition saw can be shown."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.conditions import (
    BadCondition,
    Undecided,
    activation,
    compile_condition,
    compile_value,
)
from tests.policy.test_conditions import ANYTHING, VALUES

EVERYTHING = VALUES | {
    "run.tokens": 4000,
    "run.cost": 1.5,
    "run.data": ["pii"],
    "accounts": {"team": {"calls_left": 3}},
    "values": {"limit": 500},
    "args": {"a": 1, "text": "x" * 300, "list": [1, {"b": None}], "odd-name": True, "when": "2026-01-01T00:00:00Z"},
}


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("args.a", 1),
        ("args.a + values.limit", 501),
        ("args.list", [1, {"b": None}]),
        ("args.list[1].b", None),
        ("run.cost * 2.0", 3.0),
        ("'Key not found'", "Key not found"),
        ('{"repo": args["odd-name"], "of": [run.phase, now]}', {"repo": True, "of": ["check", "2026-11-29T12:00:00Z"]}),
        ("timestamp(args.when)", "2026-01-01T00:00:00Z"),
        ("args.a > 3", False),
        ("accounts.team.calls_left", 3),
        ("1u", 1),
        ("args.none", Undecided("`args.none` is missing")),
        ("[args.none]", Undecided("`args.none` is missing")),
        ("args.a / 0", Undecided("it divides by zero")),
        ("duration('1h')", Undecided("what it gives is no JSON value")),
        ("[b'x']", Undecided("what it gives is no JSON value")),
        ("type(1)", Undecided("what it gives is no JSON value")),
        ("0.0 / 0.0", Undecided("what it gives is no finite number")),
        ("{1: 2}", Undecided("what it gives has a key that is no text")),
    ],
)
def test_a_value_is_plain_json_or_undecided(expression: str, found: Any) -> None:
    given_ = compile_value(expression, "transition").find(EVERYTHING)
    assert (given_, type(given_)) == (found, type(found))


def test_a_time_that_an_expression_gives_is_in_utc() -> None:
    local = datetime(2026, 1, 1, 1, 0, 0, 250_000, tzinfo=timezone(timedelta(hours=1)))
    assert compile_value("now", "verifier").find({"now": local}) == "2026-01-01T00:00:00.250000Z"


def test_a_value_of_other_values_is_undecided() -> None:
    of = activation("verifier", {"args": {"a": 1}})
    assert compile_value("args.a", "verifier").find(of) == 1
    assert compile_value("args.a", "transition").find(of) == Undecided(
        "the values are those of a verifier, the expression is one of a transition"
    )


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(BadCondition) as refused:
        compile_value("args.a + nothing", "verifier")
    assert (refused.value.message, refused.value.column) == ("nothing is named `nothing` here", 10)


@given(
    st.sampled_from(
        [compile_value(one, "transition") for one in ("args", "[args.a, args]", "{'a': args.a}", "args.a")]
    ),
    ANYTHING,
)
def test_any_values_give_a_value_or_nothing(value: Any, args: Any) -> None:
    found = value.find({"args": args})
    assert isinstance(found, Undecided | dict | list | str | int | float | bool | None)


@pytest.mark.parametrize(
    ("expression", "seen"),
    [
        ("args.a > values.limit", {"args.a": 1, "values.limit": 500}),
        ("run.phase == 'x' && args.a == 1", {"run.phase": "check", "args.a": 1}),
        ("args.none == 1 || has(args.a)", {"args.a": 1}),
        ("args['odd-name'] == true", {"args['odd-name']": True}),
        ("args.list[1].b == null && args.list[9] == 1", {"args.list[1].b": None}),
        ("args.text == 'args.a' // args.a", {"args.text": "x" * 199 + "…"}),
        ("'run.phase' == run.id", {"run.id": "run_1"}),
        ("now > timestamp(args.when)", {"now": "2026-11-29T12:00:00+00:00", "args.when": "2026-01-01T00:00:00Z"}),
        ("principal.roles.exists(role, role == 'x')", {"principal.roles": ["owner"]}),
        ("evidence.tests.fresh == true", {"evidence.tests.fresh": True}),
        ("args.list.exists(run, run.id == 1)", {"args.list": [1, {"b": None}], "run.id": "run_1"}),
    ],
)
def test_what_a_condition_saw_can_be_shown(expression: str, seen: dict[str, Any]) -> None:
    condition = compile_condition(expression, "transition")
    assert list(condition.seen(EVERYTHING).items()) == list(seen.items())
    assert condition.seen(activation("transition", EVERYTHING)) == seen
    assert compile_value(expression, "transition").seen(EVERYTHING) == seen


def test_what_is_seen_is_cut_and_what_no_condition_can_read_is_left_out() -> None:
    values = {"args": {"a": list(range(300))}, "now": "yesterday"}
    seen = compile_condition("args.a == 1 && now == now", "transition").seen(values)
    assert list(seen) == ["args.a"]
    assert (len(seen["args.a"]), seen["args.a"][:6], seen["args.a"][-1]) == (200, "[0,1,2", "…")


def test_the_rest_of_the_run_can_be_read() -> None:
    expression = (
        "run.tokens > 3 && run.cost >= 1.5 && run.data == ['pii'] && accounts.team.calls_left > values.limit - 500"
    )
    assert compile_condition(expression, "transition").decide(EVERYTHING) is True
