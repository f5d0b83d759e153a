"""What the gateway costs: the same calls to the same upstream, directly, through the gateway and through others, turn
by turn in one run.

    python -m tests.bench.relay               all, under two minutes
    python -m tests.bench.relay --direct      the upstreams alone, to test the measure itself
    python -m tests.bench.relay --json        the same for machines
    python -m tests.bench.relay --profile     where the gateway's time goes (py-spy), instead of the comparison

What is measured has one core, load generator and upstreams have the other, so throughput is that of one core of the
gateway, its threads included. The gateway runs as its own command does, once with a ledger in memory (relay and checks)
and once with the default, SQLite with synchronous=FULL, on this disk. Only the ratios are portable.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.bench import peers
from tests.bench.figures import (
    DIRECT,
    DURABLE,
    FASTMCP,
    GATEWAY,
    LOADS,
    Figure,
    Figures,
    Load,
    asides,
    for_machines,
    goals,
    table,
)
from tests.bench.hot_spots import hot_spots
from tests.bench.load import Http, Stdio
from tests.bench.processes import COUNTERFOIL, await_port, bounded, busy_s, children, cores, cpu_s, free_port, started

ROUNDS = 4
SLICE_S = 0.75
WARM_S = 0.5
LIMIT_S = 110.0
"""No round is begun that would end later; what is installed for the first time comes before."""
END_S = 170
"""After so long it is ended, whatever hangs."""

UPSTREAM = [sys.executable, str(Path(__file__).with_name("echo_upstream.py"))]

STAND_IN = "pass-through"
"""What stands in where there is no nginx."""

POLICY = """
workflow: bench
transitions:
  - name: everything
    tools: ["*"]
"""


@dataclass
class Target:
    """Something to be called, and the process that is charged for it."""

    wire: Http | Stdio
    pid: int

    def cpu_s(self) -> float:
        """Processor time so far of its processes, those that it started included, but for upstreams."""
        return sum(cpu_s(pid) for pid in _family(self.pid) if pid == self.pid or not _is_upstream(pid))


def _family(pid: int) -> Iterator[int]:
    """The process and all that descend from it."""
    yield pid
    for child in children(pid):
        yield from _family(child)


def _is_upstream(pid: int) -> bool:
    return b"echo_upstream" in Path(f"/proc/{pid}/cmdline").read_bytes()


class Ground:
    """Where everything runs: the folder, the cores, and what was started, all of which ends with the stack."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.load_core, self.core = cores()
        peers.TOOLS.mkdir(parents=True, exist_ok=True)
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=peers.TOOLS)))  # on a disk, as a ledger
        (self.folder / "policy.yaml").write_text(POLICY)
        os.sched_setaffinity(0, {self.load_core})
        self.upstream_port = free_port()
        self.upstream = self._http([*UPSTREAM, f"127.0.0.1:{self.upstream_port}"], self.upstream_port, self.load_core)

    def _http(self, command: list[str], port: int, core: int) -> Target:
        said = self.folder / f"{port}.log"
        process = self.stack.enter_context(started(command, core, said=said))
        await_port(process, port, said)
        wire = Http(port)
        self.stack.callback(wire.close)
        return Target(wire, process.pid)

    def proxy(self) -> tuple[str, Target]:
        """nginx, or what stands in for it, with its name."""
        port, program = free_port(), peers.nginx()
        if program is None:
            return STAND_IN, self._http(peers.relay_command(port, self.upstream_port), port, self.core)
        command = peers.nginx_command(program, self.folder, port, self.upstream_port)
        return "nginx", self._http(command, port, self.core)

    def fastmcp(self) -> Target | None:
        """The proxy of fastmcp, if it can be had."""
        port = free_port()
        command = peers.fastmcp_command(port, self.upstream_port)
        return None if command is None else self._http(command, port, self.core)

    def _wrap(self, ledger: str, *rest: str) -> list[str]:
        return [COUNTERFOIL, "wrap", "--policy", str(self.folder / "policy.yaml"), "--ledger", ledger, *rest]

    def gateway_http(self, ledger: str) -> Target:
        """The gateway before the HTTP upstream."""
        port = free_port()
        url = f"http://127.0.0.1:{self.upstream_port}/mcp"
        return self._http(self._wrap(ledger, "--listen", f"127.0.0.1:{port}", url), port, self.core)

    def stdio(self, ledger: str | None) -> Target:
        """The gateway before a stdio upstream of its own, or such an upstream alone."""
        upstream = [*UPSTREAM, "--core", str(self.load_core)]
        command = upstream if ledger is None else self._wrap(ledger, "--", *upstream)
        said = self.folder / "stdio.log"
        process = self.stack.enter_context(started(command, self.core, piped=True, said=said))
        return Target(Stdio(process), process.pid)

    def sqlite(self, name: str) -> str:
        """A ledger of its own on this disk."""
        return f"sqlite:///{self.folder / name}.db"


Targets = Mapping[tuple[str, str], Target]


