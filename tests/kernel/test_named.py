"""Which names of objects may mean the same, or what is in one another; and that writes are found again by them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.named import MAX_STEPS, asked, meet, within, written

NAMES = st.lists(st.sampled_from(["a", "b", "..", ".", "", "/", "\\"]), max_size=6).map("/".join)


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("a", ("a", ".")),
        ("./a//b/", ("a/b", "a", ".")),
        ("a/x/../b", ("a/b", "a", ".")),
        ("a\\b", ("a/b", "a", ".")),
        ("/a/./b", ("/a/b", "/a", "/")),
        ("/../a", ("/a", "/")),
        ("//a", ("/a", "/")),
        ("/", ("/",)),
        (".", (".",)),
        ("", (".",)),
        ("a/..", (".",)),
        ("../a", (".",)),
        ("a/../../b", (".",)),
        ("order 12", ("order 12", ".")),
    ],
)
def test_a_name_has_a_plain_spelling_and_the_folders_that_it_is_in(name: str, places: tuple[str, ...]) -> None:
    assert within(name) == places


@pytest.mark.parametrize(
    ("ones", "others", "may"),
    [
        (["a"], ["a"], True),
        (["a"], ["b"], False),
        (["a"], ["ab"], False),
        (["src"], ["src/a.py"], True),
        (["src/a.py"], ["src"], True),
        (["src/a"], ["src/b"], False),
        (["x", "src/a"], ["y", "./src/a"], True),
        (["/src"], ["src"], False),
        (["."], ["src"], True),
        (["../work/src"], ["src"], True),
        (["/"], ["/src"], True),
        ([], ["a"], False),
    ],
)
def test_names_meet_where_one_is_the_other_or_holds_it(ones: list[str], others: list[str], *, may: bool) -> None:
    assert meet(ones, others) is meet(others, ones) is may


def test_what_is_deeper_than_any_path_counts_as_its_folder() -> None:
    deep = "a/" * MAX_STEPS
    assert within(deep + "b") == within(deep)
    assert meet([deep + "b"], [deep + "c"])
    assert len(within("a/" * 100_000)) == MAX_STEPS + 1


@given(NAMES, NAMES)
def test_a_write_is_found_under_the_keys_of_whatever_it_meets_and_no_other(one: str, other: str) -> None:
    assert (not set(written(one)).isdisjoint(asked(other))) == meet([one], [other])
