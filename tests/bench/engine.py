"""What judging and recording cost, without doors: `python -m tests.bench.engine`, about 20 seconds.

    python -m tests.bench.engine                   CPU of a call, by ledger, kind and number of awaiters
    python -m tests.bench.engine --profile memory  where it goes, by cumulative time
    python -m tests.bench.engine --kept            what stays in memory of each call of a run that goes on

The real engine over the real ledgers; the upstream answers at once. A call has 1 KiB of arguments and a small
result; a read is an intent and a receipt, a write has its delivery recorded as well. CPU is that of the whole
process, the writer's thread included. Only ratios within one run are portable.
"""

import argparse
import asyncio
import cProfile
import gc
import pstats
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gateway.model.canonical import canonical, digest_bytes
from gateway.model.party import Party
from gateway.model.policy import Policy
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal
from gateway.model.tool import Answer, Tool, ToolResult
from gateway.outbound.clock import SystemClock
from gateway.outbound.ledger import open_ledger
from gateway.ports import Dispatch, Ledger
from gateway.runtime.book import Book, Options
from gateway.runtime.engine import Engine
from gateway.runtime.policies import Policies
from tests.world import PatientCaller

LEDGERS = ("memory", "sqlite")
KINDS = ("read", "write")
AWAITERS = (1, 16, 64)
CALLS = 960
"""Of one measurement, over all awaiters; each awaiter has a run of its own."""
WARM = 64
ROUNDS = 3

USER = Principal(id="local:user", roles=frozenset({"developer"}))

POLICY = Policy.model_validate(
    {
        "workflow": "bench",
        "grants": [{"principal": "local:*", "authority": ["files:write"]}],
        "tools": {"read": {"effect": "read"}, "write": {"effect": "write"}},
        "transitions": [
            {"name": "look", "tools": ["*"], "effect": ["read"]},
            {"name": "change", "tools": ["*"], "authority": ["files:write"], "when": ["size(args.path) < 200"]},
        ],
        "budgets": {"calls": 10_000_000, "mutations": 10_000_000},
        "stops": {"deadline_s": 86_400, "repeated_state": {"after": 5}},
    }
)
"""One of each thing that is asked of a call: grant, effect, condition, budget, stop."""

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "maxLength": 500},
        "text": {"type": "string"},
        "count": {"type": "integer", "minimum": 0},
        "options": {"type": "object", "properties": {"deep": {"type": "boolean"}}, "additionalProperties": False},
    },
    "required": ["path", "text"],
}


@dataclass
class Instant:
    """Upstreams that answer before anyone could wait."""

    tools: dict[str, Tool] = field(
        default_factory=lambda: {
            name: Tool(name, "fake", name, {"name": name, "description": "x" * 200, "inputSchema": SCHEMA})
            for name in KINDS
        }
    )
    answer: Answer = field(default_factory=lambda: ToolResult({"content": [{"type": "text", "text": "done"}]}))

    async def tool(self, name: str, party: Party | None = None) -> Tool | None:  # noqa: ARG002 - all see the same
        return self.tools.get(name)

    async def offered(self, party: Party | None = None) -> tuple[Sequence[Tool], bool]:  # noqa: ARG002
        return [*self.tools.values()], True

    async def call(self, _: Dispatch) -> Answer:
        return self.answer


def proposals(kind: str, run: str, first: int, count: int, salt: bytes) -> list[Proposal]:
    """Calls that were never made before. Made beforehand: parsing and hashing arguments is the door's work."""
    made = []
    for number in range(first, first + count):
        arguments = {"path": f"src/{run}/{number}.txt", "text": "x" * 960, "count": number, "options": {"deep": True}}
        spelled = canonical(arguments)
        made.append(Proposal(run, USER, kind, arguments, digest_bytes(spelled, salt), spelled=spelled))
    return made


@asynccontextmanager
async def gateway(ledger_kind: str) -> AsyncIterator[Engine]:
    """An engine over a ledger of that kind."""
    with tempfile.TemporaryDirectory() as directory:
        url = "memory:" if ledger_kind == "memory" else str(Path(directory) / "ledger.db")
        ledger: Ledger = await open_ledger(url)
        book = Book(ledger, Policies(ledger, {"bench": POLICY}, "bench"), SystemClock(), Options(owner="bench"))
        engine = Engine(book, Instant())
        try:
            yield engine
        finally:
            await engine.carrier.close()
            await ledger.close()


