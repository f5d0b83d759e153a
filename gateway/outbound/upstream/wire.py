"""bytes -> Incoming. JSON-RPC, judged once and strictly, for both transports; and what a call on its way out is.

What is not one unambiguous JSON-RPC message is `Malformed`: counted, said, and never taken for an answer.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gateway.model.canonical import JsonObject, NotStrictJson, dump_bytes, one_line, parse
from gateway.model.limits import DEFAULT
from gateway.model.tool import Answer, InputRequired, NotSent, ProtocolError, Silence, TaskStarted, ToolResult

MAX_MESSAGE = DEFAULT.answer_bytes
"""Where nothing else is said."""

MAX_DEPTH = 512
"""Results may be deeper than what a client may send; the parser itself gives up near 1,000."""

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022

Late: TypeAlias = Callable[[Answer], None]
Hear: TypeAlias = Callable[[str, Mapping[str, Any]], None]
"""What takes the method and the params of a notification."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request on its way out."""

    method: str
    params: Mapping[str, Any]
    """Without `_meta`, until a link has put it there."""
    timeout_s: float
    """Time in which the client is asked something does not count."""
    version: str | None = None
    """The protocol version that it is sent under; None for `initialize`, which settles it. A link puts it."""
    name: str | None = None
    """Of the tool, prompt, resource or task; HTTP says it in a header too."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """For HTTP only."""
    schema: Mapping[str, Any] | None = None
    """The tool's input schema, for arguments that HTTP says in headers too [SEP-2243]."""
    late: Late | None = None
    """As in `Dispatch`."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """The client's `_meta`."""
    heed_loss: bool = False
    """As in `Dispatch`."""
    left_s: Callable[[], float] | None = None
    """As in `Dispatch`."""

    def sent(self, params: Mapping[str, Any], version: str, headers: Mapping[str, str]) -> "Ask":
        """The same request with the params and headers that go out, under that version."""
        # Spelled out, as is done at every call: `replace` takes five times as long.
        return Ask(
            self.method,
            params,
            self.timeout_s,
            version,
            self.name,
            headers,
            self.schema,
            self.late,
            self.meta,
            self.heed_loss,
            self.left_s,
        )

    @property
    def too_late(self) -> bool:
        """Whether it may not be sent any more. Asked right before its first byte."""
        return self.left_s is not None and self.left_s() <= 0

    @property
    def acts(self) -> bool:
        """Whether the upstream may still be doing something after we gave up."""
        return self.method not in _PASSIVE


_PASSIVE = {"initialize", "server/discover", "ping", "logging/setLevel", "subscriptions/listen"} | {
    *("tools/list", "prompts/list", "resources/list", "resources/templates/list"),
    *("resources/subscribe", "resources/unsubscribe"),
}
"""What the gateway asks for itself: nobody wants an answer that comes late."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The upstream asks something of us."""

    id: int | str
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """A notification."""

    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answered:
    """A response. Whose it is, its id must tell: ours are integers."""

    id: int | str | None
    answer: Answer


@dataclass(frozen=True, slots=True)
class Malformed:
    """Not one strict JSON-RPC message."""

    id: int | None
    """Of the request that it seems to answer: good enough to end a wait, never to accept an answer."""
    reason: str


Incoming: TypeAlias = Asked | Told | Answered | Malformed


def read(body: bytes) -> Incoming:
    """What one message of an upstream is."""
    try:
        message = parse(body, max_depth=MAX_DEPTH)
    except NotStrictJson as error:
        return Malformed(_seeming_id(body), str(error))
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return Malformed(None, "not a JSON-RPC message")
    return _request(message) if "method" in message else _response(message)


def _request(message: JsonObject) -> Incoming:
    method, params, asked = message["method"], message.get("params", {}), message.get("id")
    if not isinstance(method, str) or not isinstance(params, dict):
        return Malformed(None, "a request whose method or params are of the wrong type")
    if "id" not in message:
        return Told(method, params)
    if isinstance(asked, int | str) and not isinstance(asked, bool):
        return Asked(asked, method, params)
    return Malformed(None, "a request whose id is neither an integer nor a string")


def _response(message: JsonObject) -> Incoming:
    answered = message.get("id")
    ours = answered if _is_int(answered) else None
    if "id" not in message or not (ours is not None or answered is None or isinstance(answered, str)):
        return Malformed(None, "a response without a proper id")
    if ("result" in message) == ("error" in message):
        return Malformed(ours, "a response must have either a result or an error")
    if "error" in message:
        return _error(answered, ours, message["error"])
    if not isinstance(message["result"], dict):
        return Malformed(ours, "the result is not an object")
    return Answered(answered, _result(message["result"]))


def _error(answered: int | str | None, ours: int | None, error: Any) -> Incoming:
    if not isinstance(error, dict) or not _is_int(error.get("code")) or not isinstance(error.get("message"), str):
        return Malformed(ours, "the error has no integer code, or no message")
    return Answered(answered, ProtocolError(error))


def _result(result: JsonObject) -> Answer:
    # Without `resultType` a result is complete; one that we do not know is invalid [MCP 2026-07-28, result types].
    match result.get("resultType", "complete"):
        case "complete":
            return ToolResult(result)
        case "input_required":
            return InputRequired(result)
        case "task":
            return TaskStarted(result)
        case other:
            return Silence(f"the answer is of the unknown result type `{str(other)[:64]}`")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_HEAD = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,\s*"(?:result|error)"')


def _seeming_id(body: bytes) -> int | None:
    if (head := _HEAD.match(body)) is not None:
        return int(head[1])
    try:
        # Numbers of many digits cost the square of their length; only those that can be an id of ours are read.
        message = json.loads(body.decode("utf-8", "replace"), parse_int=lambda text: int(text[:16]))
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or "method" in message or not _is_int(message.get("id")):
        return None
    return int(message["id"])


def encode(message: Mapping[str, Any]) -> bytes:
    """One message, without a line end.

    Raises: ValueError for what `parse` would not have returned (NaN, lone surrogates).
    """
    return one_line(dump_bytes(message))


def request(call_id: int, method: str, params: Mapping[str, Any]) -> JsonObject:
    """A request of ours."""
    return {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}


def notification(method: str, params: Mapping[str, Any]) -> JsonObject:
    """A notification of ours."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def cancelled(call_id: int) -> JsonObject:
    """Nobody waits for that call any longer."""
    return notification("notifications/cancelled", {"requestId": call_id, "reason": "the caller went away"})


def response(asked: int | str, answer: Answer) -> JsonObject:
    """What we answer to a request of the upstream's."""
    head = {"jsonrpc": "2.0", "id": asked}
    match answer:
        case ToolResult(result) | InputRequired(result) | TaskStarted(result):
            return {**head, "result": result}
        case ProtocolError(error):
            return {**head, "error": error}
        case NotSent(reason) | Silence(reason):
            return {**head, "error": {"code": INTERNAL_ERROR, "message": reason}}


def unknown(method: str) -> ProtocolError:
    """What we say of a request that nobody can answer."""
    return ProtocolError({"code": METHOD_NOT_FOUND, "message": f"Method not found: {method[:128]}"})


def legible(data: bytes, limit: int = 200) -> str:
    """The head of some bytes of an upstream, fit for a log: one line, nothing that a terminal would act on."""
    text = data[:limit].decode("utf-8", "backslashreplace")
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return f"{shown}..." if len(data) > limit else shown


def worth_saying(count: int) -> bool:
    """Whether the nth event of a kind is logged: a flood must not become a flood of ours."""
    return count <= 10 or count % 1000 == 0  # noqa: PLR2004 - enough to see what it is, rare enough to read
