import json
from typing import Any

import pytest

from gateway.model.tool import InputRequired, ProtocolError, Silence, TaskStarted, ToolResult
from gateway.outbound.upstream.wire import (
    Answered,
    Asked,
    Incoming,
    Malformed,
    Told,
    encode,
    legible,
    notification,
    read,
    response,
    unknown,
    worth_saying,
)

DIGITS = "a number has more digits than 4300"
ERROR = {"code": -32000, "message": "no", "data": [1], "extra": None}

MESSAGES: list[tuple[dict[str, Any], Incoming]] = [
    ({"id": 1, "result": {"a": None}}, Answered(1, ToolResult({"a": None}))),
    ({"id": 1, "result": {"resultType": "complete"}}, Answered(1, ToolResult({"resultType": "complete"}))),
    ({"id": 1, "result": {"resultType": "task"}}, Answered(1, TaskStarted({"resultType": "task"}))),
    ({"id": 1, "result": {"resultType": "x"}}, Answered(1, Silence("the answer is of the unknown result type `x`"))),
    ({"id": 1, "result": {"resultType": 1}}, Answered(1, Silence("the answer is of the unknown result type `1`"))),
    (
        {"id": 1, "result": {"resultType": "input_required"}},
        Answered(1, InputRequired({"resultType": "input_required"})),
    ),
    ({"id": "1", "result": {}}, Answered("1", ToolResult({}))),
    ({"id": None, "error": ERROR}, Answered(None, ProtocolError(ERROR))),
    ({"id": 1, "result": []}, Malformed(1, "the result is not an object")),
    ({"id": 1, "result": {}, "error": ERROR}, Malformed(1, "a response must have either a result or an error")),
    ({"id": 1}, Malformed(1, "a response must have either a result or an error")),
    ({"id": 1, "error": {"code": "1", "message": ""}}, Malformed(1, "the error has no integer code, or no message")),
    ({"id": 1, "error": {"code": 1}}, Malformed(1, "the error has no integer code, or no message")),
    ({"id": True, "result": {}}, Malformed(None, "a response without a proper id")),
    ({"id": 1.0, "result": {}}, Malformed(None, "a response without a proper id")),
    ({"result": {}}, Malformed(None, "a response without a proper id")),
    ({"method": "a"}, Told("a", {})),
    ({"method": "a", "params": {"b": 1}}, Told("a", {"b": 1})),
    ({"method": "a", "id": "x"}, Asked("x", "a", {})),
    ({"method": "a", "id": 1, "params": {"b": None}}, Asked(1, "a", {"b": None})),
    ({"method": "a", "id": None}, Malformed(None, "a request whose id is neither an integer nor a string")),
    ({"method": "a", "id": True}, Malformed(None, "a request whose id is neither an integer nor a string")),
    ({"method": 1}, Malformed(None, "a request whose method or params are of the wrong type")),
    ({"method": "a", "params": [1]}, Malformed(None, "a request whose method or params are of the wrong type")),
]


@pytest.mark.parametrize(("message", "incoming"), MESSAGES)
def test_a_message_is_what_its_members_say(message: dict[str, Any], incoming: Incoming) -> None:
    assert read(json.dumps({"jsonrpc": "2.0", **message}).encode()) == incoming


@pytest.mark.parametrize(
    ("body", "incoming"),
    [
        (b"[]", Malformed(None, "not a JSON-RPC message")),
        (b"1", Malformed(None, "not a JSON-RPC message")),
        (b'{"id":1,"result":{}}', Malformed(None, "not a JSON-RPC message")),
        (b'{"jsonrpc":"2.0","id":3,"result":{"a":1,"a":2}}', Malformed(3, "the key `a` stands twice in one object")),
        (b'{"jsonrpc":"2.0","id":3,"result":{"a":NaN}}', Malformed(3, "`NaN` is not JSON")),
        (b'{"jsonrpc":"2.0","id":3,"result":{"a":"\xff"}}', Malformed(3, "the body is not UTF-8")),
        (b'{"jsonrpc":"2.0","id":true,"result":{"a":NaN}}', Malformed(None, "`NaN` is not JSON")),
        (b'{"jsonrpc":"2.0","id":3,"method":"a","a":NaN}', Malformed(None, "`NaN` is not JSON")),
        (b"[NaN]", Malformed(None, "`NaN` is not JSON")),
        (b'{"jsonrpc":"2.0","id":3,"result":{"a":%s}}' % (b"7" * 5000), Malformed(3, DIGITS)),
        (b'{"jsonrpc":"2.0","result":{"a":%s},"id":3}' % (b"7" * 5000), Malformed(3, DIGITS)),
        (b'{"id": 3, "result": %s' % (b"[" * 100_000), Malformed(3, "nested deeper than 512 levels")),
        (b"[" * 100_000, Malformed(None, "nested deeper than 512 levels")),
    ],
)
def test_what_is_not_strict_is_never_an_answer_but_may_end_a_wait(body: bytes, incoming: Incoming) -> None:
    assert read(body) == incoming


def test_what_a_client_answers_is_passed_on_under_the_id_of_the_question() -> None:
    assert response("a", ToolResult({"b": None})) == {"jsonrpc": "2.0", "id": "a", "result": {"b": None}}
    assert response(1, ProtocolError(ERROR)) == {"jsonrpc": "2.0", "id": 1, "error": ERROR}
    refusal = {"code": -32601, "message": "Method not found: roots/list"}
    assert response(1, unknown("roots/list")) == {"jsonrpc": "2.0", "id": 1, "error": refusal}
    gone = {"code": -32603, "message": "the client went away"}
    assert response(2, Silence("the client went away")) == {"jsonrpc": "2.0", "id": 2, "error": gone}


def test_what_we_write_is_one_line_to_every_reader() -> None:
    body = encode(notification("a", {"b": "1\n2\r3\u20284\u2029é"}))
    assert body.decode() == '{"jsonrpc":"2.0","method":"a","params":{"b":"1\\n2\\r3\\u20284\\u2029é"}}'
    assert json.loads(body)["params"] == {"b": "1\n2\r3\u20284\u2029é"}


def test_a_log_shows_the_head_of_what_came_and_obeys_none_of_it() -> None:
    assert legible(b"\x1b[8mhid\r\n\xffden \xe2\x80\xae") == "\\x1b[8mhid\\r\\n\\xffden \\u202e"
    assert legible(b"x" * 300) == "x" * 200 + "..."


def test_a_flood_is_logged_at_its_beginning_and_then_now_and_then() -> None:
    assert [count for count in range(1, 3001) if worth_saying(count)] == [*range(1, 11), 1000, 2000, 3000]
