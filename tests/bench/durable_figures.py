"""What the benchmark of durability says: the ratios that are its goals, and what helps to read them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from tests.bench.figures import (
    ALONE,
    DIRECT,
    DURABLE,
    FOR_EVER,
    MANY,
    SOME,
    Figure,
    Figures,
    Goal,
    Load,
    added_ms,
    busy,
    kept,
    median,
)

SLOW_MS = 5.0
ENVOY = "Envoy, MCP and RBAC"
POSTGRES = "gateway, PostgreSQL"
TWO = "two gateways, PostgreSQL"
SLOW_SQLITE = "gateway, SQLite, commits +5 ms"
SLOW_POSTGRES = "gateway, PostgreSQL, +5 ms"
SLOW_TWO = "two gateways, PostgreSQL, +5 ms"

FEW_APART, TWICE_FEW, SOME_APART, MANY_APART, TWICE_MANY = (
    Load("echo", at_once, FOR_EVER) for at_once in (4, 8, 16, 64, 128)
)

LOADS: Mapping[Load, Sequence[str]] = {
    ALONE: (DIRECT, "nginx", ENVOY, DURABLE, POSTGRES),
    SOME: (DIRECT, "nginx", ENVOY, DURABLE, POSTGRES),
    MANY: (DIRECT, "nginx", ENVOY, DURABLE, POSTGRES, SLOW_SQLITE),
    SOME_APART: (DURABLE, POSTGRES),
    MANY_APART: (DURABLE, POSTGRES, SLOW_SQLITE),
    TWICE_MANY: (POSTGRES, TWO),
    FEW_APART: (SLOW_POSTGRES,),
    TWICE_FEW: (SLOW_POSTGRES, SLOW_TWO),
}
"""Who is measured under each load. Two gateways have as many clients each as one has. With slow commits they have few,
so that they wait for the disk, and not for one another's processor where they share one.
"""

COMMITS = {ALONE: 2.0, SOME: 0.30, MANY: 0.10, SOME_APART: 0.30, MANY_APART: 0.10}


@dataclass(frozen=True)
class Grown:
    """What one gateway holds."""

    load: Load
    calls: int
    before_mib: float
    after_mib: float
    failures: Sequence[str]


@dataclass(frozen=True)
class Told:
    """All that was measured."""

    figures: Figures
    proxy: str
    disk_ms: float
    """F."""
    sizes: Sequence[Grown]
    alone: bool
    """Whether gateways, load and database had cores of their own."""

    def of(self, name: str, load: Load) -> Sequence[Figure]:
        """The rounds of a target under a load; none where it was not measured."""
        return self.figures.get(("HTTP", name, load), ())


def goals(told: Told) -> Iterator[Goal]:
    """Those that can be told from what was measured."""
    yield from _beside_others(told)
    yield from _of_commits(told)
    yield from _of_postgres(told)
    for size in told.sizes:
        words = "one run" if size.load.a_run is None else f"{size.load.a_run} in each run"
        yield Goal(f"MiB after {size.calls:,} calls, {words}", size.after_mib, 80, at_most=True)


def _beside_others(told: Told) -> Iterator[Goal]:
    added = median(added_ms, told.of(DURABLE, ALONE), told.of(DIRECT, ALONE))
    bound = 0.45 + 2.3 * told.disk_ms
    yield Goal("c=1: added p50, ms (0.45 + 2.3 F)", added, round(bound, 3), at_most=True)
    for name, least in ((told.proxy, 0.25), (ENVOY, 1.0)):
        if theirs := told.of(name, MANY):
            for load in (MANY, MANY_APART):
                yield Goal(f"{load}: throughput / {name}'s", median(kept, told.of(DURABLE, load), theirs), least)


def _of_commits(told: Told) -> Iterator[Goal]:
    for load, most in COMMITS.items():
        yield Goal(f"{load}: commits a call", median(attrgetter("commits"), told.of(DURABLE, load)), most, at_most=True)
    for load in (MANY, MANY_APART):
        rate = median(attrgetter("rate"), told.of(SLOW_SQLITE, load))
        yield Goal(f"{load}, 5 ms more for each commit: calls/s", rate, 1500)


def _of_postgres(told: Told) -> Iterator[Goal]:
    if not told.of(POSTGRES, MANY):
        return
    for load in (MANY, MANY_APART):
        ratio = median(kept, told.of(POSTGRES, load), told.of(DURABLE, load))
        yield Goal(f"{load}: throughput on PostgreSQL / on SQLite", ratio, 0.85)
    ratio = median(kept, told.of(SLOW_TWO, TWICE_FEW), told.of(SLOW_POSTGRES, FEW_APART))
    yield Goal("+5 ms: two gateways, 4 clients each / one with 4", ratio, 1.7)
    if told.alone:
        ratio = median(kept, told.of(TWO, TWICE_MANY), told.of(POSTGRES, MANY_APART))
        yield Goal("two gateways, 64 clients each / one with 64", ratio, 1.7)


def asides(told: Told) -> Iterator[str]:
    """What helps to read the rest."""
    yield from busy(told.figures)
    for name in (told.proxy, ENVOY):
        if theirs := told.of(name, MANY):
            ratio = median(lambda their, our: their.cpu_us / our.cpu_us, theirs, told.of(DURABLE, MANY))
            yield f"processor time a call, c=64: {name}'s / ours = {ratio:.3f} (the load's own core may limit {name})"
    for size in told.sizes:
        before, after = f"{size.before_mib:.1f} MiB at the start", f"{size.after_mib:.1f} after {size.calls:,} calls"
        yield f"memory, {size.load}: {before}, {after}"
    if told.of(POSTGRES, MANY_APART):
        yield from _of_many_gateways(told)


def _of_many_gateways(told: Told) -> Iterator[str]:
    one, two, same = (
        told.of(name, load) for name, load in ((POSTGRES, MANY_APART), (TWO, TWICE_MANY), (POSTGRES, TWICE_MANY))
    )
    if not told.alone:
        ratio = median(kept, two, one)
        yield f"two gateways on the core of one: {ratio:.2f} x, WHICH SAYS NOTHING OF TWO WITH A CORE EACH: their goal"
        yield "is not judged here; with four cores it would be"
    yield f"two gateways, 64 clients each / one with all 128: {median(kept, two, same):.2f} x"
    slow, slow_same = told.of(SLOW_TWO, TWICE_FEW), told.of(SLOW_POSTGRES, TWICE_FEW)
    yield f"+5 ms: two gateways, 4 clients each / one with all 8: {median(kept, slow, slow_same):.2f} x"
    ours, theirs = (median(attrgetter(of), one) for of in ("cpu_us", "server_cpu_us"))
    yield (
        f"calls for each second of a processor: gateway {1e6 / ours:,.0f}, PostgreSQL {1e6 / theirs:,.0f}; "
        f"so {ours / theirs:.1f} gateways with a core each keep one core of the server busy"
    )
