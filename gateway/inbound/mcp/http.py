"""Streamable HTTP of both eras: one request in, and what is said about it out.

A modern request stands for itself, and its client withdraws it by leaving. A legacy request belongs to a
conversation, goes on when its connection is lost, and its answer is kept [MCP 2025-11-25, streamable HTTP].
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from mcp_types.jsonrpc import INTERNAL_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from gateway.inbound.mcp.bodies import ClientGone, rest_of
from gateway.inbound.mcp.door import (
    CLOSE,
    HEAD_KEY,
    JSON_TYPE,
    STREAM_TYPE,
    Head,
    Receive,
    Scope,
    Send,
    Turned,
    at_once,
    check_accept,
    check_content,
    read_message,
    respond,
)
from gateway.inbound.mcp.doorkeeper import ANYBODY, Doorkeeper, Visitor, without_credentials
from gateway.inbound.mcp.envelope import failure, id_of, is_request
from gateway.inbound.mcp.exchange import Exchange, Session
from gateway.inbound.mcp.sessions import Carrier, Conversation, Sessions
from gateway.inbound.mcp.streams import Event, Watch, Wire, answering_frame, quietly_framed
from gateway.model.answer import Shown
from gateway.model.canonical import JsonObject
from gateway.model.limits import DEFAULT
from gateway.model.principal import Principal
from gateway.outbound.upstream.sdk import ERROR_CODE_HTTP_STATUS, MCP_PROTOCOL_VERSION_HEADER

_LOG = logging.getLogger("counterfoil.inbound")

MAX_BODY_BYTES = DEFAULT.request_bytes
BODY_TIMEOUT_S = DEFAULT.request_s
MAX_EACH = DEFAULT.connections // 2
"""Requests of one principal's that may be open at once: streams and calls that wait take up connections."""
ROOM = "end some, or let each agent come in under a name of its own"
ROOM_S = 5
LISTEN = "subscriptions/listen"
STANDS_S = 10.0
"""Between two looks whether who listens to a stream would still be let in."""

REQUEST_CANCELLED = -32800
"""What ends the response to a legacy request that its client cancelled, as the SDK's servers do."""

_NO_SESSION = (
    "the header `mcp-session-id` is missing: send `initialize` first and then its answer's header, "
    "or speak MCP 2026-07-28, which has no sessions"
)


class Relay(Protocol):
    """What the transports ask of the relay."""

    async def request(self, exchange: Exchange) -> JsonObject | None:
        """The whole response; None if none may be sent. Never raises."""
        ...

    def notice(self, exchange: Exchange) -> None:
        """A notification, or a client's response to one of our requests."""
        ...

    def leaving(self, session: Session) -> None:
        """Nothing more is heard from there; what waits for a person is answered now."""
        ...

    def closed(self, session: Session) -> None:
        """The conversation has ended."""
        ...


class Reply(Wire):
    """The response to a modern request: what is said before the answer goes over it too."""

    __slots__ = ("exchange",)

    exchange: Exchange

    def send(self, message: JsonObject) -> None:
        """The message goes out, if somebody is there."""
        data = quietly_framed(message)
        if data is not None:
            self.push(Event(data))

    def pause(self, _retry_ms: int | None) -> None:
        """Nothing happens: a modern client does not come back."""

    def lost(self) -> None:
        """The client has withdrawn its request; whether it meant to cannot be known."""
        self.exchange.withdrawal.say(cancelled=False)

    def cut(self) -> None:
        """As if the client had left."""
        super().cut()
        self.exchange.withdrawal.say(cancelled=False)


