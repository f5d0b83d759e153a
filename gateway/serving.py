"""A running gateway behind its fronts: one client over stdio, or any number over HTTP."""

import asyncio
import resource
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.app import Gateway
from gateway.inbound.console import Access, console_app, is_console
from gateway.inbound.console.api import Changes, api_routes
from gateway.inbound.console.assistants import Assistants
from gateway.inbound.console.connecting import Connecting
from gateway.inbound.console.pages import Live
from gateway.inbound.console.pages import pages as pages_of
from gateway.inbound.console.paths import CALLBACK, ROOT
from gateway.inbound.console.sessions import IDLE_S, LONGEST_S
from gateway.inbound.mcp import (
    HEAD_KEY,
    Fault,
    Observe,
    Relay,
    RequestInfo,
    Tell,
    doorkeeper_of,
    http_app,
    is_here,
    relay_of,
    serve_stdio,
    server_config,
    unobserved,
)
from gateway.outbound.oidc.flow import Flow
from gateway.outbound.oidc.provider import Provider
from gateway.plan import MAKE_ID
from gateway.reviewing import Reviewing
from gateway.runtime import trace
from gateway.runtime.lineage import opened_from

GRACE_S = 1
"""How long open streams may delay the end of the HTTP front; calls under way are the engine's to wait for."""
NO_FIGURES = "no figures are kept: say `prometheus: true` under `telemetry` in gateway.yaml, or OTEL_METRICS_EXPORTER\n"
NOT_FROM_AFAR = "figures are told on this machine alone: scrape them here, or have them sent over OTLP\n"
RESERVED = 512
"""Descriptors that are not for agents: the ledger, servers, verifiers, reviewers."""
LET_GO_S = 0.2
"""How long the answers may take that calls get which waited for a person."""


def observing(telemetry: trace.Telemetry) -> Observe:
    """The SERVER span around each request."""

    @contextmanager
    def observe(info: RequestInfo) -> Iterator[Tell]:
        request = trace.Inbound(
            method=info.method,
            tool=info.tool,
            prompt=info.prompt,
            resource=info.resource,
            request_id=str(info.request_id),
            protocol_version=info.protocol_version,
            session=info.session,
            transport="pipe" if info.transport == "stdio" else "tcp",
            meta=info.meta,
            headers=info.headers,
        )
        with telemetry.inbound(request) as told:
            try:
                yield told.result
            except Fault as fault:
                told.refused(fault.error.get("code"), str(fault.error.get("message") or ""))
                raise
            except asyncio.CancelledError:
                told.fail("cancelled")
                raise
            except Exception as error:
                told.fail(type(error).__name__)
                raise

    return observe


def _relay(gateway: Gateway, seal_key: bytes | None) -> Relay:
    return relay_of(
        gate=gateway.engine,
        offers=gateway.catalogue,
        make_id=MAKE_ID,
        clock=gateway.book.clock,
        version=version("counterfoil"),
        seal_key=seal_key,
        screen=gateway.screen.listed,
        observe=unobserved if gateway.telemetry is None else observing(gateway.telemetry),
    )


async def over_stdio(gateway: Gateway) -> None:
    """Serve the client on stdin and stdout until it leaves."""
    relay = _relay(gateway, None)
    try:
        await serve_stdio(relay=relay, delivered=gateway.engine.delivered)
    finally:
        relay.close()


def readiness(scope: Scope, said: Mapping[str, Any], *, able: bool) -> Mapping[str, Any]:
    """How we are, for who is on this machine; others hear whether we are ready, and not what stands behind us."""
    return said if is_here(scope, scope[HEAD_KEY]) else {"ready": able}


def shown(listening: socket.socket) -> str:
    """Host and port at which it listens."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def over_http(gateway: Gateway, listening: socket.socket, run_key: bytes | None) -> None:
    """Serve clients at `/mcp` and `/runs/{run}/mcp`, and reviewers at `/console`, until told to stop.

    `/healthz` and `/readyz` say how we are, `/metrics` in figures.
    """

    async def alive(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        able, said = gateway.ready()
        return JSONResponse(readiness(request.scope, said, able=able), status_code=200 if able else 503)

    async def figures(request: Request) -> Response:
        if not is_here(request.scope, request.scope[HEAD_KEY]):
            return PlainTextResponse(NOT_FROM_AFAR, status_code=403)
        if gateway.scrape is None:
            return PlainTextResponse(NO_FIGURES, status_code=404)
        body, media_type = await asyncio.to_thread(gateway.scrape)
        return Response(body, media_type=media_type)

    relay = _relay(gateway, run_key)
    pages = Starlette(routes=[Route("/healthz", alive), Route("/readyz", ready), Route("/metrics", figures)])
    connections = room_for(gateway.limits.connections)
    clock, url = gateway.book.clock, gateway.agents.url or f"http://{shown(listening)}"
    door = http_app(
        relay=relay,
        delivered=gateway.engine.delivered,
        now=clock.now,
        keeper=doorkeeper_of(
            gateway.agents,
            url=url,
            run_key=run_key,
            clock=clock,
            said=gateway.book.ledger.said,
            opened_from=partial(opened_from, gateway.book.ledger),
            on_behalf=gateway.catalogue.personal,
            by_token=gateway.catalogue.by_token,
        ),
        hosts=[urlsplit(url).netloc],
        pages={"/healthz": pages, "/readyz": pages, "/metrics": pages},
        idle_s=gateway.session_idle_s,
        max_sessions=gateway.limits.sessions,
        body_bytes=gateway.limits.request_bytes,
        body_timeout_s=gateway.limits.request_s,
        each=max(1, connections // 2),
    )
    console = None if gateway.reviewing is None else _console(gateway, gateway.reviewing)
    front = door if console is None else _beside(door, console.app)
    server = _Server(server_config(front, connections=connections, timeout_graceful_shutdown=GRACE_S))
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
    )
    desk, book, ours = gateway.desk, gateway.book, version("counterfoil")
    assistants = Assistants(desk, book, url=reviewing.url, state_key=reviewing.keys.rounds, version=ours)
    changes = Changes(desk, book.clock.monotonic)
    api = (*api_routes(desk, book, changes, version=ours), *assistants.routes())
    live = Live(desk)
    connecting = Connecting.of(access, gateway.catalogue.consented)
    shown = pages_of(desk, book, gateway.catalogue, gateway.ready, live, gateway.masks, connecting)
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
