"""Several `counterfoil serve` over one PostgreSQL, and nothing that ties a client to one of them: real processes, a
real server, and an upstream that counts what it did.
"""

import asyncio
import itertools
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.cli.agents import LIMIT_S, Process, counterfoil, post, run

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CLIENTS_SERVER = Path(__file__).parent / "servers" / "clients_server.py"

POLICY = {
    "workflow": "bank",
    "tools": {
        "bank__*": {"effect": "write", "timeout_s": 30, "grace_s": 0},
        "bank__balance": {"effect": "read"},
        "desk__*": {"effect": "read", "timeout_s": 30},
    },
    "transitions": [{"name": "any", "tools": ["*"]}],
    "accounts": {"all": {"per": ["tenant"], "window": "ever", "tools": ["bank__transfer"], "limit": {"calls": 50}}},
}

IN_FLIGHT_AFTER_S = 1.0

Json = dict[str, Any]


@dataclass
class World:
    """Gateways that differ in their port and their process, and in nothing else."""

    folder: Path
    ledger: str
    gateways: list[Process]
    urls: list[str]
    log: Path

    async def token(self) -> str:
        """For a new run."""
        out, _ = await run("run", "open", "--config", str(self.folder / "gateway.yaml"), "--workflow", "bank")
        return out.strip()

    async def call(
        self, which: int, token: str, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any
    ) -> Json:
        """The result of one call through the gateway of that number, counted around and around."""
        params = {"name": tool, "arguments": dict(arguments or {}), **more}
        url = f"{self.urls[which % len(self.urls)]}/runs/{token}/mcp"
        _, answer = await post(url, "tools/call", params)
        result: Json = answer.get("result") or {"error": answer.get("error")}
        return result

    def effects(self) -> list[Json]:
        """What the bank did, oldest first."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    async def read(self, *words: str) -> Any:
        """What a command says of the ledger, which it is told of by the environment."""
        out, _ = await run(*words, "--json", COUNTERFOIL_LEDGER=self.ledger)
        return json.loads(out)


@asynccontextmanager
async def gateways(count: int, folder: Path, ledger: str, bank: list[str]) -> AsyncIterator[World]:
    """So many of them, each with a bank of its own over the same log, and one desk for all."""
    argv = [sys.executable, str(CLIENTS_SERVER), "--port", "0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as desk:  # noqa: ASYNC220 - it only forks
        try:
            assert desk.stdout is not None
            port = int(desk.stdout.readline())
            config = {
                "listen": {"port": 0},
                "ledger": "${LEDGER}",
                "policies": "bank.yaml",
                "run_tokens": {"key": "shared by all gateways, 40 characters at least"},
                "patience": {"clients": {"claude-code": IN_FLIGHT_AFTER_S}},
                "mcpServers": {
                    "bank": {"command": bank[0], "args": [*bank[1:], str(folder / "effects.log")]},
                    "desk": {"url": f"http://127.0.0.1:{port}/mcp"},
                },
            }
            (folder / "bank.yaml").write_text(json.dumps(POLICY))
            (folder / "gateway.yaml").write_text(json.dumps(config))
            async with AsyncExitStack() as stack:
                serve = ("serve", "--config", str(folder / "gateway.yaml"))
                started = [await stack.enter_async_context(counterfoil(*serve, LEDGER=ledger)) for _ in range(count)]
                urls = [await one.hear(r"listening at (http://\S+)/mcp") for one in started]
                for one in started:
                    await one.hear(r"upstream (bank): \d+ tools")
                    await one.hear(r"upstream (desk): \d+ tools")
                yield World(folder, ledger, started, urls, folder / "effects.log")
        finally:
            desk.kill()


SECRET = "never-to-be-said"  # noqa: S105


@pytest.fixture
def ledger(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address with a password; the server trusts us without one."""
    monkeypatch.setenv("LEDGER", f"{postgres_url}&password={SECRET}")
    return f"{postgres_url}&password={SECRET}"


def outcome(result: Json) -> str:
    """How the gateway refused the call; `done` if the tool answered."""
    told = result.get("structuredContent") or {}
    return str(told.get("outcome", "done"))


