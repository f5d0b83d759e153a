"""One strict parse, one spelling, one digest."""

import hashlib
import hmac
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.canonical import NotStrictJson, canonical, digest, digest_bytes, dump, one_line, parse

REFUSED: dict[str, bytes] = {
    "a duplicate key": b'{"name":"safe","name":"danger"}',
    "a duplicate key in disguise": b'{"amount":1,"\\u0061mount":1000000}',
    "a duplicate key deep inside": b'[{"a":{"b":1,"b":2}}]',
    "NaN": b'{"a":NaN}',
    "Infinity": b"[Infinity]",
    "minus Infinity": b"[-Infinity]",
    "a float that overflows": b"[1e400]",
    "an integer of 5,000 digits": b"9" * 5000,
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "an overlong encoding": b'"\xc0\xaf"',
    "invalid UTF-8": b'"\xff\xfe"',
    "half of a surrogate pair": b'"\\ud800"',
    "a surrogate pair the wrong way round": b'"\\udc00\\ud800"',
    "nesting beyond the limit": b"[" * 65 + b"]" * 65,
    "nesting that would end the parser": b"[" * 100_000,
    "objects nested beyond the limit": b'{"a":' * 65 + b"1" + b"}" * 65,
    "a trailing comma": b"[1,]",
    "two values": b"1 2",
    "nothing": b"",
    "a raw control character": b'"a\x01"',
}


def test_to_refuse_a_double_key_takes_no_longer_than_to_find_it() -> None:
    many = ",".join(f'"k{number}":0' for number in range(100_000))
    begun = time.process_time()
    with pytest.raises(NotStrictJson, match="the key `z` stands twice"):
        parse(f'{{{many},"z":0,"z":1}}')
    assert time.process_time() - begun < 5  # it took minutes when each key was counted


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_unambiguous_json_is_refused(name: str) -> None:
    with pytest.raises(NotStrictJson):
        parse(REFUSED[name])


ACCEPTED: dict[str, Any] = {
    "9007199254740993": 2**53 + 1,
    "18446744073709551616": 2**64,
    "-9223372036854775809": -(2**63) - 1,
    "1.0": 1.0,
    "-0.0": -0.0,
    '"\\ud83d\\ude00"': "😀",
    '"\\u0000"': "\0",
    '{"__proto__":{"x":1}}': {"__proto__": {"x": 1}},
    "[" * 64 + "]" * 64: None,
}


@pytest.mark.parametrize("text", ACCEPTED)
def test_exact_values_survive_the_parse(text: str) -> None:
    value = parse(text)
    if ACCEPTED[text] is not None:
        assert value == ACCEPTED[text]
        assert type(value) is type(ACCEPTED[text])


def test_a_limit_of_depth_counts_levels_and_not_brackets_in_strings() -> None:
    assert parse(json.dumps({"a": "[" * 500})) == {"a": "[" * 500}


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0, False), ("é", "e\u0301"), (None, "null"), ([], {}), (0.0, -0.0), (2**53, 2**53 + 1)],
)
def test_values_that_a_tool_could_tell_apart_have_different_digests(one: Any, other: Any) -> None:
    assert digest({"a": one}, b"salt") != digest({"a": other}, b"salt")


def test_the_digest_of_a_value_is_fixed_for_ever() -> None:
    value = {"b": [1, 1.5, None, True, "é\u2028"], "a": {"z": 2**70, "\U0001d4b3": -0.0}}
    assert (
        canonical(value).decode()
        == '{"a":{"z":1180591620717411303424,"\U0001d4b3":-0.0},"b":[1,1.5,null,true,"é\u2028"]}'
    )
    assert digest(value, b"salt") == "c1:c4a76badb4b55ae8bc3955c7914b6dcee5576e945343650828789d4166429406"
    assert digest(value, b"salt") != digest(value, b"other")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda children: st.lists(children, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), children, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
def test_what_is_written_reads_back_equal_and_of_the_same_kinds(value: Any) -> None:
    assert canonical(parse(dump(value))) == canonical(value) == canonical(parse(canonical(value)))


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(), min_size=2))
def test_key_order_does_not_count(value: dict[str, int]) -> None:
    assert digest(dict(reversed(value.items())), b"") == digest(value, b"")


@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_or_refused_and_nothing_else(body: bytes) -> None:
    try:
        value = parse(body)
    except NotStrictJson:
        return
    assert json.loads(body) == value


@pytest.mark.parametrize("salt", [b"", b"s", b"k" * 32, b"k" * 64, b"k" * 65, bytes(range(256))])
@given(st.binary(max_size=200))
def test_a_digest_is_the_hmac_under_the_salt(salt: bytes, body: bytes) -> None:
    assert digest_bytes(body, salt) == f"c1:{hmac.new(salt, body, hashlib.sha256).hexdigest()}"


@given(JSON)
def test_one_line_is_the_same_json_without_anything_that_ends_a_line(value: Any) -> None:
    text = one_line(json.dumps([value, "\x85\u2028\u2029"], ensure_ascii=False).encode())
    assert parse(text, max_depth=100) == [value, "\x85\u2028\u2029"]
    assert len(text.decode().splitlines()) == 1
