import itertools

from hypothesis import given
from hypothesis import strategies as st

from gateway.outbound.upstream.lines import Lines


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_where_the_chunks_are_cut_changes_nothing(data: bytes, cuts: list[int]) -> None:
    lines = Lines(100)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    read = [line for start, end in itertools.pairwise(places) for line in lines.feed(data[start:end])]
    assert read == data.split(b"\n")[:-1]


def test_a_line_that_is_too_long_is_thrown_away_whole_and_the_next_one_is_read() -> None:
    lines = Lines(4)
    assert list(lines.feed(b"12345")) == []
    assert list(lines.feed(b'{"a":1}\n')) == [None]
    assert list(lines.feed(b"1234\n12345\n\nab")) == [b"1234", None, b""]
    assert list(lines.feed(b"cd\n")) == [b"abcd"]
