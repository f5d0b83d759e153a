"""What an expression says, without any values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.analysis.expressions import compared, fixed, needed_evidence, paths, read_from, tokens
from gateway.kernel.conditions import compile_condition


@pytest.mark.parametrize(
    ("expression", "read"),
    [
        ("args.a.b == 1 && evidence.tests.fresh", [("args", "a", "b"), ("evidence", "tests", "fresh")]),
        ('args["a b"].c[0]', [("args", "a b", "c")]),
        ("args.name.startsWith('args.x') // args.y", [("args", "name")]),
        (
            "args.items.all(one, one.price < values.most)",
            [("args", "items"), ("one",), ("one", "price"), ("values", "most")],
        ),
        (r"""args.p.matches(r"\") && args.q == '\''""", [("args", "p"), ("args", "q")]),
        ("evidence.`my-tests`.verdict == 'pass'", [("evidence", "my-tests", "verdict")]),
    ],
)
def test_what_is_read_stands_in_the_text(expression: str, read: list[tuple[str, ...]]) -> None:
    assert [path for path, _, _ in paths(expression)] == read


def test_a_step_that_is_not_spelled_out_may_be_any() -> None:
    assert read_from("values.a < values['b']", "values") == frozenset({"a", "b"})
    assert read_from("values[args.which] > 1", "values") is None
    assert read_from("args.values.a > 1", "values") == frozenset()


@pytest.mark.parametrize(
    ("expression", "needed"),
    [
        ('evidence.a.verdict == "pass" && evidence.b.fresh', {"a", "b"}),
        ("!(evidence.a.fresh)", {"a"}),
        ('(evidence["a-b"].verdict == "pass")', {"a-b"}),
        ("has(evidence.a) && evidence.b.fresh", {"b"}),
        ("!has(evidence.a) || evidence.a.fresh", set()),
        ("evidence.a.fresh || args.force == true", set()),
        ("args.force == true ? true : evidence.a.fresh", set()),
        ("args.x == 1 && (evidence.a.fresh || evidence.b.fresh)", set()),
        ("!(args.x == 1 && evidence.a.fresh)", set()),
        ("args.list.all(one, evidence.a.fresh)", set()),
        ('"a" in evidence', set()),
        ("args.text == 'evidence.a'", set()),
    ],
)
def test_evidence_is_needed_where_nothing_can_stand_in_for_it(expression: str, needed: set[str]) -> None:
    assert needed_evidence(expression) == needed


@pytest.mark.parametrize(
    ("expression", "comes_to"),
    [
        ("true", "always"),
        ("1 < 2 || args.x == 1", "always"),
        ("args.x == 1 && 1 > 2", "never"),
        ("args.x == 1", None),
        ("1 / 0 == 1", "unjudgeable"),
        ('"a".matches("(")', "unjudgeable"),
        ("args.x == args.x", None),
        ("this is no expression", None),
    ],
)
def test_what_never_changes_is_known_without_values(expression: str, comes_to: str | None) -> None:
    assert fixed(expression, "transition") == comes_to


@given(st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from([True, False, None, -1, 0, 2, "", "a"])))
def test_what_always_holds_holds_with_any_values(args: dict[str, object]) -> None:
    assert compile_condition("1 < 2 || args.x == 1", "transition").decide({"args": args}) is True
    assert compile_condition("args.x > 1 && 1 > 2", "transition").decide({"args": args}) is False


@pytest.mark.parametrize(
    ("expression", "texts"),
    [
        ('run.phase == "a"', ["a"]),
        ("'a' != run.phase", ["a"]),
        ('run.phase in ["a", "b"]', ["a", "b"]),
        ('run.phase == "a" + args.x', []),
        ('run.phase == "a".replace("a", "b")', []),
        ('args.run.phase == "a"', []),
        (r'run.phase == "\u0061"', []),
    ],
)
def test_comparisons_with_texts_are_seen(expression: str, texts: list[str]) -> None:
    assert [text for path, text in compared(expression) if path == ("run", "phase")] == texts


@given(st.text(max_size=60))
def test_any_text_has_words(text: str) -> None:
    assert all(word.spelled in text for word in tokens(text))
    assert list(paths(text)) == list(paths(text))
    needed_evidence(text)
    list(compared(text))
