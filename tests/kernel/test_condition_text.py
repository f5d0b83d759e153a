"""What is checked is what was written, and each place in it leads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.condition_text import dotted, field_name, literals

ODD = field_name("x-y")


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("args.a == 1", "args.a == 1"),
        ('args["a"]', "args.a"),
        ("args['a'][\"b\"]", "args.a.b"),
        ("args [ 'a' ] . b", "args .a . b"),
        ("args[r\"a\"][r'b']", "args.a.b"),
        ('args["""a"""]', "args.a"),
        ('f(x)["a"]', "f(x).a"),
        ('args["x-y"]', f"args.{ODD}"),
        ("args.`x-y`", f"args.{ODD}"),
        ("args.`a`", "args.a"),
        ('args["in"]', f"args.{field_name('in')}"),
        ('args[""]', f"args.{field_name('')}"),
        ('args["a\\x62"]', 'args["a\\x62"]'),  # an escape is left to the engine
        ('args[b"a"]', 'args[b"a"]'),
        ("args[0]['a']", "args[0].a"),
        ("args[args['a']]", "args[args.a]"),
        ('"x" in ["a"]', '"x" in ["a"]'),
        ('1 in ["a", "b"]', '1 in ["a", "b"]'),
        ('["a"] == args', '["a"] == args'),
        ('{"a": 1}["a"]', '{"a": 1}["a"]'),
        ("'args[\"a\"]' == 1", "'args[\"a\"]' == 1"),
        ("args // [\"a\"]\n['a']", 'args // ["a"]\n.a'),
        ('args["a"', 'args["a"'),
        ('args["a" + "b"]', 'args["a" + "b"]'),
        ("", ""),
    ],
)
def test_an_index_by_a_name_is_checked_as_a_field(written: str, text: str) -> None:
    assert dotted(written).text == text


@pytest.mark.parametrize("name", ["a", "_", "aB_1", "package", "A" * 4000])
def test_a_name_that_a_message_may_have_stays(name: str) -> None:
    assert field_name(name) == name


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_other_name_gets_one_of_its_own(one: str, other: str) -> None:
    assert field_name(one).isascii()
    assert field_name(one).isidentifier()
    assert (field_name(one) == field_name(other)) is (one == other)


@given(st.text("a[]\"'`.\n in1", max_size=30))
def test_a_place_leads_back_to_the_same_character(written: str) -> None:
    checked = dotted(written)
    lines = checked.text.split("\n")
    places = [
        checked.place(number, column) for number, line in enumerate(lines, 1) for column in range(1, len(line) + 2)
    ]
    assert places == sorted(places)
    assert places[-1] <= len(written)
    if checked.text == written:
        assert places == list(range(len(written) + 1))


def test_a_place_behind_a_changed_step_is_as_far_from_it() -> None:
    checked = dotted("args['x-y'] ==\n  args['a'].b")
    assert checked.text == f"args.{ODD} ==\n  args.a.b"
    assert checked.place(1, 5) == checked.place(1, 9) == 4
    assert checked.place(1, len(f"args.{ODD} =")) == len("args['x-y'] =") - 1
    assert checked.place(2, 10) == len("args['x-y'] ==\n  args['a'].")


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("a + b", []),
        ("'a' + \"b\"", ["'a'", '"b"']),
        (r"'it\'s' + x", [r"'it\'s'"]),
        (r"r'\' + x + 'y'", [r"r'\'", "'y'"]),
        ("'''a'b''' + x", ["'''a'b'''"]),
        ("x // y 'z'\n + 'a'", ["// y 'z'", "'a'"]),
        ("bar'x'", ["'x'"]),
        ("'open", []),
    ],
)
def test_literals_and_comments_are_known_from_the_rest(expression: str, found: list[str]) -> None:
    assert [expression[start:end] for start, end in literals(expression)] == found


@given(st.text("'\"`\\r/b[]a\n ", max_size=60))
def test_any_text_has_its_literals_in_order(expression: str) -> None:
    found = literals(expression)
    assert found == sorted(found)
    assert all(start < end for start, end in found)
