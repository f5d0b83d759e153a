"""Descriptors at their worst; the rest of this room's reading and writing is tested in processes of their own."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from gateway.inbound.mcp.pipes import Sink, Source

pytestmark = pytest.mark.anyio


class Ready:
    """A poll that says that something is there, whether or not it is."""

    def poll(self, _timeout: int) -> list[tuple[int, int]]:
        return [(0, 1)]


@pytest.fixture
def descriptors() -> tuple[int, int]:
    return os.pipe()


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(5):
        while not true():
            await anyio.sleep(0.001)


async def test_a_descriptor_that_was_read_by_another_is_waited_for(descriptors: tuple[int, int]) -> None:
    ours, theirs = descriptors
    os.set_blocking(ours, False)
    lines: list[bytes | None] = []
    source = Source(ours, lines.append)
    source._poll = Ready()  # type: ignore[assignment]
    source._read()
    assert lines == []
    os.write(theirs, b"a\n\nb\r\n  \nc")
    await until(lambda: len(lines) == 2)
    os.close(theirs)
    await source.ended
    assert lines == [b"a", b"b\r", b"c"]
    source.close()
    os.close(ours)


async def test_a_terminal_that_has_gone_has_ended() -> None:
    terminal, ours = os.openpty()
    source = Source(ours, lambda _line: None)
    os.close(terminal)
    with anyio.fail_after(5):
        await source.ended
    os.close(ours)


async def test_a_source_that_is_closed_reads_no_more(descriptors: tuple[int, int]) -> None:
    ours, theirs = descriptors
    lines: list[bytes | None] = []
    source = Source(ours, lines.append)
    source.close()
    os.write(theirs, b"a\n")
    source._read()
    await anyio.sleep(0.01)
    assert lines == []
    os.close(ours)
    os.close(theirs)


async def test_a_descriptor_that_takes_nothing_is_waited_for_and_what_is_written_is_told(
    descriptors: tuple[int, int],
) -> None:
    theirs, ours = descriptors
    os.set_blocking(ours, False)
    os.set_blocking(theirs, False)
    sink, written = Sink(ours), []
    sink._poll = Ready()  # type: ignore[assignment]
    data = os.urandom(300_000)
    sink.put(data, lambda: written.append("first"))
    sink.put(b"end", lambda: written.append("second"))
    assert (written, sink.waiting > 0) == ([], True)
    read = b""
    with anyio.fail_after(5):
        while len(read) < len(data) + 3:
            with suppress(BlockingIOError):
                read += os.read(theirs, 65_536)
            await anyio.lowlevel.checkpoint()
        await sink.emptied()
    assert (read, written, sink.waiting) == (data + b"end", ["first", "second"], 0)
    sink.close()
    os.close(ours)
    os.close(theirs)


async def test_what_nobody_reads_is_not_written(descriptors: tuple[int, int]) -> None:
    theirs, ours = descriptors
    sink, written = Sink(ours), []
    os.close(theirs)
    sink.put(b"x", lambda: written.append("x"))
    sink.put(b"y", lambda: written.append("y"))
    assert (sink.broken.done(), written) == (True, [])
    os.close(ours)


async def test_a_source_that_is_held_back_reads_on_when_it_is_let_go(descriptors: tuple[int, int]) -> None:
    ours, theirs = descriptors
    lines: list[bytes | None] = []
    source = Source(ours, lines.append)
    for _ in range(2):
        source.hold(back=True)
        os.write(theirs, b"a\n")
        await anyio.sleep(0.05)
        assert lines == []
        source.hold(back=False)
        await until(lambda: lines == [b"a"])
        lines.clear()
    source.hold(back=True)
    source.close()
    os.close(ours)
    os.close(theirs)


async def test_a_file_is_held_back_too(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n")
    lines: list[bytes | None] = []
    with path.open("rb") as file:
        source = Source(file.fileno(), lines.append)
        source.hold(back=True)
        await anyio.sleep(0.05)
        assert lines == []
        source.hold(back=False)
        await source.ended
    assert lines == [b"a"]


async def test_a_sink_tells_when_all_was_taken(descriptors: tuple[int, int]) -> None:
    theirs, ours = descriptors
    sink = Sink(ours)
    eased: list[int] = []
    sink.eased = lambda: eased.append(sink.waiting)
    os.set_blocking(theirs, False)
    sink.put(b"x" * 200_000)
    assert eased == []
    with anyio.fail_after(5):
        while sink.waiting:
            with suppress(BlockingIOError):
                os.read(theirs, 65_536)
            await anyio.sleep(0.001)
    await until(lambda: eased == [0])
    sink.close()
    os.close(ours)
    os.close(theirs)
