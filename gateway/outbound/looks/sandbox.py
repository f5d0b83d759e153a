"""A command in a private copy of a folder: what it printed, how it ended, what it reported. The folder stays as it is.

What is contained without a wrapper, and what is not, says docs/verifiers.md. Here is kept: nothing but the named
environment, limits for each process, an end for all of them at the timeout, and a bound on all that is read of it.
"""

import asyncio
import json
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.model.canonical import NotStrictJson, parse
from gateway.model.policy import CommandLook
from gateway.outbound.looks import junit, warden
from gateway.outbound.looks.ends import to_its_end
from gateway.outbound.looks.faults import CannotLook, spellings
from gateway.outbound.looks.folders import Listing, copy, lay_over, opened_file, room_of
from gateway.outbound.looks.guard import Guarded
from gateway.outbound.looks.output import Kept
from gateway.outbound.looks.places import FolderPlace

PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where programs are looked for, if the place does not say."""

_MAX_TOLD = 4096


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The folders of one run."""

    root: Path

    @property
    def work(self) -> Path:
        """The copy, in which the command runs."""
        return self.root / "work"

    @property
    def home(self) -> Path:
        """HOME."""
        return self.root / "home"

    @property
    def tmp(self) -> Path:
        """TMPDIR."""
        return self.root / "tmp"


async def run(look: CommandLook, place: FolderPlace, trusted: FolderPlace | None, timeout_s: float) -> dict[str, Any]:
    """What came of the command. To cancel this is to end it, and nothing of it is left then either.

    Raises: CannotLook.
    """
    made = _made()
    try:
        sandbox = Sandbox(made)
        secrets = spellings((*place.secrets, *(trusted.secrets if trusted is not None else ())))
        revision = await _prepared(look, place, trusted, sandbox)
        begun = time.monotonic()
        out, err, became = await _carried_out(look, place, sandbox, secrets, timeout_s)
        seen: dict[str, Any] = {
            "exit": _exit_of(became),
            "output": out.text(),
            "errors": err.text(),
            "truncated": out.truncated,
            "duration_s": round(time.monotonic() - begun, 3),
            "revision": revision,
        }
        if look.junit is not None and (report := _report(sandbox.work, look.junit, secrets)) is not None:
            seen["junit"] = report
        if look.output is not None and not out.truncated:
            with suppress(NotStrictJson):
                seen["json"] = parse(out.text())
        return seen
    finally:
        await to_its_end(asyncio.to_thread(_remove, made))


def _made() -> Path:
    return Path(tempfile.mkdtemp(prefix="counterfoil-look-")).resolve()


# --- before ---------------------------------------------------------------------------------------------------------


async def _prepared(look: CommandLook, place: FolderPlace, trusted: FolderPlace | None, sandbox: Sandbox) -> str:
    """The digest of the inputs of the copy, which is there, with the check's own files as they must be."""
    room = room_of(place)

    def prepare() -> str:
        for folder in (sandbox.work, sandbox.home, sandbox.tmp):
            folder.mkdir()
        copy(place, sandbox.work, room)
        if look.trusted is not None and trusted is not None:
            lay_over(trusted, look.trusted.paths, sandbox.work, room)
        there = Listing(sandbox.work)
        changed = [f"`{pattern}`" for pattern, told in look.pinned.items() if there.digest([pattern]) != told]
        if changed:
            raise CannotLook(f"the check's own files are not as policy pins them: {', '.join(changed)}")
        revision = there.digest(look.inputs)
        if look.junit is not None:
            _make_way(sandbox.work, look.junit)
        return revision

    return await to_its_end(asyncio.to_thread(prepare), room.called_off.set)


def _make_way(work: Path, path: str) -> None:
    """No report is there before the command has written one."""
    at = work
    for step in path.split("/"):
        at /= step
        if at.is_symlink():
            at.unlink()
            return
    if at.is_dir():
        shutil.rmtree(at)
    else:
        at.unlink(missing_ok=True)


# --- meanwhile ------------------------------------------------------------------------------------------------------


