"""Where a comparison takes place: the cores, a folder on a disk, what was started there, and slices of load on it."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.bench import peers
from tests.bench.figures import Figure, Figures, Load
from tests.bench.load import Http, Stdio
from tests.bench.processes import (
    COUNTERFOIL,
    await_port,
    busy_s,
    children,
    cores,
    cpu_s,
    free_port,
    further_cores,
    started,
)

SLICE_S = 0.75

UPSTREAM = [sys.executable, str(Path(__file__).with_name("echo_upstream.py"))]

STAND_IN = "pass-through"
"""What stands in where there is no nginx."""

POLICY = """
workflow: bench
transitions:
  - name: everything
    tools: ["*"]
"""


@dataclass(frozen=True)
class Target:
    """Something to be called, and the processes that are charged for it."""

    wire: Http | Stdio
    pids: tuple[int, ...]
    commits: Callable[[], int] | None = None
    """How many it has made so far, where that can be asked."""
    server: int | None = None
    """A process whose time is told beside the target's: that of a database."""

    def cpu_s(self) -> float:
        """Processor time so far of its processes, those that they started included, but for upstreams."""
        mine = (pid for first in self.pids for pid in family(first) if pid in self.pids or not _is_upstream(pid))
        return sum(map(cpu_s, mine))

    def server_cpu_s(self) -> float:
        """As `cpu_s`, of the server behind it."""
        return 0.0 if self.server is None else sum(map(cpu_s, family(self.server)))


def family(pid: int) -> Iterator[int]:
    """The process and all that descend from it."""
    yield pid
    for child in children(pid):
        yield from family(child)


def _is_upstream(pid: int) -> bool:
    return b"echo_upstream" in Path(f"/proc/{pid}/cmdline").read_bytes()


def both(first: Target, second: Target) -> Target:
    """Two targets behind one wire, each with half of the lanes."""
    assert isinstance(first.wire, Http)
    assert isinstance(second.wire, Http)
    wire = Http(*first.wire.ports, *second.wire.ports)
    return Target(wire, (*first.pids, *second.pids), server=first.server)


