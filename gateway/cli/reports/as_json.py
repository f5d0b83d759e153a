"""For programs. The shape is stable: keys may be added, none changes its meaning while `version` is 1.

    {
      "version": 1,
      "exit_code": 0 | 1 | 2,
      "strict": false,
      "problems": [{"file", "line", "column", "path", "message"}],
      "policies": [{
        "workflow", "file",
        "findings": [{"code", "severity", "message", "advice", "file", "line", "column", "path", "related": [spot]}],
        "cases": [{"name", "held", "why", "file", "line", "column", "path"}]
      }],
      "summary": {"problems", "policies", "cases", "failed", "errors", "warnings", "notes"}
    }

A spot is {"file", "line", "column", "path"}; lines and columns count from 1, in characters.
"""

import json
from dataclasses import asdict
from typing import Any

from gateway.cli.reports.report import Noted, Report, Tried

VERSION = 1


def as_json(report: Report) -> str:
    """The report as one JSON value."""
    whole = {
        "version": VERSION,
        "exit_code": report.exit_code,
        "strict": report.strict,
        "problems": [asdict(problem) for problem in report.problems],
        "policies": [
            {
                "workflow": policy.workflow,
                "file": policy.file,
                "findings": [_finding(one) for one in policy.findings],
                "cases": [_case(one) for one in policy.cases],
            }
            for policy in report.policies
        ],
        "summary": {
            "problems": len(report.problems),
            "policies": len(report.policies),
            "cases": len(report.cases),
            "failed": len(report.failed),
            "errors": report.count("error"),
            "warnings": report.count("warning"),
            "notes": report.count("note"),
        },
    }
    return json.dumps(whole, indent=2)


def _finding(one: Noted) -> dict[str, Any]:
    said = {"code": one.code, "severity": one.severity, "message": one.message, "advice": one.advice}
    return {**said, **asdict(one.at), "related": [asdict(spot) for spot in one.related]}


def _case(one: Tried) -> dict[str, Any]:
    return {"name": one.name, "held": one.why is None, "why": one.why, **asdict(one.at)}
