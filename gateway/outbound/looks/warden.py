"""A process of its own that starts one command, bounds it, and ends when nothing is left of it.

It is run as a script, by itself, with nothing but the standard library: `warden.py JSON`. Its standard input is held by
whoever started it; when that is closed, in whatever way, everything ends. On Linux it adopts what its command leaves
behind (PR_SET_CHILD_SUBREAPER), so that no session or double fork gets away. What became of the command is written as
JSON to the descriptor `told`, which the command does not get.
"""

import ctypes
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

LOOK_S = 0.05
"""Between two looks at how many processes there are."""

END_S = 3.0
"""Within which everything must be gone; only what has become another user can outlive it."""

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_NICE = 5
"""The command is less urgent than whoever must be able to end it."""

_BAD_COMMAND = 127
_DEAD = "ZX"
"""States of what has ended [proc(5)]."""


def main() -> int:
    """The command was run, what became of it is told, and nothing of it is left."""
    told = json.loads(sys.argv[1])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.set_inheritable(told["told"], False)  # noqa: FBT003 - its signature
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_DUMPABLE, 0)  # its descriptors are nobody's but root's, until the command is executed in its place
    failed, says = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(failed)
        _become(told, says)
    os.close(says)
    became = _watched(pid, told["processes"])
    with os.fdopen(failed, "rb") as pipe:
        reason = pipe.read().decode()
    left = not _end(pid)
    if not became:
        shutil.rmtree(told["root"], ignore_errors=True)  # whoever called it off may be dead
    _tell(told["told"], {"failed": reason} if reason else {**became, "left": left})
    return 0


def _tell(out: int, became: dict[str, Any]) -> None:
    with os.fdopen(out, "wb") as pipe:
        pipe.write(json.dumps(became).encode())


def _prctl(option: int, value: int) -> None:
    """Where there is such a thing; elsewhere only what stays in the command's own group is sure to end."""
    if sys.platform == "linux":
        _ = ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# --- the command ----------------------------------------------------------------------------------------------------


def _become(told: dict[str, Any], says: int) -> NoReturn:
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.nice(_NICE)
        _limit(told)
        os.chdir(told["cwd"])
        os.execvpe(told["argv"][0], told["argv"], dict(os.environ))  # noqa: S606 - that is its purpose
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it cannot be started"
        os.write(says, reason.lower().encode())
    os._exit(_BAD_COMMAND)


def _limit(told: dict[str, Any]) -> None:
    """No more than this for each process; the limit of processes goes for all of this user's together."""
    wanted = {
        resource.RLIMIT_CPU: told["cpu_s"],
        resource.RLIMIT_AS: told["memory"],
        resource.RLIMIT_FSIZE: told["file"],
        resource.RLIMIT_NOFILE: told["open_files"],
        resource.RLIMIT_CORE: 0,
    }
    running = _threads_of(os.getuid())
    if running is not None:
        wanted[resource.RLIMIT_NPROC] = running + told["processes"]
    for kind, most in wanted.items():
        hard = resource.getrlimit(kind)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (limit, limit))
        except (OSError, ValueError):
            if kind != resource.RLIMIT_AS:  # some systems know no such limit
                raise


# --- watching -------------------------------------------------------------------------------------------------------


def _watched(pid: int, most: int) -> dict[str, Any]:
    """What became of it: `exit`, `signal`, `crowd` if there were too many processes, nothing if it was called off."""
    while True:
        called_off, _, _ = select.select([0], [], [], LOOK_S)
        status = _reaped(pid)
        if status is not None:
            code = os.waitstatus_to_exitcode(status)
            return {"exit": code} if code >= 0 else {"signal": -code}
        if called_off:
            return {}
        if len(descendants(os.getpid())) > most:
            return {"crowd": most}


def _reaped(pid: int) -> int | None:
    """All that has ended is buried; the status of the command, if it is among that."""
    found = None
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if child == 0:
            return found
        if child == pid:
            found = status


def _end(pid: int) -> bool:
    """Whether nothing of it is left."""
    until = time.monotonic() + END_S
    while True:
        # All are stopped before any is killed: what runs meanwhile would only make more of them.
        found = descendants(os.getpid())
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for one in found:
                send(one, number)
        send(-pid, signal.SIGKILL)
        _ = _reaped(pid)
        if not descendants(os.getpid()) and not _lives(pid):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_S / 10)


def send(pid: int, number: int) -> None:
    """The process, or with a minus its group, has the signal, if it is there and ours."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def descendants(of: int) -> list[int]:
    """All that descend from that process, where the system tells."""
    parents = {pid: int(fields[1]) for pid, fields in _processes()}
    ours, found = {of}, list[int]()
    grown = True
    while grown:
        fresh = [pid for pid, parent in parents.items() if parent in ours and pid not in ours]
        ours.update(fresh)
        found += fresh
        grown = bool(fresh)
    return found


def marked(root: str) -> list[int]:
    """All that have this folder in their environment or work in it, but for us; as far as the system tells."""
    found = []
    for pid, _ in _processes():
        with suppress(OSError):
            at = os.readlink(f"/proc/{pid}/cwd")
            with open(f"/proc/{pid}/environ", "rb") as file:
                if pid != os.getpid() and (f"{at}/".startswith(f"{root}/") or os.fsencode(root) in file.read()):
                    found.append(pid)
    return found


def runs(pid: int) -> bool:
    """Whether the process has not ended, buried or not."""
    fields = _state(pid)
    return fields is not None and fields[0] not in _DEAD


def _threads_of(user: int) -> int | None:
    """How many threads this user has; None where the system does not tell."""
    found = [int(fields[17]) for pid, fields in _processes() if _owner(pid) == user]
    return sum(found) if found else None


def _owner(pid: int) -> int | None:
    """By its state: to whom its folder in /proc belongs is another question where it is not dumpable, as we."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("Uid:")), None)
    except OSError:
        return None


def _processes() -> list[tuple[int, list[str]]]:
    """Each process with the fields of its state, from the third on [proc(5)]."""
    names = os.listdir("/proc") if os.path.isdir("/proc/self") else ()
    states = ((int(name), _state(int(name))) for name in names if name.isdecimal())
    return [(pid, fields) for pid, fields in states if fields is not None]


def _state(pid: int) -> list[str] | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main())
