"""What the gateway costs: the same calls to the same upstream, directly and through it, turn by turn in one run.

    python -m tests.bench.relay             HTTP -> HTTP and stdio -> stdio, about 45 s
    python -m tests.bench.relay --direct    the upstreams alone, to test the measure itself

Only the ratios are portable: a machine's speed changes by half from minute to minute, and load generator, gateway and
upstream share its cores. F, the time of one small durable append on this disk, is what a call cannot be cheaper than,
twice: an intent before, a receipt after.
"""

import argparse
import asyncio
import itertools
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

ROUNDS = 3
SLICE_S = 1.6
"""One target, one concurrency, one round: 3 rounds x 2 transports x 2 targets x 2 loads = 24 slices."""
LIMIT_S = 60.0
LOADS = (1, 16)
"""Calls at once: alone, for latency; many, for throughput."""
START_S = 10.0

UPSTREAM = [sys.executable, str(Path(__file__).with_name("echo_upstream.py"))]
COUNTERFOIL = str(Path(sys.executable).with_name("counterfoil"))

POLICY = """
workflow: bench
transitions:
  - name: everything
    tools: ["*"]
"""

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

_ids = itertools.count(1)


def request() -> tuple[int, bytes]:
    """A `tools/call` that was never made before, and its id."""
    number = next(_ids)
    arguments = {"text": f"call {number} {'x' * 200}"}
    params = {"name": "echo", "arguments": arguments, "_meta": META}
    call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return number, json.dumps(call, separators=(",", ":")).encode()


def went_well(response: dict[str, Any]) -> bool:
    """Whether the upstream's own result came back."""
    result = response.get("result")
    return isinstance(result, dict) and not result.get("isError") and bool(result.get("content"))


class Wire(Protocol):
    """A way to make one call and wait for its answer; any number at once."""

    async def call(self) -> dict[str, Any]:
        """The JSON-RPC response."""
        ...


@dataclass
class HttpWire:
    """Raw HTTP/1.1 over as many kept-alive connections as there are calls at once."""

    host: str
    port: int
    _idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)

    async def call(self) -> dict[str, Any]:
        """The JSON-RPC response, from a JSON body or from the last event of a stream."""
        reader, writer = await self._connection()
        _, body = request()
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
            f"Mcp-Method: tools/call\r\nMcp-Name: echo\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        headers = (await reader.readuntil(b"\r\n\r\n")).lower()
        payload = await _body(reader, headers)
        if b"connection: close" in headers:
            writer.close()
        else:
            self._idle.append((reader, writer))
        if b"text/event-stream" in headers:
            payload = [line[5:] for line in payload.splitlines() if line.startswith(b"data:") and len(line) > 6][-1]
        return dict(json.loads(payload))

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():  # servers close what was idle between two slices
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self.host, self.port)

    def close(self) -> None:
        """Every connection is given up."""
        for _, writer in self._idle:
            writer.close()


async def _body(reader: asyncio.StreamReader, headers: bytes) -> bytes:
    if b"transfer-encoding: chunked" not in headers:
        return await reader.readexactly(int(headers.split(b"content-length:")[1].split(b"\r\n")[0]))
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return body


@dataclass
class StdioWire:
    """JSON lines to one process, answers matched by id."""

    process: asyncio.subprocess.Process
    _waiting: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)

    async def call(self) -> dict[str, Any]:
        """The JSON-RPC response."""
        assert self.process.stdin is not None
        number, body = request()
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self.process.stdin.write(body + b"\n")
        return await self._waiting[number]

    async def listen(self) -> None:
        """Every answer is handed to its call, until the process ends."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            message = json.loads(line)
            if waiting := self._waiting.pop(message.get("id"), None):
                waiting.set_result(message)
        for waiting in self._waiting.values():
            waiting.set_exception(ConnectionError("the process has ended"))


@asynccontextmanager
async def running(command: list[str], **pipes: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """The program runs; afterwards it is gone."""
    process = await asyncio.create_subprocess_exec(*command, **pipes)  # type: ignore[arg-type]
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), 6)
            except TimeoutError:
                process.kill()
                await process.wait()


@asynccontextmanager
async def http(command: Callable[[str], list[str]]) -> AsyncIterator[tuple[str, HttpWire]]:
    """The server that `command` starts at an address, with that address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = command(f"127.0.0.1:{port}")
    async with running(line, stdin=asyncio.subprocess.DEVNULL) as process:
        async with asyncio.timeout(START_S):
            while True:
                if process.returncode is not None:
                    raise ConnectionError(f"`{' '.join(line)}` ended before it listened")
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except ConnectionRefusedError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        wire = HttpWire("127.0.0.1", port)
        yield f"http://127.0.0.1:{port}/mcp", wire
        wire.close()


@asynccontextmanager
async def stdio(command: list[str]) -> AsyncIterator[StdioWire]:
    """The server that `command` starts on its stdin and stdout."""
    async with running(command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE) as process:
        wire = StdioWire(process)
        listening = asyncio.create_task(wire.listen())
        yield wire
        listening.cancel()


