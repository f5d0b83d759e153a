"""What other tests start warm is the command as it is."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import pytest

from tests.cli import warm
from tests.cli.agents import LIMIT_S, run


@pytest.mark.parametrize("args", [("--version",), ("show", "last", "--ledger", "no-such.db"), ("wrap", "ftp://x")])
async def test_a_warm_start_says_and_ends_as_a_cold_one_does(args: tuple[str, ...]) -> None:
    env = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    cold = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", *args), stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=env
    )
    said = tuple(text.decode() for text in await cold.communicate())
    assert cold.returncode is not None
    assert await run(*args, expect=cold.returncode) == said


async def test_the_end_of_one_that_was_killed_is_told(effects_server: list[str], tmp_path: Path) -> None:
    ledger = ("--ledger", f"sqlite:///{tmp_path / 'ledger.db'}")
    process = await warm.started("wrap", *ledger, "--", *effects_server, str(tmp_path / "log"), env=os.environ)
    process.kill()
    async with asyncio.timeout(LIMIT_S):
        assert await process.wait() == -signal.SIGKILL
    assert process.returncode == -signal.SIGKILL
    process.kill()  # nobody: that number may be another's by now
    process.close()