class Ground:
    """Where everything runs: the folder, the cores, and what was started, all of which ends with the stack."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.load_core, self.core = cores()
        self.server_core, self.second_core = further_cores()
        peers.TOOLS.mkdir(parents=True, exist_ok=True)
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=peers.TOOLS)))  # on a disk, as a ledger
        (self.folder / "policy.yaml").write_text(POLICY)
        os.sched_setaffinity(0, {self.load_core})
        self.upstream_port = free_port()
        self.upstream = self.http([*UPSTREAM, f"127.0.0.1:{self.upstream_port}"], self.upstream_port, self.load_core)

    def http(self, command: list[str], port: int, core: int | None = None) -> Target:
        """The program that listens there, on the core of what is measured unless told otherwise."""
        process = self._listening(command, port, self.core if core is None else core)
        return self.called(Http(port), process.pid)

    def called(self, wire: Http, *pids: int) -> Target:
        """What those processes are behind that wire, which is given up at the end."""
        self.stack.callback(wire.close)
        return Target(wire, pids)

    def _listening(self, command: list[str], port: int, core: int, *, piped: bool = False) -> "subprocess.Popen[bytes]":
        said = self.folder / f"{port}.log"
        process = self.stack.enter_context(started(command, core, piped=piped, said=said))
        await_port(process, port, said)
        return process

    def proxy(self) -> tuple[str, Target]:
        """nginx, or what stands in for it, with its name."""
        port, program = free_port(), peers.nginx()
        if program is None:
            return STAND_IN, self.http(peers.relay_command(port, self.upstream_port), port)
        return "nginx", self.http(peers.nginx_command(program, self.folder, port, self.upstream_port), port)

    def fastmcp(self) -> Target | None:
        """The proxy of fastmcp, if it can be had."""
        port = free_port()
        command = peers.fastmcp_command(port, self.upstream_port)
        return None if command is None else self.http(command, port)

    def envoy(self) -> Target | None:
        """Envoy with its MCP filter and RBAC, if it can be had."""
        port, program = free_port(), peers.envoy()
        if program is None:
            return None
        return self.http(peers.envoy_command(program, self.folder, port, self.upstream_port), port)

    def _wrap(self, ledger: str, *rest: str) -> list[str]:
        return ["wrap", "--policy", str(self.folder / "policy.yaml"), "--ledger", ledger, *rest]

    def wrap_http(self, ledger: str, port: int) -> list[str]:
        """The rest of a command that puts the gateway before the HTTP upstream, and has it listen there."""
        return self._wrap(ledger, "--listen", f"127.0.0.1:{port}", f"http://127.0.0.1:{self.upstream_port}/mcp")

    def gateway_http(self, ledger: str) -> Target:
        """The gateway before the HTTP upstream."""
        port = free_port()
        return self.http([COUNTERFOIL, *self.wrap_http(ledger, port)], port)

    def metered(self, ledger: str, *, delay_ms: float = 0, core: int | None = None) -> Target:
        """The gateway before the HTTP upstream, which tells its commits, each of them made slower by that much."""
        port = free_port()
        command = [sys.executable, "-m", "tests.bench.metered", str(delay_ms), *self.wrap_http(ledger, port)]
        process = self._listening(command, port, self.core if core is None else core, piped=True)
        wire = Http(port)
        self.stack.callback(wire.close)
        return Target(wire, (process.pid,), lambda: _asked(process))

    def stdio(self, ledger: str | None) -> Target:
        """The gateway before a stdio upstream of its own, or such an upstream alone."""
        upstream = [*UPSTREAM, "--core", str(self.load_core)]
        command = upstream if ledger is None else [COUNTERFOIL, *self._wrap(ledger, "--", *upstream)]
        said = self.folder / "stdio.log"
        process = self.stack.enter_context(started(command, self.core, piped=True, said=said))
        return Target(Stdio(process), (process.pid,))

    def sqlite(self, name: str) -> str:
        """A ledger of its own on this disk."""
        return f"sqlite:///{self.folder / name}.db"

    def disk_ms(self) -> list[float]:
        """What an append of 4 KiB and its fdatasync took, each of 200, once a millisecond: their median is F, than
        which durability cannot be cheaper, twice a call.
        """
        took = []
        with tempfile.TemporaryFile(dir=self.folder) as file:
            for _ in range(200):
                time.sleep(0.001)
                begun = time.perf_counter()
                os.write(file.fileno(), bytes(4096))
                os.fdatasync(file.fileno())
                took.append((time.perf_counter() - begun) * 1e3)
        return took


def _asked(process: "subprocess.Popen[bytes]") -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def measured(target: Target, load: Load) -> tuple[Figure, list[str]]:
    """One slice, and what failed in it."""
    begun = (target.cpu_s(), target.server_cpu_s(), busy_s() - _ours_s(), target.commits and target.commits())
    slice_ = target.wire.load(load.tool, load.at_once, SLICE_S, load.a_run)
    ended = (target.cpu_s(), target.server_cpu_s(), busy_s() - _ours_s(), target.commits and target.commits())
    made = len(slice_.took_s)
    if not made:
        raise ConnectionError(f"not one answer: {slice_.failures[:1]}")
    cpu, server, others = (after - before for before, after in zip(begun[:3], ended[:3], strict=True))
    return Figure(
        p50_ms=statistics.median(slice_.took_s) * 1e3,
        rate=slice_.rate,
        cpu_us=cpu / made * 1e6,
        other_cores=max(others, 0) / slice_.seconds,
        server_cpu_us=server / made * 1e6,
        commits=None if begun[3] is None or ended[3] is None else (ended[3] - begun[3]) / made,
    ), slice_.failures


def _ours_s() -> float:
    """Processor time so far of all that this run started."""
    return sum(map(cpu_s, family(os.getpid())))


Cells = Mapping[Load, Mapping[tuple[str, str], Target]]
"""What is measured under each load: targets by transport and name."""


def compared(
    cells: Cells, rounds: int, until: float, before_each: Callable[[], object] = lambda: None, settle_s: float = 0.0
) -> tuple[Figures, dict[str, list[str]]]:
    """Every target under its loads, round after round, and what failed, by target and load.

    No round is begun that would end after `until`, in monotonic seconds. Before each slice there is the same load for
    `settle_s`: a gateway reads runs again that it has not used for a while and that are too many to keep.
    """
    figures: dict[tuple[str, str, Load], list[Figure]] = defaultdict(list)
    failures: dict[str, list[str]] = defaultdict(list)
    took = 0.0
    for number in range(rounds):
        begun = time.monotonic()
        if begun + took > until:
            print(f"only {number} rounds of {rounds}: this machine is slow today", file=sys.stderr)
            break
        before_each()
        for load, targets in cells.items():
            first = number % len(targets)
            order = [*targets.items()][first:] + [*targets.items()][:first]  # nobody always comes after the same one
            for (transport, name), target in order:
                if settle_s:
                    target.wire.load(load.tool, load.at_once, settle_s, load.a_run)
                figure, failed = measured(target, load)
                figures[transport, name, load].append(figure)
                if failed:
                    failures[f"{transport}, {name}, {load}"] += failed
        took = time.monotonic() - begun
    return figures, failures
