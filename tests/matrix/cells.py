"""The cells of the matrix: a client, a front of the real gateway, and an upstream, each of its era and transport."""

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import anyio

from gateway.inbound.mcp import Relay, http_app, relay_of
from gateway.model.policy import Policy
from gateway.outbound.clock import SystemClock
from gateway.outbound.ledger import MemoryLedger
from gateway.outbound.upstream.catalogue import Catalogue
from gateway.outbound.upstream.spec import HttpSpec, Patience, Spec, StdioSpec
from gateway.plan import MAKE_ID
from gateway.runtime.book import Book, Options
from gateway.runtime.engine import Engine
from gateway.runtime.policies import Policies
from tests.cli.agents import counterfoil
from tests.inbound.served import listening
from tests.matrix.agent import BOUND_S, CAN, MODERN, Agent, Json
from tests.matrix.wires import HttpWire, PipeWire, over_http, over_pipes

ROOT = Path(__file__).parent.parent.parent
LEGACY = "2025-11-25"
VERSIONS = ("2025-03-26", "2025-06-18", LEGACY, MODERN)
FRONTS = ("stdio", "http")
UPSTREAMS = ((LEGACY, "stdio"), (LEGACY, "http"), (LEGACY, "sse"), (MODERN, "stdio"), (MODERN, "http"))

POLICY = {
    "workflow": "open",
    "tools": {"*": {"effect": "read", "timeout_s": 10, "grace_s": 0}},
    "transitions": [{"name": "any", "tools": ["*"]}],
}
"""Lets all through; and to read is to be sent anew each time."""
PATIENCE = Patience(start_s=BOUND_S, debounce_s=0.01)


class Place(NamedTuple):
    """Where in the matrix."""

    version: str
    front: str
    era: str
    transport: str

    def __str__(self) -> str:
        return f"{self.version}-{self.front}-{'modern' if self.era == MODERN else 'legacy'}_{self.transport}"


PLACES: Sequence[Place] = [
    Place(version, front, *upstream) for upstream, front, version in itertools.product(UPSTREAMS, FRONTS, VERSIONS)
]


@dataclass
class Cell:
    """A client that is introduced, and what stands behind it."""

    place: Place
    agent: Agent
    base: str
    """Of the servers over HTTP."""

    @property
    def modern(self) -> bool:
        """Whether the client is of the newer era."""
        return self.agent.modern

    @property
    def upstream_modern(self) -> bool:
        return self.place.era == MODERN


def spec_of(place: Place, base: str) -> Spec:
    if place.transport == "stdio":
        return StdioSpec("up", sys.executable, ("-m", "tests.servers.matrix", place.era), {}, str(ROOT))
    return HttpSpec("up", url_of(place, base))


def url_of(place: Place, base: str) -> str:
    name = "sse" if place.transport == "sse" else "modern" if place.era == MODERN else "legacy"
    return f"{base}/{name}"


@asynccontextmanager
async def opened(place: Place, base: str, can: Json | None = None, *, patience_s: float = 55.0) -> AsyncIterator[Cell]:
    """The cell, with the real gateway in this process; the client declares `can`, or all that its version knows."""
    declared = CAN[place.version] if can is None else can
    async with AsyncExitStack() as stack:
        relay, engine = await stack.enter_async_context(_gateway(place, base, patience_s))
        wire: HttpWire | PipeWire
        if place.front == "http":
            app = http_app(relay=relay, delivered=engine.delivered, now=SystemClock().now)
            port = await stack.enter_async_context(listening(app))
            stack.push_async_callback(engine.carrier.close)  # so that no cancelled call keeps the server waiting
            wire = await stack.enter_async_context(over_http(f"http://127.0.0.1:{port}/mcp"))
        else:
            wire = await stack.enter_async_context(over_pipes(relay, engine.delivered))
        agent = await stack.enter_async_context(introduced(place, wire, declared))
        yield Cell(place, agent, base)


@asynccontextmanager
async def commanded(place: Place, base: str, folder: Path) -> AsyncIterator[Cell]:
    """The same cell with the real command, `counterfoil serve`, as a process of its own."""
    server: Json = {"command": sys.executable, "args": ["-m", "tests.servers.matrix", place.era], "cwd": str(ROOT)}
    entry = server if place.transport == "stdio" else {"url": url_of(place, base)}
    ledger = f"sqlite:///{folder / 'ledger.db'}"
    config = {"listen": {"port": 0}, "ledger": ledger, "policies": "policies", "mcpServers": {"up": entry}}
    (folder / "policies").mkdir()
    (folder / "policies" / "open.yaml").write_text(json.dumps(POLICY))
    (folder / "gateway.yaml").write_text(json.dumps(config))
    command = ["serve", "--config", str(folder / "gateway.yaml"), *(["--stdio"] if place.front == "stdio" else [])]
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(counterfoil(*command))
        wire: HttpWire | PipeWire
        if place.front == "http":
            url = await gateway.hear(r"listening at (http://\S+)")
            wire = await stack.enter_async_context(over_http(url))
        else:
            assert gateway.process.stdin is not None
            assert gateway.process.stdout is not None
            wire = PipeWire(gateway.process.stdin.write, gateway.process.stdout)
        agent = await stack.enter_async_context(introduced(place, wire, CAN[place.version]))
        yield Cell(place, agent, base)


@asynccontextmanager
async def introduced(place: Place, wire: HttpWire | PipeWire, can: Json) -> AsyncIterator[Agent]:
    """The agent over that wire, which hears what belongs to no request too."""
    agent = wire.agent = Agent(place.version, can, wire)
    listens: asyncio.Task[None] | None = None
    if place.front == "stdio":
        listens = asyncio.ensure_future(wire.listen())
    await agent.open()
    if listens is None and not agent.modern:
        listens = asyncio.ensure_future(wire.listen())
        await asyncio.sleep(0.01)
    try:
        yield agent
    finally:
        await agent.close()
        if listens is not None:
            listens.cancel()
            await asyncio.wait([listens])
        await wire.end()
        for task in [listens] if listens is not None else []:
            assert task.cancelled() or task.exception() is None, task.exception()


@asynccontextmanager
async def _gateway(place: Place, base: str, patience_s: float) -> AsyncIterator[tuple[Relay, Engine]]:
    clock, ledger = SystemClock(), MemoryLedger()
    policy = Policy.model_validate(POLICY)
    sole = place.front == "stdio"
    catalogue = await Catalogue.open([spec_of(place, base)], prefix=True, patience=PATIENCE, sole=sole)
    book = Book(
        ledger,
        Policies(ledger, {policy.workflow: policy}, policy.workflow),
        clock,
        Options("matrix", patience_s=patience_s, drain_s=0.05),
    )
    engine = Engine(book, catalogue)
    relay = relay_of(gate=engine, offers=catalogue, make_id=MAKE_ID, clock=clock, version="9.9")
    try:
        yield relay, engine
    finally:
        relay.close()
        with anyio.CancelScope(shield=True):
            await engine.carrier.close()
            await catalogue.close()
            await ledger.close()
