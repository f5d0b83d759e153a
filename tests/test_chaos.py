"""Upstreams that die, fall silent, babble, answer twice, late or by half, behind the real command: each call that meets
a fault gets its typed outcome (ARCHITECTURE.md, "What each failure becomes"), and every call beside it its own answer,
whether it goes to the same upstream or to another.
"""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.cli.agents import LIMIT_S, Process, counterfoil, ledger_of, post, run
from tests.logs import whole_lines

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SERVER = Path(__file__).parent / "servers" / "chaos_server.py"

PATIENCE_S = 1.5
"""For a call that meets a fault. Work beside it has all the time that it needs."""

POLICY = {
    "workflow": "chaos",
    "tools": {"*__work": {"timeout_s": 30, "grace_s": 0}, "*": {"timeout_s": PATIENCE_S, "grace_s": 0}},
    "transitions": [{"name": "any", "tools": ["*"]}],
}

Json = dict[str, Any]
_numbers = itertools.count(1)


@dataclass
class Server:
    """One upstream of the gateway: how it is reached, and what it did."""

    log: Path
    entry: Json
    process: "subprocess.Popen[bytes] | None" = None

    def entries(self, key: str) -> list[Any]:
        """What the log holds under `key`, oldest first."""
        lines = [json.loads(line) for line in whole_lines(self.log)]
        return [line[key] for line in lines if key in line]

    def pid(self) -> int:
        """The process that was started last."""
        return int(self.entries("started")[-1])


def command(log: Path, era: str) -> list[str]:
    return [sys.executable, str(SERVER), str(log), "--era", era]