@dataclass
class Tally:
    """What one target did under one load."""

    took_s: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    """Calls a second, one for each round."""
    failures: int = 0
    first_failure: str = ""


async def slice_of_load(wire: Wire, at_once: int, tally: Tally, seconds: float) -> None:
    """Calls were made one after another in each of `at_once` lanes, for that long."""
    until = time.perf_counter() + seconds
    before = len(tally.took_s)

    async def lane() -> None:
        while (started := time.perf_counter()) < until:
            response = await wire.call()
            tally.took_s.append(time.perf_counter() - started)
            if not went_well(response):
                tally.failures += 1
                tally.first_failure = tally.first_failure or json.dumps(response)[:500]

    started = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(at_once)))
    tally.rates.append((len(tally.took_s) - before) / (time.perf_counter() - started))


def durable_append_s() -> Iterator[float]:
    """F: 4 KiB appended and synced, once a millisecond."""
    with tempfile.TemporaryFile(dir=Path.cwd()) as file:
        for _ in range(200):
            time.sleep(0.001)
            started = time.perf_counter()
            os.write(file.fileno(), bytes(4096))
            os.fdatasync(file.fileno())
            yield time.perf_counter() - started


async def measure(*, direct_only: bool) -> dict[tuple[str, str, int], Tally]:
    """Every target under every load, by transport, target and load."""
    tallies: dict[tuple[str, str, int], Tally] = defaultdict(Tally)
    async with AsyncExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (home / "policy.yaml").write_text(POLICY)
        url, direct_http = await stack.enter_async_context(http(lambda address: [*UPSTREAM, address]))
        targets: dict[tuple[str, str], Wire] = {("HTTP", "direct"): direct_http}
        targets["stdio", "direct"] = await stack.enter_async_context(stdio(UPSTREAM))
        if not direct_only:

            def wrap(name: str, *rest: str) -> list[str]:
                ledger = f"sqlite:///{home / name}.db"
                return [COUNTERFOIL, "wrap", "--policy", str(home / "policy.yaml"), "--ledger", ledger, *rest]

            _, through_http = await stack.enter_async_context(http(lambda at: wrap("http", url, "--listen", at)))
            targets["HTTP", "gateway"] = through_http
            through_stdio = await stack.enter_async_context(stdio(wrap("stdio", "--", *UPSTREAM)))
            targets["stdio", "gateway"] = through_stdio
        for wire in targets.values():  # warm: connections are open, imports are done
            await slice_of_load(wire, max(LOADS), Tally(), 0.3)
        for _ in range(ROUNDS):
            for at_once in LOADS:
                for (transport, target), wire in targets.items():
                    await slice_of_load(wire, at_once, tallies[transport, target, at_once], SLICE_S)
    return tallies


def told(tallies: dict[tuple[str, str, int], Tally]) -> list[str]:
    """The figures, a line for each."""
    alone, many = LOADS
    lines = [f"F (4 KiB append + fdatasync, p50)   {statistics.median(durable_append_s()) * 1000:8.3f} ms"]
    for transport in ("HTTP", "stdio"):
        lines += ["", f"{transport} -> {transport}"]
        figures = []
        for target in dict.fromkeys(target for _, target, _ in tallies):
            p50_ms = statistics.median(tallies[transport, target, alone].took_s) * 1000
            rate = statistics.median(tallies[transport, target, many].rates)
            figures.append((p50_ms, rate))
            lines.append(f"  {target:<8} p50 at c={alone} {p50_ms:8.3f} ms     at c={many} {rate:8.0f} calls/s")
        if len(figures) > 1:
            (direct_ms, direct_rate), (gateway_ms, gateway_rate) = figures
            lines.append(f"  added    p50 {gateway_ms - direct_ms:14.3f} ms     {gateway_ms / direct_ms:.2f} x direct")
            lines.append(f"  kept     throughput {gateway_rate / direct_rate:.3f} x direct")
    return lines


async def _bounded(work: Awaitable[dict[tuple[str, str, int], Tally]]) -> dict[tuple[str, str, int], Tally]:
    async with asyncio.timeout(LIMIT_S):
        return await work


def main() -> None:
    """The figures are printed. Exit code 1 if a single call failed: figures of refusals are worth nothing."""
    parser = argparse.ArgumentParser(description="Added latency and kept throughput against the direct upstream.")
    parser.add_argument("--direct", action="store_true", help="measure the upstreams alone")
    tallies = asyncio.run(_bounded(measure(direct_only=parser.parse_args().direct)))
    print("\n".join(told(tallies)))
    failed = {key: tally for key, tally in tallies.items() if tally.failures}
    for key, tally in failed.items():
        print(
            f"{key}: {tally.failures} of {len(tally.took_s)} calls failed, first {tally.first_failure}", file=sys.stderr
        )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
