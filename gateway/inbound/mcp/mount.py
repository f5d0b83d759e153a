"""Where agents come in over HTTP: `/mcp`, and `/runs/{run}/mcp` for those who name their run."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType

from gateway.inbound.mcp.challenges import METADATA
from gateway.inbound.mcp.door import JSON, App, Guard, Receive, Scope, Send, respond
from gateway.inbound.mcp.doorkeeper import Doorkeeper
from gateway.inbound.mcp.http import BODY_TIMEOUT_S, MAX_BODY_BYTES, MAX_EACH, Front, Relay
from gateway.inbound.mcp.sessions import IDLE_S, MAX_SESSIONS, Sessions
from gateway.model.answer import Shown
from gateway.model.canonical import dump_bytes

_NO_PAGES: Mapping[str, App] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class HttpApp:
    """An ASGI application that serves while `running` is entered."""

    _app: App
    _front: Front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Legacy sessions live while this is entered, and end with it."""
        self._front.open()
        try:
            yield
        finally:
            self._front.close()

    def close(self) -> None:
        """Sessions and open streams end at once, so that a server that stops need not wait for them."""
        self._front.close()


def http_app(
    *,
    relay: Relay,
    delivered: Callable[[Shown], None],
    now: Callable[[], float],
    run_key: bytes | None = None,
    keeper: Doorkeeper | None = None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    pages: Mapping[str, App] = _NO_PAGES,
    body_timeout_s: float = BODY_TIMEOUT_S,
    idle_s: float = IDLE_S,
    max_sessions: int = MAX_SESSIONS,
    body_bytes: int = MAX_BODY_BYTES,
    each: int = MAX_EACH,
) -> HttpApp:
    """The door for agents over streamable HTTP; `pages` are served beside it, by their whole path.

    Run tokens are signed with `run_key`, 32 bytes or more, and judged by the time that `now` tells; without a key
    none is taken. A `keeper` says who comes in instead of both. Loopback may always call us; `hosts` are more names
    for us, for any port or with one, and `origins` the whole origins of pages that may. A request's body has at most
    `body_bytes`, and must arrive within `body_timeout_s`; of one principal's, `each` may be open at once. A legacy
    session ends when nothing was said for `idle_s`; of more than `max_sessions`, the idlest.
    """
    sessions = Sessions(relay.closed, idle_s=idle_s, limit=max_sessions)
    keeper = Doorkeeper(run_key=run_key, now=now) if keeper is None else keeper
    front = Front(
        relay,
        sessions,
        delivered=delivered,
        keeper=keeper,
        body_timeout_s=body_timeout_s,
        body_bytes=body_bytes,
        each=each,
    )
    told = None if keeper.oauth is None else dump_bytes(keeper.oauth.metadata)

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path == "/mcp":
            await front(scope, receive, send)
        elif told is not None and path in {METADATA, f"{METADATA}/mcp"}:
            await _tell(told, scope, send)
        elif path in pages:
            await pages[path](scope, receive, send)
        elif (run := _run_in(path)) is not None:
            scope["path_params"] = {"run": run}
            await front(scope, receive, send)
        else:
            await respond(send, 404, b"Not Found", ((b"content-type", b"text/plain; charset=utf-8"),))

    return HttpApp(Guard(route, hosts=hosts, origins=origins), front)


async def _tell(metadata: bytes, scope: Scope, send: Send) -> None:
    """Of whom we take tokens: everybody may know, so that a client can find out how to come in."""
    if scope["method"] not in {"GET", "HEAD"}:
        await respond(send, 405, b"", ((b"allow", b"GET, HEAD"),))
        return
    await respond(send, 200, metadata, (JSON, (b"cache-control", b"max-age=300")))


def _run_in(path: str) -> str | None:
    parts = path.split("/")
    fits = len(parts) == 4 and (parts[0], parts[1], parts[3]) == ("", "runs", "mcp")  # noqa: PLR2004 - /runs/{run}/mcp
    return parts[2] if fits and parts[2] else None
