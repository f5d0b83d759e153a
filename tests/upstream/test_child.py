import logging
import os
import signal
import sys
from collections.abc import Callable

import anyio
import pytest
import uvloop

from gateway.outbound.upstream.child import Child, environment
from gateway.outbound.upstream.spec import StdioSpec
from tests.upstream.faults import alive


def test_a_child_gets_the_safe_variables_and_those_that_are_named() -> None:
    ours = {"PATH": "/bin", "LC_ALL": "C", "AWS_SECRET_ACCESS_KEY": "s", "LCD": "1", "HOME": "/h", "PYTHONPATH": "x"}
    added = {"API_KEY": "k", "HOME": "/other"}
    assert environment(ours, added) == {"PATH": "/bin", "LC_ALL": "C", "HOME": "/other", "API_KEY": "k"}


async def started(code: str, on_line: Callable[[bytes | None], None] = lambda _: None) -> tuple[Child, int]:
    """A Python process that runs `code`, once it said that it is ready; and its group."""
    ready = anyio.Event()

    def heard(line: bytes | None) -> None:
        ready.set()
        on_line(line)

    child = Child(StdioSpec("c", sys.executable, ["-c", code]), heard)
    await child.start()
    await ready.wait()
    assert child._transport is not None
    return child, child._transport.get_pid()


READY = "import os, signal, subprocess, sys, time; print(1, flush=True);"


async def test_lines_go_in_and_come_out() -> None:
    lines: list[bytes | None] = []
    with anyio.fail_after(10):
        child, group = await started(READY + "print(sys.stdin.readline(), end='')", lines.append)
        assert child.write(b"hello")
        assert await child.ended() == "exited with status 0"
        await child.stop()
    assert lines == [b"1", b"hello"]
    assert alive(group) == []


async def test_who_leaves_when_its_stdin_is_closed_is_not_hurried() -> None:
    with anyio.fail_after(10):
        child, group = await started(READY + "sys.stdin.read(); time.sleep(0.3); os._exit(7)")
        await child.stop()
        assert await child.ended() == "exited with status 7"
    assert alive(group) == []


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("time.sleep(600)", signal.SIGTERM),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN); print(2, flush=True); time.sleep(600)", signal.SIGKILL),
    ],
)
async def test_who_does_not_leave_is_ended(code: str, number: int) -> None:
    with anyio.fail_after(10):
        child, group = await started(READY + code)
        await anyio.sleep(0.1)  # so that the second has had time to ignore the signal
        begun = anyio.current_time()
        await child.stop()
        assert anyio.current_time() - begun < 3
        assert await child.ended() == f"was ended by signal {number}"
    assert alive(group) == []


@pytest.mark.slow
@pytest.mark.parametrize("then", ["os._exit(0)", "time.sleep(600)"])
async def test_what_a_child_started_ends_with_it(then: str) -> None:
    with anyio.fail_after(10):
        child, group = await started(READY + f"subprocess.Popen(['sleep', '600']); print(2, flush=True); {then}")
        while len(alive(group)) < 1:
            await anyio.sleep(0.01)
        await child.stop()
    assert alive(group) == []


async def test_a_stop_that_nobody_waits_for_goes_on_to_its_end() -> None:
    with anyio.fail_after(10):
        child, group = await started(READY + "time.sleep(600)")
        with anyio.move_on_after(0.05):
            await child.stop()
        assert alive(group) == [group]
        await child.stop()
    assert alive(group) == []


async def test_who_closes_its_output_has_ended_for_us() -> None:
    with anyio.fail_after(10):
        child, group = await started(READY + "os.close(1); time.sleep(600)")
        assert await child.ended() == "closed its output"
        await child.stop()
    assert alive(group) == []


async def test_what_cannot_be_handed_over_is_known_not_to_be() -> None:
    with anyio.fail_after(10):
        child, _ = await started(READY + "os.close(0); print(2, flush=True); time.sleep(600)")
        while child.write(b"x"):
            await anyio.sleep(0.01)
        assert not child.write(b"x")
        await child.stop()
        assert not child.write(b"x")


async def test_room_is_an_empty_buffer() -> None:
    with anyio.fail_after(10):
        child, _ = await started(READY + "time.sleep(0.3); sys.stdin.read()")
        seen = [child.has_room, child.write(b"x" * 1_000_000), child.has_room]
        await child.room()
        seen += [child.has_room, child.write(b"x" * 1_000_000)]
        await child.stop()
    assert seen == [True, True, False, True, True]


async def test_its_stderr_is_in_our_log_under_its_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "counterfoil.upstream")
    with anyio.fail_after(10):
        code = "sys.stderr.buffer.write(b'a\\x1b[0mb\\n' + b'x' * 100_000 + b'\\nlast\\n')"
        child, _ = await started(READY + code)
        await child.ended()
        await child.stop()
    assert caplog.messages == ["c: a\\x1b[0mb", "c: (a line that is too long)", "c: last"]


async def test_what_cannot_be_started_is_an_error_of_the_system() -> None:
    child = Child(StdioSpec("c", "/nowhere/to/be/found"), lambda _: None)
    with pytest.raises(FileNotFoundError):
        await child.start()
    await child.stop()
    assert not child.write(b"x")


def test_who_ends_as_soon_as_it_is_started_is_told_as_that() -> None:
    """On the loop that the gateway runs on: with asyncio's own a closed pipe is noticed only when it is used."""

    async def ends() -> str:
        child = Child(StdioSpec("c", "true"), lambda _: None)
        await child.start()
        said = await child.ended()
        await child.stop()
        assert not child.write(b"x")
        return said

    async def many() -> set[str]:
        return {await ends() for _ in range(30)}

    assert uvloop.run(many()) == {"exited with status 0"}


async def test_a_child_has_no_terminal_and_a_group_of_its_own() -> None:
    lines: list[bytes | None] = []
    with anyio.fail_after(10):
        child, group = await started(READY + "print(os.getsid(0), os.getpgid(0))", lines.append)
        await child.ended()
        await child.stop()
    assert lines[1] == f"{group} {group}".encode()
    assert os.getpgid(0) != group
