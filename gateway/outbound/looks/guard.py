"""The warden's process as the gateway holds it: what is printed, how it ended, and a sure end of it in bounded time.

A command is of the same user as its warden. It can stop it or kill it, and what gets away then may hold the pipes for
ever. So nothing here waits for a pipe without a bound, and a warden that was ended by somebody else has said nothing.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from gateway.outbound.looks import warden
from gateway.outbound.looks.output import Kept

ENDING_S = warden.END_S + 2.0
"""After which a warden that does not end is ended."""

LAST_S = 2.0
"""For what is still in the pipes of a warden that has ended."""

_POLL_S = 0.02
_STDIN, _STDOUT, _STDERR = range(3)


class Guarded(asyncio.SubprocessProtocol):
    """A warden and all that it watches, which work in this folder."""

    def __init__(self, root: Path, secrets: Iterable[str]) -> None:
        """`root` is of this run alone: what has it in its environment or works in it is of this run. Of what is printed
        no part of a secret is kept where it is cut.
        """
        loop = asyncio.get_running_loop()
        hidden = [one.encode(errors="surrogateescape") for one in secrets]
        self.out, self.err = Kept(secrets=hidden), Kept(secrets=hidden)
        self._root = root
        self._open = {_STDOUT, _STDERR}
        self._silent: asyncio.Future[None] = loop.create_future()
        self._exited: asyncio.Future[None] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self._transport: asyncio.SubprocessTransport | None = None

    async def start(self, argv: Sequence[str], env: Mapping[str, str], told: int) -> None:
        """It runs, and has the descriptor `told`.

        Raises: OSError.
        """
        made, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: self, *argv, env=env, cwd=self._root, pass_fds=(told,), start_new_session=True
        )
        self._transport = made

    async def ended(self) -> tuple[int | None, bool]:
        """Its return code, once it has ended; and whether nobody is left who could print more."""
        await asyncio.wait({self._exited})
        await asyncio.wait({self._silent}, timeout=LAST_S)
        code = self._transport.get_returncode() if self._transport is not None else None
        return code, self._silent.done()

    async def stop(self) -> None:
        """Neither it nor anything that it watches is left, as far as it can be found; within some seconds."""
        running = self._transport
        if running is None:
            return
        if (stdin := running.get_pipe_transport(_STDIN)) is not None:
            stdin.close()  # which calls it off
        pid = running.get_pid()
        if not await self._gone(pid):
            # While it is there, whatever got away from its parents descends from it.
            await asyncio.to_thread(_end, lambda: warden.descendants(pid))
            warden.send(pid, signal.SIGKILL)
            await asyncio.wait({self._exited}, timeout=LAST_S)
        if running.get_returncode() != 0 or not self._silent.done():
            await asyncio.to_thread(_end, lambda: warden.marked(str(self._root)))
        running.close()
        await asyncio.wait({self._closed}, timeout=LAST_S)

    async def _gone(self, pid: int) -> bool:
        until = time.monotonic() + ENDING_S
        while not self._exited.done():
            if time.monotonic() > until:
                return False
            warden.send(pid, signal.SIGCONT)  # the command may have stopped it
            await asyncio.wait({self._exited}, timeout=_POLL_S)
        return True

    # --- what asyncio tells -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The process was started."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Some bytes were printed. They are kept or dropped, so that nobody waits for us to read."""
        (self.out if fd == _STDOUT else self.err).add(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """One of its pipes is closed."""
        self._open.discard(fd)
        if not self._open and not self._silent.done():
            self._silent.set_result(None)

    def process_exited(self) -> None:
        """It has ended, and is reaped."""
        if not self._exited.done():
            self._exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """It has ended and all its pipes are closed."""
        if not self._closed.done():
            self._closed.set_result(None)


def _end(find: Callable[[], list[int]]) -> None:
    """Nothing of what is found still runs, or it cannot be ended by us."""
    until = time.monotonic() + warden.END_S
    while (found := [one for one in find() if warden.runs(one)]) and time.monotonic() < until:
        # All are stopped before any is killed: what runs meanwhile would only make more of them.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for one in found:
                warden.send(one, number)
        time.sleep(_POLL_S)