class Front:
    """The endpoint, as an ASGI application behind a `Guard`; `path_params` may hold `run`."""

    def __init__(
        self,
        relay: Relay,
        sessions: Sessions,
        *,
        delivered: Callable[[Shown], None],
        keeper: Doorkeeper,
        body_timeout_s: float = BODY_TIMEOUT_S,
        body_bytes: int = MAX_BODY_BYTES,
        each: int = MAX_EACH,
    ) -> None:
        """`each` is how many requests of one principal's may be open at once."""
        self._open: Counter[tuple[str, str]] = Counter()
        self._each = each
        self._relay = relay
        self._sessions = sessions
        self._delivered = delivered
        self._keeper = keeper
        self._body_timeout_s = body_timeout_s
        self._body_bytes = body_bytes
        self._streaming: set[Wire] = set()
        self._watch = Watch()
        self._closing = False

    def open(self) -> None:
        """Requests are taken."""
        self._closing = False

    def close(self) -> None:
        """No request is taken, all sessions have ended, and open streams end at once."""
        self._closing = True
        self._sessions.close()
        for wire in list(self._streaming):
            wire.cut()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        head: Head = scope[HEAD_KEY]
        try:
            if self._closing:
                await Turned(503, "the gateway is stopping", code=INTERNAL_ERROR, headers=(CLOSE,)).answer(send)
            elif scope["method"] == "POST":
                await self._post(scope, head, receive, send)
            else:
                await self._other(scope, head, receive, send)
        except ClientGone:
            return
        except Turned as turned:
            await turned.answer(send)
        except asyncio.CancelledError:
            if not self._closing:
                raise
            # The server's way of ending us, of which it would log each as an error: the stream is cut already.

    # --- POST: a message ----------------------------------------------------------------------------------------------

    async def _post(self, scope: Scope, head: Head, receive: Receive, send: Send) -> None:
        check_accept(head, JSON_TYPE, STREAM_TYPE)
        check_content(head)
        visitor = await self._keeper.visitor(scope, head)
        with self._counted(visitor):
            await self._posted(visitor, scope, head, receive, send)

    async def _posted(self, visitor: Visitor, scope: Scope, head: Head, receive: Receive, send: Send) -> None:
        message, version = read_message(await self._body(receive), head)
        self._keeper.check_scopes(visitor, message)
        if version is None:
            await self._legacy(message, visitor, scope, receive, send)
        elif is_request(message):
            wire = Reply(scope, receive, send, self._delivered, self._streaming)
            headers = without_credentials(head.headers)
            exchange = Exchange(message, visitor.principal, "http", wire, headers, None, visitor.token)
            exchange.behalf = visitor.behalf
            exchange.found_again = partial(self._found_again, scope, head)
            exchange.lacks = partial(self._keeper.lacking, visitor)
            wire.exchange = exchange
            if message["method"] == LISTEN and visitor is not ANYBODY:
                with self._standing(scope, head, wire):
                    await self._modern(exchange, wire)
            else:
                await self._modern(exchange, wire)
        elif "method" in message:
            # Cancelling is leaving; and to cancel by an id of one's own choosing would be to cancel for others.
            await respond(send, 202, b"")
        else:
            raise Turned(400, "the body must be one request or notification", request_id=id_of(message))

    async def _modern(self, exchange: Exchange, wire: Reply) -> None:
        answer = await self._answer(exchange, wire)
        if answer is None:
            answer = failure(INTERNAL_ERROR, "the request was withdrawn", exchange.message["id"])
        if wire.streams:
            wire.push(Event(answering_frame(answer, exchange), exchange))
            wire.end()
            await wire.complete()
            return
        error = answer.get("error")
        await wire.plain(answer, 200 if error is None else ERROR_CODE_HTTP_STATUS.get(error["code"], 200), exchange)

    async def _answer(self, exchange: Exchange, wire: Wire) -> JsonObject | None:
        """What the relay says. The request stays in this task: only what takes longer costs a task to watch it."""
        self._watch.add(wire)
        try:
            return await self._relay.request(exchange)
        except asyncio.CancelledError:  # the server has waited long enough for its own end
            exchange.withdrawal.say(cancelled=False)
            if wire.streams or wire.ended:
                wire.release()
                raise
            return failure(INTERNAL_ERROR, "the gateway is stopping", exchange.message["id"])
        except Exception:  # noqa: BLE001 - the relay's promise is broken: the client must not wait for ever
            _LOG.exception("%s failed", exchange.message["method"])
            exchange.shown = None
            return failure(INTERNAL_ERROR, "internal error", exchange.message["id"])
        finally:
            self._watch.drop(wire)

    async def _legacy(
        self,
        message: JsonObject,
        visitor: Visitor,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        head: Head = scope[HEAD_KEY]
        principal, token, headers = visitor.principal, visitor.token, without_credentials(head.headers)
        session_id = head.only("mcp-session-id")
        opens = session_id is None and message.get("method") == "initialize" and is_request(message)
        if session_id is None and not opens:
            raise Turned(400, _NO_SESSION, request_id=id_of(message))
        conversation = (
            Conversation(principal)
            if session_id is None
            else self._sessions.find(session_id, principal, id_of(message))
        )
        session = conversation.session
        if not is_request(message):
            with self._sessions.used(conversation):
                told = Exchange(message, principal, "http", session.line, headers, session, token)
                told.behalf = visitor.behalf
                self._notice(told)
            await respond(send, 202, b"", conversation.headers)
            return
        track = conversation.track()
        wire = Carrier(scope, receive, send, self._delivered, self._streaming, conversation.headers)
        wire.track, track.wire = track, wire
        exchange = Exchange(message, principal, "http", track, headers, session, token)
        exchange.behalf = visitor.behalf
        exchange.found_again = partial(self._found_again, scope, head)
        if not session.flights.board(exchange):
            conversation.settle(track)
            raise Turned(400, "a request with that id is still under way", request_id=id_of(message))
        if opens:
            self._sessions.make_room()
        with self._sessions.used(conversation):
            try:
                answer = await self._answer(exchange, wire)
                if opens and answer is not None and "result" in answer and session.version is not None:
                    self._opened(conversation)
                if answer is None:
                    answer = failure(REQUEST_CANCELLED, "Request cancelled", id_of(message))
                await track.answer(exchange, answer, wire)
            finally:
                session.flights.land(exchange)
                conversation.settle(track)

    def _notice(self, exchange: Exchange) -> None:
        try:
            self._relay.notice(exchange)
        except Exception:  # noqa: BLE001 - a promise of the relay is broken, and the client cannot help it
            _LOG.exception("a notification failed")

    def _opened(self, conversation: Conversation) -> None:
        """The conversation has begun."""
        if self._closing:
            self._relay.closed(conversation.session)
        else:
            self._sessions.admit(conversation)

    # --- GET: a stream; DELETE: the end -------------------------------------------------------------------------------

    async def _other(self, scope: Scope, head: Head, receive: Receive, send: Send) -> None:
        told = head.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if told is not None and told not in HANDSHAKE_PROTOCOL_VERSIONS:
            raise Turned(405, "method not allowed", headers=((b"allow", b"POST"),))
        if scope["method"] not in {"GET", "DELETE"}:
            raise Turned(405, "method not allowed", headers=((b"allow", b"GET, POST, DELETE"),))
        if scope["method"] == "GET":
            check_accept(head, STREAM_TYPE)
        visitor = await self._keeper.visitor(scope, head)
        session_id = head.only("mcp-session-id")
        if session_id is None:
            raise Turned(400, _NO_SESSION)
        conversation = self._sessions.find(session_id, visitor.principal, None)
        if scope["method"] == "DELETE":
            self._sessions.end(conversation)
            await respond(send, 200, b"", conversation.headers)
            return
        wire = Carrier(scope, receive, send, self._delivered, self._streaming, conversation.headers)
        last = head.only("last-event-id")
        with self._counted(visitor), self._sessions.used(conversation):
            if last:
                conversation.resume(last, wire)
            elif conversation.general.wire is not None:
                raise Turned(409, "only one stream is allowed per session")
            else:
                wire.track = conversation.general
                conversation.general.carry(wire, None)
            try:
                with self._standing(scope, head, wire):
                    await wire.complete()
            finally:
                wire.track.drop(wire)

    async def _found_again(self, scope: Scope, head: Head) -> Principal | None:
        """Who sent that request, as far as it can be said now that they would still be let in."""
        try:
            return (await self._keeper.visitor(scope, head)).principal
        except Turned:
            return None

    @contextmanager
    def _counted(self, visitor: Visitor) -> Iterator[None]:
        """Their request is open; so many of one principal's are, at most, that others have connections left.

        Raises: Turned.
        """
        owner = visitor.principal.whose
        if self._open[owner] >= self._each:
            says = f"{self._each} requests of yours are open, as many as may be: {ROOM}"
            raise Turned(503, says, code=INTERNAL_ERROR, headers=((b"retry-after", b"%d" % ROOM_S),))
        self._open[owner] += 1
        try:
            yield
        finally:
            self._open[owner] -= 1
            if not self._open[owner]:
                del self._open[owner]

    @contextmanager
    def _standing(self, scope: Scope, head: Head, wire: Wire) -> Iterator[None]:
        """Who opened that stream hears no more soon after they would not be let in any more."""

        async def looking() -> None:
            while True:
                await asyncio.sleep(STANDS_S)
                try:
                    await self._keeper.visitor(scope, head)
                except Turned as turned:
                    if turned.status != 503:  # noqa: PLR2004 - that cannot be said now
                        wire.cut()
                        return

        looks = asyncio.ensure_future(looking())
        try:
            yield
        finally:
            looks.cancel()

    # --- the parts of a request ---------------------------------------------------------------------------------------

    async def _body(self, receive: Receive) -> bytes:
        there = at_once(receive)  # most bodies are, and cost no timer
        if there is not None and there["type"] == "http.request" and not there.get("more_body", False):
            body: bytes = there.get("body", b"")
            if len(body) <= self._body_bytes:
                return body
        try:
            async with asyncio.timeout(self._body_timeout_s):
                return await rest_of(await receive() if there is None else there, receive, self._body_bytes)
        except asyncio.CancelledError:
            if not self._closing:
                raise
            raise Turned(503, "the gateway is stopping", code=INTERNAL_ERROR, headers=(CLOSE,)) from None
        except TimeoutError:
            said = f"the body did not arrive within {self._body_timeout_s:g} seconds"
            raise Turned(408, said, headers=(CLOSE,)) from None
