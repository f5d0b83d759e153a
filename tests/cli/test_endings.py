"""How a gateway ends, and what it refuses to begin with."""

import json
import os
import signal
import sqlite3
import time
from pathlib import Path

import anyio
import pytest

from tests.cli.agents import Process, counterfoil, ledger_of, run

pytestmark = pytest.mark.anyio


async def begin_slow_call(window: Process, log: Path) -> None:
    """A call whose effect is made and whose answer never comes."""
    await window.request("tools/list")
    params = window._params({"name": "slow_transfer", "arguments": {"amount": 5, "to": "anna"}}, {})
    await window.write({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": params})
    with anyio.fail_after(20):
        while not (log.exists() and log.read_text()):
            await anyio.sleep(0.02)


def children_of(pid: int) -> list[int]:
    """Its living children, as the system lists them."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split(") ")[1].startswith("Z")


_MORE = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize(
    "ending",
    [signal.SIGTERM, *(pytest.param(one, marks=_MORE) for one in (signal.SIGINT, signal.SIGHUP)), None],
)
async def test_a_call_under_way_is_recorded_and_children_are_reaped_within_five_seconds(
    ending: signal.Signals | None, effects_server: list[str], tmp_path: Path
) -> None:
    log = tmp_path / "effects.log"
    async with counterfoil("wrap", *ledger_of(tmp_path), "--", *effects_server, str(log)) as window:
        await begin_slow_call(window, log)
        children = children_of(window.process.pid)
        assert children
        begun = time.monotonic()
        if ending is None:
            assert window.process.stdin is not None
            window.process.stdin.close()
        else:
            window.process.send_signal(ending)
        with anyio.fail_after(10):
            code = await window.process.wait()
        assert time.monotonic() - begun < 5
        assert code == 0
        assert all(gone(child) for child in children)
        assert not any("Traceback" in line for line in window.said)
    shown, _ = await run("show", "last", "--json", *ledger_of(tmp_path))
    last = json.loads(shown)[-1]["event"]
    assert (last["kind"], last["reason"]) == (
        "attempt.unknown",
        "the gateway was shut down while it waited for the answer",
    )


async def test_a_ledger_that_is_not_ours_is_refused_and_left_as_it_is(time_server: list[str], tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as other:
        other.execute("create table cats (name)")
    before = path.read_bytes()
    _, said = await run("wrap", "--ledger", str(path), "--", *time_server, expect=1)
    assert said.startswith("counterfoil: ")
    assert len(said.splitlines()) == 1
    assert path.read_bytes() == before


async def test_while_the_ledger_is_locked_nothing_is_sent_and_afterwards_everything_works(
    effects_server: list[str], tmp_path: Path
) -> None:
    log = tmp_path / "effects.log"
    async with counterfoil("wrap", *ledger_of(tmp_path), "--", *effects_server, str(log)) as window:
        assert (await window.call("transfer", {"amount": 1, "to": "a"})).get("isError") is not True
        with sqlite3.connect(tmp_path / "ledger.db") as other:
            other.execute("begin immediate")
            told = (await window.call("transfer", {"amount": 2, "to": "a"}))["structuredContent"]
            assert (told["outcome"], told["executed"]) == ("ledger_unavailable", False)
            other.rollback()
        assert (await window.call("transfer", {"amount": 3, "to": "a"})).get("isError") is not True
    assert len(log.read_text().splitlines()) == 2


async def test_a_port_in_use_is_one_clear_line(time_server: list[str], tmp_path: Path) -> None:
    async with counterfoil("wrap", *ledger_of(tmp_path), "--listen", "127.0.0.1:0", "--", *time_server) as first:
        port = await first.hear(r"listening at http://127.0.0.1:(\d+)")
        _, said = await run("wrap", *ledger_of(tmp_path), "--listen", f"127.0.0.1:{port}", "--", *time_server, expect=1)
        hint = "choose another port, 0 for any that is free"
        assert said == f"counterfoil: cannot listen at 127.0.0.1:{port}: address already in use; {hint}\n"


async def test_a_locked_ledger_does_not_keep_a_gateway_that_is_told_to_stop(
    effects_server: list[str], tmp_path: Path
) -> None:
    log = tmp_path / "effects.log"
    async with counterfoil("wrap", *ledger_of(tmp_path), "--", *effects_server, str(log)) as window:
        await begin_slow_call(window, log)
        with sqlite3.connect(tmp_path / "ledger.db") as other:
            other.execute("begin immediate")
            begun = time.monotonic()
            window.process.terminate()
            with anyio.fail_after(10):
                await window.process.wait()
            assert time.monotonic() - begun < 5
            other.rollback()
    shown, _ = await run("show", "last", "--json", *ledger_of(tmp_path))
    assert json.loads(shown)[-1]["event"]["kind"] == "intent.recorded"
