"""Where a process spends its time, as py-spy sees it from outside while there is load."""

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

SECONDS = 8
RATE = 250
TOP = 30
EVERYWHERE = 0.98
"""Of what is on so many stacks as that, nothing is learnt."""

WAITS = frozenset(
    {
        "Condition.wait (threading.py)",
        "_connection_worker_thread (aiosqlite/core.py)",
        "_worker (concurrent/futures/thread.py)",
        "Writer._take (gateway/outbound/ledger/writer.py)",
    }
)
"""Where a thread has nothing to do, which py-spy takes for work."""

_FRAME = re.compile(r"(?P<function>.+) \((?P<file>[^():]+)(:\d+)?\)")


def hot_spots(program: str, pid: int, folder: Path, load: Callable[[float], object]) -> Iterator[str]:
    """The most expensive rooms and functions, with their share of the samples."""
    output = folder / "stacks.txt"
    options = ["--pid", str(pid), "--duration", str(SECONDS), "--rate", str(RATE)]
    command = [program, "record", *options, "--format", "raw", "--full-filenames", "--output", str(output)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as spy:
        load(SECONDS + 1.5)  # it needs a moment to begin
        _, said = spy.communicate(timeout=30)
    if spy.returncode:
        raise RuntimeError(f"py-spy: {said.decode(errors='replace')[-500:]}")
    stacks = Counter[tuple[str, ...]]()
    for line in output.read_text().splitlines():
        frames, _, count = line.rpartition(" ")
        stack = tuple(map(_short, frames.split(";")))
        if stack[-1] not in WAITS:
            stacks[stack] += int(count)
    return _told(stacks)


def _short(frame: str) -> str:
    found = _FRAME.fullmatch(frame)
    if found is None:
        return frame
    file = re.sub(r".*/(site-packages|lib/python[\d.]+)/", "", found["file"])
    parts = file.split("/")
    if "gateway" in parts:
        parts = parts[parts.index("gateway") :]
    return f"{found['function']} ({'/'.join(parts[-4:])})"


def _room(frame: str) -> str:
    """The package, and of our own the room."""
    file = frame.rpartition(" (")[2].rstrip(")").split("/")
    return "/".join(file[:2]) if file[0] == "gateway" else file[0]


def _told(stacks: Counter[tuple[str, ...]]) -> Iterator[str]:
    whole = stacks.total()
    own, within, rooms = Counter[str](), Counter[str](), Counter[str]()
    for stack, count in stacks.items():
        own[stack[-1]] += count
        rooms[_room(stack[-1])] += count
        for frame in set(stack):
            within[frame] += count
    yield f"{whole} samples of what was running"
    for title, counts in (("own time by room", rooms), ("own time", own), ("with all that it calls", within)):
        yield f"\n{title}"
        shares = [(count / whole, name) for name, count in counts.most_common() if count < EVERYWHERE * whole]
        yield from (f"  {share:6.1%}  {name}" for share, name in shares[:TOP])