CALLER = PatientCaller()
"""Waits for ever, and is asked nothing."""


async def make(engine: Engine, lines: Sequence[Sequence[Proposal]]) -> None:
    """Every line's calls, one after another, the lines at once; each outcome is delivered."""

    async def one(line: Sequence[Proposal]) -> None:
        for proposal in line:
            shown = await engine.call(proposal, CALLER)
            assert shown.result is not None, shown
            engine.delivered(shown)

    await asyncio.gather(*(one(line) for line in lines))
    while engine.carrier._tasks:  # deliveries are recorded after the answer
        await asyncio.wait(engine.carrier._tasks)


async def lines_of(engine: Engine, kind: str, awaiters: int, first: int, count: int) -> list[list[Proposal]]:
    """A line for each awaiter, each in a run of its own that is open."""
    runs = [f"run_{kind}_{number:022}" for number in range(awaiters)]
    for run in runs:
        await engine.open_run(run=run, principal=USER, origin="process", attribution={})
    return [proposals(kind, run, first, count // awaiters, engine.salt) for run in runs]


async def cpu_us(ledger_kind: str, kind: str, awaiters: int) -> tuple[float, float]:
    """Microseconds of CPU for a call, and of the clock."""
    async with gateway(ledger_kind) as engine:
        await make(engine, await lines_of(engine, kind, awaiters, 0, max(WARM, awaiters)))
        lines = await lines_of(engine, kind, awaiters, WARM, CALLS)
        gc.collect()
        gc.freeze()  # imports and what was prepared: the collector's visits to those are not the engine's
        begun, begun_cpu = time.perf_counter(), time.process_time()
        await make(engine, lines)
        cpu, took = time.process_time() - begun_cpu, time.perf_counter() - begun
        gc.unfreeze()
    calls = sum(map(len, lines))
    return cpu / calls * 1e6, took / calls * 1e6


async def table() -> None:
    print(f"{'ledger':<8}{'kind':<7}{'awaiters':>8}{'CPU us/call':>13}{'least':>8}{'wall us/call':>14}")
    seen: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    for _ in range(ROUNDS):
        for ledger in LEDGERS:
            for kind in KINDS:
                for awaiters in AWAITERS:
                    seen.setdefault((ledger, kind, awaiters), []).append(await cpu_us(ledger, kind, awaiters))
    for (ledger, kind, awaiters), found in seen.items():
        cpus, walls = [cpu for cpu, _ in found], [wall for _, wall in found]
        shown = f"{statistics.median(cpus):>13,.0f}{min(cpus):>8,.0f}{statistics.median(walls):>14,.0f}"
        print(f"{ledger:<8}{kind:<7}{awaiters:>8}{shown}")


async def profile(ledger_kind: str) -> None:
    for kind in KINDS:
        async with gateway(ledger_kind) as engine:
            await make(engine, await lines_of(engine, kind, 16, 0, WARM))
            lines = await lines_of(engine, kind, 16, WARM, CALLS)
            profiler = cProfile.Profile()
            profiler.enable()
            await make(engine, lines)
            profiler.disable()
        print(f"--- {CALLS} x {kind}, {ledger_kind}")
        pstats.Stats(profiler).strip_dirs().sort_stats("cumulative").print_stats(60)


async def kept() -> None:
    """What stays of each call beside the ledger: the head of a run that goes on, and whatever forgets to go."""
    for kind in KINDS:
        async with gateway("sqlite") as engine:
            await make(engine, await lines_of(engine, kind, 1, 0, WARM))
            lines = await lines_of(engine, kind, 1, WARM, CALLS)
            calls = len(lines[0])
            gc.collect()
            tracemalloc.start()
            await make(engine, lines)
            lines.clear()
            gc.collect()
            left, _ = tracemalloc.get_traced_memory()
            snapshot = tracemalloc.take_snapshot()
            tracemalloc.stop()
        print(f"{kind}: {left / calls:,.0f} bytes stay for each of {calls} calls; most of it from")
        for line in snapshot.statistics("lineno")[:8]:
            print(f"    {line.size / calls:>8,.0f}  {line.traceback}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=LEDGERS)
    parser.add_argument("--kept", action="store_true")
    asked = parser.parse_args()
    if asked.profile:
        await profile(asked.profile)
    elif asked.kept:
        await kept()
    else:
        await table()


if __name__ == "__main__":
    asyncio.run(main())
