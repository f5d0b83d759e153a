"""One process of an upstream: lines in, lines out, its stderr in our log, and a sure end for all of its group."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import cast

from gateway.outbound.upstream.lines import Lines
from gateway.outbound.upstream.spec import StdioSpec
from gateway.outbound.upstream.wire import MAX_MESSAGE, legible

_LOG = logging.getLogger("counterfoil.upstream")

GRACE_S = 1.0
"""After its stdin was closed, and again after SIGTERM [MCP, stdio shutdown]. All upstreams end at once, within 3 s."""

LAST_S = 0.3
"""After SIGKILL, and for what is still in the pipes of a process that has ended."""

_POLL_S = 0.01

_SAFE = ("PATH", "HOME", "LANG", "TERM", "USER", "SHELL", "LOGNAME", "TMPDIR")
"""What every program needs and no secret is kept in."""

_STDIN, _STDOUT = 0, 1
_STDERR_LINE = 64 * 1024
_STDERR_SHOWN = 2000


def environment(ours: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """What a child gets: the safe part of ours, and what the configuration names."""
    safe = {name: value for name, value in ours.items() if name in _SAFE or name.startswith("LC_")}
    return {**safe, **added}


class Child(asyncio.SubprocessProtocol):
    """A process that leads a group of its own, so that its end is the end of all that it started."""

    def __init__(self, spec: StdioSpec, on_line: Callable[[bytes | None], None], line_bytes: int = MAX_MESSAGE) -> None:
        """`on_line` is called for each line of its stdout, on the event loop; None is one that was too long."""
        loop = asyncio.get_running_loop()
        self._spec = spec
        self._on_line = on_line
        self._out = Lines(line_bytes)
        self._err = Lines(_STDERR_LINE)
        self._room = asyncio.Event()
        self._exited: asyncio.Future[None] = loop.create_future()
        self._mute: asyncio.Future[None] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """The process runs.

        Raises: OSError, ValueError.
        """
        spec = self._spec
        self._transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: self,
            spec.command,
            *spec.args,
            env=environment(os.environ, spec.env),
            cwd=spec.cwd,
            start_new_session=True,
        )

    # --- its pipes --------------------------------------------------------------------------------------------------

    async def room(self) -> None:
        """All that was written before is in the pipe, or the process takes nothing any more."""
        while not self._room.is_set():
            await self._room.wait()

    @property
    def has_room(self) -> bool:
        """Whether a write goes straight into the pipe."""
        return self._room.is_set()

    def write(self, line: bytes) -> bool:
        """Whether any byte of it may have been handed over. Call it only while there is room."""
        if self._stdin is None or self._stdin.is_closing():
            return False
        self._stdin.write(line + b"\n")
        # INVARIANT: the buffer was empty, so the pipe was tried at once; if it refused, not one byte went into it.
        return not self._stdin.is_closing()

    async def ended(self) -> str:
        """Nothing more will be read from it; how it ended, as the rest of a sentence."""
        both = {self._exited, self._mute}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(both, timeout=LAST_S)
        code = self._transport.get_returncode() if self._transport is not None else None
        if code is None:
            return "closed its output"
        return f"exited with status {code}" if code >= 0 else f"was ended by signal {-code}"

    # --- its end ----------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Neither the process nor anything of its group is left. Takes `2 * GRACE_S + 2 * LAST_S` at most."""
        if self._stopping is None:
            # Once, and to its end: a second look at the group could meet a stranger who was given its number.
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        if self._transport is None:
            return
        group = self._transport.get_pid()
        if self._stdin is not None:
            self._stdin.close()
        if not await self._gone(group, GRACE_S):
            _signal(group, signal.SIGTERM)
            if not await self._gone(group, GRACE_S):
                _signal(group, signal.SIGKILL)
                await self._gone(group, LAST_S)
        if self._stdin is not None:
            self._stdin.abort()
        self._transport.close()
        await asyncio.wait({self._closed}, timeout=LAST_S)

    async def _gone(self, group: int, within_s: float) -> bool:
        # Not `wait()`: a grandchild that inherited the pipes would make an ended process look alive.
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        while not self._exited.done() or _lives(group):
            if loop.time() >= until:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    # --- what asyncio tells -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The process was started."""
        self._transport = cast("asyncio.SubprocessTransport", transport)
        stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(_STDIN))
        with suppress(RuntimeError):  # uvloop's, of a pipe that is closed: it ended as soon as it was started
            stdin.set_write_buffer_limits(0)  # room is an empty buffer, see `write`
            self._stdin = stdin
        self._room.set()

    def pause_writing(self) -> None:
        """The pipe is full."""
        self._room.clear()

    def resume_writing(self) -> None:
        """All is in the pipe."""
        self._room.set()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Some bytes of its stdout or stderr."""
        if fd == _STDOUT:
            for line in self._out.feed(data):
                self._on_line(line)
            return
        for line in self._err.feed(data):
            text = legible(line, _STDERR_SHOWN) if line is not None else "(a line that is too long)"
            _LOG.info("%s: %s", self._spec.name, text)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """One of its pipes is closed."""
        if fd == _STDIN:
            self._stdin = None
            self._room.set()
        if fd == _STDOUT and not self._mute.done():
            self._mute.set_result(None)

    def process_exited(self) -> None:
        """It has ended, and is reaped."""
        self._room.set()
        if not self._exited.done():
            self._exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """It has ended and all its pipes are closed."""
        if not self._closed.done():
            self._closed.set_result(None)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # one of them changed its user: it cannot be ended by us, but it is there
    return True


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
