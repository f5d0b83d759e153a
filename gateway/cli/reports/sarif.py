"""For code scanning: SARIF 2.1.0, one run, a rule for each code. Levels are spelled there as they are here."""

import json
import os
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gateway.cli.reports.report import Noted, Report, Spot
from gateway.kernel.analysis import CODES

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_RULES: Mapping[str, tuple[str, str]] = {
    "file-problem": ("error", "the file is no policy that can be used"),
    "case-failed": ("error", "a case of the policy does not come out as it says"),
    **CODES,
}
_PLACE = {code: index for index, code in enumerate(_RULES)}


def sarif(report: Report) -> str:
    """The report as a SARIF log."""
    rules = [
        {
            "id": code,
            "shortDescription": {"text": means},
            "defaultConfiguration": {"level": level},
        }
        for code, (level, means) in _RULES.items()
    ]
    run = {
        "tool": {"driver": {"name": "counterfoil", "version": version("counterfoil"), "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "exitCode": report.exit_code}],
        "results": list(_results(report)),
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _results(report: Report) -> Iterator[dict[str, Any]]:
    for problem in report.problems:
        spot = Spot(problem.file, problem.line, problem.column, problem.path)
        yield _result("file-problem", "error", problem.message, spot)
    for policy in report.policies:
        for finding in policy.findings:
            level = "error" if report.counts_as_error(finding) else finding.severity
            yield _result(finding.code, level, f"{finding.message}\n{finding.advice}", finding.at) | _related(finding)
        for case in policy.cases:
            if case.why is not None:
                yield _result("case-failed", "error", f"case `{case.name}`: {case.why}", case.at)


def _result(code: str, level: str, message: str, at: Spot) -> dict[str, Any]:
    return {
        "ruleId": code,
        "ruleIndex": _PLACE[code],
        "level": level,
        "message": {"text": message},
        "locations": [_location(at)],
    }


def _related(finding: Noted) -> dict[str, Any]:
    if not finding.related:
        return {}
    places = [{"id": at, **_location(spot)} for at, spot in enumerate(finding.related)]
    return {"relatedLocations": [{**place, "message": {"text": "because of this"}} for place in places]}


def _location(at: Spot) -> dict[str, Any]:
    physical = {
        "artifactLocation": {"uri": uri(at.file)},
        "region": {"startLine": at.line, "startColumn": at.column},
    }
    logical = [{"fullyQualifiedName": at.path}] if at.path else []
    return {"physicalLocation": physical, **({"logicalLocations": logical} if logical else {})}


def uri(file: str) -> str:
    """The file as a URI reference, relative to where the command runs if it lies below; so code scanning finds it."""
    path = Path(file)
    if path.is_absolute():
        here = Path.cwd()
        if not path.is_relative_to(here):
            return path.as_uri()
        path = path.relative_to(here)
    return quote(os.fsencode(path.as_posix()))
