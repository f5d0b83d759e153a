"""What the console's inbox costs with 10,000 questions in it: `python -m tests.bench.inbox`, about a minute.

    python -m tests.bench.inbox                 10,000 questions in 200 runs, in a SQLite ledger
    python -m tests.bench.inbox --questions N   others
    python -m tests.bench.inbox --memory        in the ledger that is kept in memory

Pages are read as a browser reads them, door and all, within this process: what is told is their processor time and the
ledger's, not a network's. Memory is the process's, ledger and client included. Stalls are the longest time for which
the event loop served nobody else, as measured beside it. Python's collector is set as a gateway sets it.
"""

import argparse
import asyncio
import gc
import re
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from html import unescape
from pathlib import Path

from gateway.app import COLLECTIONS
from gateway.model.review import Reviewer
from gateway.outbound.ledger import open_ledger
from gateway.runtime.reviews import reviews_of
from tests import world
from tests.console.office import Office, Visitor, office

LOADS = 50
RUNS = 200
NEVER = [f"/approvals/ap_{number:016x}" for number in range(25)]
BEAT_S = 0.002


async def main(questions: int, *, memory: bool) -> None:
    """Fill, load, tell."""
    with tempfile.TemporaryDirectory() as scratch:
        ledger = await open_ledger("memory:" if memory else f"sqlite:///{Path(scratch) / 'ledger.db'}")
        async with office(ledger=ledger) as at:
            began = time.monotonic()
            await fill(at, questions)
            print(f"{questions:,} questions asked in {time.monotonic() - began:.0f} s")
            await told(at)
        await ledger.close()


async def fill(at: Office, questions: int) -> None:
    """Agents in many runs ask, each about other arguments."""
    for number in range(questions):
        run = f"run_{number % RUNS}"
        if number < RUNS:
            await at.it.engine.open_run(run=run, principal=world.USER, origin="process", attribution={})
        at.it.clock.tell(0.01)
        tool = ("mail", "pay", "sql", "edit")[number % 4]
        await at.it.call(tool, {"order": f"A-{number}", "amount": number, "note": "x" * 200}, run=run)


async def told(at: Office) -> None:
    """The figures."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)
    visitor = await at.visitor()
    elsewhere = await at.visitor(Reviewer("other", "olga", frozenset(), via="link"))
    await row("inbox, first look", [await timed(lambda: visitor.read("/"))])
    names = re.findall(r'href="/console/approvals/(ap_[^"]*)"', await visitor.read("/?tool=mail"))
    await row("inbox, first page", [await timed(lambda: visitor.read("/")) for _ in range(LOADS)])
    await row("inbox, page after page", await walked(visitor))
    await row("inbox, filtered", [await timed(lambda: visitor.read("/?text=a+mail&risk=medium")) for _ in range(10)])
    await row("inbox, of another tenant", [await timed(partial(elsewhere.read, "/")) for _ in range(10)])
    await row("inbox, after an answer", [await after_an_answer(at, visitor, name) for name in names[:10]])
    await row("a packet, the first", [await timed(partial(visitor.read, f"/approvals/{names[10]}"))])
    await row("a packet", [await timed(partial(visitor.read, f"/approvals/{name}")) for name in names[11:21]])
    await row("a name that nobody knows", [await timed(partial(visitor.get, one)) for one in NEVER])
    await row("25 such names at once", [await timed(lambda: asyncio.gather(*map(visitor.get, NEVER)))])
    await row("reviews", [await timed(lambda: reviews_of(at.it.book))])


async def walked(visitor: Visitor) -> Sequence[float]:
    """From each page to the next."""
    times, path = list[float](), "/"
    for _ in range(LOADS):
        began = time.perf_counter()
        page = await visitor.read(path)
        times.append(time.perf_counter() - began)
        further = re.search(r'rel="next" href="/console(/[^"]*)"', page)
        path = unescape(further[1]) if further else "/"
    return times


async def after_an_answer(at: Office, visitor: Visitor, name: str) -> float:
    """The list has changed by one."""
    page = await visitor.read(f"/approvals/{name}")
    await visitor.send(f"/approvals/{name}", page, decision="rejected", reason="no")
    at.it.clock.tell(2)
    return await timed(lambda: visitor.read("/"))


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Seconds."""
    beating = asyncio.ensure_future(beat())
    began = time.perf_counter()
    await work()
    took = time.perf_counter() - began
    await asyncio.sleep(BEAT_S)
    beating.cancel()
    return took


STALLS = [0.0]
"""The longest time for which whoever else is served had to wait, since the last line."""


async def beat() -> None:
    """Somebody else, who would have a turn every moment."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(BEAT_S)
        STALLS[0] = max(STALLS[0], time.perf_counter() - began - BEAT_S)


async def row(what: str, times: Sequence[float]) -> None:
    """One line."""
    gc.collect()
    middle, worst, stall = statistics.median(times) * 1000, max(times) * 1000, STALLS[0] * 1000
    told = f"median {middle:6.1f} ms  worst {worst:6.1f} ms  stall {stall:6.1f} ms  {rss_mib():6.1f} MiB"
    print(f"{what:<28} {len(times):>3} loads  {told}")
    STALLS[0] = 0.0


def rss_mib() -> float:
    """What the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


if __name__ == "__main__":
    told_by = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told_by.add_argument("--questions", type=int, default=10_000)
    told_by.add_argument("--memory", action="store_true")
    asked = told_by.parse_args()
    asyncio.run(main(asked.questions, memory=asked.memory))
