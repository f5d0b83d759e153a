"""What one decision costs, and how that grows with the policy: `python -m tests.bench.decide`, about 15 seconds.

    python -m tests.bench.decide            p50 and p99 in microseconds, for a realistic policy and ten times as much
    python -m tests.bench.decide --profile  where it goes, by own time

The realistic policy has 30 tools, 40 transitions, 25 conditions and 3 accounts. The calls go round all tools: some are
allowed, some denied by phase, authority or condition, some go to the last of their transitions. `a whole call` is the
engine with its intent, receipt and delivery over SQLite, one call at a time, in the same run, without any transport:
the ratio to it is the goal (well below a tenth of what a client waits for). All but that line is processor time, which
other work on the machine disturbs least. Compiling is done once for each text of a policy and is told beside it. A run
of 5,000 attempts is judged as well: a decision costs the same there.
"""

import argparse
import asyncio
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.kernel.accounts import looked_at
from gateway.kernel.case import Gather, Observed
from gateway.kernel.decide import decide
from gateway.kernel.rules import Rules, compile_rules
from gateway.model.canonical import digest
from gateway.model.events import IntentRecorded, ReceiptRecorded
from gateway.model.policy import Policy
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal
from gateway.model.record import utc
from gateway.model.run import Run
from gateway.model.tool import Tool
from gateway.outbound.ledger import open_ledger
from tests import world
from tests.runtime.house import house

ROUNDS = 200
"""Of each tool's call, in one measurement."""
CALLS = 400
"""Whole calls, through the engine."""
LONG = 5_000
"""Attempts of the long run."""

USER = Principal("alice", "acme", frozenset({"developer"}))
CONDITIONS = (
    'args.path.startsWith("/work/")',
    "size(args.path) < 300",
    "args.amount <= values.most",
    'args.to.endsWith("@example.com")',
    'now.getHours("UTC") >= 0',
    '!("secret" in run.data)',
    'principal.roles.exists(one, one == "developer")',
    "accounts.daily.cost < 1000000.0",
    "args.tags.all(tag, size(tag) < 20)",
    'tool.effect != "destructive" || args.confirm == true',
)
ARGUMENTS: dict[str, Any] = {
    "path": "/work/src/app.py",
    "amount": 5,
    "to": "ann@example.com",
    "tags": ["a", "b"],
    "confirm": True,
}
SCHEMA = {
    "type": "object",
    "properties": {name: {} for name in ARGUMENTS} | {"path": {"type": "string", "maxLength": 400}},
    "required": ["path"],
}


def policy(scale: int) -> Policy:
    """So many times 30 tools, 40 transitions and 25 conditions, in four phases."""
    tools, transitions, said = 30 * scale, [], 0
    for n in range(40 * scale):
        rule: dict[str, Any] = {"name": f"t{n}", "tools": [f"s{n % tools}__*"], "authority": [f"a{n % 7}"]}
        if n % 5 == 0:
            rule["from"] = ["plan", "work"]
        if said < 25 * scale and n % 8 != 7:
            rule["when"] = [CONDITIONS[said % len(CONDITIONS)]]
            said += 1
        transitions.append(rule)
    return Policy.model_validate(
        {
            "workflow": "bench",
            "grants": [{"tenant": "acme", "roles": ["developer"], "authority": [f"a{n}" for n in range(6)]}],
            "tools": {f"s{n}__*": {"effect": "read" if n % 3 else "write", "cost": 0.01} for n in range(tools)},
            "phases": {"plan": {}, "work": {}, "check": {}, "done": {}},
            "transitions": transitions,
            "forbid": [{"name": "never", "tools": ["*"], "when": ['args.path.contains("/.git/")']}],
            "values": {"most": 100},
            "accounts": {
                "daily": {"limit": {"cost": 1_000_000}},
                "hourly": {"per": ["principal"], "window": "hour", "limit": {"calls": 10_000_000}},
                "by-tool": {"per": ["tool"], "window": "minute", "limit": {"calls": 10_000_000}},
            },
            "budgets": {"calls": 10_000_000, "mutations": 10_000_000},
        }
    )


def ruled(scale: int) -> tuple[Rules, list[Tool], float]:
    """The policy compiled, its tools, and how many milliseconds that took."""
    made = policy(scale)
    begun = time.thread_time_ns()
    rules = compile_rules(made, digest(made.model_dump(mode="json", by_alias=True), world.SALT))
    took = (time.thread_time_ns() - begun) / 1e6
    definition = {"inputSchema": SCHEMA}
    return rules, [Tool(f"s{n}__use", f"s{n}", "use", definition | {"name": "use"}) for n in range(30 * scale)], took


