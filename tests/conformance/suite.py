"""The official suite (`@modelcontextprotocol/conformance`), pinned: one run against a URL, read check by check.

What it prints is not to be believed: a skipped scenario has a tick, and a proxy that denies everything gets half of
them. So a run is the status of each check by its id, and two runs are compared by these.
"""

import json
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from tests import real_servers

Era: TypeAlias = Literal["2025", "2026", "stable"]
Results: TypeAlias = dict[str, dict[str, str]]
"""{scenario: {check: status}}; a check that was made twice in a scenario is `id` and `id#2`."""

ROOT = Path(__file__).parent.parent.parent
PACKAGE = "@modelcontextprotocol/conformance"
PINS = {"stable": "0.1.16", "newest": "0.2.0-alpha.12"}
"""`latest` on npm, and the newest of the line that knows 2026-07-28; no tag leads to the latter."""

REVISIONS = {"2025": "2025-11-25", "2026": "2026-07-28"}
ERAS: tuple[Era, ...] = ("2025", "2026", "stable")

SCENARIO_LIMIT_S = 15
"""For one scenario; the longest waits 12 s for tasks to end, and a proxy that hangs should not hold up the rest."""
CLIENT_LIMIT_S = 40
"""For one scenario with a client, which ends by itself before."""
SUITE_LIMIT_S = 240
"""For all of one era. Undisturbed they take 2, 12 and 2 s."""

PASSED = "SUCCESS"
PASSED_ERROR = "SUCCESS, though the tool's result is an error"
"""Some checks only look for content, which the refusal of a proxy has as well; so this is told from a pass."""

SKIPPED = "SKIPPED"
NOT_MADE = "not made"
"""Of a check that the other run has: its scenario came to no end, or took another turn."""

MAX_REPEATED = 8
"""Scenarios that are run again; whoever loses more has not lost them to a slow machine."""

FOLDER = re.compile(r"(?:server-)?(?P<scenario>.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d+Z")


class Lost(NamedTuple):
    """A check that passed directly, and what became of it."""

    scenario: str
    check: str
    status: str

    def __str__(self) -> str:
        return f"{self.scenario}: {self.check}: {self.status}"


def command(which: str) -> list[str | Path]:
    """The suite, to be followed by its arguments.

    Raises: real_servers.CannotInstall.
    """
    # Two versions of one package, under names of their own.
    pins = {name: f"npm:{PACKAGE}@{version}" for name, version in PINS.items()}
    entry = real_servers.npm_packages(pins) / "node_modules" / which / "dist" / "index.js"
    return [real_servers.node(), entry]


def run(url: str, era: Era) -> Results:
    """All scenarios of the era against the server at that address.

    Raises: real_servers.CannotInstall.
    """
    if era == "stable":
        # It has no limit for one scenario.
        return _run([*command("stable"), "server", "--url", url, "--suite", "all"])
    limit = ["--timeout", str(SCENARIO_LIMIT_S * 1000)]
    return _run([*command("newest"), "server", "--url", url, "--requirements", REVISIONS[era], *limit])


def run_again(url: str, era: Era, lost: list[Lost]) -> Results:
    """The scenarios of these checks alone, if they are few.

    Some checks give a server half a second, and a machine that runs other tests may need it for itself. What is
    really lost is lost twice.
    """
    scenarios = {loss.scenario for loss in lost}
    results: Results = {}
    for scenario in scenarios if len(scenarios) <= MAX_REPEATED else ():
        alone = ["server", "--url", url, "--scenario", scenario]
        if era == "stable":
            results |= _run([*command("stable"), *alone])
        else:
            results |= _run([*command("newest"), *alone, "--spec-version", REVISIONS[era], "--force"])
    return results


def run_client(client: list[str], scenario: str, era: Era) -> Results:
    """One client scenario; the suite starts the client with the address of its mock as last argument.

    That the suite is content with all of it, the client's exit code too, is a check of its own: `overall`.

    Raises: real_servers.CannotInstall.
    """
    way = ["client", "--command", " ".join(client), "--scenario", scenario, "--spec-version", REVISIONS[era]]
    results, code = _ended([*command("newest"), *way, "--timeout", str(CLIENT_LIMIT_S * 1000)])
    results[scenario]["overall"] = "FAILURE" if code else PASSED
    return results


def _run(command: list[str | Path]) -> Results:
    return _ended(command)[0]


def _ended(command: list[str | Path]) -> tuple[Results, int]:
    with tempfile.TemporaryDirectory(prefix="conformance-") as kept:
        with Path(kept, "said").open("wb") as said:  # a file: a full pipe would stop it
            suite = subprocess.Popen(
                [*command, "-o", kept], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
            try:
                suite.wait(SUITE_LIMIT_S)
            except subprocess.TimeoutExpired:
                suite.kill()
                suite.wait()
        results = read(Path(kept))
        if not results:
            raise RuntimeError(f"the suite has nothing to say: {Path(kept, 'said').read_text()[-2000:]}")
        return results, suite.returncode


def read(folder: Path) -> Results:
    """What the suite left in the folder. A scenario that came to no end has no checks."""
    results: Results = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and (found := FOLDER.fullmatch(str(path.relative_to(folder)))):
            checks = path / "checks.json"
            results[found["scenario"]] = statuses(json.loads(checks.read_text())) if checks.exists() else {}
    return results


def statuses(checks: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The status of each check that is more than a remark."""
    seen: Counter[str] = Counter()
    told = {}
    for check in checks:
        if check["status"] == "INFO":
            continue
        seen[check["id"]] += 1
        number = seen[check["id"]]
        told[check["id"] if number == 1 else f"{check['id']}#{number}"] = _status(check)
    return told


def _status(check: dict[str, Any]) -> str:
    result = (check.get("details") or {}).get("result")
    refused = isinstance(result, dict) and result.get("isError") is True
    return PASSED_ERROR if check["status"] == PASSED and refused else str(check["status"])


def passing(results: Results) -> Results:
    """Only what passes; scenarios of which nothing passes are gone."""
    kept = {
        scenario: {check: status for check, status in checks.items() if _good(status)}
        for scenario, checks in results.items()
    }
    return {scenario: checks for scenario, checks in kept.items() if checks}


def compare(direct: Results, through: Results) -> list[Lost]:
    """Every check that passes directly and not in the same way through the proxy, and every failure that is new."""
    lost = [
        Lost(scenario, check, through.get(scenario, {}).get(check, NOT_MADE))
        for scenario, checks in passing(direct).items()
        for check, status in checks.items()
        if through.get(scenario, {}).get(check) != status
    ]
    new = [
        Lost(scenario, check, status)
        for scenario, checks in through.items()
        for check, status in checks.items()
        if status == "FAILURE" and check not in direct.get(scenario, {})
    ]
    return lost + new


def count(results: Results) -> str:
    """Scenarios in which something passes and nothing fails, of those that were run; checks likewise."""
    kept = passing(results)
    whole = sum(kept[name].keys() == results[name].keys() - _skipped(results[name]) for name in kept)
    statuses = [status for checks in results.values() for status in checks.values()]
    return f"{whole}/{len(results)} scenarios, {sum(map(_good, statuses))}/{len(statuses)} checks"


def _good(status: str) -> bool:
    return status.startswith(PASSED)


def _skipped(checks: dict[str, str]) -> set[str]:
    return {check for check, status in checks.items() if status == SKIPPED}
