"""An MCP server with one tool, `run_tests`: a directory's unittest tests, run anew in a process of their own.

    python runner_server.py DIRECTORY [TIMEOUT_S]

It is the witness of this example: an agent says that the tests pass, this says whether they do. Tests are
programs and may do anything that the user may; run it only on code that you would run yourself.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TypedDict

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

DEFAULT_TIMEOUT_S = 60.0
TAIL_CHARS = 4000
"""How much of the output is shown: enough for the last few tracebacks, little enough for a model's window."""
MAX_READ_BYTES = 64 * 1024
"""How much of the output's end is read at all; unittest's report stands last."""

_RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
_FAILED = re.compile(r"^FAILED \((.*)\)$", re.MULTILINE)
_COUNTS = re.compile(r"(failures|errors|unexpected successes)=(\d+)")


class Report(TypedDict):
    """What one run of the tests showed."""

    exit_code: int
    """0 if there were tests and all passed. 5 if there were none, from Python 3.12 on."""
    tests: int
    """How many ran; 0 proves nothing, whatever the exit code."""
    failures: int
    """Failures, errors and unexpected successes."""
    duration_s: float
    output: str
    """The end of what the run printed."""


def run_tests(directory: Path, paths: list[str], timeout_s: float) -> Report:
    """The tests have run to their end, in a process of their own, against the files as they are now.

    Raises: ToolError if they did not end in time, or if a path is not below `directory`.
    """
    for path in paths:
        if path.startswith("-") or not (directory / path).resolve().is_relative_to(directory):
            raise ToolError(f"`{path}` is no path below the directory")
    started = time.monotonic()
    exit_code, output = _unittest(directory, paths, timeout_s)
    tests, failures = counted(output)
    return Report(
        exit_code=exit_code,
        tests=tests,
        failures=failures,
        duration_s=round(time.monotonic() - started, 3),
        output=output[-TAIL_CHARS:],
    )


def _unittest(directory: Path, paths: list[str], timeout_s: float) -> tuple[int, str]:
    # -B: a run leaves nothing behind that a later one could read instead of the source
    command = [sys.executable, "-B", "-m", "unittest", *(paths or ["discover"])]
    # A file, not a pipe: a grandchild that outlives the tests would hold a pipe open, and us with it.
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(  # noqa: S603 - no shell, and the caller has judged the paths
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,  # ours carries the protocol
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            exit_code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ToolError(f"the tests did not end within {timeout_s:g} s") from None
        finally:
            _reap(process)
        printed.seek(max(0, printed.seek(0, os.SEEK_END) - MAX_READ_BYTES))
        return exit_code, printed.read().decode(errors="replace")


def _reap(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # the whole session: tests start programs too
    process.wait()


def counted(output: str) -> tuple[int, int]:
    """How many tests ran and how many failed, by the last lines of unittest's report."""
    ran = _RAN.findall(output)
    failed = _FAILED.findall(output)
    failures = sum(int(count) for _, count in _COUNTS.findall(failed[-1])) if failed else 0
    return (int(ran[-1]) if ran else 0, failures)


def runner_server(directory: Path, timeout_s: float) -> MCPServer[object]:
    """The server for one directory."""
    server: MCPServer[object] = MCPServer("test-runner", version="1", log_level="ERROR")

    # No read: a test may write files. But it is meant to be harmless, and to be run as often as one likes.
    @server.tool(
        name="run_tests",
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )
    def run(paths: list[str] | None = None) -> Report:
        """Run the unit tests of the project and tell the exit code, the counts and the end of the output.

        `paths` are test files below the project's directory; without it, all tests are found and run.
        """
        return run_tests(directory, paths or [], timeout_s)

    return server


def main() -> None:
    """Serve on stdin and stdout until stdin ends."""
    match sys.argv[1:]:
        case [directory]:
            timeout_s = DEFAULT_TIMEOUT_S
        case [directory, seconds]:
            timeout_s = float(seconds)
        case _:
            sys.exit("usage: runner_server.py DIRECTORY [TIMEOUT_S]")
    runner_server(Path(directory).resolve(strict=True), timeout_s).run()


if __name__ == "__main__":
    main()