def judging(rules: Rules, tools: Sequence[Tool], run: Run) -> list[Callable[[], object]]:
    """One decision for each tool, ready to be made."""
    cited = digest(ARGUMENTS, world.SALT)

    def one(tool: Tool) -> Callable[[], object]:
        proposal = Proposal(run.id, USER, tool.name, ARGUMENTS, cited)
        definition = digest(dict(tool.definition), world.SALT)
        observed = Observed(tool, definition, salt=world.SALT)
        first = decide(run, proposal, rules, observed, utc(world.T0))
        if isinstance(first, Gather):
            observed = replace(observed, levels=looked_at(first.accounts, {}))
        return lambda: decide(run, proposal, rules, observed, utc(world.T0))

    return [one(tool) for tool in tools]


def took_us(calls: Sequence[Callable[[], object]]) -> tuple[float, float]:
    """Median and 99th percentile of one decision, the first of each tool left out."""
    for call in calls:
        assert not isinstance(call(), Gather)
    took = []
    for _ in range(max(1, ROUNDS * 30 // len(calls))):
        for call in calls:
            begun = time.thread_time_ns()
            call()
            took.append((time.thread_time_ns() - begun) / 1e3)
    return statistics.median(took), statistics.quantiles(took, n=100)[98]


def opened(rules: Rules) -> Run:
    """A run of the user's, just opened."""
    return world.opened(rules)._replace(principal=USER)


def long_run(rules: Rules, tools: Sequence[Tool]) -> Run:
    """A run that has made many calls already."""
    run, calls = opened(rules), 0
    for n in range(LONG):
        tool = tools[n % len(tools)]
        proposal = Proposal(run.id, USER, tool.name, {"path": f"/work/{n}"}, digest({"path": n}, world.SALT))
        verdict = decide(run, proposal, rules, Observed(tool), utc(world.T0))
        if isinstance(verdict, Gather):
            observed = Observed(tool, levels=looked_at(verdict.accounts, {}))
            verdict = decide(run, proposal, rules, observed, utc(world.T0))
        if isinstance(verdict, IntentRecorded):
            receipt = ReceiptRecorded(attempt=verdict.attempt, answer="result", is_error=False)
            run = world.after(run, verdict, receipt)
            calls += 1
    assert calls > LONG / 10
    return run


async def whole_us(folder: Path) -> float:
    """Median of a whole call through the engine over SQLite, one at a time."""
    ledger = await open_ledger(f"sqlite:///{folder / 'bench.db'}")
    took = []
    proposals = [world.proposal("write", {"n": n}) for n in range(CALLS)]
    async with house(ledger) as it:
        for n in range(CALLS):
            begun = time.perf_counter()
            it.engine.delivered(await it.engine.call(proposals[n], world.PatientCaller()))
            took.append((time.perf_counter() - begun) * 1e6)
    await ledger.close()
    return statistics.median(took)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--profile", action="store_true")
    rules, tools, compiled = ruled(1)
    calls = judging(rules, tools, opened(rules))
    if asked.parse_args().profile:
        with cProfile.Profile() as profile:
            took_us(calls)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    p50, p99 = took_us(calls)
    more, more_tools, more_compiled = ruled(10)
    ten50, ten99 = took_us(judging(more, more_tools, opened(more)))
    long50, long99 = took_us(judging(rules, tools, long_run(rules, tools)))
    with tempfile.TemporaryDirectory() as folder:
        whole = asyncio.run(whole_us(Path(folder)))
    print(f"{'':34}{'p50 us':>9}{'p99 us':>9}{'compile ms':>12}")
    print(f"{'30 tools, 40 transitions':34}{p50:9.1f}{p99:9.1f}{compiled:12.1f}")
    print(f"{'ten times as much':34}{ten50:9.1f}{ten99:9.1f}{more_compiled:12.1f}")
    print(f"{'the first, in a run of 5,000 calls':34}{long50:9.1f}{long99:9.1f}")
    print(f"{'a whole call, SQLite':34}{whole:9.1f}")
    print(f"growth with ten times the policy {ten50 / p50:.2f}x, with a long run {long50 / p50:.2f}x")
    print(f"a decision is {p50 / whole:.3f} of a whole call")


if __name__ == "__main__":
    main()
