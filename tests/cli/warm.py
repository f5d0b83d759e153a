"""Processes of the `counterfoil` command that do not begin with a second of imports.

One process for each test process has imported what the command will need; it forks a child for each command, which is
then a process as any other: with its own arguments, environment, pipes, signals and end. The tests that are about how
the command starts (`test_streams.py`, the demo, the real clients) start it from nothing.
"""

import array
import asyncio
import atexit
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, NamedTuple

ROOT = Path(__file__).parents[2]

# --- who asks: the test ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forked:
    """A process that is no child of this one; otherwise what `asyncio.subprocess.Process` is."""

    pid: int
    stdin: asyncio.StreamWriter | None
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    _pipes: Sequence[asyncio.BaseTransport]
    _ended: asyncio.Task[int]

    @property
    def returncode(self) -> int | None:
        """Its exit code, or the number of the signal that ended it, negative; None while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def close(self) -> None:
        """Nobody here holds its pipes any more."""
        for one in self._pipes:
            one.close()

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def started(*args: str, env: Mapping[str, str], stdin: bool = True) -> Forked:
    """`counterfoil ARGS` runs, with a pipe for each stream; where it has no stdin, that is at its end."""
    assert _of_python(env) == _of_python(os.environ), "Python reads these only as it starts"
    theirs, ours = _pipes(stdin=stdin)
    status, told = os.pipe()
    try:
        order = json.dumps({"args": args, "env": dict(env), "cwd": str(Path.cwd())}).encode()
        _forks().sendmsg([order], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [*theirs, told]))])
    finally:
        for one in (*theirs, told):
            os.close(one)
    said, told_by = await _reader(status)
    pid = int(await said.readline())
    (stdout, out), (stderr, err) = [await _reader(one) for one in ours[1:]]
    writer = await _writer(ours[0]) if stdin else None
    pipes = [out, err, told_by, *([writer.transport] if writer else [])]
    return Forked(pid, writer, stdout, stderr, pipes, asyncio.ensure_future(_end(said)))


def _of_python(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(("PYTHON", "LANG", "LC_"))}


async def _end(said: asyncio.StreamReader) -> int:
    return os.waitstatus_to_exitcode(int(await said.read()))


def _pipes(*, stdin: bool) -> tuple[list[int], list[int]]:
    """The ends of the command, and ours."""
    (out, out_w), (err, err_w) = os.pipe(), os.pipe()
    if not stdin:
        return [os.open(os.devnull, os.O_RDONLY), out_w, err_w], [-1, out, err]
    in_r, in_w = os.pipe()
    return [in_r, out_w, err_w], [in_w, out, err]


async def _reader(pipe: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb", 0)
    )
    return reader, transport


async def _writer(pipe: int) -> asyncio.StreamWriter:
    reader = asyncio.StreamReader()
    transport, protocol = await asyncio.get_running_loop().connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())


_FORKS: list[socket.socket] = []


def _forks() -> socket.socket:
    """Where to ask for one; it is started with the first, and ends with this process."""
    if not _FORKS:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.warm", str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.PIPE,  # its streams are pipes, as the commands' are: Python remembers the kind
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
            )
        _FORKS.append(ours)
        atexit.register(process.communicate)
        atexit.register(ours.close)  # which ends it, before it is waited for
    return _FORKS[0]


# --- who is asked: the process that forks ---------------------------------------------------------------------------


class Order(NamedTuple):
    """What a child shall be."""

    args: list[str]
    env: dict[str, str]
    cwd: str


def _next_order(asked: socket.socket) -> Order | None:
    """In each child its order; in the process that forks, None, once nobody can ask any more."""
    running: dict[int, IO[str]] = {}
    ends, wake = os.pipe()
    for one in (ends, wake):
        os.set_blocking(one, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with asked, selectors.DefaultSelector() as waiting:
        waiting.register(asked, selectors.EVENT_READ)
        waiting.register(ends, selectors.EVENT_READ)
        order, child = b"", False
        while not child:
            ready = {key.fd for key, _ in waiting.select()}
            if ends in ready:
                os.read(ends, 4096)
                _tell_ends(running)
            if asked.fileno() in ready:
                order, streams, _, _ = socket.recv_fds(asked, 1 << 20, 4)
                if not order:
                    return None
                child = not _fork(streams, running)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for one in (ends, wake):
        os.close(one)
    return Order(**json.loads(order))


def _tell_ends(running: dict[int, IO[str]]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with running.pop(pid) as told:
            told.write(f"{status}\n")


def _fork(streams: Sequence[int], running: dict[int, IO[str]]) -> int:
    """The child's id, which it has told; 0 in the child, which has its streams, and nothing of its siblings."""
    pid = os.fork()
    if not pid:
        for number, one in enumerate(streams[:3]):
            os.dup2(one, number)
        for told in running.values():
            told.close()
        os.close(streams[3])
    for one in streams[:3]:
        os.close(one)
    if pid:
        running[pid] = told = os.fdopen(streams[3], "w")
        told.write(f"{pid}\n")
        told.flush()
    return pid


def _become(order: Order) -> None:
    """This process is the command, and ends as that does. What reads its environment is imported only now."""
    os.chdir(order.cwd)
    os.environ.clear()
    os.environ.update(order.env)
    sys.argv = ["counterfoil", *order.args]
    from gateway.cli import main  # noqa: PLC0415

    main()


if __name__ == "__main__":
    for room in ("typer", "rich.progress", "rich.table", "gateway.reviewing", "gateway.serving"):
        import_module(room)  # what the command needs but for itself
    gc.collect()
    gc.freeze()  # what is here stays; a child would look through all of it once more, and copy it, as it ends
    if (wanted := _next_order(socket.socket(fileno=int(sys.argv[1])))) is not None:
        _become(wanted)