async def test_a_run_and_all_that_it_waits_for_move_between_gateways(
    ledger: str, effects_server: list[str], tmp_path: Path
) -> None:
    async with gateways(2, tmp_path, ledger, effects_server) as it:
        token = await it.token()
        # One run, at every call on another gateway: each continues what the other wrote.
        for n in range(8):
            assert outcome(await it.call(n, token, "bank__transfer", {"amount": n, "to": "ann"})) == "done"
        assert [effect["amount"] for effect in it.effects()] == list(range(8))
        seen = [(await it.call(n, token, "bank__balance"))["structuredContent"]["count"] for n in range(2)]
        assert seen == [8, 8]

        # What one gateway sealed the other opens.
        asked = await it.call(0, token, "desk__ask")
        assert asked["resultType"] == "input_required"
        answers = {"who": {"action": "accept", "content": {"name": "Ann"}}}
        again = {"inputResponses": answers, "requestState": asked["requestState"]}
        answered = await it.call(1, token, "desk__ask", **again)
        assert answered["content"] == [{"type": "text", "text": "accept: Ann"}]

        # A call that one gateway still waits for: the other knows of it, and fetches its outcome.
        slow = await it.call(0, token, "desk__long", {"seconds": IN_FLIGHT_AFTER_S * 3, "steps": 3})
        assert outcome(slow) == "in_flight"
        attempt = {"attempt": slow["structuredContent"]["attempt"]}
        assert outcome(await it.call(1, token, "gateway__result", attempt)) == "in_flight"
        with anyio.fail_after(LIMIT_S):
            while outcome(got := await it.call(1, token, "gateway__result", attempt)) == "in_flight":
                await anyio.sleep(0.1)
        assert got["content"] == [{"type": "text", "text": "done"}]

        # And every command reads the one run that all of this was.
        (row,) = await it.read("runs")
        records = await it.read("show", row["run"])
        assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
        shown, _ = await run("show", "last", COUNTERFOIL_LEDGER=ledger)
        assert "bank__transfer" in shown
        explained, _ = await run("explain", "--run", row["run"], COUNTERFOIL_LEDGER=ledger)
        assert "✓" in explained
        assert await it.read("approvals", "list") == []
        said = "\n".join(line for gateway in it.gateways for line in gateway.said)
        assert "ledger postgresql://" in said
        assert SECRET not in said


@pytest.mark.long
async def test_two_hundred_calls_at_once_on_a_budget_of_fifty_send_exactly_fifty(
    ledger: str, effects_server: list[str], tmp_path: Path
) -> None:
    async with gateways(3, tmp_path, ledger, effects_server) as it:
        tokens = [await it.token() for _ in range(4)]
        calls = [it.call(n, tokens[n % 4], "bank__transfer", {"amount": n, "to": f"customer {n}"}) for n in range(200)]
        with anyio.fail_after(3 * LIMIT_S):
            told = Counter(outcome(result) for result in await asyncio.gather(*calls))
            # Who was told to wait is told the rest in the end; nobody who was refused had an effect.
            while len(it.effects()) < 50:
                await anyio.sleep(0.1)
        assert set(told) <= {"done", "denied", "in_flight"}
        assert told["denied"] == 150
        effects = it.effects()
        assert len(effects) == len({effect["amount"] for effect in effects}) == 50


async def test_a_gateway_that_is_killed_loses_nothing_and_another_takes_over(
    ledger: str, effects_server: list[str], tmp_path: Path
) -> None:
    async with gateways(2, tmp_path, ledger, effects_server) as it:
        token, amounts = await it.token(), itertools.count(1)
        lost = {"amount": 1_000_000, "to": "never answered"}
        waiting = asyncio.ensure_future(it.call(0, token, "bank__slow_transfer", lost))
        hurried = [
            asyncio.ensure_future(it.call(0, token, "bank__transfer", {"amount": next(amounts), "to": "ann"}))
            for _ in range(20)
        ]
        with anyio.fail_after(LIMIT_S):
            while len(it.effects()) < 5:
                await anyio.sleep(0.005)
        it.gateways[0].process.send_signal(signal.SIGKILL)
        await it.gateways[0].process.wait()
        _, *came = await asyncio.gather(waiting, *hurried, return_exceptions=True)
        unanswered = [n for n, one in enumerate(came, 1) if isinstance(one, BaseException)]
        assert unanswered

        # Every call that got no answer is made again at the other: what was done is answered from its record, what may
        # have been done waits for somebody who knows, what was never begun is done now. (An equal call of somebody who
        # was answered would be a new one.)
        again = {n: await it.call(1, token, "bank__transfer", {"amount": n, "to": "ann"}) for n in unanswered}
        assert {outcome(result) for result in again.values()} <= {"done", "held", "in_flight"}
        counts = Counter(effect["amount"] for effect in it.effects())
        assert set(counts.values()) == {1}
        assert {n for n, result in again.items() if outcome(result) == "done"} <= set(counts)

        # When its lease has run out the survivor says of it that it is unknown, and a person settles it.
        with anyio.fail_after(3 * LIMIT_S):
            while outcome(told := await it.call(1, token, "bank__slow_transfer", lost)) == "in_flight":
                await anyio.sleep(0.5)
        assert outcome(told) == "held"
        attempt = told["structuredContent"]["attempt"]
        records = await it.read("show", attempt.rpartition(".")[0])
        kinds = [record["event"]["kind"] for record in records if record["event"].get("attempt") == attempt]
        assert [kind for kind in kinds if kind != "proposal.held"] == ["intent.recorded", "attempt.unknown"]
        await run("resolve", attempt, "--happened", "-m", "it is in the log", COUNTERFOIL_LEDGER=ledger)
        settled = await it.call(1, token, "bank__slow_transfer", lost)
        assert settled["structuredContent"]["executed"] is True
        assert set(Counter(effect["amount"] for effect in it.effects()).values()) == {1}
