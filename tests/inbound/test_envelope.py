import json
from typing import Any

import pytest
from inline_snapshot import snapshot
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request

from gateway.inbound.mcp.door import read_head
from gateway.inbound.mcp.envelope import Refused, id_of, is_modern, read, version_of
from tests.inbound.served import ENVELOPE, MODERN

PARSE, INVALID, MISMATCH = -32700, -32600, -32020


def call(arguments: str = "{}", *, params: str = "", message: str = "", request_id: str = "7") -> bytes:
    """A `tools/call`, spelled out, with more JSON put in where a case wants it."""
    head = f'{{"jsonrpc":"2.0","id":{request_id},"method":"tools/call"{message}'
    return f'{head},"params":{{"name":"echo","arguments":{arguments}{params}}}}}'.encode()


REFUSALS: list[tuple[str, bytes, int, Any]] = [
    ("duplicate argument", call('{"amount":1,"\\u0061mount":1000000}'), PARSE, 7),
    ("duplicate name", call(params=',"name":"danger"'), PARSE, 7),
    ("duplicate in an array item", call('{"a":[{"x":1,"x":2}]}'), PARSE, 7),
    ("duplicate id", b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', PARSE, None),
    ("NaN", call('{"a":NaN}'), PARSE, 7),
    ("Infinity", call('{"a":-Infinity}'), PARSE, 7),
    ("overflow", call('{"a":1e400}'), PARSE, 7),
    ("5000 digits", call('{"a":%s}' % ("9" * 5000)), PARSE, None),
    ("lone surrogate", call('{"a":"\\ud800"}'), PARSE, 7),
    ("byte order mark", b"\xef\xbb\xbf" + call(), PARSE, None),
    ("utf-16", call().decode().encode("utf-16"), PARSE, None),
    ("overlong", call().replace(b"echo", b"\xc0\xaf"), PARSE, None),
    ("65 deep", call('{"a":%s}' % ("[" * 65 + "]" * 65)), PARSE, 7),
    ("100,000 deep", call('{"a":%s}' % ("[" * 100_000)), PARSE, None),
    ("truncated", call()[:-1], PARSE, None),
    ("nothing", b"", PARSE, None),
    ("NUL in a name", call().replace(b"echo", b"ec\\u0000ho"), INVALID, 7),
    ("NUL in a key", call('{"a\\u0000b":1}'), INVALID, 7),
    ("NUL in a method", b'{"jsonrpc":"2.0","id":7,"method":"pi\\u0000ng"}', INVALID, 7),
    ("100,000 keys", call(json.dumps({str(n): n for n in range(100_000)})), INVALID, 7),
    ("10,001 short keys", call(json.dumps({f"{n:x}": 0 for n in range(10_001)}, separators=(",", ":"))), INVALID, 7),
    ("NUL in a key, deep", call('{"a":[{"b\\u0000":1}]}'), INVALID, 7),
    ("taskid", call(params=',"taskid":"x"'), INVALID, 7),
    ("Name beside name", call(params=',"Name":"danger"'), INVALID, 7),
    ("long s", call(params=',"argument\u017f":{}'), INVALID, 7),
    ("full-width", call(params=',"\uff4eame":"danger"'), INVALID, 7),
    ("Kelvin sign", call(params=',"tas\u212a":{}'), INVALID, 7),
    ("METHOD", call(message=',"METHOD":"ping"'), INVALID, 7),
    ("Counterfoil/Key", call(params=',"_meta":{"Counterfoil/Key":"k"}'), INVALID, 7),
    ("batch", b"[" + call() + b"]", INVALID, None),
    ("empty batch", b"[]", INVALID, None),
    ("a string", b'"ping"', INVALID, None),
    ("no version", b'{"id":7,"method":"ping"}', INVALID, 7),
    ("version 1", b'{"jsonrpc":"1.0","id":7,"method":"ping"}', INVALID, 7),
    ("method and result", call(message=',"result":{}'), INVALID, 7),
    ("method and error", call(message=',"error":{"code":1,"message":""}'), INVALID, 7),
    ("neither", b'{"jsonrpc":"2.0","id":7}', INVALID, 7),
    ("result and error", b'{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":""}}', INVALID, 7),
    ("result of a list", b'{"jsonrpc":"2.0","id":7,"result":[]}', INVALID, 7),
    ("error without a code", b'{"jsonrpc":"2.0","id":7,"error":{"message":""}}', INVALID, 7),
    ("empty method", b'{"jsonrpc":"2.0","id":7,"method":""}', INVALID, 7),
    ("method of a number", b'{"jsonrpc":"2.0","id":7,"method":1}', INVALID, 7),
    ("a call without an id", b'{"jsonrpc":"2.0","method":"tools/call"}', INVALID, None),
    ("a path without an id", b'{"jsonrpc":"2.0","method":"../../../etc/passwd"}', INVALID, None),
    ("a result without an id", b'{"jsonrpc":"2.0","result":{}}', INVALID, None),
    *((f"id {spelt}", call(request_id=spelt), INVALID, None) for spelt in ("null", "1.5", "true", "{}", "[]")),
    ("id of 400 digits", call(request_id="9" * 400), INVALID, None),
    ("id of 129 characters", call(request_id=f'"{"a" * 129}"'), INVALID, None),
    ("id with NUL", call(request_id='"a\\u0000"'), INVALID, None),
    ("params of a list", b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}', INVALID, 7),
    ("_meta of a string", call(params=',"_meta":"x"'), INVALID, 7),
]


@pytest.mark.parametrize(("body", "code", "echoed"), [case[1:] for case in REFUSALS], ids=[c[0] for c in REFUSALS])
def test_what_two_readers_could_take_in_two_ways_is_refused(body: bytes, code: int, echoed: Any) -> None:
    with pytest.raises(Refused) as refused:
        read(body)
    assert (refused.value.code, refused.value.request_id) == (code, echoed)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"n":18446744073709551616,"m":-9223372036854775809,"i":1,"f":1.0,"z":-0.0}',
        '{"a":null,"__proto__":{"x":1},"":0,"é":1,"e\\u0301":2}',
        '{"s":"\\u2028 \\ud83d\\ude00 \\u0000"}',
        '{"a":%s}' % ("[" * 60 + "]" * 60),
        '{"Name":1,"name":2,"NAME":3}',
    ],
)
def test_what_is_strange_and_unambiguous_passes_untouched(arguments: str) -> None:
    assert repr(read(call(arguments))["params"]["arguments"]) == repr(json.loads(arguments))


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","id":"x","result":{}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":null}}',
        b'{"jsonrpc":"2.0","id":-1,"method":"vendor/thing","params":{"Color":1},"extra":1}',
    ],
)
def test_every_kind_of_message_passes(body: bytes) -> None:
    assert read(body) == json.loads(body)


