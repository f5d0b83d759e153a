"""Real gateways that are killed, before a real server that counts: `python -m tests.crash.processes --rounds 300`.

A round is one life that ends by SIGKILL at one passage (or at some moment), and another one over the same ledger, of
which the agent asks again whatever it has heard nothing of. What then stands in the ledger, in the server's file and in
the agent's memory is held against the invariants.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from gateway.model.canonical import canonical, digest, digest_bytes
from gateway.model.events import IntentRecorded
from gateway.model.policy import Policy
from gateway.model.record import decode
from gateway.outbound.ledger import open_ledger
from gateway.runtime.policies import spelled
from tests.cli.agents import META_2026
from tests.crash.history import Answered, Effect, History, Received, Reply
from tests.crash.invariants import Violation, violations

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "tests" / "servers" / "counting_server.py"
LIMIT_S = 60.0
"""For one life; machines are shared."""
SETTLED_S = 2.5
"""How long the agent asks again for what is in flight; leases last 0.4 s here, and calls 1 s."""

Json = dict[str, Any]

POLICY: Json = {
    "workflow": "crash",
    "tools": {
        "look": {"effect": "read"},
        "pay_by_key": {
            "effect": "write",
            "timeout_s": 1,
            "grace_s": 0,
            "idempotency": {"kind": "key", "key": {"argument": "key"}, "valid_s": 600},
        },
        "*": {"effect": "write", "timeout_s": 1, "grace_s": 0},
    },
    "transitions": [{"name": "any", "tools": ["*"]}],
    "budgets": {"calls": 30},
    "accounts": {"all": {"per": ["tenant"], "window": "ever", "limit": {"mutations": 20}}},
}

CALLS = (("pay", "a"), ("pay_by_key", "b"), ("look", "a"), ("pay", "c"), ("pay_by_key", "d"))
"""What the agent wants: tool and reference, each once."""


@dataclass
class Agent:
    """One client over stdio, across the lives of its gateways."""

    heard: dict[str, Json] = field(default_factory=dict)
    """By the id of its call, what it was told in the end."""
    process: asyncio.subprocess.Process | None = None

    async def ask(self, tool: str, ref: str) -> Json | None:
        """The result; None if the gateway died over it."""
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        name = f"{tool}-{ref}"
        meta = {**META_2026, "claudecode/toolUseId": name}
        params = {"name": tool, "arguments": {"ref": ref}, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": params}
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            await self.process.stdin.drain()
        except ConnectionError:
            return None
        while line := await self.process.stdout.readline():
            told = json.loads(line)
            if told.get("id") == name:
                result: Json = told.get("result", {"error": told.get("error")})
                self.heard[name] = result
                return result
        return None

    async def wants(self, calls: Sequence[tuple[str, str]]) -> bool:
        """It asks for what it was not told yet, again and again where it is told to wait; whether the gateway lived."""
        end = time.monotonic() + SETTLED_S
        for tool, ref in calls:
            while not final(self.heard.get(f"{tool}-{ref}")):
                if await self.ask(tool, ref) is None:
                    return False
                if final(self.heard[f"{tool}-{ref}"]) or time.monotonic() > end:
                    break
                await asyncio.sleep(0.1)
        return True


def final(told: Json | None) -> bool:
    """Whether there is no use in asking again."""
    if told is None:
        return False
    outcome = (told.get("structuredContent") or {}).get("outcome")
    return outcome is None or outcome not in {"in_flight", "held", "timeout_unknown", "upstream_unavailable"}


@asynccontextmanager
async def gateway(folder: Path, ledger: str, **env: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The real command in front of the real server; killed at the end if it still lives."""
    (folder / "policy.yaml").write_text(json.dumps(POLICY))
    server = ["--", sys.executable, str(SERVER), str(folder / "effects")]
    words = ["wrap", "--ledger", ledger, "--policy", str(folder / "policy.yaml"), *server]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.crash.entry",
        *words,
        cwd=ROOT,
        env={**os.environ, **env},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def passages(folder: Path, ledger: str) -> list[str]:
    """Every passage of a life in which nothing goes wrong, in order."""
    log, agent = folder / "passages", Agent()
    async with gateway(folder, ledger, CRASH_LOG=str(log)) as agent.process:
        with anyio.fail_after(LIMIT_S):
            assert await agent.wants(CALLS)
    return [line.partition(" ")[2] for line in log.read_text().splitlines()]


