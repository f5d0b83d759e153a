"""One client, once; and a gateway for it to go through."""

import contextlib
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.real_clients.table import OURS_ON_STDIO, Client, Steps, Target

LIMIT_S = 120
"""For all the steps of one client."""
START_S = 40


def see(client: Client, target: Target, steps: Steps) -> dict[str, Any]:
    """What the client saw; where it broke, or could not even list and call, its last words.

    Raises: CannotInstall.
    """
    try:
        done = subprocess.run(
            client.command(target, steps),
            env=client.env(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"broke": "timeout", "said": f"it did not end within {LIMIT_S} s"}
    try:
        seen: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"broke": done.returncode, "said": (done.stdout + done.stderr).strip().splitlines()[-5:]}
    if any("raised" in seen["steps"].get(step, {"raised": ()}) for step in ("list", "call")):
        return {"broke": done.returncode, "said": seen}
    return seen


def wrapped(command: Sequence[str], folder: Path, *options: str) -> list[str]:
    """The command behind a gateway, on stdio; the gateway's ledger is in the folder."""
    return [*_wrap(folder), *options, "--", *command]


@contextlib.contextmanager
def gateway(upstream: Sequence[str], folder: Path, *options: str) -> Iterator[str]:
    """The address of a gateway before `[URL]` or `["--", COMMAND…]`."""
    command = [*_wrap(folder), *options, "--listen", "127.0.0.1:0", *upstream]
    with started(command, r"(http://127\.0\.0\.1:\d+)(?:/mcp)?") as address:
        yield f"{address}/mcp"


@contextlib.contextmanager
def ours() -> Iterator[str]:
    """The address of our server for clients."""
    with started([*OURS_ON_STDIO[:-1], "--port", "0"], r"^(\d+)$") as port:
        yield f"http://127.0.0.1:{port}/mcp"


@contextlib.contextmanager
def started(command: Sequence[str], says: str) -> Iterator[str]:
    """The first group of what the process says, once it does; the process ends with the block."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        lines: list[str] = []
        reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
        reader.start()
        try:
            yield _heard(process, lines, re.compile(says))
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
            reader.join(10)


def _wrap(folder: Path) -> list[str]:
    ledger = f"sqlite:///{folder / 'ledger.db'}"
    return [sys.executable, "-m", "gateway", "wrap", "--hold", "0", "--ledger", ledger]


def _read(process: subprocess.Popen[str], lines: list[str]) -> None:
    assert process.stdout is not None
    lines.extend(process.stdout)  # grows while it is read, and ends when the process does


def _heard(process: subprocess.Popen[str], lines: list[str], says: re.Pattern[str]) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        found = next((match for line in lines if (match := says.search(line))), None)
        if found:
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"it did not start: {lines}")
