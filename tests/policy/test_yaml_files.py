"""YAML that everybody reads alike, and of every value the place where it stands."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.outbound.yaml_files import MAX_BYTES, Problem, Problems, compose, read


def told(text: str) -> list[str]:
    """All that is wrong with the text, as lines."""
    try:
        return [str(problem) for problem in compose(text, "f").problems]
    except Problems as error:
        return [str(problem) for problem in error.problems]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-0", 0),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("12:30:45", "12:30:45"),
        ("2026-11-29", "2026-11-29"),
        ('"12"', "12"),
        ("it's", "it's"),
        ('"\\u00e9"', "é"),
        ("[a, {b: c}]", ["a", {"b": "c"}]),
        ("!!str 5", "5"),
    ],
)
def test_a_value_is_what_yaml_1_2_says(written: str, value: Any) -> None:
    assert compose(f"key: {written}", "f").value == {"key": value}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a: 1\nb: 2\na: 3", ["f:3:1: a: the key `a` stands here twice, first in line 1"]),
        ("a: {b: 1, b: 2}", ["f:1:11: a.b: the key `b` stands here twice, first in line 1"]),
        ("a: &x 1\nb: *x", ["f:1:4: a: anchors and aliases are not allowed; write it out"]),
        (
            "a: &x 1\nb: &x 2",
            [
                "f:1:4: a: anchors and aliases are not allowed; write it out",
                "f:2:4: b: anchors and aliases are not allowed; write it out",
            ],
        ),
        ("a: !secret x", ["f:1:4: a: the tag `!secret` is not allowed; a text that begins with `!` must be quoted"]),
        ("a: !!python/object:os.x [x]", ["f:1:4: a: the tag `python/object:os.x` is not allowed"]),
        ("a: !!set {x: 1}", ["f:1:4: a: the tag `set` is not allowed"]),
        ("a: !!binary aGk=", ["f:1:4: a: the tag `binary` is not allowed"]),
        ("<<: {a: 1}", ["f:1:1: merges (`<<`) are not allowed"]),
        ("1: a\n? [b]\n: c", ["f:1:1: a key is a text; quote it", "f:2:3: a key is a text; quote it"]),
        ('"\\ud800": 1', ["f:1:1: a key is a text; quote it"]),
        ('a: "\\ud800"', ["f:1:4: a: the text holds half of a surrogate pair"]),
        ("a: 017", ["f:1:4: a: `017` is not read alike everywhere; write a plain decimal number, or quote it"]),
        ("a: 0x1F", ["f:1:4: a: `0x1F` is not read alike everywhere; write a plain decimal number, or quote it"]),
        ("a: 1_000", ["f:1:4: a: `1_000` is not read alike everywhere; write a plain decimal number, or quote it"]),
        ("a: .nan", ["f:1:4: a: `.nan` is no finite decimal number; quote it if a text is meant"]),
        ("a: [1, -.inf]", ["f:1:8: a.1: `-.inf` is no finite decimal number; quote it if a text is meant"]),
        ("a: 1e400", ["f:1:4: a: `1e400` is no finite decimal number; quote it if a text is meant"]),
        ("%YAML 1.1\n---\na: no", ["f:1:1: directives (`%`) are not allowed"]),
        ("a: 1\n---\nb: 2", ["f:2:1: a file holds one document; remove the `---`"]),
        ("# nothing", ["f:1:1: is empty"]),
        ("a: b: c", ["f:1:5: a `:` is not allowed here; quote the text, or check the indentation"]),
        ("a:\n\tb: 1", ["f:2:1: a tab cannot indent; use spaces"]),
        ("a: 1\nb\nc: 1", ["f:2:1: a `:` is missing behind the key"]),
        ("a:\n  - b\n c: 1", ["f:3:2: this line is indented otherwise than those that it belongs to"]),
        ("a: - b", ["f:1:4: a list item is not allowed here; check the indentation"]),
        ('a: "b', ["f:1:4: a quote is not closed"]),
        ("a: [1", ["f:1:6: a `,` or `]` is missing"]),
        ("a: {b: 1", ["f:1:9: a `,` or `}` is missing"]),
        ("a: *x", ["f:1:4: anchors and aliases are not allowed; write it out, or quote a text that begins with `*`"]),
        (
            "a: [*]",
            ["f:1:6: anchors and aliases are not allowed; write it out, or quote a text that begins with `*` or `&`"],
        ),
        ("a: [!has(args.x)]", ["f:1:18: a text that begins with `!` must be quoted"]),
        ('a:\n  - !f(now, "x", "y")', ["f:2:16: a text that begins with `!` must be quoted"]),
        ("a: @x", ["f:1:4: a text cannot start with `@`; quote it"]),
        ("a: 'b' c", ["f:1:8: nothing may stand behind a closing quote; put quotes around the whole text"]),
        ("a: 1\n---\n- b", ["f:2:1: a file holds one document; remove the `---`"]),
        ("a: ]", ["f:1:4: expected the node content, but found `]`"]),
        ("a: x\x01", ["f:1:5: holds a character that YAML does not allow"]),
        ("[" * 2000, ["f:1:1: is no YAML, or nested too deep"]),
        ("[" * 70 + "]" * 70, [f"f:1:66: {'.'.join('0' * 65)}: is nested deeper than 64 levels"]),
    ],
    ids=range(40),
)  # fmt: skip
def test_what_is_not_read_alike_by_everybody_is_refused_in_its_place(text: str, lines: list[str]) -> None:
    assert told(text) == lines


def test_all_problems_of_a_text_are_told() -> None:
    assert told("a: 017\nb: !x y\na: 1") == [
        "f:1:4: a: `017` is not read alike everywhere; write a plain decimal number, or quote it",
        "f:2:4: b: the tag `!x` is not allowed; a text that begins with `!` must be quoted",
        "f:3:1: a: the key `a` stands here twice, first in line 1",
    ]


def test_aliases_of_aliases_make_no_billion() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{at}: &a{at} [*a{at - 1}, *a{at - 1}]" for at in range(1, 60)]
    assert len(told("\n".join(lines))) == 60


def test_a_file_is_read_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: x\r\n")
    document = read(file)
    assert document.value == {"a": 1, "b": "x"}
    assert document.problem(("b",), "wrong") == Problem(str(file), 2, 4, "b", "wrong")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"a: \xff", "is not UTF-8"),
        (b"#" * (MAX_BYTES + 1), "is larger than 1 MiB"),
        (None, "cannot be read: no such file or directory"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, body: bytes | None, message: str) -> None:
    file = tmp_path / "f.yaml"
    if body is not None:
        file.write_bytes(body)
    with pytest.raises(Problems) as refused:
        read(file)
    assert str(refused.value) == f"{file}:1:1: {message}"


def test_problems_stand_in_the_order_of_the_files_and_once() -> None:
    one, other = Problem("a", 9, 1, "", "x"), Problem("a", 10, 1, "p.0", "y")
    assert Problems([other, one, other]).problems == (one, other)
    assert str(Problems([other, one])) == "a:9:1: x\na:10:1: p.0: y"


DOCUMENT = compose("a:\n  b: [x, y]\n  c:\nd: {}\n", "f")


@pytest.mark.parametrize(
    ("place", "at_key", "line_column"),
    [
        (("a", "b", 1), False, (2, 10)),
        (("a", "b"), True, (2, 3)),
        (("a", "c"), False, (3, 3)),
        (("d",), False, (4, 4)),
        (("d", "missing", "deeper"), False, (4, 4)),
        ((), False, (1, 1)),
        ((), True, (1, 1)),
    ],
)
def test_a_problem_is_placed_at_the_value_the_key_or_what_is_nearest(
    place: tuple[str | int, ...], *, at_key: bool, line_column: tuple[int, int]
) -> None:
    problem = DOCUMENT.problem(place, "wrong", at_key=at_key)
    assert (problem.line, problem.column) == line_column
    assert problem.path == ".".join(str(step) for step in place)


STYLES = {
    "plain": "when: one && HERE",
    "plain over lines": "when: one &&\n  two &&\n\n  HERE",
    "single": "when: 'it''s ''one'' && HERE'",
    "double": r'when: "one \"two\" \x41\u0042\t\n\\ && HERE"',
    "double over lines": 'when: "one \\\n  two\n\n  \\  && HERE"',
    "literal": "when: |\n  one &&\n    two &&\n\n    HERE\n",
    "literal with a header": "when: |2- # said\n   one\n   HERE\n",
    "folded": "when: >-\n  one &&\n  two\n\n    three &&\n  HERE\n",
    "first": "when: HERE && one",
    "in a flow": "when: [a, {b: 'HERE'}]",
}


@pytest.mark.parametrize("text", STYLES.values(), ids=STYLES)
def test_a_place_within_a_text_is_found_in_the_file_whatever_its_style(text: str) -> None:
    document = compose(text, "f")
    place = ("when",) if isinstance(document.value["when"], str) else ("when", 1, "b")
    value = document.value["when"] if place == ("when",) else "HERE"
    offset = value.index("HERE")
    within = (value.count("\n", 0, offset) + 1, offset - value.rfind("\n", 0, offset))
    problem = document.problem(place, "wrong", within=within)
    lines = text.split("\n")
    assert lines[problem.line - 1][problem.column - 1 :].startswith("HERE")


def test_the_end_of_a_text_is_just_behind_its_last_character() -> None:
    problem = compose("when: |\n  one >\n", "f").problem(("when",), "wrong", within=(1, 6))
    assert (problem.line, problem.column) == (2, 8)


def test_a_place_within_an_empty_text_is_where_it_stands() -> None:
    problem = compose("when: ''", "f").problem(("when",), "wrong", within=(1, 1))
    assert (problem.line, problem.column) == (1, 7)


@given(st.text(st.characters(codec=None)) | st.text("ab:-[]{}&*!|>'\"%@`\n #,?\\~0"))
def test_any_text_is_composed_or_refused(text: str) -> None:
    told(text)