async def round_of(
    folder: Path, ledger: str, *, at: int | None = None, after_s: float | None = None
) -> list[Violation]:
    """What is wrong after a life that ended at that passage, or after so many seconds, and a whole one."""
    agent = Agent()
    env = {"CRASH_AT": str(at)} if at is not None else {}
    async with gateway(folder, ledger, **env) as agent.process:
        with anyio.fail_after(LIMIT_S):
            if after_s is not None:
                pid = agent.process.pid
                asyncio.get_running_loop().call_later(after_s, kill, pid)
            await agent.wants(CALLS)
    async with gateway(folder, ledger) as agent.process:
        with anyio.fail_after(LIMIT_S):
            await agent.wants(CALLS)
    return violations(await history(folder, ledger, [agent]))


async def together(folder: Path, ledger: str, count: int, kills: int, seed: int) -> tuple[list[Violation], float]:
    """What is wrong after so many gateways worked over one ledger and some were killed; and the longest wait of any
    agent whose gateway lived.
    """
    chance, agents, longest = random.Random(seed), [], [0.0]  # noqa: S311 - as below

    async def life(number: int, killed_after_s: float | None) -> None:
        agent = Agent()
        agents.append(agent)
        async with gateway(folder, ledger) as agent.process:
            if killed_after_s is not None:
                asyncio.get_running_loop().call_later(killed_after_s, kill, agent.process.pid)
            for nth in range(12):
                begun = time.monotonic()
                tool = ("pay", "pay_by_key")[nth % 2]
                lived = await agent.ask(tool, f"{number}x{nth}") is not None
                if nth and lived and killed_after_s is None:  # the first one waits for the start
                    longest[0] = max(longest[0], time.monotonic() - begun)

    with anyio.fail_after(LIMIT_S):
        async with asyncio.TaskGroup() as lives:
            for number in range(count):
                killed = chance.uniform(1.0, 3.0) if number < kills else None
                lives.create_task(life(number, killed))
    settling = Agent()
    async with gateway(folder, ledger) as settling.process:
        with anyio.fail_after(LIMIT_S):
            await settling.wants(CALLS)
    return violations(await history(folder, ledger, [*agents, settling])), longest[0]


def kill(pid: int) -> None:
    """SIGKILL, if it is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


# --- what happened --------------------------------------------------------------------------------------------------


async def history(folder: Path, address: str, agents: Sequence[Agent]) -> History:
    """From the ledger, the server's file, and what the agents were told."""
    ledger = await open_ledger(address)
    try:
        records = [(decode(one.body), one.body) for one in await ledger.log(limit=100_000)]
        accounts = sorted({one.account for record, _ in records for one in getattr(record.event, "accounts", ())})
        known = Policy.model_validate(POLICY)
        lines = [json.loads(line) for line in read(folder / "effects")]
        owners = _owners(records, ledger.salt, lines)
        return History(
            records=records,
            tracked=await ledger.tracked(),
            levels=await ledger.levels(accounts),
            payloads=dict(await ledger.payloads(limit=100_000)),
            policies={digest_bytes(spelled(known), ledger.salt): known},
            received=[
                Received(number, one["tool"], {"ref": one["ref"]}, owner, owner is not None, one["key"])
                for number, (one, owner) in enumerate(zip(lines, owners, strict=True))
                if one["kind"] == "call"
            ],
            effects=[
                Effect(number, owner, one["tool"])
                for number, (one, owner) in enumerate(zip(lines, owners, strict=True))
                if one["kind"] == "effect"
            ],
            answered=[
                Answered(owner, digest_bytes(canonical(one["result"]), ledger.salt))
                for one, owner in zip(lines, owners, strict=True)
                if one["kind"] == "answer"
            ],
            replies=[
                _reply(name, told, ledger.salt, len(records)) for one in agents for name, told in one.heard.items()
            ],
            salt=ledger.salt,
        )
    finally:
        await ledger.close()


