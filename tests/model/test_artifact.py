"""Addresses of recorded answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.artifact import PREFIX, Artifact, BadAddress, artifact_of


@given(
    st.text(min_size=1),
    st.lists(st.text(), max_size=4),
    st.one_of(
        st.builds(dict, start=st.integers(0, 10**14), most=st.none() | st.integers(1, 10**14)),
        st.builds(dict, line=st.integers(1, 10**14), lines=st.none() | st.integers(1, 10**14)),
    ),
)
def test_an_address_says_what_it_was_made_of(attempt: str, at: list[str], place: dict[str, int]) -> None:
    made = Artifact(attempt, tuple(at), **place)
    assert artifact_of(str(made)) == made


@pytest.mark.parametrize(
    "said",
    ["from=-1", "from=1&line=2", "lines=2", "bytes=0", "line=0", "from=1&from=2", "to=3", "from=", "bytes=9" * 999],
)
def test_a_range_that_cannot_be_meant_is_refused_in_one_line(said: str) -> None:
    with pytest.raises(BadAddress) as refused:
        artifact_of(f"{PREFIX}run_1.2?{said}")
    assert "\n" not in str(refused.value)
