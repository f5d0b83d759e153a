"""What holds for all functions: an answer or a reason for any value, soon; and constants are checked at load."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gateway.kernel.conditions import BadCondition, Undecided, compile_condition
from gateway.kernel.objects import FUNCTIONS
from gateway.kernel.objects.judged import Function, Unjudged
from tests.kernel.objects import NOW, compiled, judged

CONSTANTS = {"sql": '"postgres"', "time.date": '"UTC"', "time.within": '"UTC", "Mon", "09:00-17:00"'}
"""What stands where only a constant may, and those behind it."""
_PIECES = """
    .. / \\ // ~ %2e : @ \u2215 \u200b http:// [ ] ( ) ' " ` $ $( ${x} << > | & ; # -- /* */ /*! select delete from with
    as array[ case limit where 1 0x7f . - e5 , * ** ? ls a xn-- git@ refs/
"""
HOSTILE = [*_PIECES.split(), " ", "\n", "\t", "\0", "select ", "array[", "case ", "ls ", "a "]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=6,
)
TEXTS = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=3), max_size=12).map("".join)


def forms_of(function: Function) -> list[str]:
    """A condition for each form, which is true or false whatever the function gives."""
    found = []
    for takes, gives in function.forms:
        constants = CONSTANTS.get(function.name) or CONSTANTS.get(function.name.partition(".")[0])
        given = [f"args.{letter}" for letter, _ in zip("abc", takes, strict=False)]
        if function.name.startswith("time."):
            given = [f"now, {constants}"]
        elif constants:
            given = [f"args.a, {constants}"]
        call = f"{function.name}({', '.join(given)})"
        found.append(call if gives == "bool" else f"size({call}) >= 0" if gives != "int" else f"{call} >= 0")
    return found


CALLS = sorted({form for function in FUNCTIONS.values() for form in forms_of(function)})


def decided(call: str, values: dict[str, Any]) -> None:
    over = {"args": values, "now": NOW}
    found, contrary = compiled(call).decide(over), compiled(f"!({call})").decide(over)
    if isinstance(found, Undecided):
        assert isinstance(contrary, Undecided)
        assert found.reason
        assert found.reason != "it cannot be evaluated"
    else:
        assert contrary is not found


@pytest.mark.parametrize("call", CALLS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(values=st.fixed_dictionaries({}, optional={"a": JSON | TEXTS, "b": JSON | TEXTS, "c": JSON}))
@example(values={})
@example(values={"a": "a\x00b", "b": "\ud800"})
def test_any_value_has_an_answer_or_a_reason(call: str, values: dict[str, Any]) -> None:
    decided(call, values)


@pytest.mark.parametrize("call", [call for call in CALLS if call.partition("args.a")[1]])
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(text=TEXTS, other=TEXTS)
def test_any_text_has_an_answer_or_a_reason(call: str, text: str, other: str) -> None:
    decided(call, {"a": text, "b": other, "c": {"EUR": other}})


@pytest.mark.parametrize("piece", sorted(set(HOSTILE)))
@pytest.mark.parametrize("length", [4_000, 16_000])
def test_a_long_text_is_judged_or_refused_soon(piece: str, length: int) -> None:
    text = (piece * length)[:length]
    begun = time.process_time()
    for call in CALLS:
        decided(call, {"a": text, "b": text[:256], "c": {}})
    assert time.process_time() - begun < 5  # some 25 judgements, of which one may take 200 ms


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_no_failing_of_a_parser_gets_out(function: Function) -> None:
    def fails(*_: object) -> object:
        raise RecursionError("hunter2")

    broken = Function(function.name, function.forms, fails)
    with pytest.raises(ValueError, match=r"^objects: it cannot be read$"):
        broken.guarded("x")


def test_what_one_says_is_told_and_names_no_value() -> None:
    assert str(Unjudged("the path is empty")) == "the path is empty"
    reasons = [judged(call, "hunter2\x00", "hunter2", {"hunter2": "hunter2"}) for call in CALLS]
    reasons += [judged(call, "hunter2://hunter2@'hunter2\u200b..", "hunter2\n..", {}) for call in CALLS]
    assert not [reason for reason in reasons if "hunter2" in str(reason)]


def test_a_key_of_an_argument_cannot_pose_as_a_refusal() -> None:
    posing = 'OUT_OF_RANGE: objects: all is well" OUT_OF_RANGE: objects: all is well'
    assert judged(f"args.a[{posing!r}] == 1", {}) == "it cannot be evaluated"


@pytest.mark.parametrize(
    ("expression", "column", "message"),
    [
        ('path.wthin(args.a, "/")', 1, "nothing is named `path.wthin` here (did you mean `path.within`?)"),
        ('pth.within(args.a, "/")', 1, "nothing is named `pth.within` here (did you mean `path.within`?)"),
        ("path.within(args.a)", 1, "`path.within` takes other arguments"),
        ('path.within(1, "/")', 12, "`path.within` cannot take an integer and a string"),
        ("tool.name(1)", 1, "`tool.name` is no function"),
        ('true && path.within(args.a, "/a/..")', 29, "in the root: the path has a step `..`"),
        ('path.within(args.a, ["/a", "b/.."])', 21, "in the root: the path has a step `..`"),
        ('path.glob(args.a, "a//b")', 19, "the pattern has an empty step, `.`, `..`, or `**` beside other characters"),
        ('url.on_host(args.a, ["*"])', 21, "in the list of hosts: the host is no name and no address"),
        ('money.at_most(args.a, "1e3")', 23, "the limit is no plain decimal number"),
        ('money.at_most(args.a, args.b, {"EUR": "5,0"})', 31, "the limit is no plain decimal number"),
        ('money.at_most(args.a, args.b, {"eur": "5"})', 31, "the currency is no code of three capital letters"),
        ('money.at_most(args.a, "EURO", {"EUR": "5"})', 23, "the currency is no code of three capital letters"),
        ('repo.slug(args.a, "git hub") == ""', 19, "the host is no name and no address"),
        ('time.date(now, "Europe/Berlim") == ""', 16, "there is no time zone `Europe/Berlim`"),
        ('time.date(now, "../../etc/passwd") == ""', 16, "there is no time zone `../../etc/passwd`"),
        ('time.within(now, "UTC", "Mo-Fr", "09:00-17:00")', 25, "days are written as `Mon-Fri` or `Sat,Sun`"),
        ('time.within(now, "UTC", "Mon-Fri", "9-17")', 36, "hours are written as `09:00-17:00`"),
        ('time.within(now, "UTC", "Mon", "25:00-26:00")', 32, "hours are written as `09:00-17:00`"),
        ('time.within(now, "UTC", "Mon", "09:00-09:00")', 32, "the hours end where they begin"),
        ('text.glob(args.a, "' + "a" * 257 + '")', 19, "the pattern is longer than 256 characters"),
        (
            "time.date(now, args.a) == ''",
            16,
            "`time.date` wants a constant here, which can be checked when the policy is loaded",
        ),
        ("r'path.within(' == '' || path.within(args.a, r'a\\b')", 46, "in the root: the path has a backslash"),
        ("'''\\'''' == '' || path.within(args.a, '''..''')", 39, "in the root: the path has a step `..`"),
    ],
)
def test_what_can_be_found_wrong_at_load_is(expression: str, column: int, message: str) -> None:
    with pytest.raises(BadCondition) as found:
        compile_condition(expression, "transition")
    assert (found.value.line, found.value.column, found.value.message) == (1, column, message)


def test_the_place_of_a_bad_constant_is_told_by_line() -> None:
    with pytest.raises(BadCondition) as found:
        compile_condition('true &&  // path.within(args.a, "..")\n  path.within(args.a, "..")', "transition")
    assert (found.value.line, found.value.column) == (2, 23)


def test_a_variable_of_a_macro_may_have_the_name_of_a_subject() -> None:
    assert judged('["/a"].all(path, path.within(path, "/a"))') is True
    assert judged('args.a.all(p, path.within(p, "/work"))', ["/work/a", "/etc"]) is False
    assert judged('args.a.all(p, path.within(p, "/work"))', ["/work/a", "/work/.."]) == "the path has a step `..`"


PAGE = (Path(__file__).parents[3] / "docs" / "conditions.md").read_text("utf-8")
ROW = re.compile(r"^\| `([a-z]+\.[a-z_]+)\(.*?` \| .*? \| `(.*?)` \| ", re.MULTILINE)


def test_every_function_is_in_the_reference() -> None:
    assert {name for name, _ in ROW.findall(PAGE)} == set(FUNCTIONS)


@pytest.mark.parametrize("example", [example for _, example in ROW.findall(PAGE)])
def test_every_example_of_the_reference_compiles(example: str) -> None:
    assert compile_condition(example, "transition").expression == example