def test_the_words_of_a_refusal_say_what_is_wrong() -> None:
    said = []
    for body in (call(params=',"Name":"x"'), b"[]", call(request_id="1.5"), call('{"a":1,"a":2}')):
        with pytest.raises(Refused) as refused:
            read(body)
        said.append(refused.value.message)
    assert said == snapshot(
        [
            "`Name` is too much like `name`",
            "batches are not accepted",
            "`id` must be an integer, or a string without NUL, of at most 128 characters",
            "the key `a` stands twice in one object",
        ]
    )


# --- headers against the body -----------------------------------------------------------------------------------------

MODERN_CALL = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {}, "_meta": ENVELOPE},
}
LEGACY_CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo"}}
GOOD = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "echo")]


Given = list[tuple[str, str]]


def without(name: str, *more: tuple[str, str]) -> Given:
    return [*(pair for pair in GOOD if pair[0] != name), *more]


def version(message: dict[str, Any], given: Given) -> str | None:
    """As the door asks, once it has read the head."""
    head = read_head([(name.encode(), value.encode()) for name, value in given])
    return version_of(message, head.headers, head.repeated)


@pytest.mark.parametrize(
    ("message", "given"),
    [
        (MODERN_CALL, without("mcp-protocol-version")),
        (MODERN_CALL, without("mcp-protocol-version", ("mcp-protocol-version", "2025-11-25"))),
        (MODERN_CALL, without("mcp-method")),
        (MODERN_CALL, without("mcp-method", ("mcp-method", "tools/list"))),
        (MODERN_CALL, without("mcp-name")),
        (MODERN_CALL, without("mcp-name", ("mcp-name", "safe"))),
        (MODERN_CALL, without("mcp-name", ("mcp-name", "Echo"))),
        (MODERN_CALL, without("mcp-name", ("mcp-name", "=?base64?c2FmZQ==?="))),
        (MODERN_CALL, without("mcp-name", ("mcp-name", "=?base64?!?="))),
        (MODERN_CALL, [*GOOD, ("mcp-name", "echo")]),
        (MODERN_CALL, [*GOOD, ("mcp-method", "tools/call")]),
        (MODERN_CALL, [*GOOD, ("mcp-protocol-version", MODERN)]),
        (LEGACY_CALL, [("mcp-method", "ping")]),
        (LEGACY_CALL, [("mcp-name", "safe")]),
        ({**LEGACY_CALL, "params": {}}, [("mcp-name", "safe")]),
    ],
)
def test_headers_that_say_something_else_than_the_body_are_refused(message: dict[str, Any], given: Given) -> None:
    with pytest.raises(Refused) as refused:
        version(message, given)
    assert (refused.value.code, refused.value.request_id) == (MISMATCH, 7)


