"""Where agents come in over HTTP: `/mcp`, and `/runs/{run}/mcp` for those who name their run."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.inbound.mcp.door import BODY_TIMEOUT_S, MAX_BODY_BYTES, Door, Guard
from gateway.inbound.mcp.identity import Runs
from gateway.inbound.mcp.ports import Gate, Tools
from gateway.inbound.mcp.server import Observe, build_server, unobserved
from gateway.ports import Clock


@dataclass(frozen=True, slots=True)
class HttpApp:
    """An ASGI application that serves while `running` is entered, which may be done once."""

    _app: ASGIApp
    _sessions: StreamableHTTPSessionManager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Legacy sessions live while this is entered, and end with it."""
        async with self._sessions.run():
            yield


def http_app(
    *,
    gate: Gate,
    tools: Tools,
    make_id: Callable[[str], str],
    clock: Clock,
    version: str,
    run_key: bytes | None = None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    observe: Observe = unobserved,
    body_timeout_s: float = BODY_TIMEOUT_S,
) -> HttpApp:
    """The door for agents over streamable HTTP.

    Run tokens are signed with `run_key`, 32 bytes or more; without it none is taken. Loopback may always call
    us; `hosts` are more names for us, for any port or with one, and `origins` the whole origins of pages that
    may. A request's body must arrive within `body_timeout_s`.
    """
    server = build_server(gate=gate, tools=tools, runs=Runs(gate, make_id, clock), version=version, observe=observe)
    # SSE: in JSON mode the SDK relays no progress, and does not see that a modern client has left.
    sessions = StreamableHTTPSessionManager(server, max_request_body_size=MAX_BODY_BYTES)
    door = Door(
        sessions.handle_request,
        delivered=gate.delivered,
        run_key=run_key,
        now=clock.now,
        body_timeout_s=body_timeout_s,
    )
    routes = Router([Route("/mcp", door), Route("/runs/{run}/mcp", door)])
    return HttpApp(Guard(routes, hosts=hosts, origins=origins), sessions)
