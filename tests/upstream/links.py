"""How the tests start `relay_server.py` in each of its shapes, and open an upstream over it."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from gateway.model.offer import Kind
from gateway.model.party import Party
from gateway.model.tool import Answer, ToolResult
from gateway.outbound.upstream.link import Hooks, Link
from gateway.outbound.upstream.negotiate import Client
from gateway.outbound.upstream.spec import HttpSpec, Patience, Spec, StdioSpec
from gateway.outbound.upstream.supervisor import Upstream
from gateway.outbound.upstream.wire import Ask
from gateway.ports import Caller
from tests.upstream.faults import QUICK, TIME_LIMIT_S

SERVER = Path(__file__).parent.parent / "servers" / "relay_server.py"

SHAPES = ["stdio modern", "stdio legacy", "http modern", "http legacy", "sse"]


@contextmanager
def serving(shape: str) -> Iterator[Spec]:
    """The relay server in that shape; without an era, one that speaks both."""
    how, _, era = shape.partition(" ")
    argv = [str(SERVER), f"--{how}", *([f"--{era}"] if era else [])]
    if how == "stdio":
        yield StdioSpec("r", sys.executable, argv)
        return
    with subprocess.Popen([sys.executable, *argv], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            path = "sse" if how == "sse" else "mcp"
            yield HttpSpec("r", f"http://127.0.0.1:{int(process.stdout.readline())}/{path}")
        finally:
            process.kill()


@dataclass
class Ears:
    """What an upstream told and asked beside all calls."""

    changed: list[Kind] = field(default_factory=list)
    told: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    answer: Answer | None = None

    def hooks(self) -> Hooks:
        return Hooks(
            lambda _, kind: self.changed.append(kind),
            lambda _, method, params: self.told.append((method, params)),
            self.ask if self.answer is not None else None,
        )

    async def ask(self, _: Link, method: str, __: Mapping[str, Any], ___: Any) -> Answer:
        self.asked.append(method)
        assert self.answer is not None
        return self.answer


@asynccontextmanager
async def reached(
    spec: Spec, ears: Ears | None = None, *, patience: Patience = QUICK, sole: bool = False
) -> AsyncIterator[Upstream]:
    """An upstream whose house has settled; all that is done in it, and its end, is bounded in time."""
    with anyio.fail_after(TIME_LIMIT_S):
        upstream = Upstream(spec, Client("us", "1"), patience, (ears or Ears()).hooks(), sole=sole)
        try:
            await upstream.settled()
            yield upstream
        finally:
            await upstream.close()


async def called(
    link: Link, tool: str, caller: Caller | None = None, *, timeout_s: float = 10.0, **arguments: Any
) -> Answer:
    meta = {"progressToken": "theirs", "vendor/key": {"a": None}} if caller is not None else {}
    ask = Ask("tools/call", {"name": tool, "arguments": arguments}, timeout_s, name=tool, meta=meta)
    return await link.ask(ask, caller)


async def facts(link: Link, tool: str, caller: Caller | None = None, **arguments: Any) -> dict[str, Any]:
    """What the tool says of itself."""
    answer = await called(link, tool, caller, **arguments)
    assert isinstance(answer, ToolResult), answer
    said: dict[str, Any] = answer.result["structuredContent"]
    return said


async def until(true: Any) -> None:
    """It has become true."""
    while not true():
        await asyncio.sleep(0.005)


def party(key: str = "p", *, modern: bool = False, **capabilities: Any) -> Party:
    return Party(key, capabilities, {"name": "them", "version": "7"}, modern=modern)
