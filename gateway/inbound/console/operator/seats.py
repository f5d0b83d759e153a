"""A reviewer's share of the sessions that assistants may have: beyond it their own oldest idle one gives way."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.inbound.console.api.problems import answer_of, problem_of

EACH = 8
"""Sessions of one reviewer; a client has one."""
SESSION = "mcp-session-id"

Whose: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class _Theirs:
    """What one reviewer has."""

    doing: dict[str, int] = field(default_factory=dict)
    """How many requests of a session are being answered; by session, the one that was used last at the end."""
    opening: int = 0

    def beyond(self) -> str | None:
        """The session that gives way, if there are too many."""
        if len(self.doing) <= EACH:
            return None
        return next((name for name, requests in self.doing.items() if not requests), next(iter(self.doing)))


class Seats:
    """An ASGI application before that of the sessions; it is told whose each request is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._all: dict[Whose, _Theirs] = {}

    async def handle(self, whose: Whose, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        headers = Headers(scope=scope)
        session, version = headers.get(SESSION), headers.get("mcp-protocol-version")
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._app(scope, receive, send)  # the newer era has no sessions
        elif session is None:
            await self._open(whose, scope, receive, send)
        else:
            await self._go_on(whose, session, scope, receive, send)

    async def _open(self, whose: Whose, scope: Scope, receive: Receive, send: Send) -> None:
        with self._of(whose) as theirs:
            if theirs.opening >= EACH:
                too_many = problem_of(429, "sessions", f"{EACH} sessions of yours are being opened: wait for them")
                await answer_of(too_many)(scope, receive, send)
                return
            theirs.opening += 1
            try:
                status, session = await _heard(self._app, scope, receive, send)
            finally:
                theirs.opening -= 1
            if session is not None and status < 400:  # noqa: PLR2004 - an error opens nothing
                theirs.doing.setdefault(session, 0)
            while (gone := theirs.beyond()) is not None:
                del theirs.doing[gone]
                await self._app(*_ending(scope, gone))

    async def _go_on(self, whose: Whose, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        with self._of(whose) as theirs:
            known = theirs.doing.pop(session, None)
            works = scope["method"] == "POST"  # who only listens does nothing
            if known is not None:
                theirs.doing[session] = known + works
            try:
                status, _ = await _heard(self._app, scope, receive, send)
            finally:
                if session in theirs.doing and known is not None:
                    theirs.doing[session] -= works
            if status == 404 or scope["method"] == "DELETE":  # noqa: PLR2004 - it is over
                theirs.doing.pop(session, None)

    @contextmanager
    def _of(self, whose: Whose) -> Iterator[_Theirs]:
        theirs = self._all.setdefault(whose, _Theirs())
        try:
            yield theirs
        finally:
            if not theirs.doing and not theirs.opening:
                self._all.pop(whose, None)


async def _heard(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> tuple[int, str | None]:
    """The status that was answered, and the session that the answer names."""
    said: tuple[int, str | None] = (500, None)

    async def hearing(message: Message) -> None:
        nonlocal said
        if message["type"] == "http.response.start":
            said = message["status"], Headers(raw=list(message.get("headers", ()))).get(SESSION)
        await send(message)

    await app(scope, receive, hearing)
    return said


def _ending(
    scope: Scope, session: str
) -> tuple[Scope, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]]:
    """A request of the same reviewer that ends that session, as a client would."""

    async def nothing() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def unheard(_: Message) -> None: ...

    return {**scope, "method": "DELETE", "headers": [(SESSION.encode(), session.encode())]}, nothing, unheard
