"""Whether the gateway gives back what it takes: `python -m tests.soak`, about three minutes.

20,000 calls and 500 clients that come and go, most of them badly: sessions that are closed, that are left, that are
left with a stream open, clients that hang up in the middle of a call. Half of it goes to servers on stdio, half to
servers over HTTP, and half of either to servers of the older protocol. What the gateway's process holds is read from
/proc at rest before, under load, right after, and once it has settled. Exit code 1 if children or file descriptors do
not come back, if memory grew by more than its bound, or if an answer was wrong.
"""

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.bench.load import META
from tests.bench.processes import Size, await_port, bounded, cores, free_port, size_of, started

SERVER = Path(__file__).parent / "servers" / "chaos_server.py"
UPSTREAMS = {
    "old-stdio": ("legacy", False),
    "old-http": ("legacy", True),
    "stdio": ("both", False),
    "http": ("both", True),
}
LANES = 12
COMERS = 4
LIMIT_S = 900
IDLE_S = 15.0
"""After which a session that was left has ended, with the servers on stdio that it had; 30 minutes where it counts."""
SETTLE_S = 60.0
ANSWER_S = 60.0

FILES_SLACK = 8
"""File descriptors that may differ at rest: the pool to an HTTP upstream keeps a connection or two."""
BASE_KB = 32 * 1024
"""What memory may grow by however little is done: caches fill, and the allocator keeps what was once needed."""
CALL_KB = 7.0
"""And for each call: a run remembers its attempts for as long as it lives, and all calls of one client are one run."""
SESSION_KB = 60
"""And for each session that nobody closed: it may be resumed, so it is kept until it is idle for too long."""

POLICY = {"workflow": "soak", "transitions": [{"name": "any", "tools": ["*"]}]}
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
OLD = "2025-11-25"

Json = dict[str, Any]
_numbers = itertools.count(1)


@dataclass
class Soak:
    """The gateway's address, and what was done to it."""

    url: str
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    async def post(self, http: aiohttp.ClientSession, body: Json, **headers: str) -> tuple[Json, str]:
        """The answer to one message, and the session that it is of."""
        async with http.post(self.url, json=body, headers={**HEADERS, **headers}) as response:
            text = await response.text()
            session = response.headers.get("Mcp-Session-Id", "")
        events = [line[5:] for line in text.splitlines() if line.startswith("data:") and len(line) > 6]
        return (json.loads(events[-1] if events else text) if text.strip() else {}), session

    async def call(self, http: aiohttp.ClientSession, upstream: str, session: str = "", seconds: float = 0) -> None:
        """One call was made and has its own answer."""
        tool = f"{upstream}__{'work' if seconds else 'echo'}"
        number = next(_numbers)
        arguments = {"n": number, "seconds": seconds}
        params: Json = {"name": tool, "arguments": arguments}
        if not session:
            params["_meta"] = META
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        headers = of_session(session) if session else of_call(tool)
        answer, _ = await self.post(http, body, **headers)
        self.done["calls"] += 1
        if answer.get("result", {}).get("structuredContent") != arguments:
            self.wrong.append(json.dumps(answer)[:300])

    async def opened(self, http: aiohttp.ClientSession) -> str:
        """A session of the older protocol."""
        who = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": who}
        _, session = await self.post(http, body)
        await self.post(http, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **of_session(session))
        return session


def of_session(session: str) -> dict[str, str]:
    return {"Mcp-Session-Id": session, "MCP-Protocol-Version": OLD}


def of_call(tool: str) -> dict[str, str]:
    return {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}


# --- those who come and go -------------------------------------------------------------------------------------------


async def closes(soak: Soak, http: aiohttp.ClientSession, upstream: str) -> None:
    """A session that is ended as the protocol wants it."""
    session = await soak.opened(http)
    await soak.call(http, upstream, session)
    async with http.delete(soak.url, headers=of_session(session)) as response:
        assert response.status < 300, response.status


async def leaves(soak: Soak, http: aiohttp.ClientSession, upstream: str) -> None:
    """A session that nobody ends."""
    await soak.call(http, upstream, await soak.opened(http))


