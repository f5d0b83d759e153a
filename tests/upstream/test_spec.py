import pytest

from gateway.outbound.upstream.spec import HttpSpec, StdioSpec, unsendable


@pytest.mark.parametrize(
    ("headers", "bad"),
    [
        ({"X-Key": "1 ~"}, None),
        ({"X-Key": "1\r\nX-Other: 2"}, "X-Key"),
        ({"X-Key": "é"}, "X-Key"),
        ({"X Key": "1"}, "X Key"),
        ({"": "1"}, ""),
    ],
)
def test_a_header_that_cannot_be_carried_is_named(headers: dict[str, str], bad: str | None) -> None:
    assert unsendable(headers) == bad


def test_secrets_are_not_shown() -> None:
    assert "canary" not in repr([StdioSpec("a", "x", env={"K": "canary"}), HttpSpec("b", "http://h", {"A": "canary"})])
