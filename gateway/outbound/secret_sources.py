"""Secrets from elsewhere than a variable or a file: the system's keyring, and commands of secret managers.

What they say is kept in memory alone, and is in no message: those name the service, or the program, and no more.
"""

import importlib
import os
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType

COMMAND_S = 30.0
"""For a command: some ask a person for a finger first."""

MAX_BYTES = 64 * 1024

PASSED = frozenset({
    "DBUS_SESSION_BUS_ADDRESS",
    "GNUPGHOME",
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SSH_AUTH_SOCK",
    "TERM",
    "TMPDIR",
    "USER",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
})  # fmt: skip
"""Of our environment, what a command gets without being named: where things are, and no secret."""

_GIVEN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_SHELLS = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"})
_ASKED: dict[tuple[Path, tuple[str, ...], tuple[tuple[str, str], ...]], str] = {}
"""What commands of this process have said: a configuration is read more than once, and a person asked once."""


def short_text(body: bytes, noun: str, limit: int) -> str:
    """A secret's text, without the line break at its end. Raises: ValueError."""
    try:
        text = body.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(f"{noun} is not UTF-8") from None
    if not text or len(body) > limit:
        raise ValueError(f"{noun} is {'larger than 64 kB' if text else 'empty'}")
    return text


def from_keyring(said: str) -> str:
    """What the keyring has under `service/name`; a service may hold slashes, a name does not.

    Raises: ValueError.
    """
    service, slash, name = said.rpartition("/")
    if not slash or not service or not name:
        raise ValueError("a `${keyring:…}` names a service and a name: `${keyring:service/name}`")
    library = _keyring()
    try:
        found = library.get_password(service, name)
    except Exception as error:  # noqa: BLE001 - backends raise what they like, and their words may be anything
        raise ValueError(f"the keyring cannot be asked for `{said}` ({type(error).__name__})") from None
    if not found or not isinstance(found, str):
        raise ValueError(f"the keyring holds nothing as `{said}`; put it there with `keyring set {service} {name}`")
    return found


def _keyring() -> ModuleType:
    try:
        return importlib.import_module("keyring")
    except ImportError:
        raise ValueError("a keyring needs the extra `keyring`: `pip install 'counterfoil[keyring]'`") from None


def command_output(said: str, environ: Mapping[str, str], folder: Path) -> str:
    """What the command prints, without white space around it. It is run once a process, without a shell.

    `NAME=value` before it gives it a variable, and `NAME=$OTHER` one of ours: else it gets only those that are in
    `PASSED`. Raises: ValueError.
    """
    words, given = _words(said, environ)
    program = Path(words[0]).name
    asked = folder, tuple(words), tuple(sorted(given.items()))
    if asked not in _ASKED:
        body = _run(words, program, given, folder)
        _ASKED[asked] = short_text(body.strip(), f"what the command `{program}` prints", MAX_BYTES)
    return _ASKED[asked]


def _words(said: str, environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    try:
        words = shlex.split(said)
    except ValueError:
        raise ValueError("the command of a `${command:…}` has a quote that is not closed") from None
    given = {name: value for name, value in environ.items() if name in PASSED or name.startswith("LC_")}
    while words and (found := _GIVEN.fullmatch(words[0])) is not None:
        given[found[1]] = _value(found[2], environ)
        words.pop(0)
    if not words:
        raise ValueError("a `${command:…}` names a command and its arguments")
    shells = next((word for word in words if word in _SHELLS), None)
    if shells is not None:
        raise ValueError(f"a `${{command:…}}` is run without a shell, to which `{shells}` would mean something")
    return words, given


def _value(said: str, environ: Mapping[str, str]) -> str:
    if not said.startswith("$"):
        return said
    if not environ.get(said[1:]):
        raise ValueError(f"the variable `{said[1:65]}` is not set, and a command is to get it")
    return environ[said[1:]]


def _run(words: list[str], program: str, environ: Mapping[str, str], folder: Path) -> bytes:
    try:
        # Its stderr may say anything, and ours may be kept.
        process = subprocess.Popen(  # noqa: S603 - whoever writes gateway.yaml starts programs
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            cwd=folder,
            start_new_session=True,
        )
    except OSError as error:
        why = (error.strerror or "it fails").lower()
        raise ValueError(f"the command `{program}` cannot be started: {why}") from None
    until = time.monotonic() + COMMAND_S
    with process:
        try:
            body = _said(process, until)
            if len(body) <= MAX_BYTES:
                process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise ValueError(f"the command `{program}` took longer than {COMMAND_S:g} s") from None
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # and whatever it started
    if len(body) > MAX_BYTES:
        raise ValueError(f"what the command `{program}` prints is larger than 64 kB")
    if process.returncode != 0:
        raise ValueError(f"the command `{program}` ended with status {process.returncode}; run it by hand to see why")
    return body


def _said(process: "subprocess.Popen[bytes]", until: float) -> bytes:
    """What it prints, to its end or until it is too much: it may print for ever.

    Raises: TimeoutExpired.
    """
    assert process.stdout is not None  # noqa: S101 - INVARIANT: it is a pipe
    body, out = bytearray(), process.stdout.fileno()
    while len(body) <= MAX_BYTES:
        ready, _, _ = select.select([out], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise subprocess.TimeoutExpired(process.args, COMMAND_S)
        piece = os.read(out, MAX_BYTES)
        if not piece:
            return bytes(body)
        body += piece
    return bytes(body)
