"""One cell of the matrix: a client of exact bytes, the whole gateway, and a server of exact bytes."""

import asyncio
import itertools
import os
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import anyio

from gateway import app, serving
from gateway.inbound.mcp import stdio as front
from gateway.outbound.policy_files import load_policy
from gateway.outbound.upstream.spec import HttpSpec, Spec, StdioSpec
from gateway.plan import Plan
from gateway.runtime.policies import condition_trouble
from tests.fidelity.clients import LIMIT, Client, OverHttp, OverStdio, Reply, read
from tests.logs import whole_lines
from tests.servers.raw_server import INTRODUCTIONS, Raw, over_http

HERE = Path(__file__).parent
SERVER = HERE.parent / "servers" / "raw_server.py"
POLICY = HERE.parent / "conformance" / "open.yaml"
LISTS = HERE / "lists"
"""What the server offers: its results, by method."""
BOUND_S = 20.0


class Kind(NamedTuple):
    """Which cell."""

    front: str
    client: str
    upstream: str
    server: str

    def __str__(self) -> str:
        return f"{self.client}-over-{self.front}-to-{self.server}-over-{self.upstream}"

    @property
    def asks(self) -> str:
        """How the server asks: in the middle of its work, or by a round."""
        return "round" if self.server == "modern" else "middle"


KINDS = [Kind(*parts) for parts in itertools.product(("http", "stdio"), ("legacy", "modern"), repeat=2)]


@dataclass
class Cell:
    """What a test speaks with."""

    kind: Kind
    client: Client
    folder: Path
    mark: int = 0
    """Where what the server heard since the last script begins."""

    def script(self, *lines: bytes) -> None:
        """What the server says to the next requests."""
        (self.folder / "script").write_bytes(b"\n".join(lines))
        self.mark = self._log.stat().st_size if self._log.exists() else 0

    def answers(self, result: bytes, *before: bytes, plain: bool = False) -> None:
        """As `script`: these, then a result."""
        head = [b"as json"] if plain else []
        said = [b"say " + line for line in before]
        self.script(*head, *said, b'say {"jsonrpc":"2.0","id":@ID@,"result":' + result + b"}")

    @property
    def _log(self) -> Path:
        return self.folder / "received"

    def heard(self) -> list[Any]:
        """What the server was told since the last script, introductions left out."""
        messages = [read(line) for line in whole_lines(self._log, self.mark)]
        own = {*INTRODUCTIONS, "notifications/initialized", "notifications/cancelled", "subscriptions/listen"}
        return [message for message in messages if message.get("method") not in own]

    async def told(self, method: str) -> Any:
        """The params of the notification of that method that the server hears, some time soon."""
        with anyio.fail_after(BOUND_S):
            while True:
                for message in self.heard():
                    if message.get("method") == method:
                        return message.get("params", {})
                await asyncio.sleep(0.002)

    async def call(self, arguments: str = "{}", meta: str = "", answer: str = "", tool: str = "echo") -> Reply:
        """What comes of a `tools/call` with these arguments, as text."""
        with anyio.fail_after(BOUND_S):
            members = f'"name":"raw__{tool}","arguments":{arguments}'
            return await self.client.request("tools/call", members, meta, answer)


@asynccontextmanager
async def cell(kind: Kind, folder: Path) -> AsyncIterator[Cell]:
    """The cell is there for as long as the block lasts."""
    for listed in LISTS.iterdir():
        (folder / listed.name).write_bytes(listed.read_bytes())
    async with _upstream(kind, folder) as spec:
        policy = load_policy(POLICY, condition_trouble)
        plan = Plan("memory:", [spec], {policy.workflow: policy}, policy.workflow, prefix=True)
        async with app.running(plan) as gateway, _client(kind, gateway) as client:
            with anyio.fail_after(BOUND_S):
                await client.open()
            yield Cell(kind, client, folder)


@asynccontextmanager
async def _upstream(kind: Kind, folder: Path) -> AsyncIterator[Spec]:
    if kind.upstream == "stdio":
        argv: Sequence[str] = ["-I", str(SERVER), str(folder), f"--{kind.server}"]
        yield StdioSpec("raw", sys.executable, argv)
        return
    async with over_http(Raw(folder, kind.server)) as port:
        yield HttpSpec("raw", f"http://127.0.0.1:{port}/mcp", transport="http")


@asynccontextmanager
async def _client(kind: Kind, gateway: app.Gateway) -> AsyncIterator[Client]:
    over = _http_client if kind.front == "http" else _stdio_client
    async with over(kind, gateway) as client:
        yield client


@asynccontextmanager
async def _http_client(kind: Kind, gateway: app.Gateway) -> AsyncIterator[Client]:
    with socket.socket(proto=socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        task = asyncio.ensure_future(serving.over_http(gateway, listening, None))
        try:
            yield OverHttp(kind.client, listening.getsockname()[1])
        finally:
            await _ended(task)


@asynccontextmanager
async def _stdio_client(kind: Kind, gateway: app.Gateway) -> AsyncIterator[Client]:
    (stdin, to_us), (from_us, stdout) = os.pipe(), os.pipe()
    # Only whose descriptors they are is another: pytest itself needs those of the process.
    with patch.object(front, "_taken_over", lambda: nullcontext((stdin, stdout))):
        task = asyncio.ensure_future(serving.over_stdio(gateway))
        reader = asyncio.StreamReader(limit=LIMIT)
        pipe = os.fdopen(from_us, "rb")
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            yield OverStdio(kind.client, reader, to_us)
        finally:
            os.close(to_us)
            await _ended(task, cancel=False)
            transport.close()
            os.close(stdin)
            os.close(stdout)


async def _ended(task: "asyncio.Future[None]", *, cancel: bool = True) -> None:
    if cancel:
        task.cancel()
    with anyio.fail_after(BOUND_S):
        await asyncio.wait({task})
