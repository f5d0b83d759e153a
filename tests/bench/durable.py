"""What it costs that nothing is lost: the gateway with intent and receipt on disk, beside proxies that write nothing,
turn by turn in one run.

    python -m tests.bench.durable               all, about five minutes
    python -m tests.bench.durable --brief       one round instead of four, and 5,000 calls instead of 100,000
    python -m tests.bench.durable --json        the same for machines
    python -m tests.bench.durable --profile     where the gateway's time goes (py-spy) at c=1 and c=64, instead of it
    python -m tests.bench.durable --scale 1e6   and then what grown ledgers cost (tests.bench.scale), up to so many
                                                events; 1e7 takes 16 GiB of scratch space

Every call is a write: an intent and a receipt that are on disk before the call goes on, and a record that the answer
was delivered. The loads are made in one run, which all 64 lanes share, and in runs apart, one for each lane. F is what
an append of 4 KiB and its fdatasync take on this disk, measured before each round and at the end.

What is measured has one core, its threads included; load, upstream and the database's server have the other, or, where
there are four, one each. Only the ratios are portable.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict

from tests.bench import peers
from tests.bench.durable_figures import (
    ENVOY,
    LOADS,
    POSTGRES,
    SLOW_MS,
    SLOW_POSTGRES,
    SLOW_SQLITE,
    SLOW_TWO,
    TWO,
    Grown,
    Told,
    asides,
    goals,
)
from tests.bench.figures import DIRECT, DURABLE, FOR_EVER, Load, table
from tests.bench.ground import STAND_IN, Cells, Ground, Target, both, compared
from tests.bench.hot_spots import hot_spots
from tests.bench.postgres import Databases
from tests.bench.processes import bounded, size_of

ROUNDS, BRIEF_ROUNDS = 4, 1
WARM_S = 0.5
SETTLE_S = 0.25
CALLS, BRIEF_CALLS = 100_000, 5_000
"""After which the gateway's memory is looked at."""
LIMIT_S = 330.0
"""No round, and no further calls for the sake of memory, are begun that would end later."""
END_S = 420
"""After so long it is ended, whatever hangs; `--scale` has its own time."""
SCALE_S = 1800.0


def prepared(ground: Ground) -> tuple[str, Mapping[str, Target]]:
    """The name of the plain proxy, and all targets, warm: connections and runs are open, imports are done."""
    proxy, plain = ground.proxy()
    targets = {DIRECT: ground.upstream, proxy: plain}
    if envoy := ground.envoy():
        targets[ENVOY] = envoy
    targets[DURABLE] = ground.metered(ground.sqlite("one"))
    targets[SLOW_SQLITE] = ground.metered(ground.sqlite("slow"), delay_ms=SLOW_MS)
    databases = Databases(ground)
    targets[POSTGRES], targets[TWO] = _one_and_two(ground, databases, "one")
    databases.slow(SLOW_MS)
    targets[SLOW_POSTGRES], targets[SLOW_TWO] = _one_and_two(ground, databases, "slow")
    for load, names in LOADS.items():
        for name in {*names} & {*targets}:
            targets[name].wire.load(load.tool, load.at_once, WARM_S, load.a_run)
    return proxy, targets


def _one_and_two(ground: Ground, databases: Databases, schema: str) -> tuple[Target, Target]:
    first, second = (databases.gateway(schema, core=core) for core in (ground.core, ground.second_core))
    return first, both(first, second)


def cells(proxy: str, targets: Mapping[str, Target]) -> Cells:
    """Each target under its loads; a plain proxy under those of nginx."""
    whose = {load: [proxy if name == "nginx" else name for name in names] for load, names in LOADS.items()}
    return {load: {("HTTP", name): targets[name] for name in names if name in targets} for load, names in whose.items()}


def grown(ground: Ground, name: str, a_run: int | None, calls: int, until: float) -> Grown:
    """A new gateway after so many calls, so many of them in each run."""
    load = Load("echo", 64, a_run)
    target = ground.metered(ground.sqlite(name))
    target.wire.load("echo", 1, WARM_S)
    before, made = size_of(target.pids[0]).rss_kb, 0
    failures: list[str] = []
    while made < calls and time.monotonic() < until:
        slice_ = target.wire.load(load.tool, load.at_once, 1.0, load.a_run)
        made += len(slice_.took_s)
        failures += slice_.failures
    return Grown(load, made, before / 1024, size_of(target.pids[0]).rss_kb / 1024, failures)


