"""What a ledger costs when it has grown: `python -m tests.bench.scale`, about two minutes; GiB of scratch space.

    python -m tests.bench.scale                appends, start and first reads at 10^4 and 10^6 events, side by side
    python -m tests.bench.scale --large        and at 10^7: some 5 minutes and 16 GiB more
    python -m tests.bench.scale --call         a call on a run of 10 events and on one of 10,000
    python -m tests.bench.scale --recover      10,000 open attempts that a dead gateway left, and one that sweeps
    python -m tests.bench.scale --kept         what runs take in memory, by their events

Sizes are measured in turn, a few appends each, so that a busy machine slows all alike; a ratio is that of neighbours,
turn by turn.
`--scratch DIRECTORY` is where the ledgers are grown.
"""

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gateway.model.canonical import Digest
from gateway.outbound.clock import SystemClock
from gateway.outbound.ledger import open_sqlite
from gateway.ports import Append, Ledger
from gateway.runtime.heads import KEPT_EVENTS, Heads
from tests.bench.ledger import disk_s
from tests.ledger.grown import events_of, grow
from tests.ledger.making import Line, attempt, small
from tests.runtime.house import House, house

CALLS = 333
"""Writes of a run: 1,000 events."""
TURNS = 60
APPENDS = 20
"""Of one size, before it is the next one's turn."""
OPENINGS = 7


@dataclass
class Size:
    """One ledger, and what was measured of it."""

    path: Path
    runs: int
    appends: list[list[float]] = field(default_factory=list)
    """By turn."""
    starts: list[float] = field(default_factory=list)
    tails: list[float] = field(default_factory=list)

    @property
    def events(self) -> int:
        return self.runs * events_of(CALLS)


