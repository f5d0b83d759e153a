"""What a run of the benchmark says: a table of medians, and the ratios that are its goals.

A ratio is taken within each round, between slices that lie seconds apart, and then the median over the quieter half of
the rounds: a machine's speed changes by half from minute to minute, the ratio of neighbours hardly does.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

GATEWAY = "gateway, memory"
DURABLE = "gateway, SQLite FULL"
DIRECT = "direct"
FASTMCP = "fastmcp shared client"


FOR_EVER = 10**9
"""Calls of a run that does not end: one for each lane, as long as the benchmark lasts."""

QUIET_CORES = 0.4
"""Where others use more than that, what is measured waits for its core, and the faster it is the more that distorts."""


@dataclass(frozen=True)
class Load:
    """So many calls at once of that tool."""

    tool: str
    at_once: int
    a_run: int | None = None
    """How many of those that come one after another belong to one run; None: all of them, with all that are at once."""

    def __str__(self) -> str:
        apart = {None: "", FOR_EVER: ", runs apart"}.get(self.a_run, f", {self.a_run} a run")
        return f"{'64 KiB ' if self.tool == 'blob' else ''}c={self.at_once}{apart}"


ALONE, SOME, MANY, LARGE = Load("echo", 1), Load("echo", 16), Load("echo", 64), Load("blob", 16)
LOADS: Mapping[str, Sequence[Load]] = {"HTTP": (ALONE, SOME, MANY, LARGE), "stdio": (ALONE, SOME)}


@dataclass(frozen=True)
class Figure:
    """One slice: one target under one load in one round."""

    p50_ms: float
    rate: float
    cpu_us: float
    """Processor time of the target's processes for each call."""
    other_cores: float
    """What the rest of the machine used meanwhile."""
    server_cpu_us: float = 0.0
    """Processor time for each call of the database behind the target, where that is a process of its own."""
    commits: float | None = None
    """For each call, where they can be told."""


Rounds = Sequence[Figure]
Figures = Mapping[tuple[str, str, Load], Rounds]


def median(of: Callable[..., float], *cells: Rounds) -> float:
    """The middle of what `of` tells of the cells' figures of one round, over the quieter half of the rounds."""
    rounds = sorted(zip(*cells, strict=True), key=lambda figures: sum(one.other_cores for one in figures))
    return statistics.median(of(*figures) for figures in rounds[: (len(rounds) + 1) // 2])


def kept(ours: Figure, theirs: Figure) -> float:
    """Our throughput by theirs."""
    return ours.rate / theirs.rate


def added_ms(ours: Figure, direct: Figure) -> float:
    """What we add to a call."""
    return ours.p50_ms - direct.p50_ms


def _added(ours: Figure, theirs: Figure, direct: Figure) -> float:
    return added_ms(ours, direct) / max(added_ms(theirs, direct), 1e-3)


@dataclass(frozen=True)
class Goal:
    """A ratio, or a time in milliseconds, that is to hold."""

    name: str
    value: float
    bound: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        """Whether it holds."""
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    def __str__(self) -> str:
        sign = "<=" if self.at_most else ">="
        off = self.value / self.bound if self.at_most else self.bound / self.value
        verdict = "met" if self.met else f"MISSED by a factor of {off:.1f}"
        return f"{self.name:<62} {self.value:9.3f}   goal {sign} {self.bound:<6g} {verdict}"


def goals(figures: Figures, proxy: str) -> Iterator[Goal]:
    """Those that can be told from what was measured."""
    http = {(target, load): rounds for (transport, target, load), rounds in figures.items() if transport == "HTTP"}

    if (GATEWAY, MANY) not in http:
        return
    many = median(kept, http[GATEWAY, MANY], http[proxy, MANY])
    yield Goal(f"HTTP c=64: throughput / {proxy}'s", many, 0.25)
    if (FASTMCP, MANY) in http:
        many = median(kept, http[GATEWAY, MANY], http[FASTMCP, MANY])
        yield Goal("HTTP c=64: throughput / fastmcp's shared client", many, 25)
    added = median(_added, http[GATEWAY, ALONE], http[proxy, ALONE], http[DIRECT, ALONE])
    yield Goal(f"HTTP c=1: added p50 / {proxy}'s", added, 3, at_most=True)
    large = median(kept, http[GATEWAY, LARGE], http[proxy, LARGE])
    yield Goal(f"HTTP 64 KiB c=16: throughput / {proxy}'s", large, 0.33)
    added = median(added_ms, figures["stdio", GATEWAY, ALONE], figures["stdio", DIRECT, ALONE])
    yield Goal("stdio to stdio c=1: added p50, ms", added, 0.15, at_most=True)


def table(figures: Figures) -> Iterator[str]:
    """The medians, a line for each target and load."""
    known = [*dict.fromkeys((transport, load) for transport, _, load in figures)]
    for transport in dict.fromkeys(transport for transport, _ in known):
        yield ""
        yield f"{transport} -> {transport:<42}{'p50 ms':>9}{'calls/s':>10}{'CPU us/call':>13}{'other cores':>13}"
        for load in (load for where, load in known if where == transport):
            for (where, target, which), rounds in figures.items():
                if (where, which) == (transport, load):
                    yield f"  {load!s:<18} {target:<30}{_line(rounds)}"


def _line(rounds: Rounds) -> str:
    p50, rate = median(attrgetter("p50_ms"), rounds), median(attrgetter("rate"), rounds)
    cpu, other = median(attrgetter("cpu_us"), rounds), median(attrgetter("other_cores"), rounds)
    line = f"{p50:9.3f}{rate:10,.0f}{cpu:13.1f}{other:13.2f}"
    if rounds[0].commits is not None:
        line += f"  {median(attrgetter('commits'), rounds):.3f} commits a call"
    if rounds[0].server_cpu_us:
        line += f", server {median(attrgetter('server_cpu_us'), rounds):.0f} us a call"
    return line


def busy(figures: Figures) -> Iterator[str]:
    """A warning, where others wanted the processors too."""
    others = statistics.median(median(attrgetter("other_cores"), rounds) for rounds in figures.values())
    if others > QUIET_CORES:
        yield f"A BUSY MACHINE: others used {others:.1f} cores. Run it again when it is quiet; until then only the"
        yield "processor time a call says something."


def asides(figures: Figures, proxy: str) -> Iterator[str]:
    """What helps to read the rest: the price of durability, and throughput as processor time tells it."""
    yield from busy(figures)
    for load in (SOME, MANY):
        if ("HTTP", DURABLE, load) in figures:
            ratio = median(kept, figures["HTTP", DURABLE, load], figures["HTTP", GATEWAY, load])
            yield f"durable intent and receipt, {load}: {ratio:.2f} x the throughput without"
    if ("HTTP", GATEWAY, MANY) in figures:
        cells = figures["HTTP", proxy, MANY], figures["HTTP", GATEWAY, MANY]
        by_cpu = median(lambda theirs, ours: theirs.cpu_us / ours.cpu_us, *cells)
        yield f"processor time a call, c=64: {proxy}'s / ours = {by_cpu:.3f} (the load's own core may limit {proxy})"


def for_machines(figures: Figures, proxy: str, disk_ms: float) -> dict[str, Any]:
    """All of it as JSON: each round's figures, and the goals."""
    return {
        "proxy": proxy,
        "disk_ms": disk_ms,
        "figures": [
            {"transport": transport, "target": target, **asdict(load), "rounds": [asdict(one) for one in rounds]}
            for (transport, target, load), rounds in figures.items()
        ],
        "goals": [{**asdict(goal), "met": goal.met} for goal in goals(figures, proxy)],
    }
