"""What is written for the strict reader is what it reads."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.outbound.clients.yaml_text import as_flow, as_yaml
from gateway.outbound.yaml_files import compose

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["true", "no", "~", "1", "- a", "a: b"]
)
VALUES = st.recursive(
    TEXTS | st.integers(0, 9) | st.none(),
    lambda inner: st.lists(TEXTS, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3))
def test_every_value_is_read_back_as_it_was(value: dict[str, Any]) -> None:
    for written in (as_yaml(value), f"{{{as_flow(value)}}}"):
        document = compose(written, "")
        assert document.problems == ()
        assert document.value == value
