"""What is read and spelled fast is what the slow way makes of it, to the type and the byte; and the usual is fast."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.canonical import NotStrictJson, canonical, dump, dump_bytes, parse, parse_strictly, spell_strictly
from gateway.model.plain import read_plain, spell_plain

DEPTH = 8

NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from([2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**30]),
    st.floats(),
    st.sampled_from([-0.0, 1.0, 1e16, 1e-7, 5e-324, 1.5e300, float("inf"), float("nan")]),
)
TEXTS = st.one_of(
    st.text(st.characters()),
    st.text(st.sampled_from('":\\ {}[],\n\t/u00ae\x7f\u2028é😀\ud800')),
    st.sampled_from(["http://x:80", '{"a":1}', '{\\"a\\":1}', "ends in \\", "a :b", "\0", "\x1f"]),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)
LAYOUTS = st.sampled_from([(",", ":"), (", ", ": "), (",\n", " :\t"), (" ,", "\r\n:")])


@st.composite
def _spellings(draw: st.DrawFn) -> bytes:
    """JSON in some layout, in which keys may stand twice."""
    comma, colon = draw(LAYOUTS)
    plain_only = draw(st.booleans())

    def spell(value: Any) -> str:
        if isinstance(value, dict):
            members = [f"{spell(key)}{colon}{spell(part)}" for key, part in value.items()]
            if members and draw(st.integers(0, 9)) == 0:
                members.insert(draw(st.integers(0, len(members))), draw(st.sampled_from(members)))
            return "{" + comma.join(members) + "}"
        if isinstance(value, list):
            return "[" + comma.join(map(spell, value)) + "]"
        return json.dumps(value, ensure_ascii=plain_only)

    return spell(draw(VALUES)).encode("utf-8", "surrogatepass")


def _read(raw: bytes, *, strictly: bool) -> str:
    """What comes of it, told apart by type: to Python 1, 1.0 and True are equal."""
    try:
        return repr(parse_strictly(raw, DEPTH) if strictly else parse(raw, max_depth=DEPTH))
    except NotStrictJson as error:
        return f"refused: {error}"


@given(_spellings())
def test_whatever_is_json_is_read_as_the_strict_parser_reads_it(raw: bytes) -> None:
    assert _read(raw, strictly=False) == _read(raw, strictly=True)


@given(_spellings(), st.integers(0, 200), st.sampled_from([b"", b'"', b":", b"\\", b"1", b"e9", b"\xff", b"{", b" "]))
def test_whatever_is_nearly_json_too(raw: bytes, place: int, put: bytes) -> None:
    changed = raw[:place] + put + raw[place + 1 :]
    assert _read(changed, strictly=False) == _read(changed, strictly=True)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}',
        '{"a":1,"\\u0061":":"}',
        '{"a\\\\":1,"a\\\\":"x\\":"}',
        '{"a" :1,"a" :"\\": :"}',
        '{"a":{"b":1,"c":2},"a":":"}',
        '[{"a":1},{"a":1,"a":"http://x"}]',
    ],
)
def test_a_key_that_stands_twice_is_never_covered_up_by_colons_elsewhere(text: str) -> None:
    assert read_plain(text.encode(), DEPTH) is None
    with pytest.raises(NotStrictJson, match="stands twice"):
        parse(text)


def _spelled(spell: Any, value: Any) -> Any:
    try:
        return spell(value)
    except (ValueError, TypeError):
        return "refused"


def _slowly(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


@given(VALUES)
def test_whatever_is_spelled_is_spelled_as_the_standard_library_does(value: Any) -> None:
    assert _spelled(canonical, value) == _spelled(spell_strictly, value)
    assert _spelled(dump_bytes, value) == _spelled(_slowly, value)
    assert _spelled(lambda one: dump(one).encode(), value) == _spelled(_slowly, value)


class _Loud(str):
    __slots__ = ()


@pytest.mark.parametrize("value", [{"a": 1.0}, [2**64], ["\ud800"], {1: 2}, [(1, 2)], [_Loud("x")], "x", [[[]]] * 2])
def test_what_is_not_plain_goes_the_slow_way_and_what_is_does_not(value: Any) -> None:
    assert (spell_plain(value) is None) == (value != [[[]]] * 2)


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "arguments": {"at": "10:30"}}},
        {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": '{"url": "http://x/", "n": 1}'}]}},
        {"jsonrpc": "2.0", "id": 3, "result": {"content": [], "structuredContent": {"lines": ["a", "b"], "ok": True}}},
    ],
)
@pytest.mark.parametrize("layout", [(",", ":"), (", ", ": ")])
def test_the_usual_message_is_read_fast_in_the_usual_layouts(message: Any, layout: tuple[str, str]) -> None:
    assert read_plain(json.dumps(message, separators=layout).encode(), DEPTH) == message