def read(path: Path) -> list[str]:
    """Its lines; none if nobody wrote any."""
    return path.read_text().splitlines() if path.exists() else []


def _owners(records: Sequence[tuple[Any, bytes]], salt: bytes, lines: Sequence[Json]) -> list[str | None]:
    """Whose each line of the server's is: by our key where it has one, else by its receipt, else by what it is about,
    each in its turn.
    """
    attempts: dict[tuple[str, str], list[str]] = defaultdict(list)
    unsent = {record.event.attempt for record, _ in records if record.event.kind == "attempt.unsent"}
    for record, _ in records:
        event = record.event
        if isinstance(event, IntentRecorded) and event.attempt not in unsent:
            attempts[event.tool, event.arguments].append(event.attempt)
    receipts = {
        record.event.attempt: record.event.result for record, _ in records if record.event.kind == "receipt.recorded"
    }
    turns: dict[tuple[str, str, str], int] = defaultdict(int)
    found: list[str | None] = []
    for one in lines:
        about = one["tool"], digest({"ref": one["ref"]}, salt)
        turn = turns[(*about, one["kind"])]
        turns[(*about, one["kind"])] += 1
        mine = attempts[about]
        told = digest_bytes(canonical(one["result"]), salt) if one["kind"] == "answer" else None
        said = next((name for name in mine if receipts.get(name) == told is not None), None)
        found.append(one["key"] or said or (mine[turn] if turn < len(mine) else None))
    return found


def _reply(name: str, told: Json, salt: bytes, place: int) -> Reply:
    tool, _, ref = name.partition("-")
    said, meta = told.get("structuredContent") or {}, told.get("_meta", {}).get("counterfoil/record", {})
    refused = "outcome" in said
    plain = {key: value for key, value in told.items() if key not in {"_meta", "resultType"}}
    return Reply(
        run=said.get("run", meta.get("run", "")),
        tool=tool,
        arguments=digest({"ref": ref}, salt),
        kind="refused" if refused else "result",
        place=place,
        asked=place,
        attempt=said.get("attempt", meta.get("attempt")),
        payload=None if refused else digest_bytes(canonical(plain), salt),
        outcome=said.get("outcome"),
        executed=said.get("executed"),
        key=name,
    )


async def many(rounds: int, seed: int) -> int:
    """How many rounds went wrong; half of them die at a passage, half at some moment."""
    chance, wrong = random.Random(seed), 0  # noqa: S311 - to be seen again is the point
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        seen = await passages(_new(home / "dry"), f"sqlite:///{home / 'dry.db'}")
        for number in range(rounds):
            folder = _new(home / str(number))
            at = number // 2 % len(seen) if number % 2 == 0 else None
            after_s = None if at is not None else chance.uniform(0.5, 2.5)
            found = await round_of(folder, f"sqlite:///{folder / 'ledger.db'}", at=at, after_s=after_s)
            for one in found:
                print(f"round {number}, died at {at if at is None else seen[at]} or after {after_s} s: {one}")
            wrong += bool(found)
    print(f"rounds {rounds}, passages {len(seen)}, rounds gone wrong {wrong}")
    return wrong


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main() -> None:
    """Print what went wrong; exit code 1 if anything did."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=300)
    asked.add_argument("--seed", type=int, default=0)
    said = asked.parse_args()
    begun = time.monotonic()
    wrong = asyncio.run(many(said.rounds, said.seed))
    print(f"{time.monotonic() - begun:.0f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
