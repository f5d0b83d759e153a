"""What most servers take for one value is one effect; what is hashed and sent is exact all the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.alike import alike, alike_digest
from gateway.model.canonical import canonical, digest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"n": 2000}, {"n": 2000.0}, True),
        ({"n": 0}, {"n": -0.0}, True),
        ({"n": [{"m": 3.0}]}, {"n": [{"m": 3}]}, True),
        ({"n": 1e15}, {"n": 10**15}, True),
        ({"n": 0.5}, {"n": 0}, False),
        ({"n": 1e300}, {"n": 10**300}, False),
        ({"n": True}, {"n": 1}, False),
        ({"n": "2.0"}, {"n": 2}, False),
        ({"2.0": 1}, {"2": 1}, False),
    ],
)
def test_a_whole_number_is_the_same_in_every_spelling(one: Any, other: Any, same: bool) -> None:  # noqa: FBT001
    digests = [alike_digest(each, b"s") or digest(each, b"s") for each in (one, other)]
    assert (digests[0] == digests[1]) is same


@given(JSON)
def test_it_is_its_own_likeness_and_is_told_apart_only_where_it_is_another(value: Any) -> None:
    assert canonical(alike(alike(value))) == canonical(alike(value))
    arguments = {"a": value}
    found = alike_digest(arguments, b"s")
    assert (found or digest(arguments, b"s")) == digest(alike(arguments), b"s")
