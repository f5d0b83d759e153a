"""What stands before everything HTTP: who may call us at all, and what of a request's head is read, once.

No message gets in that two readers could take in two ways, and none that a browser on another site can send.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from mcp_types.jsonrpc import INVALID_REQUEST

from gateway.inbound.mcp.envelope import Refused, failure, read, version_of
from gateway.model.canonical import JsonObject, dump_bytes

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HEAD_KEY = "counterfoil.head"
"""Where the scope holds the `Head` that was read from it."""

MAX_HEADER_BYTES = 32 * 1024
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})

JSON = (b"content-type", b"application/json")
CLOSE = (b"connection", b"close")

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]/@]+)(?::[0-9]{1,5})?")
_ORIGIN = re.compile(r"https?://(?P<host>[^/]+)")

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]


async def respond(send: Send, status: int, body: bytes, headers: Headers = ()) -> None:
    """The whole response is written."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


class Turned(Exception):
    """The request is answered at the door: a JSON-RPC error with an HTTP status."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: int = INVALID_REQUEST,
        request_id: str | int | None = None,
        data: Mapping[str, Any] | None = None,
        headers: Headers = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self._error = failure(code, message, request_id, data)
        self._headers = headers

    async def answer(self, send: Send) -> None:
        """It is said."""
        await respond(send, self.status, dump_bytes(self._error), (JSON, *self._headers))


@dataclass(slots=True, frozen=True)
class Head:
    """The header lines of one request."""

    headers: Mapping[str, str]
    """By lower-case name; what stood there several times is joined by commas [RFC 9110, 5.3]."""
    repeated: frozenset[str]
    """Names that did."""

    def only(self, name: str) -> str | None:
        """The header that may stand there once.

        Raises: Turned.
        """
        if name in self.repeated:
            raise Turned(400, f"the header `{name}` stands there twice")
        return self.headers.get(name)


_NONE: frozenset[str] = frozenset()


def read_head(raw: Iterable[tuple[bytes, bytes]]) -> Head:
    """The header lines, as the ASGI server found them: names in lower case.

    Raises: Turned if they are too many.
    """
    headers: dict[str, str] = {}
    repeated, size = _NONE, 0
    for name, value in raw:
        size += len(name) + len(value) + 4
        key, text = name.decode("latin-1"), value.decode("latin-1")
        if key in headers:
            repeated, text = repeated | {key}, f"{headers[key]}, {text}"
        headers[key] = text
    if size > MAX_HEADER_BYTES:
        raise Turned(431, f"the header block is longer than {MAX_HEADER_BYTES} bytes", headers=(CLOSE,))
    return Head(headers, repeated)


class Guard:
    """Lets through what a browser on another site cannot have sent [CVE-2025-66414, CVE-2025-49596: DNS rebinding].

    `hosts` are names, with a port or for any port; `origins` are whole origins. Loopback is always allowed. What
    gets through has its `Head` in the scope.
    """

    def __init__(self, app: App, *, hosts: Sequence[str] = (), origins: Sequence[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts) | LOOPBACK
        self._origins = frozenset(origin.lower() for origin in origins)
        self._is_ours = lru_cache(maxsize=64)(self._names_us)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] == "http":
            try:
                head = read_head(scope["headers"])
                self._check(head)
            except Turned as turned:
                await turned.answer(send)
                return
            scope[HEAD_KEY] = head
        await self._app(scope, receive, send)

    def _check(self, head: Head) -> None:
        headers = head.headers
        check_framing(headers)
        if not self._is_ours(headers.get("host", "")):
            raise Turned(421, "this gateway does not answer to that host name", headers=(CLOSE,))
        origin = headers.get("origin")
        if origin is not None and not self._is_friend(origin.lower()):
            raise Turned(403, "requests from that origin are not accepted", headers=(CLOSE,))

    def _names_us(self, host: str) -> bool:
        """Two hosts, joined by a comma, name nobody."""
        return bool({host.lower(), _name_of(host)} & self._hosts)

    def _is_friend(self, origin: str) -> bool:
        local = _ORIGIN.fullmatch(origin)
        return origin in self._origins or (local is not None and _name_of(local["host"]) in LOOPBACK)


def check_framing(headers: Mapping[str, str]) -> None:
    """The body ends where every reader takes it to end.

    Raises: Turned.
    """
    if "transfer-encoding" in headers and not ("content-length" not in headers and _is_chunked(headers)):
        # A server that took the one for the other would answer what was smuggled behind the body [hardening T27].
        raise Turned(400, "a request has a length or is chunked, not both", headers=(CLOSE,))


def _is_chunked(headers: Mapping[str, str]) -> bool:
    return headers["transfer-encoding"].strip().lower() == "chunked"


def _name_of(host: str) -> str | None:
    found = _HOST.fullmatch(host.lower())
    return found[1] if found else None


def read_message(body: bytes, head: Head) -> tuple[JsonObject, str | None]:
    """The message, and its version if it is modern.

    Raises: Turned.
    """
    try:
        message = read(body)
        return message, version_of(message, head.headers, head.repeated)
    except Refused as refused:
        raise Turned(
            400, refused.message, code=refused.code, request_id=refused.request_id, data=refused.data
        ) from None


def check_accept(head: Head, *wanted: str) -> None:
    """The client takes all of these media types, as it must say [MCP, streamable HTTP].

    Raises: Turned.
    """
    if not set(wanted) <= _accepted(head.headers.get("accept", "")):
        raise Turned(406, f"not acceptable: the client must accept {' and '.join(wanted)}")


STREAM_TYPE = "text/event-stream"
JSON_TYPE = "application/json"


@lru_cache(maxsize=64)
def _accepted(accept: str) -> frozenset[str]:
    """Which of our two media types are taken; wildcards count [RFC 9110, 12.5.1]."""
    kinds = {kind.split(";")[0].strip().lower() for kind in accept.split(",")}
    ours = ((JSON_TYPE, "application/*"), (STREAM_TYPE, "text/*"))
    return frozenset(media for media, group in ours if kinds & {media, group, "*/*"})


def check_content(head: Head) -> None:
    """The body is JSON in UTF-8, as it is.

    Raises: Turned.
    """
    coding = head.headers.get("content-encoding")
    if coding is not None and any(part.strip().lower() != "identity" for part in coding.split(",")):
        raise Turned(415, "bodies with a content encoding are not accepted")
    if "content-type" in head.repeated or not _is_json(head.headers.get("content-type", "")):
        raise Turned(415, "the content type must be `application/json`, in UTF-8")


@lru_cache(maxsize=64)
def _is_json(kind: str) -> bool:
    media, *parameters = kind.lower().split(";")
    charsets = {text.partition("=")[2].strip().strip('"') for text in parameters if text.strip().startswith("charset=")}
    return media.strip() == JSON_TYPE and charsets <= {"utf-8", "utf8"}


def at_once(receive: Receive) -> Message | None:
    """The next message, if it need not be waited for. To ask changes nothing: whoever begins to wait may stop."""
    waiting = receive().__await__()
    try:
        next(waiting)
    except StopIteration as said:
        message: Message = said.value
        return message
    waiting.close()
    return None