def prepared(ground: Ground, *, direct_only: bool) -> tuple[str, Targets]:
    """The name of the plain proxy, and all targets, warm: connections are open, imports are done."""
    targets = {("HTTP", DIRECT): ground.upstream, ("stdio", DIRECT): ground.stdio(None)}
    proxy = ""
    if not direct_only:
        proxy, targets["HTTP", proxy] = ground.proxy()
        targets["HTTP", GATEWAY] = ground.gateway_http("memory:")
        targets["HTTP", DURABLE] = ground.gateway_http(ground.sqlite("http"))
        targets["stdio", GATEWAY] = ground.stdio("memory:")
        targets["stdio", DURABLE] = ground.stdio(ground.sqlite("stdio"))
        if fastmcp := ground.fastmcp():
            targets["HTTP", FASTMCP] = fastmcp
    for (transport, _), target in targets.items():
        target.wire.load("echo", LOADS[transport][-1].at_once, WARM_S)
    return proxy, targets


def measured(target: Target, load: Load) -> tuple[Figure, list[str]]:
    """One slice, and what failed in it."""
    begun = (target.cpu_s(), busy_s() - _ours_s())
    slice_ = target.wire.load(load.tool, load.at_once, SLICE_S)
    ended = (target.cpu_s(), busy_s() - _ours_s())
    if not slice_.took_s:
        raise ConnectionError(f"not one answer: {slice_.failures[:1]}")
    return Figure.of(slice_, ended[0] - begun[0], ended[1] - begun[1]), slice_.failures


def _ours_s() -> float:
    """Processor time so far of all that this run started."""
    return sum(map(cpu_s, _family(os.getpid())))


def compared(targets: Targets, until: float) -> tuple[Figures, dict[str, list[str]]]:
    """Every target under every load, round after round, and what failed, by target and load."""
    figures: dict[tuple[str, str, Load], list[Figure]] = defaultdict(list)
    failures: dict[str, list[str]] = defaultdict(list)
    took = 0.0
    for number in range(ROUNDS):
        begun = time.monotonic()
        if begun + took > until:
            print(f"only {number} rounds of {ROUNDS}: this machine is slow today", file=sys.stderr)
            break
        order = [*targets.items()][number:] + [*targets.items()][:number]  # nobody always comes after the same one
        for transport, loads in LOADS.items():
            for load in loads:
                for (where, name), target in order:
                    if where == transport:
                        figure, failed = measured(target, load)
                        figures[where, name, load].append(figure)
                        if failed:
                            failures[f"{where}, {name}, {load}"] += failed
        took = time.monotonic() - begun
    return figures, failures


def disk_ms(folder: Path) -> float:
    """F: the median of an append of 4 KiB and its fdatasync, once a millisecond: what durability cannot be cheaper
    than, twice a call.
    """
    took = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(200):
            time.sleep(0.001)
            begun = time.perf_counter()
            os.write(file.fileno(), bytes(4096))
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - begun)
    return statistics.median(took) * 1e3


def profile(stack: ExitStack) -> None:
    """Where the time of the gateway with a ledger in memory goes at c=64."""
    program = peers.py_spy()
    if program is None:
        sys.exit("there is no py-spy, and it cannot be had")
    ground = Ground(stack)
    gateway = ground.gateway_http("memory:")
    gateway.wire.load("echo", 64, WARM_S)
    print("\n".join(hot_spots(program, gateway.pid, ground.folder, lambda s: gateway.wire.load("echo", 64, s))))


def main() -> None:
    """The figures are printed. Exit code 1 if a single call failed: figures of refusals are worth nothing."""
    parser = argparse.ArgumentParser(description="Added latency and kept throughput, in one run.")
    parser.add_argument("--direct", action="store_true", help="measure the upstreams alone")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--profile", action="store_true", help="where the gateway's time goes, by py-spy")
    options = parser.parse_args()
    peers.install()
    bounded(END_S)
    with ExitStack() as stack:
        if options.profile:
            profile(stack)
            return
        until = time.monotonic() + LIMIT_S
        ground = Ground(stack)
        disk = disk_ms(ground.folder)
        proxy, targets = prepared(ground, direct_only=options.direct)
        figures, failures = compared(targets, until)
    if options.json:
        print(json.dumps({**for_machines(figures, proxy, disk), "failures": failures}))
    else:
        _print(figures, proxy, disk, ground)
    for where, failed in failures.items():
        print(f"{where}: {len(failed)} calls failed, the first: {failed[0]}", file=sys.stderr)
    sys.exit(1 if failures else 0)


def _print(figures: Figures, proxy: str, disk: float, ground: Ground) -> None:
    apart = "" if ground.core != ground.load_core else ": ONE CORE FOR ALL, so throughput says little"
    print(f"measured on core {ground.core}, load and upstreams on core {ground.load_core}{apart}")
    print(f"F (4 KiB append + fdatasync, p50): {disk:.3f} ms")
    if figures and proxy and ("HTTP", FASTMCP, LOADS["HTTP"][0]) not in figures:
        print("fastmcp could not be had, and is not compared")
    if proxy == STAND_IN:
        print("NO NGINX TO BE HAD: a pass-through in Python stands in for it, and nothing is proved about the goals")
    print("\n".join(table(figures)))
    if proxy:
        print("", *asides(figures, proxy), "", *goals(figures, proxy), sep="\n")


if __name__ == "__main__":
    main()
