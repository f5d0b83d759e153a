"""A gateway seals its ledger while it runs and when it ends, and says when nobody signs."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from gateway.outbound.head_file import HeadFile
from gateway.outbound.seal_keys import seal_key
from tests.cli.agents import counterfoil, ledger_of, run

pytestmark = pytest.mark.anyio

UNSIGNED = "no checkpoint is signed here: who can write the ledger can rewrite it"


def configured(folder: Path, server: list[str], log: Path) -> Path:
    """A gateway of that server, whose ledger is signed and has a head outside."""
    told = {
        "ledger": "ledger.db",
        "seal": {"key": "${file:seal.pem}", "head": "outside/head", "every_s": 1},
        "upstreams": {"fx": {"command": server[0], "args": [*server[1:], str(log)]}},
    }
    path = folder / "gateway.yaml"
    path.write_text(json.dumps(told))
    return path


async def test_a_signed_ledger_is_sealed_as_it_grows_and_at_the_end_and_verifies(
    effects_server: list[str], tmp_path: Path
) -> None:
    made, _ = await run("keygen", str(tmp_path / "seal.pem"))
    key, head = made.strip(), HeadFile(tmp_path / "outside" / "head")
    assert seal_key((tmp_path / "seal.pem").read_text()).public.hex() == key
    config = configured(tmp_path, effects_server, tmp_path / "effects.log")
    async with counterfoil("serve", "--stdio", "--config", str(config)) as window:
        await window.call("fx__transfer", {"amount": 1, "to": "a"})
        with anyio.fail_after(20):
            while (first := head.read()) is None:
                await anyio.sleep(0.05)
        report = await run("verify", "--config", str(config), "--json")  # while it runs
        await window.call("fx__transfer", {"amount": 2, "to": "a"})
    assert not any(UNSIGNED in line for line in window.said)
    last = head.read()
    assert last is not None
    assert last.size > first.size
    told = json.loads((await run("verify", "--config", str(config), "--judge", "--json"))[0])
    assert (told["broken"], told["records"], told["signed_up_to"], told["head"]) == (0, *[last.size] * 3)
    assert json.loads(report[0])["broken"] == 0
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as db:
        db.execute("DELETE FROM event WHERE position = (SELECT max(position) FROM event)")
        db.commit()
    shortened, _ = await run("verify", "--config", str(config), expect=1)
    assert f"the ledger was shortened: it had {last.size} records, and has {last.size - 1}" in shortened


@pytest.mark.slow
@pytest.mark.long
async def test_without_a_key_it_says_so_and_is_sealed_all_the_same(time_server: list[str], tmp_path: Path) -> None:
    async with counterfoil("wrap", *ledger_of(tmp_path), "--", *time_server) as window:
        await window.call("get_current_time", {"timezone": "UTC"})
    assert sum(UNSIGNED in line for line in window.said) == 1
    out, _ = await run("verify", *ledger_of(tmp_path))
    assert "by 1 checkpoint, not signed: whoever can write the ledger can rewrite it" in out
    assert out.rstrip().endswith("clean")
