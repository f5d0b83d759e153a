"""Power loss: a gateway over a disk that forgets what was not synced, and what is found when the light comes back.

The disk is `power.c`, preloaded into one process that has imported everything and is forked for each life.
"""

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BLOCK = 512
"""What a disk writes whole, in bytes."""
DARK = 99
"""Exit code of a process whose power was cut, as in `power.c`."""
PATIENCE_S = 60


@dataclass(frozen=True)
class Life:
    """What one process does, and when it ends."""

    cut_at: int = 0
    """Before which passage the power goes; 0: never."""
    fail_at: int = 0
    """Which sync gives an error; 0: none."""
    normal: bool = False
    """Whether the ledger runs with `synchronous = NORMAL`, as it never should."""
    pages: int = 1000
    """After how many pages SQLite moves its log into the file."""
    calls: int = 6
    """Of each of two agents at once, each in a run of its own."""


@dataclass
class Lived:
    """What the world saw of it: lines in the order in which they were said."""

    code: int
    said: list[str] = field(default_factory=list)

    def all(self, word: str) -> list[str]:
        """What was said with that word."""
        return [rest for line in self.said for first, _, rest in [line.partition(" ")] if first == word]


class NoCompiler(Exception):
    """The disk cannot be built here."""


def compiled(folder: Path) -> Path:
    """The disk, built by the system's compiler.

    Raises: NoCompiler.
    """
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None or sys.platform != "linux":
        raise NoCompiler("there is no C compiler, or the system is not Linux")
    made = folder / "power.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(HERE / "power.c"), "-ldl", "-lpthread"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        raise NoCompiler(built.stderr)
    return made


class Disk:
    """Where a life takes place, and what of it counts."""

    def __init__(self, folder: Path) -> None:
        self.live, self.image = folder / "live", folder / "image"
        for made in (self.live, self.image / "inodes"):
            made.mkdir(parents=True)

    def names(self, *, eager: bool) -> dict[str, Path]:
        """Which files there are after the cut, and where the durable content of each stands.

        Between two syncs of the directory a system may have stored the names as they are (`eager`), or not.
        """
        if eager:
            return {entry.name: self._content(entry.inode()) for entry in os.scandir(self.live)}
        entries = self.image / "entries"
        lines = entries.read_text().splitlines() if entries.exists() else []
        found = (line.split(" ", 2) for line in lines)
        return {name: self.image / "inodes" / f"{inode}.{life}" for inode, life, name in found}

    def _content(self, inode: int) -> Path:
        life = self.image / "inodes" / str(inode)
        return life.with_name(f"{inode}.{life.read_text() if life.exists() else 0}")

    def after(self, to: Path, *, eager: bool, torn: random.Random | None) -> Path:
        """The directory as it is found when the power is back.

        With `torn` some of what was not synced was stored all the same, block by block.
        """
        to.mkdir()
        for name, content in self.names(eager=eager).items():
            durable = content.read_bytes() if content.exists() else b""
            live = self.live / name
            if torn is not None and live.exists():
                durable = mixed(durable, live.read_bytes(), torn)
            (to / name).write_bytes(durable)
        return to


def mixed(durable: bytes, live: bytes, chance: random.Random) -> bytes:
    """Each block from one or the other, and the length of either."""
    share = chance.random()
    size = len(chance.choice((durable, live)))
    made = bytearray()
    for at in range(0, size, BLOCK):
        source = live if chance.random() < share else durable
        made += source[at : at + BLOCK].ljust(BLOCK, b"\0")
    return bytes(made[:size])


class Worker:
    """The process that is forked for each life."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def live(self, life: Life, disk: Disk) -> Lived:
        """What was seen of one life on that disk."""
        job = {**asdict(life), "live": str(disk.live), "image": str(disk.image)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        with anyio.fail_after(PATIENCE_S):
            line = await self._process.stdout.readline()
        assert line, "the worker is gone"
        return Lived(**json.loads(line))


@asynccontextmanager
async def worker(disk: Path) -> AsyncIterator[Worker]:
    """One that has imported everything."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.ledger.power_worker",
        str(disk),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(disk)},
        limit=1 << 22,
    )
    try:
        yield Worker(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with anyio.fail_after(PATIENCE_S):
            await process.wait()


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A folder that is gone afterwards: thousands of lives would fill the disk under the tests."""
    made = folder / "life"
    made.mkdir()
    try:
        yield made
    finally:
        shutil.rmtree(made)