async def leaves_a_stream(soak: Soak, http: aiohttp.ClientSession, upstream: str) -> None:
    """A session that nobody ends, whose stream of notifications was open to the last."""
    session = await soak.opened(http)
    async with http.get(soak.url, headers={"Accept": "text/event-stream", **of_session(session)}) as stream:
        assert stream.status == 200, stream.status
        await soak.call(http, upstream, session)
        stream.close()


async def hangs_up(soak: Soak, http: aiohttp.ClientSession, upstream: str) -> None:
    """A client of the newer protocol that is gone in the middle of its call."""
    await abandoned(soak.call(http, upstream, seconds=0.6))


async def hangs_up_and_closes(soak: Soak, http: aiohttp.ClientSession, upstream: str) -> None:
    """One of the older protocol that is gone in the middle of its call, and ends its session from elsewhere."""
    session = await soak.opened(http)
    await abandoned(soak.call(http, upstream, session, seconds=0.6))
    async with http.delete(soak.url, headers=of_session(session)) as response:
        assert response.status < 300, response.status


async def abandoned(call: Awaitable[None]) -> None:
    """The connection was closed before there was an answer."""
    try:
        await asyncio.wait_for(call, 0.3)
    except TimeoutError:
        return
    raise AssertionError("there was an answer before it could hang up")


Comer = Callable[[Soak, aiohttp.ClientSession, str], Awaitable[None]]
COMINGS: tuple[Comer, ...] = (closes, leaves, leaves_a_stream, hangs_up, hangs_up_and_closes)
LEFT = {"leaves", "leaves_a_stream"}


async def lane(soak: Soak, upstreams: Iterator[str], calls: Iterator[int]) -> None:
    """Calls of the newer protocol over one connection that is kept."""
    async with client() as http:
        for _ in calls:
            await soak.call(http, next(upstreams))


async def comers(soak: Soak, upstreams: Iterator[str], comings: Iterator[Comer]) -> None:
    """Clients one after another, each with connections of its own."""
    for coming in comings:
        async with client() as http:
            await coming(soak, http, next(upstreams))
        soak.done[coming.__name__] += 1


def client() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(ANSWER_S))


async def burden(soak: Soak, calls: int, sessions: int) -> None:
    """So many calls, and so many clients that came and went, all at once."""
    upstreams = itertools.cycle(UPSTREAMS)
    left, comings = iter(range(calls)), itertools.islice(itertools.cycle(COMINGS), sessions)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(LANES):
            tasks.create_task(lane(soak, upstreams, left))
        for number in range(COMERS):
            # each begins elsewhere in the circle, or every kind of client would always have the same upstream
            mine = itertools.islice(itertools.cycle(UPSTREAMS), number, None)
            tasks.create_task(comers(soak, mine, comings))


# --- the gateway and what it holds -----------------------------------------------------------------------------------


def gateway(stack: ExitStack, folder: Path) -> tuple[int, str]:
    """A gateway before four upstreams, with its process id and address."""
    load_core, core = cores()
    entries: Json = {}
    for name, (era, over_http) in UPSTREAMS.items():
        log = folder / f"{name}.log"
        command = [sys.executable, str(SERVER), str(log), "--era", era]
        entries[name] = {"command": command[0], "args": command[1:]}
        if over_http:
            port = free_port()
            process = stack.enter_context(started([*command, "--http", str(port)], load_core))
            await_port(process, port)
            entries[name] = {"url": f"http://127.0.0.1:{port}/mcp"}
    port = free_port()
    config = {
        "listen": {"port": port},
        "sessions": {"idle_s": IDLE_S},
        "ledger": f"sqlite:///{folder / 'ledger.db'}",
        "policies": "policies",
        "mcpServers": entries,
    }
    (folder / "policies").mkdir()
    (folder / "policies" / "soak.yaml").write_text(json.dumps(POLICY))
    (folder / "gateway.yaml").write_text(json.dumps(config))
    said = folder / "gateway.log"
    command = [sys.executable, "-m", "gateway", "serve", "--config", str(folder / "gateway.yaml")]
    process = stack.enter_context(started(command, core, said=said))
    await_port(process, port, said)
    return process.pid, f"http://127.0.0.1:{port}/mcp"


