"""A real gateway process whose ledger cannot be written: what clients, load balancers and operators are told."""

import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from tests.cli.agents import LIMIT_S, Process, counterfoil, ledger_of, post
from tests.ledger.faulty import locked

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=3m", "counterfoil-test", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("A FULL DISK IS NOT TESTED ON A REAL FILE SYSTEM: this user may not mount one")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@asynccontextmanager
async def served(folder: Path, ledger: Path, server: list[str]) -> AsyncIterator[tuple[Process, str]]:
    """A gateway over HTTP in front of one server, and its address."""
    config = folder / "gateway.yaml"
    log = str(folder / "effects.log")
    said = {
        "listen": {"port": 0},
        "ledger": f"sqlite:///{ledger}",
        "mcpServers": {"fx": {"command": server[0], "args": [*server[1:], log]}},
    }
    config.write_text(json.dumps(said))
    async with counterfoil("serve", "--config", str(config)) as gateway:
        url = await gateway.hear(r"listening at (http://\S+)/mcp")
        await gateway.hear(r"upstream (fx): \d+ tools")
        yield gateway, url


async def told(url: str, page: str = "readyz") -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/{page}") as response:
        return response.status, await response.json()


async def until(url: str, status: int) -> dict[str, Any]:
    """What `/readyz` says once it has that status."""
    with anyio.fail_after(LIMIT_S):
        while True:
            found, said = await told(url)
            if found == status:
                ledger: dict[str, Any] = said["ledger"]
                return ledger
            await anyio.sleep(0.1)


async def transfer(url: str, to: str) -> dict[str, Any]:
    call = {"name": "fx__transfer", "arguments": {"amount": 1, "to": to}}
    status, answer = await post(f"{url}/mcp", "tools/call", call)
    assert status == 200, answer
    result: dict[str, Any] = answer["result"]
    return result


def effects(folder: Path) -> int:
    log = folder / "effects.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def fill(folder: Path) -> Path:
    """Not a byte is left."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue
    return filler


async def test_a_full_disk_makes_a_gateway_unready_until_there_is_room_again(
    effects_server: list[str], tmp_path: Path, small: Path
) -> None:
    ledger = small / "ledger.db"
    async with served(tmp_path, ledger, effects_server) as (gateway, url):
        assert (await transfer(url, "anna"))["structuredContent"] == {"amount": 1, "to": "anna"}
        assert (await until(url, 200)) == {"state": "writable", "answers_kept": 0}
        filler = fill(small)
        large = "x" * 100_000
        for _ in range(2):
            refused = (await transfer(url, large))["structuredContent"]
            assert (refused["outcome"], refused["executed"]) == ("ledger_unavailable", False)
        assert effects(tmp_path) == 1
        said = await until(url, 503)
        full = f"the ledger `{ledger}` has no space left: free some on its disk, nothing needs a restart"
        assert said == {"state": "unavailable", "reason": full, "since": said["since"], "answers_kept": 0}
        assert await told(url, "healthz") == (200, {"status": "ok"})
        await anyio.sleep(2.5)  # it is tried meanwhile, and still there is no room
        assert await until(url, 503) == said

        filler.unlink()
        assert (await until(url, 200)) == {"state": "writable", "answers_kept": 0}
        assert (await transfer(url, large))["structuredContent"]["to"] == large
        assert effects(tmp_path) == 2
        assert len([line for line in gateway.said if "nothing can be recorded" in line]) == 1
        assert len([line for line in gateway.said if "takes records again" in line]) == 1


@pytest.mark.long
async def test_an_idle_gateway_notices_that_its_ledger_is_locked_and_that_it_is_free_again(
    effects_server: list[str], tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.db"
    async with served(tmp_path, ledger, effects_server) as (_, url):
        await until(url, 200)
        with locked(ledger):
            said = await until(url, 503)
            assert said["reason"] == (
                f"the ledger `{ledger}` is locked by another process: end the one that holds it, then try again"
            )
        assert (await until(url, 200)) == {"state": "writable", "answers_kept": 0}
        assert "structuredContent" in await transfer(url, "anna")


async def test_a_window_says_once_that_nothing_can_be_recorded_and_once_that_it_can(
    effects_server: list[str], tmp_path: Path
) -> None:
    log = tmp_path / "effects.log"
    async with counterfoil("wrap", *ledger_of(tmp_path), "--", *effects_server, str(log)) as window:
        assert "structuredContent" in await window.call("transfer", {"amount": 1, "to": "anna"})
        with locked(tmp_path / "ledger.db"):
            for _ in range(2):
                refused = (await window.call("transfer", {"amount": 2, "to": "anna"}))["structuredContent"]
                assert (refused["outcome"], refused["executed"]) == ("ledger_unavailable", False)
            await window.hear(r"(nothing can be recorded)")
        await window.hear(r"(takes records again)")
        assert (await window.call("transfer", {"amount": 2, "to": "anna"}))["structuredContent"]["amount"] == 2
        for words in ("nothing can be recorded", "takes records again"):
            assert len([line for line in window.said if words in line]) == 1, window.said
        assert len(log.read_text().splitlines()) == 2