@pytest.mark.parametrize(
    ("message", "given"),
    [
        (MODERN_CALL, GOOD),
        (MODERN_CALL, without("mcp-name", ("mcp-name", "=?base64?ZWNobw==?="))),
        (LEGACY_CALL, []),
        (LEGACY_CALL, [("mcp-protocol-version", "2025-06-18")]),
        (LEGACY_CALL, [("mcp-method", "tools/call"), ("mcp-name", "echo")]),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping"}, [("mcp-name", "whatever")]),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, []),
    ],
)
def test_headers_that_agree_with_the_body_pass(message: dict[str, Any], given: Given) -> None:
    assert version(message, given) == (MODERN if message is MODERN_CALL else None)


# --- the era ----------------------------------------------------------------------------------------------------------

UNKNOWN = "2099-01-01"
CAPABLE = "io.modelcontextprotocol/clientCapabilities"
VERSION = "io.modelcontextprotocol/protocolVersion"


def enveloped(meta: Any, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"_meta": meta}, **more}


def under(told: str, method: str = "ping") -> Given:
    return [("mcp-protocol-version", told), ("mcp-method", method)]


UNSUPPORTED = {"supported": [MODERN], "requested": UNKNOWN}
RUNGS: list[tuple[str, dict[str, Any], Given | None, int, Any]] = [
    ("no envelope under a modern header", LEGACY_CALL, GOOD, -32602, None),
    ("no envelope under an unknown header", LEGACY_CALL, under(UNKNOWN, "tools/call"), -32602, None),
    ("no capabilities", enveloped({VERSION: MODERN}), under(MODERN), -32602, None),
    ("no capabilities, on stdio", enveloped({VERSION: MODERN}), None, -32602, None),
    ("no version", enveloped({CAPABLE: {}}), under(MODERN), -32602, None),
    ("no capabilities, and another version", enveloped({VERSION: UNKNOWN}), under(MODERN), -32602, None),
    ("another version than the header's", enveloped({VERSION: UNKNOWN, CAPABLE: {}}), under(MODERN), MISMATCH, None),
    ("an unknown version", enveloped({VERSION: UNKNOWN, CAPABLE: {}}), under(UNKNOWN), -32022, UNSUPPORTED),
    ("an unknown version, on stdio", enveloped({VERSION: UNKNOWN, CAPABLE: {}}), None, -32022, UNSUPPORTED),
    ("a number as version, on stdio", enveloped({VERSION: 1, CAPABLE: {}}), None, -32602, None),
    ("an old version in the envelope, on stdio", enveloped({VERSION: "2025-11-25", CAPABLE: {}}), None, -32022,
     {"supported": [MODERN], "requested": "2025-11-25"}),
    ("a notification of an unknown version", {"jsonrpc": "2.0", "method": "notifications/x"},
     under(UNKNOWN, "notifications/x"), -32022, UNSUPPORTED),
]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "given", "code", "data"), [case[1:] for case in RUNGS], ids=[case[0] for case in RUNGS]
)
def test_the_first_rung_that_is_missing_is_told(
    message: dict[str, Any], given: Given | None, code: int, data: Any
) -> None:
    with pytest.raises(Refused) as refused:
        version_of(message) if given is None else version(message, given)
    assert (refused.value.code, refused.value.data, refused.value.request_id) == (code, data, message.get("id"))


@pytest.mark.parametrize("message", [case[1] for case in RUNGS[:9] if case[2] is not None])
def test_the_rungs_are_those_of_the_sdk(message: dict[str, Any]) -> None:
    given = dict(next(case[2] for case in RUNGS if case[1] is message and case[2] is not None))
    theirs = classify_inbound_request(message, headers=given)
    with pytest.raises(Refused) as refused:
        version_of(message, given)
    assert isinstance(theirs, InboundLadderRejection)
    assert (refused.value.code, refused.value.data) == (theirs.code, theirs.data)


def test_a_client_that_is_known_to_be_modern_must_send_its_envelope() -> None:
    assert version_of(LEGACY_CALL) is None
    with pytest.raises(Refused) as refused:
        version_of(LEGACY_CALL, modern=True)
    assert refused.value.code == -32602


def test_a_refusal_is_a_whole_response() -> None:
    assert Refused(-32022, "no", 7, UNSUPPORTED).response == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {"code": -32022, "message": "no", "data": UNSUPPORTED},
    }


def test_a_message_tells_its_era_and_its_id() -> None:
    assert is_modern(MODERN_CALL)
    assert not is_modern(LEGACY_CALL)
    assert [id_of({"id": value}) for value in (1, "a", None, True, 1.0)] == [1, "a", None, None, None]
