"""A gateway whose starter gave it no stderr, or reads none of it, serves its client all the same."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.agents import LIMIT_S, ledger_of

SERVER = Path(__file__).parents[1] / "servers" / "relay_server.py"
ROOT = Path(__file__).parents[2]

NOISY = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.servers import relay_server

async def noisy(*_):
    sys.stderr.write(("x" * 80 + "\\n") * 5000)
    sys.stderr.flush()
    return relay_server.said()

relay_server.do_noisy = noisy
relay_server.main()
"""

INTRODUCTION: list[dict[str, Any]] = [
    {
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    },
    {"method": "notifications/initialized"},
]


def lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)


def wrapping(folder: Path, *server: str) -> list[str]:
    return [sys.executable, "-m", "gateway", "wrap", *ledger_of(folder), "--", sys.executable, *server]


@contextmanager
def nobody_reads() -> Iterator[int]:
    """The writing end of a pipe whose reader has gone."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


def without(*descriptors: int) -> Callable[[], None]:
    def close() -> None:
        for descriptor in descriptors:
            os.close(descriptor)

    return close


CALL = {"id": 2, "method": "tools/call", "params": {"name": "steps", "arguments": {}}}


def answered(out: bytes) -> list[Any]:
    """The ids of what came, all of which is JSON-RPC."""
    return [json.loads(line).get("id") for line in out.splitlines()]


def test_without_a_stderr_nothing_but_the_protocol_is_on_stdout(tmp_path: Path) -> None:
    done = subprocess.run(
        wrapping(tmp_path, str(SERVER), "--stdio", "--legacy"),
        input=lines(*INTRODUCTION, CALL),
        stdout=subprocess.PIPE,
        timeout=LIMIT_S,
        preexec_fn=without(2),
        check=True,
    )
    assert [one for one in answered(done.stdout) if one is not None] == [1, 2]


@pytest.mark.parametrize("missing", [(0,), (0, 1, 2)])
def test_without_a_stdin_it_ends(missing: tuple[int, ...], tmp_path: Path) -> None:
    command = wrapping(tmp_path, str(SERVER), "--stdio", "--legacy")
    ended = subprocess.run(command, timeout=LIMIT_S, preexec_fn=without(*missing), check=False)
    assert ended.returncode == 0


def test_a_reader_of_stderr_that_has_gone_is_not_missed(tmp_path: Path) -> None:
    with nobody_reads() as stderr:
        done = subprocess.run(
            wrapping(tmp_path, str(SERVER), "--stdio", "--legacy"),
            input=lines(*INTRODUCTION, CALL),
            stdout=subprocess.PIPE,
            stderr=stderr,
            timeout=LIMIT_S,
            check=True,
        )
    assert [one for one in answered(done.stdout) if one is not None] == [1, 2]


def test_who_never_reads_stderr_is_answered_and_the_end_comes_in_time(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    call = {"id": 2, "method": "tools/call", "params": {"name": "noisy", "arguments": {}}}
    ping = {"id": 3, "method": "ping"}
    try:
        done = subprocess.run(
            wrapping(tmp_path, "-c", NOISY, "--stdio", "--legacy"),
            input=lines(*INTRODUCTION, call, ping),
            stdout=subprocess.PIPE,
            stderr=writing,
            timeout=LIMIT_S,
            check=True,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert sorted(one for one in answered(done.stdout) if one is not None) == [1, 2, 3]