async def settled(pid: int, before: Size | None) -> Size:
    """What it holds once it is at rest: as before, or unchanged for three seconds, or when the time is up."""
    until = time.monotonic() + SETTLE_S
    last, since = size_of(pid), time.monotonic()
    while time.monotonic() < until:
        await asyncio.sleep(0.5)
        now = size_of(pid)
        if (now.files, now.children, now.threads) != (last.files, last.children, last.threads):
            since = time.monotonic()
        last = now
        quiet = time.monotonic() - since
        if quiet > 3 and (before is None or (now.files <= before.files and now.children <= before.children)):
            break
    return last


@asynccontextmanager
async def highest(pid: int) -> AsyncIterator[list[Size]]:
    """The sizes during the block, one a second."""
    seen: list[Size] = []

    async def watch() -> None:
        while True:
            seen.append(size_of(pid))
            await asyncio.sleep(1)

    watching = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        watching.cancel()


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def row(name: str, size: Size) -> str:
    return f"{name:<22}{size.rss_kb / 1024:9.1f}{size.files:8}{size.children:10}{size.threads:9}"


def troubles(before: Size, after: Size, bound_kb: float, wrong: list[str]) -> Iterator[str]:
    """What did not come back."""
    if after.children > before.children:
        yield f"children: {before.children} before, {after.children} after"
    if after.files > before.files + FILES_SLACK:
        yield f"file descriptors: {before.files} before, {after.files} after, {FILES_SLACK} more allowed"
    if after.rss_kb - before.rss_kb > bound_kb:
        grew = (after.rss_kb - before.rss_kb) / 1024
        yield f"memory: grew by {grew:.1f} MiB, {bound_kb / 1024:.1f} MiB allowed"
    if wrong:
        yield f"{len(wrong)} wrong answers, the first: {wrong[0]}"


async def soaked(pid: int, soak: Soak, calls: int, sessions: int) -> list[str]:
    """The figures are printed; what did not come back is returned."""
    await burden(soak, max(calls // 20, 200), 20)  # warm: imports are done, caches and pools are filled
    before = await settled(pid, None)
    soak.done.clear()
    say(f"{'':<22}{'RSS MiB':>9}{'files':>8}{'children':>10}{'threads':>9}")
    say(row("before, at rest", before))
    begun = time.monotonic()
    async with highest(pid) as seen:
        await burden(soak, calls, sessions)
    took = time.monotonic() - begun
    for part in (1, 2, 3):
        say(row(f"under load, {part}/4", seen[len(seen) * part // 4]))
    say(row("right after", size_of(pid)))
    after = await settled(pid, before)
    say(row("settled", after))
    left = sum(soak.done[name] for name in LEFT)
    bound_kb = BASE_KB + CALL_KB * soak.done["calls"] + SESSION_KB * left
    grew_kb = after.rss_kb - before.rss_kb
    say(f"{soak.done.pop('calls')} calls answered in {took:.0f} s; clients: {dict(soak.done)}")
    say(f"memory grew by {grew_kb / 1024:.1f} MiB of at most {bound_kb / 1024:.1f}, {grew_kb / calls:.1f} KiB a call")
    return list(troubles(before, after, bound_kb, soak.wrong))


def main() -> None:
    """The figures are printed. Exit code 1 if something did not come back."""
    parser = argparse.ArgumentParser(description="Whether the gateway gives back what it takes.")
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--sessions", type=int, default=500)
    options = parser.parse_args()
    bounded(LIMIT_S)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        pid, url = gateway(stack, folder)
        found = asyncio.run(soaked(pid, Soak(url), options.calls, options.sessions))
        ended = (folder / "gateway.log").read_text(errors="replace")
    found += [
        f"the gateway said: {line}" for line in ended.splitlines() if "Traceback" in line or "never awaited" in line
    ]
    say(*found)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
