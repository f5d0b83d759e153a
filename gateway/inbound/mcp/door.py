"""What stands before everything HTTP: no message reaches the SDK that two readers could take in two ways.

The same bytes are then replayed to the SDK, whose own parse serves its envelope only; the message that was
parsed here is the one that is hashed, approved and sent. On the way out the door knows whether the answer
was written to a client that was still there.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp_types.jsonrpc import INVALID_REQUEST
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.inbound.mcp.envelope import Refused, check_headers, id_of, is_modern, is_request, read
from gateway.inbound.mcp.exchange import SCOPE_KEY, Exchange, Flights
from gateway.inbound.mcp.identity import ANONYMOUS, NotLetIn, run_token
from gateway.inbound.mcp.tokens import RunToken
from gateway.model.answer import Shown
from gateway.model.canonical import JsonObject, dump

MAX_BODY_BYTES = 4 * 1024 * 1024
"""As the SDK's own limit."""
MAX_DRAINED_BYTES = 64 * 1024 * 1024
"""Of a body that is refused: read so far, so that the client hears why instead of a reset."""
MAX_HEADER_BYTES = 32 * 1024
BODY_TIMEOUT_S = 30.0
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]/@]+)(?::[0-9]{1,5})?")
_ORIGIN = re.compile(r"https?://(?P<host>[^/]+)")


class Turned(Exception):
    """The request is answered at the door."""

    def __init__(
        self, status: int, message: str, *, code: int = INVALID_REQUEST, request_id: Any = None, close: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self._error = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}
        self._headers = {"connection": "close"} if close else None

    @property
    def response(self) -> Response:
        """A JSON-RPC error with an HTTP status."""
        return Response(dump(self._error), self.status, self._headers, "application/json")


class Guard:
    """Lets through what a browser on another site cannot have sent [CVE-2025-66414, CVE-2025-49596: DNS rebinding].

    `hosts` are names, with a port or for any port; `origins` are whole origins. Loopback is always allowed.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str] = (), origins: Sequence[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts) | LOOPBACK
        self._origins = frozenset(origin.lower() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            try:
                _check_framing(headers)
                self._check(headers.getlist("host"), headers.getlist("origin"))
            except Turned as turned:
                await turned.response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, hosts: Sequence[str], origins: Sequence[str]) -> None:
        if len(hosts) != 1 or not {hosts[0].lower(), _name_of(hosts[0])} & self._hosts:
            raise Turned(421, "this gateway does not answer to that host name", close=True)
        if not origins:
            return  # no browser
        origin = origins[0].lower()
        local = _ORIGIN.fullmatch(origin)
        if len(origins) == 1 and (origin in self._origins or (local and _name_of(local["host"]) in LOOPBACK)):
            return
        raise Turned(403, "requests from that origin are not accepted", close=True)


def _name_of(host: str) -> str | None:
    found = _HOST.fullmatch(host.lower())
    return found[1] if found else None


class Door:
    """Reads each POST strictly, claims its run, and tells when its answer was delivered."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        delivered: Callable[[Shown], None],
        run_key: bytes | None,
        now: Callable[[], float],
        body_timeout_s: float = BODY_TIMEOUT_S,
    ) -> None:
        self._app = app
        self._delivered = delivered
        self._run_key = run_key
        self._now = now
        self._body_timeout_s = body_timeout_s
        self._flights = Flights()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        headers = Headers(scope=scope)
        try:
            body = await self._body(receive) if scope["method"] == "POST" else None
            message = _read(body, headers) if body is not None else None
            exchange = self._exchange(message or {}, headers, self._token(scope, headers, message))
        except _ClientGone:
            return
        except Turned as turned:
            await turned.response(scope, receive, send)
            return
        scope[SCOPE_KEY] = exchange
        # A session belongs to whoever opened it; to all others the SDK says that there is none.
        owner = dump([exchange.principal.tenant, exchange.principal.id])
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=owner, scopes=[]))
        try:
            if body is None:
                await self._app(scope, receive, send)
            else:
                wire = _Wire(exchange, body, receive, send, self._delivered)
                await self._app(scope, wire.receive, wire.send)
        finally:
            exchange.release()

    def _token(self, scope: Scope, headers: Headers, message: JsonObject | None) -> RunToken | None:
        try:
            return run_token(headers, scope.get("path_params", {}).get("run"), self._run_key, self._now())
        except NotLetIn as error:
            # Not 401: to MCP clients that is an invitation to start an OAuth flow.
            raise Turned(403, str(error), request_id=id_of(message or {})) from None

    async def _body(self, receive: Receive) -> bytes:
        body, size = bytearray(), 0
        with anyio.move_on_after(self._body_timeout_s) as limit:
            while size <= MAX_DRAINED_BYTES:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _ClientGone
                part = message.get("body", b"")
                size += len(part)
                if size <= MAX_BODY_BYTES:
                    body += part
                if not message.get("more_body", False):
                    break
        if limit.cancelled_caught:
            raise Turned(408, f"the body did not arrive within {self._body_timeout_s:g} seconds", close=True)
        if size > MAX_BODY_BYTES:
            raise Turned(413, f"the body is longer than {MAX_BODY_BYTES} bytes", close=True)
        return bytes(body)

    def _exchange(self, message: JsonObject, headers: Headers, token: RunToken | None) -> Exchange:
        principal = token.principal if token is not None else ANONYMOUS
        session = None if is_modern(message) else headers.get("mcp-session-id")
        exchange = Exchange(message, principal, "http", headers, session, token)
        if session is not None:
            self._flights.note(exchange)
            if is_request(message) and not self._flights.board(exchange):
                raise Turned(400, "a request with that id is still under way", request_id=id_of(message))
        return exchange


