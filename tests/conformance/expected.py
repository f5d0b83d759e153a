"""What passes directly, as it stands in `expected.json`, and what an upstream on stdio cannot be asked for.

The file is written by `python -m tests.conformance expect`; what is under `excused` is written by hand, each with its
reason, and kept.
"""

import json
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tests.conformance.suite import NOT_MADE, SKIPPED, Era, Lost, Results

NOT_APPLICABLE = {SKIPPED, NOT_MADE}
FILE = Path(__file__).parent / "expected.json"

Way: TypeAlias = str
"""How the gateway stands: `http` or `stdio` before a server, or `client`, before the suite's mock."""


class Excuse(NamedTuple):
    """Checks that cannot pass this way, and why."""

    checks: list[str]
    reason: str


class Expected(NamedTuple):
    """The file."""

    server: dict[str, Results]
    """By era: what the reference server passes directly."""
    client: dict[str, Results]
    """By era: what our own agent passes directly, without a gateway between."""
    excused: dict[Way, dict[str, dict[str, Excuse]]]
    """{way: {era: {scenario: excuse}}}"""


def load() -> Expected:
    """The file, as it is in the repository."""
    told = json.loads(FILE.read_text())
    excused = {
        way: {
            era: {scenario: Excuse(said["checks"], said["reason"]) for scenario, said in scenarios.items()}
            for era, scenarios in eras.items()
        }
        for way, eras in told["excused"].items()
    }
    return Expected(told["server"], told["client"], excused)


def write(server: dict[str, Results], client: dict[str, Results]) -> None:
    """The file has these results, one scenario a line."""
    kept = json.loads(FILE.read_text())["excused"]
    parts = [f'"server": {_lines(server)}', f'"client": {_lines(client)}']
    parts.append(f'"excused": {json.dumps(kept, indent=2)}')
    FILE.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def _lines(results: dict[str, Results]) -> str:
    eras = []
    for era, scenarios in results.items():
        lines = [f"    {json.dumps(scenario)}: {json.dumps(checks)}" for scenario, checks in scenarios.items()]
        eras.append(f'  "{era}": {{\n' + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(eras) + "\n}"


def inexcusable(lost: list[Lost], way: Way, era: Era, expected: Expected) -> list[Lost]:
    """What is lost and has no excuse. There is none for a failure: only what does not apply can be excused."""
    excused = {
        (scenario, check)
        for scenario, excuse in expected.excused.get(way, {}).get(era, {}).items()
        for check in excuse.checks
    }
    return [loss for loss in lost if loss.status not in NOT_APPLICABLE or (loss.scenario, loss.check) not in excused]