def profile(stack: ExitStack) -> None:
    """Where the time of a gateway on SQLite goes, alone and with 64 calls at once."""
    program = peers.py_spy()
    if program is None:
        sys.exit("there is no py-spy, and it cannot be had")
    ground = Ground(stack)
    for at_once, a_run in ((1, None), (64, None), (64, FOR_EVER)):
        load = Load("echo", at_once, a_run)
        gateway = ground.gateway_http(ground.sqlite(f"{at_once}{a_run}"))
        gateway.wire.load("echo", at_once, WARM_S, a_run)

        def loaded(seconds: float, gateway: Target = gateway, load: Load = load) -> object:
            return gateway.wire.load(load.tool, load.at_once, seconds, load.a_run)

        print(f"\n--- {load}", *hot_spots(program, gateway.pids[0], ground.folder, loaded), sep="\n")


def measured(stack: ExitStack, rounds: int, calls: int) -> tuple[Told, Mapping[str, Sequence[str]]]:
    """All that is compared, and what failed, by target and load."""
    until = time.monotonic() + LIMIT_S
    ground = Ground(stack)
    proxy, targets = prepared(ground)
    disk: list[float] = []
    all_cells = cells(proxy, targets)
    figures, failures = compared(all_cells, rounds, until, lambda: disk.extend(ground.disk_ms()), SETTLE_S)
    disk += ground.disk_ms()
    sizes = [grown(ground, "many", 100, calls, until), grown(ground, "long", None, calls, until)]
    failures |= {f"memory, {size.load}": [*size.failures] for size in sizes if size.failures}
    print(f"measured on core {ground.core}, load and upstream on {ground.load_core},", file=sys.stderr, end=" ")
    print(f"PostgreSQL on {ground.server_core}, a second gateway on {ground.second_core}", file=sys.stderr)
    alone = len({ground.core, ground.load_core, ground.server_core, ground.second_core}) == 4
    return Told(figures, proxy, statistics.median(disk), sizes, alone), failures


def main() -> None:
    """The figures are printed. Exit code 1 if a single call failed: figures of refusals are worth nothing."""
    parser = argparse.ArgumentParser(description="What durability costs, in one run.")
    parser.add_argument("--brief", action="store_true", help="to see whether all of it works")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--profile", action="store_true", help="where the gateway's time goes, by py-spy")
    parser.add_argument("--scale", choices=("1e6", "1e7"), help="and what ledgers cost with so many events")
    options = parser.parse_args()
    peers.install()
    bounded(END_S)
    with ExitStack() as stack:
        if options.profile:
            profile(stack)
            return
        rounds, calls = (BRIEF_ROUNDS, BRIEF_CALLS) if options.brief else (ROUNDS, CALLS)
        told, failures = measured(stack, rounds, calls)
    print(_spelled(told, failures) if options.json else "\n".join(_shown(told)))
    for where, failed in failures.items():
        first, count = Counter(failed).most_common(1)[0]
        print(f"{where}: {len(failed)} calls failed, {count} of them so: {first}", file=sys.stderr)
    if options.scale:
        bounded(int(SCALE_S))
        for part in (["--large"] if options.scale == "1e7" else [], ["--call"], ["--recover"]):
            subprocess.run([sys.executable, "-m", "tests.bench.scale", *part], check=True, timeout=SCALE_S)
    sys.exit(1 if failures else 0)


def _spelled(told: Told, failures: Mapping[str, Sequence[str]]) -> str:
    figures = [
        {"target": target, **asdict(load), "rounds": [asdict(one) for one in rounds]}
        for (_, target, load), rounds in told.figures.items()
    ]
    made = [{**asdict(goal), "met": goal.met} for goal in goals(told)]
    sizes = [asdict(size) for size in told.sizes]
    return json.dumps(
        {"proxy": told.proxy, "disk_ms": told.disk_ms, "figures": figures, "sizes": sizes, "goals": made}
        | {"failures": dict(failures)}
    )


def _shown(told: Told) -> Sequence[str]:
    lines = [f"F (4 KiB append + fdatasync, p50): {told.disk_ms:.3f} ms"]
    if told.proxy == STAND_IN:
        lines += ["NO NGINX TO BE HAD: a pass-through in Python stands in for it, and nothing is proved about its goal"]
    if not any(target == ENVOY for _, target, _ in told.figures):
        lines += ["NO ENVOY TO BE HAD: nothing is compared with it, and its goal is not met by that"]
    return [*lines, *table(told.figures), "", *asides(told), "", *map(str, goals(told))]


if __name__ == "__main__":
    main()