async def grown(scratch: Path, counts: Sequence[int]) -> list[Size]:
    """A ledger of each size, in runs of 1,000 events."""
    made = []
    for count in counts:
        size = Size(scratch / f"{count}.db", count // events_of(CALLS))
        begun = time.perf_counter()
        await grow(size.path, size.runs, CALLS)
        gib = size.path.stat().st_size / 2**30
        print(f"grown: {size.events:,} events, {gib:.2f} GiB, in {time.perf_counter() - begun:.0f} s")
        made.append(size)
    return made


def steps(line: Line, count: int) -> list[Append]:
    """As the intents of a run: 2 KiB each, what they cite, and an attempt that is tracked until the next one is."""
    made = []
    for _ in range(count):
        before, name = (f"{line.run}.{line.expected[0] - back}" for back in (1, 0))
        cited = {Digest(f"c1:{line.run}{line.expected[0]}"): b"x" * 300}
        made.append(line.step(small("a" * 1900), payloads=cited, track=[attempt(name, line.run)], untrack=[before]))
    return made


async def append_times(sizes: Sequence[Size]) -> None:
    """Appends to new runs, a few to each ledger in turn."""
    ledgers = [await open_sqlite(size.path) for size in sizes]
    lines = [Line(f"run_z{number:021}") for number in range(len(sizes))]
    for turn in range(TURNS + 2):
        for place in range(len(sizes)):
            number = (turn + place) % len(sizes)  # so that none is always behind the same one
            took = [await timed(ledgers[number].append(step)) for step in steps(lines[number], APPENDS)]
            if turn > 1:  # the first two warm the pages
                sizes[number].appends.append(took)
    for ledger in ledgers:
        await ledger.close()


async def timed(work: Awaitable[None]) -> float:
    begun = time.perf_counter()
    await work
    return time.perf_counter() - begun


async def opening_times(sizes: Sequence[Size]) -> None:
    """What a start asks of its ledger, and the newest records of its log."""
    for _ in range(OPENINGS):
        for size in sizes:
            begun = time.perf_counter()
            ledger = await open_sqlite(size.path)
            await ledger.tracked(states={"open", "unverified"})
            run = f"run_{size.runs - 1:022}"
            await ledger.read(run, events_of(CALLS) - 1)
            size.starts.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            last = await ledger.closed()
            assert len(await ledger.log(last - 100)) == 100
            size.tails.append(time.perf_counter() - begun)
            await ledger.close()


async def sizes(scratch: Path, *, large: bool) -> None:
    """Ratios of a grown ledger's appends and start to those of a small one."""
    made = await grown(scratch, [10_000, 1_000_000, *([10_000_000] if large else [])])
    await append_times(made)
    await opening_times(made)
    print(f"F {disk_s() * 1e3:.2f} ms")
    print(f"{'events':>12}{'append p50 ms':>15}{'p99 ms':>9}{'ratio':>8}{'start ms':>10}{'tail ms':>9}")
    for size in made:
        took = [one for turn in size.appends for one in turn]
        p50, p99 = statistics.median(took), statistics.quantiles(took, n=100)[98]
        start, tail = statistics.median(size.starts), statistics.median(size.tails)
        turns = zip(size.appends, made[0].appends, strict=True)
        ratio = statistics.median(statistics.median(own) / statistics.median(first) for own, first in turns)
        shown = f"{p50 * 1e3:>15.3f}{p99 * 1e3:>9.2f}{ratio:>8.2f}{start * 1e3:>10.1f}{tail * 1e3:>9.1f}"
        print(f"{size.events:>12,}{shown}")


# --- the length of a run ----------------------------------------------------------------------------------------------


async def calls(scratch: Path) -> None:
    """One write at a time on runs that are known, in turn; alone, and alternating with another gateway."""
    lengths = {10: 3, 10_000: 3333}
    seen: dict[tuple[str, int], list[float]] = {}
    for events, made in lengths.items():
        await grow(scratch / f"run-{events}.db", 1, made)
    opened = {events: await open_sqlite(scratch / f"run-{events}.db") for events in lengths}
    async with (
        house(opened[10], "one") as short,
        house(opened[10], "two") as short_too,
        house(opened[10_000], "one") as long,
        house(opened[10_000], "two") as long_too,
    ):
        pairs = {10: (short, short_too), 10_000: (long, long_too)}
        for turn in range(150):
            for events, (one, two) in pairs.items():
                for kind, by in (("after another", one), ("alone", one), ("after another", two)):
                    begun = time.perf_counter()
                    await write(by)
                    if turn > 10:
                        seen.setdefault((kind, events), []).append(time.perf_counter() - begun)
        print(f"{'a write':<16}{'10 events ms':>14}{'10,000 ms':>11}{'ratio':>8}")
        for kind in ("alone", "after another"):
            few, many = (statistics.median(seen[kind, events]) for events in lengths)
            print(f"{kind:<16}{few * 1e3:>14.3f}{many * 1e3:>11.3f}{many / few:>8.2f}")
        await cold(opened[10_000])
    for ledger in opened.values():
        await ledger.close()


NUMBERS = iter(range(10_000_000))


async def write(by: House) -> None:
    shown = await by.call("write", {"n": next(NUMBERS)}, run=f"run_{0:022}")
    assert shown.result is not None, shown


async def cold(ledger: Ledger) -> None:
    """A long run that is not known, and how long others wait meanwhile."""
    gc.collect()
    gc.freeze()  # as a gateway does once it is up
    async with watched() as turns:
        begun = time.perf_counter()
        await Heads(ledger, SystemClock()).get(f"run_{0:022}")
        took = time.perf_counter() - begun
    gc.unfreeze()
    print(f"cold: {took * 1e3:.0f} ms; the event loop's longest turn {max(turns) * 1e3:.1f} ms")


@asynccontextmanager
async def watched() -> AsyncIterator[list[float]]:
    """How long each turn of the event loop takes while the block runs, in seconds."""
    turns: list[float] = []

    async def watch() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(0.0005)
            turns.append(time.perf_counter() - begun)

    watching = asyncio.ensure_future(watch())
    await asyncio.sleep(0)
    try:
        yield turns
    finally:
        watching.cancel()


# --- recovery and memory ----------------------------------------------------------------------------------------------


async def recover(scratch: Path, count: int) -> None:
    """A dead gateway left so many attempts open, each in a run of its own; another one sweeps while it serves calls."""
    path = scratch / "open.db"
    await grow(path, count, 2, opened=count)
    ledger = await open_sqlite(path)
    async with house(ledger, "next") as it, watched() as turns:
        latest: list[float] = []
        serving = asyncio.ensure_future(serve(it, latest))
        assert await it.recovery.sweep() == 0  # whoever held them may live: they are watched for a lease time
        it.clock.tell(it.book.options.lease_s)
        begun = time.perf_counter()
        settled = await it.recovery.sweep()
        took = time.perf_counter() - begun
        serving.cancel()
    assert settled == count, settled
    assert not await ledger.tracked(states={"open"})
    await ledger.close()
    print(f"recovery: {settled:,} open attempts in {took:.1f} s, {took / settled * 1e3:.2f} ms each")
    print(
        f"meanwhile: {len(latest)} calls, p50 {statistics.median(latest) * 1e3:.1f} ms, longest {max(latest) * 1e3:.0f}"
    )
    print(f"the event loop's longest turn: {max(turns) * 1e3:.0f} ms")


async def serve(it: House, latest: list[float]) -> None:
    """Calls of somebody else, one after another, for ever."""
    await it.open("run_1")
    while True:
        begun = time.perf_counter()
        shown = await it.call("write", {"n": next(NUMBERS)})
        assert shown.result is not None, shown
        latest.append(time.perf_counter() - begun)
        await asyncio.sleep(0.01)


async def kept(scratch: Path) -> None:
    """What the state of runs takes, by how long they are, read as a gateway reads it."""
    each = 0.0
    for events, made in {10: 3, 1_000: 333, 10_000: 3333}.items():
        path, runs = scratch / f"kept-{events}.db", max(2, 20_000 // events)
        await grow(path, runs, made)
        ledger = await open_sqlite(path)
        gc.collect()
        tracemalloc.start()
        heads = Heads(ledger, SystemClock())
        for number in range(runs):
            await heads.get(f"run_{number:022}")
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await ledger.close()
        each = taken / runs / events
        print(f"a run of {events:>6,} events: {taken / runs:>12,.0f} bytes, {each:,.0f} an event")
        print(f"    1,024 of them would take {taken / runs * 1024 / 2**20:,.0f} MiB")
    print(f"kept are {KEPT_EVENTS:,} events, {each * KEPT_EVENTS / 2**20:.0f} MiB of such runs")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("--large", "--call", "--recover", "--kept"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--open", type=int, default=10_000, help="how many attempts `--recover` finds open")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.scratch) as directory:
        scratch = Path(directory)
        if asked.call:
            await calls(scratch)
        elif asked.recover:
            await recover(scratch, asked.open)
        elif asked.kept:
            await kept(scratch)
        else:
            await sizes(scratch, large=asked.large)


if __name__ == "__main__":
    asyncio.run(main())
