"""`poe audit`: whether anything in requirements.lock has a known vulnerability, by pip-audit and the database of OSV.

    python -m tests.vulnerabilities                  ends with 1 for a vulnerability, with 3 if nobody could be asked
    python -m tests.vulnerabilities --if-reachable   the second is said loudly, and no failure: for a machine that can
                                                     reach package registries alone

A package that the database does not answer about counts as not audited: silence is no all-clear.
"""

import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests import real_servers

REQUIREMENTS = ("pip-audit==2.10.1",)
"""In a venv of its own: it needs two dozen packages that nothing else here does."""
LOCK = Path(__file__).parents[1] / "requirements.lock"
SERVICE = ("api.osv.dev", 443)
REACH_S = 5.0
LIMIT_S = 240.0

AUDITED, VULNERABLE, NOT_AUDITED = 0, 1, 3


class Told(NamedTuple):
    """What came of it."""

    code: int
    lines: Sequence[str]


def judged(report: dict[str, Any]) -> Told:
    """What pip-audit's JSON means."""
    packages = report["dependencies"]
    skipped = [one for one in packages if "skip_reason" in one]
    found = [
        f"{one['name']} {one['version']}: {flaw['id']}, mended in {', '.join(flaw['fix_versions']) or 'no version yet'}"
        for one in packages
        for flaw in one.get("vulns", ())
    ]
    if found:
        return Told(VULNERABLE, found)
    if skipped or not packages:
        return Told(NOT_AUDITED, [f"{len(skipped)} of {len(packages)} packages could not be looked up"])
    return Told(AUDITED, [f"{len(packages)} packages audited, no known vulnerability"])


def audited() -> Told:
    """What the database knows of the lock."""
    try:
        socket.create_connection(SERVICE, REACH_S).close()
    except OSError as error:
        return Told(NOT_AUDITED, [f"`{SERVICE[0]}` cannot be reached: {error}"])
    try:
        program = real_servers.venv(REQUIREMENTS) / "bin" / "pip-audit"
    except real_servers.CannotInstall as error:
        return Told(NOT_AUDITED, [f"pip-audit cannot be installed: {error}"])
    asked = [str(program), "-s", "osv", "-r", str(LOCK), "--require-hashes", "--disable-pip", "-f", "json"]
    try:
        done = subprocess.run(
            [*asked, "--progress-spinner", "off"], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Told(NOT_AUDITED, [f"no answer came within {LIMIT_S:.0f} s"])
    try:
        return judged(json.loads(done.stdout))
    except ValueError:
        return Told(NOT_AUDITED, done.stderr.splitlines()[-1:])


def main(lenient: bool) -> int:  # noqa: FBT001 - the one switch of the command
    """Say it; the code to end with."""
    told = audited()
    for line in told.lines:
        print(f"!!! NOT AUDITED: {line}" if told.code == NOT_AUDITED else line)  # noqa: T201 - a command
    return AUDITED if lenient and told.code == NOT_AUDITED else told.code


if __name__ == "__main__":
    sys.exit(main("--if-reachable" in sys.argv[1:]))