class _ClientGone(Exception):
    """Nobody is left to answer."""


class _Wire:
    """The client's side of one POST: gives the body once more, and sees how the answer goes out."""

    def __init__(
        self, exchange: Exchange, body: bytes, receive: Receive, send: Send, delivered: Callable[[Shown], None]
    ) -> None:
        self._exchange = exchange
        self._body: bytes | None = body
        self._receive = receive
        self._send = send
        self._delivered = delivered
        self._status = 0
        self._streams = False
        self._gone = False
        self._ended = False

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        message = await self._receive()
        if message["type"] == "http.disconnect" and not self._ended:
            self._gone = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] != "http.response.body":
            self._status = message["status"]
            self._streams = Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")
            await self._send(message)
            return
        last = not message.get("more_body", False)
        answers = self._exchange.shown is not None and self._answers(message.get("body", b""), last=last)
        if answers:
            await checkpoint()  # a disconnect that has arrived is seen first
        await self._send(message)
        # Told at once: the client may repeat the call in the very next moment, and is then taken to mean it.
        if answers and not self._gone:
            self._tell()
        self._ended = last

    def _answers(self, part: bytes, *, last: bool) -> bool:
        """Whether this part completes the answer. In a stream that is its event, whatever ends the stream later."""
        if not self._streams:
            return last
        return part != b"" and not part.startswith(b":")  # a comment is a sign of life and no answer

    def _tell(self) -> None:
        shown, self._exchange.shown = self._exchange.shown, None  # once
        failed = self._status >= 500  # noqa: PLR2004 - HTTP's own line
        if shown is not None and not failed and not self._exchange.cancelled:
            self._delivered(shown)


def _read(body: bytes, headers: Headers) -> JsonObject:
    _check_content(headers)
    try:
        message = read(body)
        check_headers(message, headers)
    except Refused as refused:
        raise Turned(400, refused.message, code=refused.code, request_id=refused.request_id) from None
    return message


def _check_framing(headers: Headers) -> None:
    if sum(len(name) + len(value) + 4 for name, value in headers.raw) > MAX_HEADER_BYTES:
        raise Turned(431, f"the header block is longer than {MAX_HEADER_BYTES} bytes", close=True)
    if "transfer-encoding" in headers and "content-length" in headers:
        # h11 would read on behind the body and answer what was smuggled there [hardening T27].
        raise Turned(400, "a request has a length or is chunked, not both", close=True)


def _check_content(headers: Headers) -> None:
    if any(coding.strip().lower() != "identity" for coding in headers.getlist("content-encoding")):
        raise Turned(415, "bodies with a content encoding are not accepted")
    kinds = headers.getlist("content-type")
    media, *parameters = kinds[0].lower().split(";") if len(kinds) == 1 else ("",)
    charsets = [text.partition("=")[2].strip().strip('"') for text in parameters if text.strip().startswith("charset=")]
    if media.strip() != "application/json" or not set(charsets) <= {"utf-8", "utf8"}:
        raise Turned(415, "the content type must be `application/json`, in UTF-8")
