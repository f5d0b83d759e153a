"""What the suite is run against: our reference server, and the gateway in front of a server; each for one block."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SERVER = ROOT / "tests" / "servers" / "conformance_server.py"
OPEN = HERE / "open.yaml"
"""The policy that lets everything through."""

START_LIMIT_S = 30
"""A start takes two seconds, on a machine of its own."""
END_LIMIT_S = 8
"""The gateway promises five."""

OVER_STDIO = ["--", sys.executable, str(SERVER), "--stdio"]
"""The reference server as an upstream of `counterfoil wrap`."""


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The address of the reference server, over HTTP."""
    with _process([sys.executable, str(SERVER), "--port", "0"], r"(http://\S+/mcp)") as url:
        yield url


@contextlib.contextmanager
def gateway(upstream: list[str]) -> Iterator[str]:
    """The address of a gateway in front of the upstream: a URL, or `--` and a command."""
    with tempfile.TemporaryDirectory(prefix="conformance-ledger-") as folder:
        own = ["--listen", "127.0.0.1:0", "--policy", str(OPEN), "--ledger", f"sqlite:///{folder}/ledger.db"]
        wrap = [sys.executable, "-m", "gateway", "wrap", *own, *upstream]
        with _process(wrap, r"listening at (http://\S+/mcp)") as url:
            yield url


@contextlib.contextmanager
def _process(command: list[str], says: str) -> Iterator[str]:
    """What the process says it is at; with the block it has ended, and its own children with it."""
    with tempfile.TemporaryFile() as said:  # a file: a full pipe would stop it
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env={**os.environ, "NO_COLOR": "1"}
        )
        try:
            yield _hear(process, said.fileno(), says)
        finally:
            _end(process)


def _hear(process: "subprocess.Popen[bytes]", said: int, pattern: str) -> str:
    deadline = time.monotonic() + START_LIMIT_S
    text = ""
    while time.monotonic() < deadline:
        text = os.pread(said, 1 << 20, 0).decode(errors="replace")
        if found := re.search(pattern, text):
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"it did not start: {text[-2000:]}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