@contextmanager
def listening(log: Path, era: str, port: int = 0) -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    """The server on a port of this machine, gone afterwards."""
    argv = [*command(log, era), "--http", str(port)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


def started(stack: AsyncExitStack, transport: str, era: str, log: Path) -> Server:
    if transport == "stdio":
        program, *args = command(log, era)
        return Server(log, {"command": program, "args": args})
    port, process = stack.enter_context(listening(log, era))
    return Server(log, {"url": f"http://127.0.0.1:{port}/mcp"}, process)


@dataclass
class World:
    """A gateway before an upstream `bad` and an upstream `good`."""

    gateway: Process
    url: str
    bad: Server
    good: Server
    folder: Path

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Json:
        """The result, or an error as `{"error": ...}`."""
        _, answer = await post(self.url, "tools/call", {"name": tool, "arguments": dict(arguments or {})})
        result: Json = answer.get("result") or {"error": answer.get("error")}
        return result

    async def healthy(self, tool: str = "bad__echo") -> None:
        """The upstream answers, again or at last."""
        with anyio.fail_after(LIMIT_S):
            while (
                "structuredContent" not in (told := await self.call(tool, {"n": next(_numbers)}))
                or "outcome" in (told["structuredContent"])
            ):
                await anyio.sleep(0.1)

    async def under_way(self, count: int, tool: str) -> None:
        """So many calls of the tool have reached the upstream `bad`."""
        with anyio.fail_after(LIMIT_S):
            while self.bad.entries("tool").count(tool) < count:
                await anyio.sleep(0.01)

    async def recorded(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Json:
        """What an equal call is told, once the answer is recorded that it is held for."""
        with anyio.fail_after(LIMIT_S):
            while told_of(told := await self.call(tool, arguments)) == ("held", "unknown"):
                await anyio.sleep(0.1)
        return told

    async def kinds(self, *told: Json) -> list[list[str]]:
        """What the ledger holds of each of these outcomes' attempts, all of one run, oldest first."""
        attempts = [result["structuredContent"]["attempt"] for result in told]
        (name,) = {attempt.rpartition(".")[0] for attempt in attempts}
        shown, _ = await run("show", name, "--json", *ledger_of(self.folder))
        events = [record["event"] for record in json.loads(shown)]
        return [[event["kind"] for event in events if event.get("attempt") == attempt] for attempt in attempts]


@asynccontextmanager
async def world(folder: Path, transport: str, era: str, bad: Json | None = None) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        servers = {name: started(stack, transport, era, folder / f"{name}.log") for name in ("bad", "good")}
        entries = {name: server.entry for name, server in servers.items()}
        config = {
            "listen": {"port": 0},
            "ledger": f"sqlite:///{folder / 'ledger.db'}",
            "policies": "policies",
            "mcpServers": entries if bad is None else {**entries, "bad": bad},
        }
        (folder / "policies").mkdir()
        (folder / "policies" / "chaos.yaml").write_text(json.dumps(POLICY))
        (folder / "gateway.yaml").write_text(json.dumps(config))
        gateway = await stack.enter_async_context(counterfoil("serve", "--config", str(folder / "gateway.yaml")))
        url = await gateway.hear(r"listening at (http://\S+)")
        it = World(gateway, url, servers["bad"], servers["good"], folder)
        await it.healthy("good__echo")
        if bad is None:
            await it.healthy()
        yield it


@dataclass
class Siblings:
    """Calls that are under way the whole time, some short, some long, each with its own arguments."""

    world: World
    tools: Sequence[str] = ("bad__work", "good__work")
    harmed: list[Any] = field(default_factory=list)
    served: int = 0
    _over: bool = False

    async def _lane(self, tool: str, seconds: float) -> None:
        while not self._over:
            arguments = {"seconds": seconds, "n": next(_numbers)}
            told = await self.world.call(tool, arguments)
            if told.get("structuredContent") == arguments:
                self.served += 1
            else:
                self.harmed.append(told)

    @asynccontextmanager
    async def around(self) -> AsyncIterator[None]:
        """They are under way in the block, and all are answered after it."""
        async with asyncio.TaskGroup() as lanes:
            for tool, seconds in itertools.product(self.tools, (0.05, 0.4)):
                lanes.create_task(self._lane(tool, seconds))
            yield
            self._over = True


def told_of(result: Json) -> Any:
    """What came of a call, in a word or two."""
    outcome = result.get("structuredContent", {})
    if "outcome" in outcome:
        return outcome["outcome"], outcome["executed"]
    if "error" in result:
        return "error", result["error"]["code"]
    if "big" in result:
        return "big", len(result["big"])
    text = "".join(part.get("text", "") for part in result["content"])
    return ("is_error" if result.get("isError") else "result", text if len(text) < 100 else len(text))


LOST = ("timeout_unknown", "unknown")
LATE = ["intent.recorded", "attempt.unknown", "receipt.recorded"]
NOT_THERE = ("upstream_unavailable", False)

FAULTS: dict[str, tuple[str, Json, Any]] = {
    "an error": ("rpc_error", {}, ("error", -32000)),
    "a failure": ("is_error", {}, ("is_error", "it did not work")),
    "silence": ("silent", {}, LOST),
    "two answers": ("twice", {}, ("result", "first")),
    "an answer to nobody": ("wrong_id", {}, LOST),
    "garbage before the answer": ("garbage", {}, ("result", "after the garbage")),
    "no JSON": ("nan", {}, LOST),
    "1.2 MB": ("big", {"bytes": 1_200_000}, ("result", 1_200_000)),
}
HTTP_FAULTS: dict[str, tuple[str, Json, Any]] = {
    "half an event": ("half_event", {}, LOST),
    "an event of 1.2 MB": ("big_event", {}, ("big", 1_200_000)),
    "no answer, and the connection is closed": ("hang_up", {}, LOST),
    "half a body": ("cut_off", {}, LOST),
    "events of all kinds around the answer": ("events", {}, ("result", "")),
}


def later(*values: str) -> Any:
    """One that is tried with the long tests: the others of its list show the same."""
    return pytest.param(*values, marks=pytest.mark.long)


WORLDS = [("stdio", "legacy"), later("stdio", "both"), later("http", "legacy"), ("http", "modern")]
WHERE_SILENT = [("stdio", "legacy"), later("http", "legacy"), later("http", "modern")]
WHERE_LATE = [later("stdio", "legacy"), later("http", "legacy"), ("http", "modern")]


@pytest.mark.parametrize(("transport", "era"), WORLDS)
async def test_each_fault_has_its_outcome_and_no_sibling_is_harmed(transport: str, era: str, tmp_path: Path) -> None:
    faults = FAULTS if transport == "stdio" else {**FAULTS, **HTTP_FAULTS}
    async with world(tmp_path, transport, era) as it:
        siblings = Siblings(it)
        told = {}
        async with siblings.around():
            for name, (tool, arguments, _) in faults.items():
                told[name] = await it.call(f"bad__{tool}", arguments)
        await it.healthy()
        asked = [tool for tool in it.bad.entries("tool") if tool not in {"echo", "work"}]
        kinds = await it.kinds(*(result for result in told.values() if told_of(result) == LOST))
    assert {name: told_of(result) for name, result in told.items()} == {
        name: want for name, (*_, want) in faults.items()
    }
    assert siblings.harmed == []
    assert siblings.served > len(faults)
    assert asked == [tool for tool, *_ in faults.values()]  # each once: what may have run is not sent again
    assert all(kind == ["intent.recorded", "attempt.unknown"] for kind in kinds)
    assert len(it.bad.entries("started")) == 1 + (
        transport == "stdio" and era == "legacy"
    )  # the house's, and the client's


@pytest.mark.parametrize(("transport", "era"), WHERE_LATE)
async def test_a_late_answer_is_recorded_and_an_equal_call_gets_it(transport: str, era: str, tmp_path: Path) -> None:
    arguments = {"after_s": PATIENCE_S + 1}
    async with world(tmp_path, transport, era) as it:
        siblings = Siblings(it)
        async with siblings.around():
            told = await it.call("bad__late", arguments)
            assert told_of(told) == LOST
            equal = await it.call("bad__late", arguments)
            assert told_of(equal) == ("held", "unknown")
            assert told_of(await it.recorded("bad__late", arguments)) == ("result", "late")
        (kinds,) = await it.kinds(told)
        assert [kind for kind in kinds if not kind.startswith("proposal.")][:3] == LATE
        assert siblings.harmed == []
        assert it.bad.entries("tool").count("late") == 1


@pytest.mark.parametrize("fault", ["exit", "half_line"])
async def test_a_child_that_dies_takes_only_its_own_calls_with_it_and_is_started_again(
    fault: str, tmp_path: Path
) -> None:
    async with world(tmp_path, "stdio", "legacy") as it:
        elsewhere = Siblings(it, ("good__work",))
        async with elsewhere.around(), asyncio.TaskGroup() as calls:
            beside = calls.create_task(it.call("bad__work", {"seconds": 20, "n": 0}))
            await it.under_way(1, "work")
            assert told_of(await it.call(f"bad__{fault}")) == LOST
            assert told_of(await beside) == LOST
            await it.healthy()
        assert elsewhere.harmed == []
        assert len(it.bad.entries("started")) == 3  # the house's, the client's, and the client's again
        assert it.bad.entries("tool").count("work") == it.bad.entries("tool").count(fault) == 1
        assert len(it.good.entries("started")) == 2


async def test_a_child_that_is_killed_is_started_again(tmp_path: Path) -> None:
    async with world(tmp_path, "stdio", "both") as it:
        elsewhere = Siblings(it, ("good__work",))
        async with elsewhere.around(), asyncio.TaskGroup() as calls:
            beside = calls.create_task(it.call("bad__work", {"seconds": 20, "n": 0}))
            await it.under_way(1, "work")
            killed = it.bad.pid()
            os.kill(killed, signal.SIGKILL)
            told = await beside
            assert told_of(told) == LOST
            await it.healthy()
        assert await it.kinds(told) == [["intent.recorded", "attempt.unknown"]]
        assert elsewhere.harmed == []
        assert it.bad.pid() != killed
        assert it.bad.entries("tool").count("work") == 1


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_that_is_killed_refuses_until_it_is_back(era: str, tmp_path: Path) -> None:
    async with world(tmp_path, "http", era) as it:
        elsewhere = Siblings(it, ("good__work",))
        async with elsewhere.around():
            async with asyncio.TaskGroup() as calls:
                beside = calls.create_task(it.call("bad__work", {"seconds": 20, "n": 0}))
                await it.under_way(1, "work")
                assert it.bad.process is not None
                it.bad.process.kill()
                it.bad.process.wait()
                assert told_of(await beside) == LOST
            refused = {"n": next(_numbers)}
            told = await it.call("bad__echo", refused)
            assert told_of(told) == NOT_THERE
            port = int(it.bad.entry["url"].rpartition(":")[2].partition("/")[0])
            with listening(it.bad.log, era, port):
                await it.healthy()
                assert (await it.call("bad__echo", refused))["structuredContent"] == refused  # judged afresh
        assert elsewhere.harmed == []
        assert it.bad.entries("tool").count("work") == 1


@pytest.mark.parametrize(("transport", "era"), WHERE_SILENT)
async def test_who_takes_calls_and_falls_silent_is_not_asked_twice_and_its_answers_count_when_they_come(
    transport: str, era: str, tmp_path: Path
) -> None:
    """Stopped as a whole: it accepts connections and bytes, as its system does that for it, and says nothing."""
    async with world(tmp_path, transport, era) as it:
        elsewhere = Siblings(it, ("good__work",))
        async with elsewhere.around(), asyncio.TaskGroup() as calls:
            patient = {"seconds": 0.5, "n": 0}
            beside = calls.create_task(it.call("bad__work", patient))
            await it.under_way(1, "work")
            os.kill(it.bad.pid(), signal.SIGSTOP)
            try:
                told = await it.call("bad__twice")
                assert told_of(told) == LOST
            finally:
                os.kill(it.bad.pid(), signal.SIGCONT)
            assert (await beside)["structuredContent"] == patient
            assert told_of(await it.recorded("bad__twice")) == ("result", "first")
            (kinds,) = await it.kinds(told)
            assert [kind for kind in kinds if not kind.startswith("proposal.")][:3] == LATE
        assert elsewhere.harmed == []
        assert it.bad.entries("tool").count("twice") == 1


@asynccontextmanager
async def mute() -> AsyncIterator[str]:
    """An address that accepts and never says a word."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            pass
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"


@pytest.mark.parametrize("absent", ["refuses", "is silent", later("cannot start"), later("only babbles")])
async def test_one_that_never_came_up_hides_no_other(absent: str, tmp_path: Path) -> None:
    async with mute() as silent:
        entries: dict[str, Json] = {
            "refuses": {"url": "http://127.0.0.1:9/mcp"},
            "is silent": {"url": silent},
            "cannot start": {"command": "no-such-program"},
            "only babbles": {
                "command": sys.executable,
                "args": ["-c", "import sys, time; print('Listening...', flush=True); time.sleep(60)"],
            },
        }
        bad = {**entries[absent], "timeouts": {"start_s": 2}}
        async with world(tmp_path, "stdio", "legacy", bad) as it:
            with anyio.fail_after(LIMIT_S):
                while told_of(await it.call("bad__echo")) != NOT_THERE:
                    await anyio.sleep(0.1)
            _, listed = await post(it.url, "tools/list")
            assert "good__echo" in {tool["name"] for tool in listed["result"]["tools"]}
            elsewhere = Siblings(it, ("good__work",))
            async with elsewhere.around():
                for _ in range(3):
                    assert told_of(await it.call("bad__echo")) == NOT_THERE
            assert elsewhere.harmed == []
            assert elsewhere.served >= 2
