import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.outbound.upstream.sse import Events, EventTooLarge

STREAM = (
    b"\xef\xbb\xbf: hello\r\n\r\nid: 1\r\nretry: 10\r\ndata:\r\n\r\n"
    b"data: one\n\nevent: message\rdata:two\rdata:  three\r\r"
    b"event: other\ndata: not for us\n\nevent\ndata: four\n\ndata: cut off\n"
)


@given(st.lists(st.integers(0, len(STREAM))))
def test_where_the_chunks_are_cut_changes_nothing(cuts: list[int]) -> None:
    events = Events(100)
    places = sorted({0, len(STREAM), *cuts})
    read = [data for start, end in itertools.pairwise(places) for data in events.feed(STREAM[start:end])]
    assert read == [b"one", b"two\n three", b"four"]


def test_an_event_may_be_as_large_as_the_limit_and_no_larger() -> None:
    event = b"data: 67890\n\n"
    assert list(Events(11).feed(event * 3)) == [b"67890"] * 3
    with pytest.raises(EventTooLarge):
        list(Events(10).feed(event))


def test_comments_that_keep_a_quiet_stream_open_never_add_up() -> None:
    events = Events(10)
    for _ in range(100):
        assert list(events.feed(b": ping\n")) == []
    assert list(events.feed(b"data: 1\n\n")) == [b"1"]
