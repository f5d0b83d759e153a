"""How the tests of upstreams start `fault_server.py`, open a catalogue over it, call its tools and read its log."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from gateway.model.offer import Kind
from gateway.model.tool import Answer, Tool, ToolResult
from gateway.outbound.upstream.catalogue import Catalogue
from gateway.outbound.upstream.link import Link
from gateway.outbound.upstream.spec import HttpSpec, Patience, Spec, StdioSpec
from gateway.ports import Dispatch
from tests.logs import whole_lines

SERVER = Path(__file__).parent.parent / "servers" / "fault_server.py"

QUICK = Patience(start_s=10.0, first_pause_s=0.02, last_pause_s=0.2, debounce_s=0.05)
TIME_LIMIT_S = 30.0


@dataclass(frozen=True)
class Faults:
    """Where the fault server's log is, and how it is started."""

    log: Path

    def argv(self, *, era: str = "legacy", start: str = "") -> list[str]:
        return [str(SERVER), str(self.log), "--era", era, "--start", start]

    def stdio(self, name: str = "f", *, era: str = "legacy", start: str = "", **env: str) -> StdioSpec:
        return StdioSpec(name, sys.executable, self.argv(era=era, start=start), env)

    @contextmanager
    def http(self, name: str = "f", *, era: str = "legacy", port: int = 0, **headers: str) -> Iterator[HttpSpec]:
        argv = [sys.executable, *self.argv(era=era), "--http", str(port)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as process:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            try:
                yield HttpSpec(name, f"http://127.0.0.1:{port}/mcp", headers)
            finally:
                process.kill()

    def entries(self, key: str) -> list[Any]:
        """What the log holds under `key`, oldest first."""
        lines = [json.loads(line) for line in whole_lines(self.log)]
        return [line[key] for line in lines if key in line]


@asynccontextmanager
async def opened(
    *specs: Spec,
    prefix: bool = False,
    patience: Patience = QUICK,
    on_tools_changed: Callable[[], None] | None = None,
    on_notification: Callable[..., None] | None = None,
    **seams: Any,
) -> AsyncIterator[Catalogue]:
    """A catalogue over the specs; all that is done in it, and its end, is bounded in time."""
    with anyio.fail_after(TIME_LIMIT_S):
        catalogue = await Catalogue.open(specs, prefix=prefix, patience=patience, **seams)
        if on_notification is not None:

            def told(link: Link, method: str, params: Mapping[str, Any]) -> None:
                on_notification(link.name, method, params)

            for upstream in catalogue._upstreams.values():
                upstream.house._calls._told = partial(told, upstream.house)
        if on_tools_changed is not None:

            def changed(link: Link, kind: Kind) -> None:  # noqa: ARG001 - as `Hearing.changed`
                if kind == "tools":
                    on_tools_changed()

            catalogue._hearing.changed = changed  # type: ignore[method-assign]
        try:
            yield catalogue
        finally:
            await catalogue.close()


async def call(
    catalogue: Catalogue, name: str, arguments: Mapping[str, Any] | None = None, timeout_s: float = 10.0, **more: Any
) -> Answer:
    tool = await catalogue.tool(name)
    assert tool is not None
    return await catalogue.call(Dispatch(tool, arguments or {}, timeout_s, **more))


async def until(catalogue: Catalogue, name: str, *, healthy: bool) -> Tool:
    """The tool, once its upstream is or is not healthy."""
    while True:
        tool = await catalogue.tool(name)
        if tool is not None and tool.healthy is healthy:
            return tool
        await anyio.sleep(0.005)


def said(words: str) -> ToolResult:
    """What the fault server answers when it says no more than these words."""
    return ToolResult({"content": [{"type": "text", "text": words}]})


def alive(group: int) -> list[int]:
    """The processes of that group that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, pgrp = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue  # it ended while we looked
            if int(pgrp) == group and state != "Z":
                found.append(int(entry.name))
    return found


def children() -> list[int]:
    """Our own children, also those that nobody waited for."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == os.getpid():
                found.append(int(entry.name))
    return found
