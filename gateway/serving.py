"""A running gateway behind its fronts: one client over stdio, or any number over HTTP."""

import asyncio
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.app import MAKE_ID, Gateway
from gateway.inbound.console import Access, console_app, is_console
from gateway.inbound.console.api import Changes, api_routes
from gateway.inbound.console.assistants import Assistants
from gateway.inbound.console.pages import Live
from gateway.inbound.console.pages import pages as pages_of
from gateway.inbound.console.paths import CALLBACK, ROOT
from gateway.inbound.console.sessions import IDLE_S, LONGEST_S
from gateway.inbound.mcp import Relay, RequestInfo, http_app, relay_of, serve_stdio, server_config, unobserved
from gateway.outbound.oidc.flow import Flow
from gateway.outbound.oidc.provider import Provider
from gateway.reviewing import Reviewing
from gateway.runtime import trace

GRACE_S = 1
"""How long open streams may delay the end of the HTTP front; calls under way are the engine's to wait for."""
RESERVED = 512
"""Descriptors that are not for agents: the ledger, servers, verifiers, reviewers."""
LET_GO_S = 0.2
"""How long the answers may take that calls get which waited for a person."""


@contextmanager
def observed(info: RequestInfo) -> Iterator[None]:
    """The SERVER span around one request."""
    request = trace.Inbound(
        method=info.method,
        target=info.target,
        request_id=str(info.request_id),
        protocol_version=info.protocol_version,
        session=info.session,
        transport="pipe" if info.transport == "stdio" else "tcp",
        carrier=info.trace,
    )
    with trace.inbound(request):
        yield


def _relay(gateway: Gateway, seal_key: bytes | None) -> Relay:
    return relay_of(
        gate=gateway.engine,
        offers=gateway.catalogue,
        make_id=MAKE_ID,
        clock=gateway.book.clock,
        version=version("counterfoil"),
        seal_key=seal_key,
        screen=gateway.screen.listed,
        observe=observed if gateway.traced else unobserved,
    )


async def over_stdio(gateway: Gateway) -> None:
    """Serve the client on stdin and stdout until it leaves."""
    relay = _relay(gateway, None)
    try:
        await serve_stdio(relay=relay, delivered=gateway.engine.delivered)
    finally:
        relay.close()


async def over_http(gateway: Gateway, listening: socket.socket, run_key: bytes | None) -> None:
    """Serve clients at `/mcp` and `/runs/{run}/mcp`, and reviewers at `/console`, until told to stop.

    `/healthz` and `/readyz` say how we are.
    """

    async def alive(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(_: Request) -> Response:
        able, said = gateway.ready()
        return JSONResponse(said, status_code=200 if able else 503)

    relay = _relay(gateway, run_key)
    pages = Starlette(routes=[Route("/healthz", alive), Route("/readyz", ready)])
    door = http_app(
        relay=relay,
        delivered=gateway.engine.delivered,
        now=gateway.book.clock.now,
        run_key=run_key,
        pages={"/healthz": pages, "/readyz": pages},
        idle_s=gateway.session_idle_s,
        max_sessions=gateway.limits.sessions,
        body_bytes=gateway.limits.request_bytes,
        body_timeout_s=gateway.limits.request_s,
    )
    console = None if gateway.reviewing is None else _console(gateway, gateway.reviewing)
    front = door if console is None else _beside(door, console.app)
    server = _Server(
        server_config(front, connections=room_for(gateway.limits.connections), timeout_graceful_shutdown=GRACE_S)
    )
    async with door.running(), nullcontext() if console is None else console.assistants.running():
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        try:
            await asyncio.shield(serving)
        finally:
            await _let_go(relay)
            relay.close()
            door.close()
            if console is not None:
                console.close()
            server.should_exit = True  # uvicorn closes its connections only on its own way out
            await serving


def room_for(wanted: int) -> int:
    """How many connections there may be: not so many that no descriptor is left for the ledger and the servers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = wanted + RESERVED
    if soft != resource.RLIM_INFINITY and soft < enough:
        soft = enough if hard == resource.RLIM_INFINITY else min(hard, enough)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(16, min(wanted, soft - RESERVED))


class _Console(NamedTuple):
    """What reviewers come to."""

    app: ASGIApp
    assistants: Assistants
    changes: Changes
    live: Live

    def close(self) -> None:
        """Sessions and open streams end at once."""
        self.assistants.close()
        self.changes.close()
        self.live.close()


def _console(gateway: Gateway, reviewing: Reviewing) -> _Console:
    told, ledger = reviewing.settings, gateway.book.ledger
    access = Access(
        keys=reviewing.keys,
        now=gateway.book.clock.now,
        once=ledger.once,
        said=ledger.said,
        url=reviewing.url,
        idle_s=IDLE_S if told.idle_s is None else told.idle_s,
        longest_s=LONGEST_S if told.longest_s is None else told.longest_s,
        oidc=_flow(reviewing, gateway.book.clock.monotonic),
        revoked=told.revoked,
    )
    desk, book, ours = gateway.desk, gateway.book, version("counterfoil")
    assistants = Assistants(desk, book, url=reviewing.url, state_key=reviewing.keys.rounds, version=ours)
    changes = Changes(desk, book.clock.monotonic)
    api = (*api_routes(desk, book, changes, version=ours), *assistants.routes())
    live = Live(desk)
    shown = pages_of(desk, book, gateway.catalogue, gateway.ready, live)
    return _Console(console_app(desk, access, pages=shown, api=api), assistants, changes, live)


def _flow(reviewing: Reviewing, monotonic: Callable[[], float]) -> Flow | None:
    told = reviewing.settings.oidc
    return None if told is None else Flow(Provider(told, monotonic), f"{reviewing.url}{ROOT}{CALLBACK}")


def _beside(door: ASGIApp, console: ASGIApp) -> ASGIApp:
    """Agents at the one, reviewers at the other; each has a guard of its own."""

    async def front(scope: Scope, receive: Receive, send: Send) -> None:
        reviews = scope["type"] == "http" and is_console(scope["path"])
        await (console if reviews else door)(scope, receive, send)

    return front


async def _let_go(relay: Relay) -> None:
    """Calls that wait for a person were answered, if their clients read."""
    held = relay.holding
    relay.release()
    if held:
        await asyncio.sleep(LET_GO_S)


class _Server(uvicorn.Server):
    """Leaves the signals to the command, so that both fronts stop in the same way."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
