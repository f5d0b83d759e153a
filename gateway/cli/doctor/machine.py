"""The machine: Python and packages, files and who may touch them, room on the disk, addresses that must be reached."""

import os
import re
import shutil
import socket
import sqlite3
import stat
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from urllib.parse import urlsplit

from gateway.cli.doctor.findings import Finding, ok, warning, wrong
from gateway.outbound import otel
from gateway.outbound.ledger.file import OLDEST_SQLITE
from gateway.outbound.notices import Channel

OLDEST_PYTHON = (3, 11)
REACH_S = 3.0
"""How long an address may take to answer."""
ROOM_MIN, ROOM_LOW = 100 * 2**20, 2**30
"""Bytes that must be free, and that had better be."""
IN_MEMORY = frozenset({"tmpfs", "ramfs"})
OVER_A_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})


def python_and_packages() -> Iterator[Finding]:
    """Whether what we are made of is there."""
    running, lite = ".".join(map(str, sys.version_info[:3])), sqlite3.sqlite_version
    if sys.version_info < OLDEST_PYTHON:
        yield wrong("python", f"Python {running}", "use 3.11 or later")
    else:
        yield ok("python", f"Python {running}, SQLite {lite}")
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        yield wrong("python", f"SQLite {lite} cannot hold a ledger", "use a Python with 3.37 or later")
    missing = [name for name in _needed() if not _is_installed(name)]
    if missing:
        yield wrong("packages", f"not installed: {', '.join(missing)}", "install as README.md says")
    else:
        yield ok("packages", f"counterfoil {version('counterfoil')}, all that it needs is installed")


def _needed() -> Sequence[str]:
    told = (one for one in requires("counterfoil") or () if ";" not in one)
    return [found[0] for one in told if (found := re.match(r"[A-Za-z0-9._-]+", one)) is not None]


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def files(config: Path, policies: Collection[Path], agents: Path | None) -> Iterator[Finding]:
    """Whether others can change what decides: the configuration, all that was read for the policies, agents' keys."""
    for about, paths in (("configuration", [config]), ("policies", policies), ("agents' keys", [agents])):
        read = [path for path in paths if path is not None and path.exists()]
        loose = next((found for path in read if (found := _changeable(path)) is not None), None)
        if loose is not None:
            yield wrong(about, f"{loose[0]}, and so decide what agents may do", loose[1])
        elif read:
            yield ok(about, f"only its owner can write `{read[0]}`")


def _changeable(path: Path) -> tuple[str, str] | None:
    """Who else can change the file or folder, or put another in its place; and what to do about it."""
    real = path.resolve()
    replaces = f"put another file in the place of `{path}`: they can write"
    # A link is replaced where it stands, whoever may write what it leads to.
    for one, does in ((real, "write"), (real.parent, replaces), (path.absolute().parent, replaces)):
        found = one.stat()
        if found.st_uid not in {0, os.geteuid()}:
            return (
                f"user {found.st_uid} can {does} `{one}`, which is theirs",
                f"give `{one}` to whom the gateway runs as",
            )
        if found.st_mode & 0o022 and not (one.is_dir() and found.st_mode & stat.S_ISVTX):
            return f"others can {does} `{one}`", f"chmod go-w {one}"
    return None


def secrets(key: Path | None, referred: Collection[Path]) -> Iterator[Finding]:
    """Whether others can read what signs run tokens, or what gateway.yaml refers to by `${file:…}`."""
    if key is not None and key.exists():
        if _mode(key) & 0o077:
            yield wrong(
                "run tokens", f"others can read the key `{key}`", f"chmod 600 {key}, or remove it for a new one"
            )
        else:
            yield ok("run tokens", f"only its owner can read the key `{key}`")
    for path in referred:
        if _mode(path) & 0o022:
            yield wrong("secrets", f"others can write the secret `{path}`", f"chmod go-w {path}")
        elif _mode(path) & 0o044:
            yield warning("secrets", f"others can read the secret `{path}`", f"chmod go-r {path}")


def ledger_file(path: Path) -> Iterator[Finding]:
    """Whether the ledger's file is this user's own, on a disk that keeps what it was given, and has room."""
    found = path.stat()
    if found.st_uid != os.geteuid():
        yield wrong(
            "ledger file", f"`{path}` belongs to user {found.st_uid}, and this is {os.geteuid()}", "run as its owner"
        )
    if found.st_mode & 0o077:
        yield wrong("ledger file", f"others can read or write `{path}`", f"chmod 600 {path}")
    elif _mode(path.parent) & 0o022:
        do = "give the ledger a folder of its own, with mode 700"
        yield wrong("ledger file", f"others can put another file in its place: they can write `{path.parent}`", do)
    else:
        yield ok("ledger file", f"only its owner can read and write `{path}`")
    kind = _file_system(path)
    if kind in IN_MEMORY:
        yield wrong("ledger disk", f"`{path}` is on a {kind}, which forgets everything with the power", "use a disk")
    elif kind in OVER_A_NETWORK:
        yield wrong("ledger disk", f"`{path}` is on {kind}, where SQLite's locks do not hold", "use a local disk")
    yield from room(path)


def room(path: Path) -> Iterator[Finding]:
    """Whether the disk has room for more."""
    free = shutil.disk_usage(path.parent if path.is_file() else path).free
    says = f"{free / 2**30:,.1f} GiB are free beside `{path}`"
    if free < ROOM_MIN:
        yield wrong("disk", says, "free some: without room nothing is recorded, and no call is sent")
    elif free < ROOM_LOW:
        yield warning("disk", says, "free some soon")
    else:
        yield ok("disk", says)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Of what sort it is, where the system says; else empty."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    found = [(line.split()[1], line.split()[2]) for line in lines if len(line.split()) > 2]  # noqa: PLR2004
    real = path.resolve()
    inside = [(len(place), kind) for place, kind in found if real.is_relative_to(place)]
    return max(inside, default=(0, ""))[1]


def telemetry(content: str | None = None, environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Whether somebody is there to be sent spans; and whether what agents say goes along: by the file's `content`, or
    where it says nothing by the environment.
    """
    if not any(otel.exporters(signal, environ) & {"otlp"} for signal in otel.SIGNALS):
        yield ok("telemetry", "none is asked for (`OTEL_EXPORTER_OTLP_ENDPOINT`)")
    else:
        url = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
        yield from reached("telemetry", url, 4318, "spans are dropped until it can be; calls are not kept waiting")
    captured = content or environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").lower()
    if captured not in {"", "false", "no_content", "none", "0"}:
        yield warning("telemetry", "content is asked for: arguments and results may leave with the spans")


def channels(found: Sequence[Channel]) -> Iterator[Finding]:
    """Whether people can be told. Nothing is sent."""
    if not found:
        yield warning("notices", "nobody is told that something waits for a person", "`notify:` in gateway.yaml")
    for one in found:
        if one.webhook is not None:
            yield from reached(f"channel {one.name}", one.webhook, 443, "people are not told until it can be")
        else:
            yield ok(f"channel {one.name}", "not tried: `--notify` sends a test message")


def reached(about: str, url: str, port: int, otherwise: str) -> Iterator[Finding]:
    """Whether anybody answers at the address of that URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    to = parts.port or {"http": 80, "https": 443}.get(parts.scheme, port)
    try:
        socket.create_connection((host, to), REACH_S).close()
    except OSError as error:
        yield warning(about, f"`{host}:{to}` cannot be reached ({error.strerror or error}): {otherwise}")
    else:
        yield ok(about, f"`{host}:{to}` can be reached")
