"""A gateway that runs takes changed policies while calls go on, and only if all is right with them."""

import asyncio
import itertools
import json
import os
import pty
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from gateway.inbound.mcp.tokens import mint
from gateway.model.canonical import Digest
from gateway.model.principal import Principal
from tests.cli.agents import LIMIT_S, Process, counterfoil, ledger_of, post

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KEY = "k" * 40
CALL = {"name": "fx__transfer", "arguments": {"amount": 1, "to": "anna"}}

LOOK = {"name": "fx__balance", "arguments": {}}


def policy(workflow: str, reason: str, more: str = "") -> str:
    return (
        f"workflow: {workflow}\ninclude: [../shared.yaml]\n"
        "tools: {'*__balance': {effect: read}}\ntransitions: [{name: any, tools: ['*']}]\n"
        f"forbid: [{{name: no, tools: ['*transfer'], reason: {reason}}}]\n{more}"
    )


@asynccontextmanager
async def served(tmp_path: Path, server: list[str]) -> AsyncIterator[tuple[Process, str, Path]]:
    """A gateway over HTTP in front of one server, its address, and its folder of policies."""
    folder = tmp_path / "policies"
    folder.mkdir()
    (tmp_path / "shared.yaml").write_text("values: {a: 1}")
    (folder / "w.yaml").write_text(policy("w", "first"))
    (folder / "v.yaml").write_text(policy("v", "first"))
    config = tmp_path / "gateway.yaml"
    said = {
        "listen": {"port": 0},
        "ledger": f"sqlite:///{tmp_path / 'ledger.db'}",
        "policies": "policies",
        "workflow": "w",
        "run_tokens": {"key": KEY},
        "limits": {"denied_per_minute": None},  # some thousand are denied here
        "mcpServers": {"fx": {"command": server[0], "args": [*server[1:], str(tmp_path / "effects.log")]}},
    }
    config.write_text(json.dumps(said))
    async with counterfoil("serve", "--config", str(config)) as gateway:
        url = await gateway.hear(r"listening at (http://\S+)/mcp")
        await gateway.hear(r"upstream (fx): \d+ tools")
        yield gateway, url, folder


def token(workflow: str, run: str) -> dict[str, str]:
    """What names a run of its own, as `counterfoil run open` mints it."""
    now = time.time()
    who = Principal(id="agent")
    minted = mint(KEY.encode(), run=run, principal=who, workflow=workflow, expires_at=now + 600, now=now)
    return {"Counterfoil-Run": minted}


