"""The programs that a benchmark or a soak starts: pinned to a core, watched through /proc, ended by their id."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

START_S = 45.0
END_S = 8.0

COUNTERFOIL = str(Path(sys.executable).with_name("counterfoil"))


def bounded(seconds: int) -> None:
    """This program ends after that time, or when it is told to, in order: what it started is ended too."""

    def stop(number: int, _: object) -> None:
        words = f"not done within {seconds} s" if number == signal.SIGALRM else "told to end"
        raise SystemExit(words)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)


def cores() -> tuple[int, int]:
    """The core for load and upstreams, and the one for what is measured; the same one where there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


def further_cores() -> tuple[int, int]:
    """A core for a database, and one for a second gateway: others than those of `cores` where there are four, else the
    database shares that of the load, and the second gateway that of the first.
    """
    usable = sorted(os.sched_getaffinity(0))
    return (usable[1], usable[-2]) if len(usable) >= 4 else (usable[0], usable[-1])


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """What is started in the block runs on that core and no other."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def started(
    command: Sequence[str], core: int, *, piped: bool = False, said: Path | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """The program runs on that core, what it says on stderr goes to the file `said`; afterwards it is gone."""
    pipe = subprocess.PIPE if piped else subprocess.DEVNULL
    with (said or Path(os.devnull)).open("ab") as stderr, on_core(core):
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr)
    with process:
        try:
            yield process
        finally:
            end(process)


def end(process: "subprocess.Popen[bytes]") -> None:
    """It was asked to end, and after its time made to."""
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has just now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def await_port(process: "subprocess.Popen[bytes]", port: int, said: Path | None = None) -> None:
    """The program listens there. Raises: ConnectionError, with what it said, when it ended or took too long."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        with suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.05)
    words = said.read_text(errors="replace")[-2000:] if said is not None and said.exists() else ""
    raise ConnectionError(f"`{process.args!r}` does not listen: {words}")


def children(pid: int) -> list[int]:
    """Its living children, those of all its threads."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def cpu_s(pid: int) -> float:
    """Processor seconds of the process so far, all threads, also of those that have ended.

    The clock of another process has no name in Python; the number is Linux's own (MAKE_PROCESS_CPUCLOCK). It counts
    nanoseconds where /proc/PID/stat counts hundredths of a second.
    """
    return time.clock_gettime((~pid << 3) | 2)


def busy_s() -> float:
    """Processor seconds of the whole machine so far, without idling."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _, _, irq, soft, steal = (int(field) for field in fields[:8])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Size:
    """What one process holds."""

    rss_kb: int
    threads: int
    files: int
    children: int


def size_of(pid: int) -> Size:
    """What the process holds now."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Size(int(status["VmRSS"].split()[0]), int(status["Threads"]), files, len(children(pid)))
