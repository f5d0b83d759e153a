"""Canaries through a real gateway with a real server: they stand nowhere where they must not, and go when they must."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.outbound.ledger import open_sqlite
from gateway.outbound.system_account import system_account
from tests.cli.agents import counterfoil, run
from tests.runtime.house import house

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
MAIL = "canary@acme-mail.io"
POLICY = """
workflow: data
tools: { fx__transfer: { effect: write, data_class: ledgered } }
transitions: [{ name: all, tools: ["*"] }]
budgets: { calls: 2 }
"""


def configured(folder: Path, server: list[str], data: dict[str, Any]) -> Path:
    (folder / "policy.yaml").write_text(POLICY)
    told = {
        "ledger": "ledger.db",
        "policies": "policy.yaml",
        "data": data,
        "upstreams": {"fx": {"command": server[0], "args": [*server[1:], str(folder / "effects.log")]}},
    }
    path = folder / "gateway.yaml"
    path.write_text(json.dumps(told))
    return path


def stands(folder: Path, text: str) -> list[str]:
    """The files of the ledger in which the text stands."""
    return [one.name for one in folder.glob("ledger.db*") if text.encode() in one.read_bytes()]


async def work(config: Path, folder: Path, first: int = 1) -> None:
    """A run of two calls, which a third one ends. Nothing readable reaches the disk meanwhile."""
    async with counterfoil("serve", "--stdio", "--config", str(config)) as window:
        for amount in range(first, first + 3):
            await window.call("fx__transfer", {"amount": amount, "to": f"{MAIL} {TOKEN}"})
        assert stands(folder, MAIL) == stands(folder, TOKEN) == []


async def test_encrypted_payloads_are_readable_with_the_key_alone_and_the_ledger_verifies_without(
    effects_server: list[str], tmp_path: Path
) -> None:
    first = (await run("keygen", "--data", str(tmp_path / "one.key")))[0].strip()
    second = (await run("keygen", "--data", str(tmp_path / "two.key")))[0].strip()
    ledger = ("--ledger", f"sqlite:///{tmp_path / 'ledger.db'}")
    await work(configured(tmp_path, effects_server, {"encryption": {"key": "${file:one.key}"}}), tmp_path)
    rotated = {"key": "${file:two.key}", "old_keys": ["${file:one.key}"]}
    config = configured(tmp_path, effects_server, {"encryption": rotated})
    await work(config, tmp_path, 11)
    assert stands(tmp_path, MAIL) == stands(tmp_path, TOKEN) == []

    known = json.loads((await run("verify", "--config", str(config), "--json"))[0])
    assert (known["broken"], known["locked"]) == (0, 0)
    blind = json.loads((await run("verify", *ledger, "--json"))[0])
    assert (blind["broken"], blind["locked"], blind["lacking"]) == (0, known["payloads"], sorted([first, second]))
    told, noted = await run("verify", *ledger)
    assert "encrypted with a key that was not given" in told
    assert "by `--config`, or the key's by `COUNTERFOIL_DATA_KEY=FILE`" in noted
    assert (await run("stops", *ledger))[1] == "", "what reads no payload lacks no key"
    wrong = await run("verify", *ledger, COUNTERFOIL_DATA_KEY="ff" * 32)
    assert "clean" in wrong[0]

    shown, _ = await run("show", "last", "--step", "2", *ledger, COUNTERFOIL_DATA_KEY=str(tmp_path / "two.key"))
    assert TOKEN in shown
    lacking, _ = await run("show", "last", "--step", "2", *ledger)
    assert TOKEN not in lacking

    out = tmp_path / "runs.jsonl"
    await run("export", "--since", "1d", "--config", str(config), "--out", str(out))
    assert TOKEN not in out.read_text()
    assert MAIL not in out.read_text()
    assert "in the log under its checkpoint" in (await run("verify", "--export", str(out)))[0]
    assert out.stat().st_mode & 0o077 == 0
    raw, _ = await run("export", "last", "--raw", "--config", str(config))
    assert TOKEN in raw

    keys = f"{tmp_path / 'two.key'},{tmp_path / 'one.key'}"
    named = ("--class", "ledgered", "--yes", "--json", *ledger)
    gone = json.loads((await run("purge", *named, COUNTERFOIL_DATA_KEY=keys))[0])
    assert gone["erased"] > 0
    assert len(gone["runs"]) == 2
    after = json.loads((await run("verify", "--config", str(config), "--json"))[0])
    assert (after["broken"], after["erased"]) == (0, gone["erased"])


async def test_what_is_erased_is_in_no_file_of_the_ledger_any_more(effects_server: list[str], tmp_path: Path) -> None:
    config = configured(tmp_path, effects_server, {})
    async with counterfoil("serve", "--stdio", "--config", str(config)) as window:
        for amount in (1, 2, 3):
            await window.call("fx__transfer", {"amount": amount, "to": f"{MAIL} {TOKEN}"})
        assert stands(tmp_path, TOKEN) != []
        ledger = f"sqlite:///{tmp_path / 'ledger.db'}"
        told, _ = await run("purge", "--principal", f"local:{system_account()}", "--yes", "--ledger", ledger)
        assert "payloads of 1 run erased" in told
        assert stands(tmp_path, TOKEN) == stands(tmp_path, MAIL) == []  # while the gateway has it open
    assert json.loads((await run("verify", "--config", str(config), "--json"))[0])["broken"] == 0


@pytest.mark.long
async def test_payloads_that_are_stored_without_their_secrets_never_reach_the_disk_with_them(
    effects_server: list[str], tmp_path: Path
) -> None:
    config = configured(tmp_path, effects_server, {"redact": {"stored": True}})
    await work(config, tmp_path)
    told = json.loads((await run("verify", "--config", str(config), "--json"))[0])
    assert told["broken"] == 0
    assert told["redacted"] > 0


@pytest.mark.long
async def test_a_purge_that_is_killed_leaves_a_ledger_that_verifies_and_the_next_one_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    made = await open_sqlite(path)
    async with house(made, budgets={"calls": 600}) as it:
        for number in range(601):
            await it.call("read", {"q": f"{TOKEN} {number}"}, deliver=False)
    await made.close()
    ledger = ("--ledger", f"sqlite:///{path}")
    killed = 0
    for _ in range(2):
        before = erased(path)
        process = await purging(*ledger)
        with anyio.fail_after(30):
            while erased(path) == before and process.returncode is None:
                await asyncio.sleep(0.005)
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        await process.wait()
        report = json.loads((await run("verify", *ledger, "--json"))[0])
        assert report["broken"] == 0
    assert killed
    await run("purge", "--run", "run_1", "--yes", *ledger)
    assert stands(tmp_path, TOKEN) == []
    left = json.loads((await run("verify", *ledger, "--json"))[0])
    assert (left["broken"], left["erased"] >= 600) == (0, True)


async def purging(*ledger: str) -> asyncio.subprocess.Process:
    wanted = ("purge", "--run", "run_1", "--yes", *ledger)
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *wanted, stdout=asyncio.subprocess.DEVNULL
    )


def erased(path: Path) -> int:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        return int(db.execute("SELECT count(*) FROM erased").fetchone()[0])