async def _carried_out(
    look: CommandLook, place: FolderPlace, sandbox: Sandbox, secrets: Sequence[str], timeout_s: float
) -> tuple[Kept, Kept, Mapping[str, Any]]:
    reading, told = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb") as pipe:
        guarded = Guarded(sandbox.root, secrets)
        try:
            await _start(guarded, look, place, sandbox, told, timeout_s)
            code, silent = await guarded.ended()
        finally:
            await to_its_end(guarded.stop())
        if code != 0:
            raise CannotLook("what watches the command was ended by somebody else")
        if not silent:
            raise CannotLook("the command left something behind that could not be ended")
        return guarded.out, guarded.err, _became(pipe.read(_MAX_TOLD) or b"", place)


async def _start(
    guarded: Guarded, look: CommandLook, place: FolderPlace, sandbox: Sandbox, told: int, timeout_s: float
) -> None:
    orders = json.dumps(_orders(look, place, sandbox, told, timeout_s))
    argv = [sys.executable, "-I", "-S", warden.__file__, orders]
    try:
        await guarded.start(argv, _environment(look, place, sandbox), told)
    except OSError as error:
        raise CannotLook(f"no process can be started: {(error.strerror or 'it fails').lower()}") from None
    finally:
        os.close(told)


def _orders(look: CommandLook, place: FolderPlace, sandbox: Sandbox, told: int, timeout_s: float) -> dict[str, Any]:
    limits = place.limits
    return {
        "argv": [*(_placed(word, sandbox) for word in place.wrapper), *look.run],
        "root": str(sandbox.root),
        "cwd": str(sandbox.work),
        "told": told,
        "cpu_s": int(timeout_s) + 1,
        "memory": limits.memory_mb * 1024 * 1024,
        "file": limits.file_mb * 1024 * 1024,
        "open_files": limits.open_files,
        "processes": limits.processes,
    }


def _placed(word: str, sandbox: Sandbox) -> str:
    return word.replace("{work}", str(sandbox.work)).replace("{sandbox}", str(sandbox.root))


def _environment(look: CommandLook, place: FolderPlace, sandbox: Sandbox) -> dict[str, str]:
    tmp = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(sandbox.tmp))
    return {"PATH": PATH, "LANG": "C.UTF-8", **look.env, **place.env, "HOME": str(sandbox.home), **tmp}


# --- afterwards -----------------------------------------------------------------------------------------------------


def _became(told: bytes, place: FolderPlace) -> Mapping[str, Any]:
    try:
        became: Any = parse(told)
    except NotStrictJson:
        became = {}
    if "failed" in became:
        raise CannotLook(f"the command cannot be started: {became['failed']}")
    if "crowd" in became:
        raise CannotLook(f"the command had more than {place.limits.processes} processes, and was ended")
    if "signal" in became:
        raise CannotLook(f"the command was ended by signal {became['signal']}")
    if "exit" not in became:
        raise CannotLook("the command was ended before it was done")
    return dict(became)


def _exit_of(became: Mapping[str, Any]) -> int:
    return int(became["exit"])


def _report(work: Path, path: str, secrets: Sequence[str]) -> dict[str, Any] | None:
    """What the report says; None if there is none that can be read."""
    try:
        with os.fdopen(opened_file(work, path), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            body = file.read(junit.MAX_BYTES + 1)
    except OSError:
        return None
    return junit.report_of(body, secrets) if len(body) <= junit.MAX_BYTES else None


def _remove(made: Path) -> None:
    """Nothing is left of it, whatever rights the command gave to its folders."""
    # INVARIANT: only what is in it is touched. It may be gone already, or a link by now to what is not ours.
    if made.is_symlink():
        made.unlink()
        return
    with suppress(OSError):
        made.chmod(0o700)
    for at, folders, _ in os.walk(made):
        for one in (Path(at, name) for name in folders):
            if not one.is_symlink():
                with suppress(OSError):
                    one.chmod(0o700)
    shutil.rmtree(made, ignore_errors=True)
