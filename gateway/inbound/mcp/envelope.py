"""bytes -> the one message that every reader of them would agree on, or `Refused`. Pure.

What a lenient parser would take in two ways is refused here, before anything reads it: duplicate keys,
`Name` beside `name`, a message that is both request and response, batches [GHSA-4gph-2hhr-5mwg,
CVE-2026-27896; hardening T17-T24].
"""

import json
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeGuard

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, LOG_LEVEL_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.jsonrpc import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from gateway.model.canonical import JsonObject, NotStrictJson, parse
from gateway.outbound.upstream.sdk import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PARAM_HEADER_PREFIX,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    decode_header_value,
)

MAX_KEYS = 10_000
"""Keys in one message; real calls have dozens."""
_MIN_KEY_BYTES = 5
"""`"":0,`"""
_NUL = b"\\u0000"
MAX_ID_CHARS = 128
KEY_META = "counterfoil/key"
"""The caller's own idempotency key, in `_meta`."""

NAMES = {**NAME_BEARING_METHODS, "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}
"""Method to the parameter that `Mcp-Name` mirrors; the SDK's table and the tasks extension."""

_ENVELOPE = ("jsonrpc", "id", "method", "params", "result", "error")
_PARAMS = (
    *("name", "arguments", "_meta", "uri", "cursor", "requestState", "inputResponses", "task", "taskId"),
    *("protocolVersion", "capabilities", "clientInfo", "requestId", "reason", "level"),
    *("progressToken", "progress", "total", "message", "ref", "argument", "context", "notifications"),
)
_META = (
    *(PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, LOG_LEVEL_META_KEY),
    *("progressToken", KEY_META),
)


_ROUTING = (MCP_PROTOCOL_VERSION_HEADER, MCP_METHOD_HEADER, MCP_NAME_HEADER, MCP_PARAM_HEADER_PREFIX.lower())
_REQUIRED = (PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY)


class Refused(Exception):
    """The message is answered with this JSON-RPC error and never dispatched."""

    def __init__(
        self, code: int, message: str, request_id: str | int | None, data: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.request_id = request_id
        self.data = data

    @property
    def response(self) -> JsonObject:
        """The whole of what is answered."""
        return failure(self.code, self.message, self.request_id, self.data)


def failure(code: int, message: str, request_id: str | int | None, data: Mapping[str, Any] | None = None) -> JsonObject:
    """A JSON-RPC error response."""
    error: JsonObject = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def read(body: bytes) -> JsonObject:
    """The message in these bytes: one request, notification or response.

    Raises: Refused, with the request's id wherever it can be told.
    """
    try:
        message = parse(body)
    except NotStrictJson as error:
        raise Refused(PARSE_ERROR, str(error), _salvaged_id(body)) from None
    if isinstance(message, list):
        raise Refused(INVALID_REQUEST, "batches are not accepted", None)
    if not isinstance(message, dict):
        raise Refused(INVALID_REQUEST, "the message must be one JSON object", None)
    # A short body has neither many keys nor, without this escape, a NUL: most messages need not be walked through.
    wide = len(body) >= MAX_KEYS * _MIN_KEY_BYTES or _NUL in body
    for rule in RULES if wide else RULES[:-1]:
        fault = rule(message)
        if fault is not None:
            raise Refused(INVALID_REQUEST, fault, id_of(message))
    return message


def id_of(message: JsonObject) -> str | int | None:
    """The message's id, if it is one that may be echoed."""
    found = message.get("id")
    return found if _is_id(found) else None


def is_request(message: JsonObject) -> bool:
    """Whether the message is owed an answer."""
    return "method" in message and "id" in message


def params_of(message: JsonObject) -> JsonObject:
    """The parameters; none is the same as an empty object."""
    return message.get("params") or {}


def meta_of(message: JsonObject) -> JsonObject:
    """`params._meta`; none is the same as an empty object."""
    return params_of(message).get("_meta") or {}


def is_modern(message: JsonObject) -> bool:
    """Whether the message carries the envelope of MCP 2026-07-28."""
    return PROTOCOL_VERSION_META_KEY in meta_of(message)


def version_of(
    message: JsonObject,
    headers: Mapping[str, str] | None = None,
    repeated: Collection[str] = (),
    *,
    modern: bool = False,
) -> str | None:
    """The version of MCP 2026-07-28 or later that the message is in; None for one of the era of `initialize`.

    Over HTTP the routing headers must say what the body says, and a modern request has them all [SEP-2243]: only the
    body is ever judged by policy, but whoever stands before us may have routed by a header. `headers` are by
    lower-case name; without them (stdio) the body alone decides, unless the client is known to be `modern`.
    `repeated` are names that stood there twice.

    The rungs are those of the SDK's `classify_inbound_request`, in its order and words, and stricter where a header
    is concerned.

    Raises: Refused.
    """
    for name in repeated:
        if name.startswith(_ROUTING):
            raise _mismatch(message, f"the header `{name}` stands there twice")
    meta = meta_of(message)
    told = headers.get(MCP_PROTOCOL_VERSION_HEADER) if headers is not None else None
    handshakes = told is None or told in HANDSHAKE_PROTOCOL_VERSIONS
    if not modern and handshakes and PROTOCOL_VERSION_META_KEY not in meta:
        if headers is not None:
            _agree(message, headers, required=False)
        return None
    if is_request(message):
        missing = [key for key in _REQUIRED if key not in meta]
        if missing:
            fault = f"params._meta is missing the required envelope key(s): {', '.join(missing)}"
            raise Refused(INVALID_PARAMS, fault, id_of(message))
    version = meta.get(PROTOCOL_VERSION_META_KEY, told)
    if headers is not None:
        if told != version:
            raise _mismatch(message, f"`{MCP_PROTOCOL_VERSION_HEADER}` is missing or is not what `_meta` says")
        _agree(message, headers, required=is_request(message))
    return _supported(message, version)


def _supported(message: JsonObject, version: Any) -> str:
    if not isinstance(version, str):
        # Not -32022: it is the one code after which a client that tries both eras does not try the other.
        raise Refused(INVALID_PARAMS, "the protocol-version envelope value must be a string", id_of(message))
    if version not in MODERN_PROTOCOL_VERSIONS:
        data = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": version}
        raise Refused(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", id_of(message), data)
    return version


def _agree(message: JsonObject, headers: Mapping[str, str], *, required: bool) -> None:
    method = headers.get(MCP_METHOD_HEADER)
    if (required or method is not None) and method != message.get("method"):
        raise _mismatch(message, f"`{MCP_METHOD_HEADER}` is missing or is not the method of the body")
    bearer = NAMES.get(message.get("method", ""))
    if bearer is None:
        return
    wanted, named = params_of(message).get(bearer), headers.get(MCP_NAME_HEADER)
    due = (required and isinstance(wanted, str)) or named is not None
    if due and decode_header_value(named) != wanted:
        raise _mismatch(message, f"`{MCP_NAME_HEADER}` is missing or is not the name in the body")


def _mismatch(message: JsonObject, fault: str) -> Refused:
    return Refused(HEADER_MISMATCH, fault, id_of(message))


# --- the rules of one message, in order -------------------------------------------------------------------------------


def _unambiguous_names(message: JsonObject) -> str | None:
    """No member equals a known one but for case or compatibility characters (`Name`, or `params` with a long s)."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    for part, known in ((message, _KNOWN_ENVELOPE), (params, _KNOWN_PARAMS), (meta, _KNOWN_META)):
        for name in part if isinstance(part, dict) else ():
            meant = known.get(name)
            if meant == name:
                continue
            meant = known.get(_folded(name))
            if meant is not None and meant != name:
                return f"`{name}` is too much like `{meant}`"
    return None


def _width(message: JsonObject) -> str | None:
    count = 0
    stack: list[Any] = [message]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            count += len(part)
            if count > MAX_KEYS:
                return f"the message has more than {MAX_KEYS} keys"
            if any("\0" in key for key in part):
                return "a key holds a NUL character"
        children: Iterable[Any] = part.values() if isinstance(part, dict) else part
        stack.extend(child for child in children if isinstance(child, dict | list))
    return None


def _version(message: JsonObject) -> str | None:
    return None if message.get("jsonrpc") == "2.0" else "`jsonrpc` must be `2.0`"


def _kind(message: JsonObject) -> str | None:
    if "method" in message:
        method = message["method"]
        if not isinstance(method, str) or not method or "\0" in method:
            return "`method` must be a string that is not empty"
        return "a message with a method has no result" if {"result", "error"} & message.keys() else None
    if ("result" in message) == ("error" in message):
        return "the message must have a method, a result or an error"
    if "result" in message:
        return None if isinstance(message["result"], dict) else "`result` must be an object"
    error = message["error"]
    fit = isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str)
    return None if fit else "`error` must be an object with a code and a message"


def _id(message: JsonObject) -> str | None:
    if "id" not in message:
        notifies = str(message.get("method", "")).startswith("notifications/")
        return None if notifies else "only a notification comes without an id"
    if _is_id(message["id"]) or (message["id"] is None and "error" in message):
        return None
    return f"`id` must be an integer, or a string without NUL, of at most {MAX_ID_CHARS} characters"


def _params(message: JsonObject) -> str | None:
    params = message.get("params")
    if params is None:
        return None
    if not isinstance(params, dict):
        return "`params` must be an object"
    # Null is tolerated: Claude Cowork sends `_meta: null` [claude-code#76391].
    if not isinstance(params.get("_meta"), dict | None):
        return "`_meta` must be an object"
    for name in ("name", "uri", "taskId"):
        if isinstance(params.get(name), str) and "\0" in params[name]:
            return f"`{name}` holds a NUL character"
    return None


RULES: tuple[Callable[[JsonObject], str | None], ...] = (_unambiguous_names, _version, _kind, _id, _params, _width)
"""Each tells what is wrong with the message, or None. The last looks at every part of it."""


def _is_id(value: object) -> TypeGuard[str | int]:
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARS and "\0" not in value
    return type(value) is int and len(str(value)) <= MAX_ID_CHARS


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _known(names: Iterable[str]) -> dict[str, str]:
    return {_folded(name): name for name in names}


_KNOWN_ENVELOPE, _KNOWN_PARAMS, _KNOWN_META = _known(_ENVELOPE), _known(_PARAMS), _known(_META)


class _Pairs(list[tuple[str, Any]]):
    """An object whose keys may repeat."""


def _salvaged_id(body: bytes) -> str | int | None:
    """The one id of a message that is not strict JSON but can be read; clients of 2026 wait for its echo."""
    try:
        pairs = json.loads(body.decode("utf-8"), object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return None
    ids = [value for name, value in pairs if name == "id"] if isinstance(pairs, _Pairs) else []
    return ids[0] if len(ids) == 1 and _is_id(ids[0]) else None
