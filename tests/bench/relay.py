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
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack

from tests.bench import peers
from tests.bench.figures import (
    DIRECT,
    DURABLE,
    FASTMCP,
    GATEWAY,
    LOADS,
    Figures,
    asides,
    for_machines,
    goals,
    table,
)
from tests.bench.ground import STAND_IN, Cells, Ground, Target, compared
from tests.bench.hot_spots import hot_spots
from tests.bench.processes import bounded

ROUNDS = 4
WARM_S = 0.5
LIMIT_S = 110.0
"""No round is begun that would end later; what is installed for the first time comes before."""
END_S = 170
"""After so long it is ended, whatever hangs."""

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


def cells(targets: Targets) -> Cells:
    """Each transport's targets under its loads."""
    loads = dict.fromkeys(load for transport_loads in LOADS.values() for load in transport_loads)
    return {load: {key: one for key, one in targets.items() if load in LOADS[key[0]]} for load in loads}


def profile(stack: ExitStack) -> None:
    """Where the time of the gateway with a ledger in memory goes at c=64."""
    program = peers.py_spy()
    if program is None:
        sys.exit("there is no py-spy, and it cannot be had")
    ground = Ground(stack)
    gateway = ground.gateway_http("memory:")
    gateway.wire.load("echo", 64, WARM_S)
    print("\n".join(hot_spots(program, gateway.pids[0], ground.folder, lambda s: gateway.wire.load("echo", 64, s))))


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
        disk = statistics.median(ground.disk_ms())
        proxy, targets = prepared(ground, direct_only=options.direct)
        figures, failures = compared(cells(targets), ROUNDS, until)
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