async def refusal(url: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    status, answer = await post(f"{url}/mcp", "tools/call", CALL, headers=headers)
    assert status == 200, answer
    told: dict[str, Any] = answer["result"]["structuredContent"]
    return told


async def policies(url: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as response:
        said: dict[str, Any] = (await response.json())["policies"]
        return said


async def test_a_changed_policy_is_in_force_for_new_runs_while_calls_go_on(
    effects_server: list[str], tmp_path: Path
) -> None:
    async with served(tmp_path, effects_server) as (gateway, url, folder):
        running, another = token("w", "run_1"), token("w", "run_2")
        under_v, late_v = token("v", "run_3"), token("v", "run_4")
        before = (await policies(url))["in_force"]
        assert set(before) == {"v", "w"}
        assert (await refusal(url, running))["policy"]["digest"] == before["w"]
        assert (await refusal(url, under_v))["policy"]["digest"] == before["v"]

        seen: set[tuple[Digest, str]] = set()
        over = asyncio.Event()

        async def keep_calling() -> int:
            for count in range(2_000):
                if over.is_set():
                    return count
                told = await refusal(url, running)
                seen.add((told["policy"]["digest"], told["reason"]))
                _, answer = await post(f"{url}/mcp", "tools/call", LOOK, headers=running)
                assert answer["result"].get("isError") is not True, answer
            return 2_000

        calling = [asyncio.ensure_future(keep_calling()) for _ in range(3)]
        # Half of a file that is a policy without its `forbid`, then nonsense, then the rest of it.
        (folder / "w.yaml").write_text(policy("w", "second").partition("forbid")[0])
        await asyncio.sleep(0.5)
        (folder / "w.yaml").write_text(policy("w", "second")[:-3])
        await gateway.hear(r"(the policies as their files are now are not in force)")
        state = await policies(url)
        assert state["in_force"] == before
        assert state["trouble"][0].startswith(f"{folder}/w.yaml:5:")
        (folder / "w.yaml").write_text(policy("w", "second"))
        (folder / "v.yaml").unlink()
        await gateway.hear(r"(taken anew; in force for new runs: `w`)")
        after = await policies(url)
        assert set(after["in_force"]) == {"w"}
        assert after["trouble"] == []
        assert after["loaded_at"] > state["loaded_at"]
        new = await refusal(url, another)
        assert (new["policy"]["digest"], new["reason"]) == (after["in_force"]["w"], "second")
        over.set()
        counts = await asyncio.gather(*calling)
        assert min(counts) > 0
        assert seen == {(before["w"], "first")}

        assert (await refusal(url, under_v))["policy"]["digest"] == before["v"]
        status, answer = await post(f"{url}/mcp", "tools/call", CALL, headers=late_v)
        assert "no policy for the workflow `v` is loaded" in json.dumps(answer), status
        assert gateway.process.returncode is None


async def test_a_hangup_takes_the_policies_at_once_and_says_what_came_of_it(
    effects_server: list[str], tmp_path: Path
) -> None:
    async with served(tmp_path, effects_server) as (gateway, url, folder):
        gateway.process.send_signal(signal.SIGHUP)
        await gateway.hear(r"(the files say what is in force: `v` c1:\w+, `w` c1:\w+)")
        for turn in range(200):
            text = policy("w", f"turn-{turn}")
            (folder / "w.yaml").write_text(text[: len(text) // 2] if turn % 2 else text)
            gateway.process.send_signal(signal.SIGHUP)
        (folder / "w.yaml").write_text(policy("w", "last"))
        gateway.process.send_signal(signal.SIGHUP)
        with anyio.fail_after(LIMIT_S):
            for count in itertools.count():
                if (await refusal(url, token("w", f"run_{count}")))["reason"] == "last":
                    break
                await asyncio.sleep(0.05)
        assert (await policies(url))["trouble"] == []
        (tmp_path / "shared.yaml").write_text("values: {a: }\nvalue: 1")
        gateway.process.send_signal(signal.SIGHUP)
        await gateway.hear(r"(/shared\.yaml:2:1: value: no key `value` is known here)")
        assert (await refusal(url, token("w", "run_late")))["reason"] == "last"


async def test_a_policy_of_a_window_is_watched_too(effects_server: list[str], tmp_path: Path) -> None:
    (tmp_path / "shared.yaml").write_text("values: {}")
    (tmp_path / "p").mkdir()
    file = tmp_path / "p" / "w.yaml"
    file.write_text(policy("w", "first"))
    options = ("--policy", str(file), *ledger_of(tmp_path))
    async with counterfoil("wrap", *options, "--", *effects_server, str(tmp_path / "effects.log")) as window:
        told = (await window.call("transfer", {"amount": 1, "to": "anna"}))["structuredContent"]
        assert told["reason"] == "first"
        file.write_text(policy("w", "second"))
        await window.hear(r"(taken anew; in force for new runs: `w`)")
        # Its run is the process's, and is under way.
        told = (await window.call("transfer", {"amount": 1, "to": "anna"}))["structuredContent"]
        assert told["reason"] == "first"


async def test_a_gateway_ends_with_its_terminal(effects_server: list[str], tmp_path: Path) -> None:
    (tmp_path / "shared.yaml").write_text("values: {}")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "w.yaml").write_text(policy("w", "first"))
    options = ("--policy", str(tmp_path / "p" / "w.yaml"), *ledger_of(tmp_path), "--listen", "127.0.0.1:0")
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LEADER, "wrap", *options, "--", *effects_server, str(tmp_path / "effects.log")),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = ""

    async def hear(words: str) -> None:
        nonlocal said
        with anyio.fail_after(LIMIT_S):
            while words not in said:
                said += (await asyncio.to_thread(os.read, ours, 4096)).decode()

    try:
        await hear("listening at")
        process.send_signal(signal.SIGHUP)
        await hear("the files say what is in force")
        os.close(ours)
        ours = -1
        with anyio.fail_after(LIMIT_S):
            assert await process.wait() == 0
    finally:
        if ours >= 0:
            os.close(ours)
        if process.returncode is None:
            process.kill()
            await process.wait()


LEADER = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(2, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "gateway", *sys.argv[1:]])
"""
"""The command as the leader of a session with our terminal, as a terminal's window starts it."""
