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
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from tests.cli.agents import META_2026, post
from tests.crash.invariants import Violation, violations
from tests.crash.left_behind import history

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
    """One client, over stdio or HTTP, across the lives of its gateways."""

    heard: dict[str, Json] = field(default_factory=dict)
    """By the id of its call, what it was told in the end."""
    gateway: "Gateway | None" = None

    async def ask(self, tool: str, ref: str) -> Json | None:
        """The result; None if the gateway died over it."""
        assert self.gateway is not None
        name = f"{tool}-{ref}"
        params = {"name": tool, "arguments": {"ref": ref}}
        told = await self.gateway.answer(name, params, {"claudecode/toolUseId": name})
        if told is None:
            return None
        result: Json = told.get("result", {"error": told.get("error")})
        self.heard[name] = result
        return result

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


@dataclass
class Gateway:
    """One life of the real command."""

    process: asyncio.subprocess.Process
    url: str | None = None
    """None: it is spoken to over its stdio."""

    async def answer(self, name: str, params: Json, meta: Json) -> Json | None:
        """What it answers to a `tools/call` with that id; None if it died over it."""
        if self.url is not None:
            try:
                return (await post(self.url, "tools/call", params, **meta))[1]
            except (aiohttp.ClientError, ConnectionError):
                return None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        whole = {**params, "_meta": {**META_2026, **meta}}
        message = {"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": whole}
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            await self.process.stdin.drain()
        except ConnectionError:
            return None
        while line := await self.process.stdout.readline():
            told: Json = json.loads(line)
            if told.get("id") == name:
                return told
        return None


def final(told: Json | None) -> bool:
    """Whether there is no use in asking again."""
    if told is None:
        return False
    outcome = (told.get("structuredContent") or {}).get("outcome")
    return outcome is None or outcome not in {"in_flight", "held", "timeout_unknown", "upstream_unavailable"}


@asynccontextmanager
async def gateway(folder: Path, ledger: str, *, http: bool = False, **env: str) -> AsyncIterator[Gateway]:
    """The real command in front of the real server; killed at the end if it still lives."""
    (folder / "policy.yaml").write_text(json.dumps(POLICY))
    server = ["--", sys.executable, str(SERVER), str(folder / "effects")]
    listen = ["--listen", "127.0.0.1:0"] if http else []
    words = ["wrap", *listen, "--ledger", ledger, "--policy", str(folder / "policy.yaml"), *server]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.crash.entry",
        *words,
        cwd=ROOT,
        env={**os.environ, **env},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said = asyncio.ensure_future(_said(process.stderr, wanted=http))
    try:
        yield Gateway(process, await said if http else None)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await said


async def _said(stderr: asyncio.StreamReader, *, wanted: bool) -> str | None:
    """The address at which it says that it listens; else all that it says is read away."""
    while line := (await stderr.readline()).decode():
        if wanted and "listening at " in line:
            return line.rpartition("listening at ")[2].strip()
    return None


async def passages(folder: Path, ledger: str) -> list[str]:
    """Every passage of a life in which nothing goes wrong, in order."""
    log, agent = folder / "passages", Agent()
    async with gateway(folder, ledger, CRASH_LOG=str(log)) as agent.gateway:
        with anyio.fail_after(LIMIT_S):
            assert await agent.wants(CALLS)
    return [line.partition(" ")[2] for line in log.read_text().splitlines()]


async def round_of(
    folder: Path, ledger: str, *, at: int | None = None, after_s: float | None = None, http: bool = False
) -> list[Violation]:
    """What is wrong after a life that ended at that passage, or after so many seconds, and a whole one."""
    agent = Agent()
    env = {"CRASH_AT": str(at)} if at is not None else {}
    async with gateway(folder, ledger, http=http, **env) as agent.gateway:
        with anyio.fail_after(LIMIT_S):
            if after_s is not None:
                asyncio.get_running_loop().call_later(after_s, kill, agent.gateway.process.pid)
            await agent.wants(CALLS)
    async with gateway(folder, ledger, http=http) as agent.gateway:
        with anyio.fail_after(LIMIT_S):
            await agent.wants(CALLS)
    return violations(await history(folder, ledger, POLICY, [agent.heard]))


async def together(folder: Path, ledger: str, count: int, kills: int, seed: int) -> tuple[list[Violation], float]:
    """What is wrong after so many gateways worked over one ledger and some were killed; and the longest wait of any
    agent whose gateway lived.
    """
    chance, agents, longest = random.Random(seed), [], [0.0]  # noqa: S311 - as below

    async def life(number: int, killed_after_s: float | None) -> None:
        agent = Agent()
        agents.append(agent)
        async with gateway(folder, ledger) as agent.gateway:
            if killed_after_s is not None:
                asyncio.get_running_loop().call_later(killed_after_s, kill, agent.gateway.process.pid)
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
    async with gateway(folder, ledger) as settling.gateway:
        with anyio.fail_after(LIMIT_S):
            await settling.wants(CALLS)
    heard = [one.heard for one in (*agents, settling)]
    return violations(await history(folder, ledger, POLICY, heard)), longest[0]


def kill(pid: int) -> None:
    """SIGKILL, if it is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


async def many(rounds: int, seed: int) -> int:
    """How many rounds went wrong; half of them die at a passage, half at some moment."""
    chance, wrong = random.Random(seed), 0  # noqa: S311 - to be seen again is the point
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        seen = await passages(_new(home / "dry"), f"sqlite:///{home / 'dry.db'}")
        for number in range(rounds):
            folder = _new(home / str(number))
            at = number // 4 % len(seen) if number % 2 == 0 else None
            after_s = None if at is not None else chance.uniform(0.5, 2.5)
            http = number % 4 in {2, 3}
            found = await round_of(folder, f"sqlite:///{folder / 'ledger.db'}", at=at, after_s=after_s, http=http)
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
