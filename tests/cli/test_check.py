"""`counterfoil check`, in each of its formats: what it finds, where, and how it ends."""

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from inline_snapshot import snapshot

from gateway.cli.check import Format, checked
from gateway.cli.reports import Checked, Noted, Report, Spot, Tried, as_json, junit, sarif, text
from gateway.cli.reports.sarif import uri
from gateway.kernel.analysis import CODES
from gateway.outbound.policy_files import PolicyProblem
from tests.cli.agents import run

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
SHIPPED = [ROOT / "policies", ROOT / "gateway" / "starter.yaml", ROOT / "gateway" / "cli" / "demo" / "policy.yaml"]

FLAWED = """\
workflow: flawed
phases:
  start: {}
  never: {}
transitions:
  - name: look
    tools: [look]
  - name: again
    tools: [look]
    when: ["args.x == 1"]
  - name: pay
    tools: [pay]
    authority: [pay]
"""

QUIET = """\
workflow: quiet
transitions: [{ name: look, tools: [look] }]
cases: [{ name: it looks, call: { tool: look }, expect: { outcome: allowed, rule: look } }]
"""


def written(folder: Path, body: str, name: str = "p.yaml") -> Path:
    file = folder / name
    file.write_text(body, encoding="utf-8")
    return file


def lines(report: Report, folder: Path) -> list[str]:
    return [line.plain.replace(f"{folder}/", "") for line in text(report)]


HERE = Spot("p.yaml", 3, 5, "transitions.0.name")
WARNED = Noted("transition-shadowed", "warning", "`a` is never reached", "move it", HERE, (Spot("p.yaml", 2, 1, "x"),))
WRONG = Noted("transition-unauthorized", "error", "no grant gives `p`", "add it", HERE)
NOTED = Noted("no-cases", "note", "no test", "add some", Spot("p.yaml", 1, 1, ""))
HELD, FAILED = Tried("good", HERE), Tried("bad <&\x1b", HERE, "expected allowed, but it is denied")


def report(*findings: Noted, cases: tuple[Tried, ...] = (HELD,), strict: bool = False) -> Report:
    return Report(policies=(Checked("w", "p.yaml", findings, cases),), strict=strict)


PROBLEM = Report((PolicyProblem("p.yaml", 2, 3, "phases", "no key `x` is known here"),))


# --- what is found --------------------------------------------------------------------------------------------------


def test_what_ships_has_no_error_and_no_warning() -> None:
    found = checked(SHIPPED)
    assert found.problems == ()
    assert len(found.policies) > 3
    assert [one for one in found.findings if one.severity != "note"] == []


def test_findings_stand_in_the_order_of_the_file(tmp_path: Path) -> None:
    assert lines(checked([written(tmp_path, FLAWED)]), tmp_path) == snapshot(
        [
            "p.yaml:1:1: note: the policy `flawed` has no test of its own [no-cases]",
            "    add `cases`: a call in a state, and the verdict that you expect",
            "p.yaml:2:1: note: the workflow has phases, and a run of it never succeeds [no-success]",
            "    say under `success` which verifier's evidence proves that the work is done",
            "p.yaml:4:3: warning: no run ever comes to the phase `never` [phase-unreachable]",
            "    lead a transition to it (`to: never`, or a failure edge under `on`), or remove it",
            (
                "p.yaml:8:11: warning: `again` is never reached: `look` before it takes every call that it could "
                "[transition-shadowed]"
            ),
            "    move it before them, or narrow them by `tools`, `from` or `when`",
            "p.yaml:13:16: error: no grant gives `pay`, which `pay` needs [transition-unauthorized]",
            "    add it to a grant under `grants`, or do not ask for it",
            "flawed: no cases",
            "1 policy: no cases; 1 error, 2 warnings, 2 notes",
        ]
    )


def test_a_folder_is_checked_file_by_file(tmp_path: Path) -> None:
    written(tmp_path, FLAWED, "b.yaml")
    written(tmp_path, QUIET, "a.yaml")
    found = checked([tmp_path])
    assert [(one.workflow, Path(one.file).name) for one in found.policies] == [
        ("quiet", "a.yaml"),
        ("flawed", "b.yaml"),
    ]
    assert {Path(one.at.file).name for one in found.findings} == {"b.yaml"}


def test_a_file_that_is_wrong_is_all_that_is_told(tmp_path: Path) -> None:
    wrong = written(tmp_path, "workflow: w\ntransitons: []\n", "wrong.yaml")
    found = checked([written(tmp_path, FLAWED), wrong, tmp_path / "none.yaml"])
    assert found.exit_code == 2
    assert found.policies == ()
    assert lines(found, tmp_path) == snapshot(
        [
            "wrong.yaml:1:1: error: the key `transitions` is missing",
            "wrong.yaml:2:1: error: transitons: no key `transitons` is known here (did you mean `transitions`?)",
            "none.yaml:1:1: error: cannot be read: no such file or directory",
            "3 mistakes; nothing was run",
        ]
    )


SHARED = """\
tools:
  look: { effect: read }
  unheard_of: { effect: read }
  delete_all: { effect: read }
grants: [{ authority: [other] }]
values: { most: 3 }
"""


def test_what_is_shared_is_told_where_it_stands_and_need_not_be_used_by_all(tmp_path: Path) -> None:
    written(tmp_path, SHARED, "shared.yaml")
    own = "include: [shared.yaml]\nvalues: { least: 1 }\ngrants: [{ authority: [own] }]\n"
    found = checked([tmp_path, written(tmp_path, QUIET + own, "p.yaml")])
    assert [one.workflow for one in found.policies] == ["quiet", "quiet"]
    expected = [
        ("value-unused", "p.yaml", 5, 11),
        ("grant-unneeded", "p.yaml", 6, 24),
        ("tool-read-destroys", "shared.yaml", 4, 25),
    ]
    for policy in found.policies:
        assert [(one.code, Path(one.at.file).name, one.at.line, one.at.column) for one in policy.findings] == expected
    assert checked([tmp_path / "shared.yaml"]) == Report()


# --- how it ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "code", "strictly"),
    [
        (report(), 0, 0),
        (report(NOTED), 0, 0),
        (report(WARNED), 0, 1),
        (report(WRONG), 1, 1),
        (report(cases=(HELD, FAILED)), 1, 1),
        (PROBLEM, 2, 2),
    ],
)
def test_the_exit_code_says_whether_it_is_right(told: Report, code: int, strictly: int) -> None:
    assert told.exit_code == code
    assert Report(told.problems, told.policies, strict=True).exit_code == strictly


@pytest.mark.slow
@pytest.mark.long
async def test_the_command_prints_the_format_and_ends_with_the_code(tmp_path: Path) -> None:
    quiet, flawed = str(written(tmp_path, QUIET, "q.yaml")), str(written(tmp_path, FLAWED))
    broken = str(written(tmp_path, "workflow: [", "broken.yaml"))
    out, err = await run("check", quiet)
    assert (out, err) == ("quiet: 1 of 1 cases hold\n1 policy: 1 case held; nothing found\n", "")
    for spelling in Format:
        out, _ = await run("check", "--format", spelling, flawed, expect=1)
        assert "no grant gives `pay`" in out
        assert "\x1b" not in out
        out, err = await run("check", "--format", spelling, broken, expect=2)
        assert "broken.yaml" in (err if spelling is Format.text else out)
    out, _ = await run("check", flawed, COLUMNS="40", expect=1)
    assert max(map(len, out.splitlines())) > 80  # whoever reads it by lines gets whole ones


# --- formats --------------------------------------------------------------------------------------------------------


def test_people_are_told_which_cases_fail_and_how_it_went() -> None:
    assert [line.plain for line in text(report(WARNED, cases=(HELD, FAILED), strict=True))] == [
        "p.yaml:3:5: warning: `a` is never reached [transition-shadowed]",
        "    move it",
        "p.yaml:3:5: failed: case `bad <&\\u{1b}`: expected allowed, but it is denied",
        "w: 1 of 2 cases hold",
        "1 policy: 1 of 2 cases failed; 1 warning; warnings count as errors",
    ]


def test_programs_get_one_stable_shape() -> None:
    whole = json.loads(as_json(report(WARNED, cases=(HELD, FAILED))))
    spot = {"file": "p.yaml", "line": 3, "column": 5, "path": "transitions.0.name"}
    assert whole == {
        "version": 1,
        "exit_code": 1,
        "strict": False,
        "problems": [],
        "policies": [
            {
                "workflow": "w",
                "file": "p.yaml",
                "findings": [
                    {
                        "code": "transition-shadowed",
                        "severity": "warning",
                        "message": "`a` is never reached",
                        "advice": "move it",
                        **spot,
                        "related": [{"file": "p.yaml", "line": 2, "column": 1, "path": "x"}],
                    }
                ],
                "cases": [
                    {"name": "good", "held": True, "why": None, **spot},
                    {"name": FAILED.name, "held": False, "why": FAILED.why, **spot},
                ],
            }
        ],
        "summary": {
            "problems": 0,
            "policies": 1,
            "cases": 2,
            "failed": 1,
            "errors": 0,
            "warnings": 1,
            "notes": 0,
        },
    }
    assert json.loads(as_json(PROBLEM))["problems"] == [
        {"file": "p.yaml", "line": 2, "column": 3, "path": "phases", "message": "no key `x` is known here"}
    ]


def outcomes(xml: str) -> dict[str, str | None]:
    """What each test of a JUnit file came to."""
    root = ET.fromstring(xml)  # noqa: S314 - our own
    return {str(test.get("name")): test[0].tag if len(test) else None for test in root.iter("testcase")}


def test_ci_servers_get_a_test_for_each_case_and_finding() -> None:
    findings, cases = (WARNED, WRONG, NOTED), (HELD, FAILED)
    plain = {
        "transition-shadowed: transitions.0.name": "skipped",
        "transition-unauthorized: transitions.0.name": "failure",
        "good": None,
        "bad <&\\u{1b}": "failure",
    }
    assert outcomes(junit(report(*findings, cases=cases))) == plain
    strictly = {**plain, "transition-shadowed: transitions.0.name": "failure"}
    assert outcomes(junit(report(*findings, cases=cases, strict=True))) == strictly
    root = ET.fromstring(junit(report(*findings, cases=cases)))  # noqa: S314
    assert (root.get("tests"), root.get("failures"), root[0].get("skipped")) == ("4", "2", "1")
    assert outcomes(junit(PROBLEM)) == {"p.yaml:2:3": "error"}


def test_code_scanning_gets_rules_results_and_regions() -> None:
    log = json.loads(sarif(report(WARNED, NOTED, cases=(HELD, FAILED))))
    (scan,) = log["runs"]
    rules = [rule["id"] for rule in scan["tool"]["driver"]["rules"]]
    assert rules == ["file-problem", "case-failed", *CODES]
    assert [one["ruleId"] for one in scan["results"]] == ["transition-shadowed", "no-cases", "case-failed"]
    for one in scan["results"]:
        assert rules[one["ruleIndex"]] == one["ruleId"]
        assert one["level"] in {"error", "warning", "note"}
        assert one["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1
    place = scan["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "p.yaml"}, "region": {"startLine": 3, "startColumn": 5}}
    assert scan["results"][0]["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 2
    assert scan["invocations"] == [{"executionSuccessful": True, "exitCode": 1}]
    strict = json.loads(sarif(report(WARNED, strict=True)))["runs"][0]["results"]
    assert [one["level"] for one in strict] == ["error"]


@pytest.mark.parametrize(
    ("file", "spelled"),
    [
        ("policies/a b.yaml", "policies/a%20b.yaml"),
        ("/elsewhere/ü.yaml", "file:///elsewhere/%C3%BC.yaml"),
        (os.fsdecode(b"\xff.yaml"), "%FF.yaml"),
        (str(Path.cwd() / "p" / "q.yaml"), "p/q.yaml"),
    ],
)
def test_a_file_is_a_uri_that_code_scanning_finds(file: str, spelled: str) -> None:
    assert uri(file) == spelled


def test_every_code_says_what_it_means() -> None:
    whole: Any = json.loads(sarif(report()))
    for rule in whole["runs"][0]["tool"]["driver"]["rules"]:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule["id"])
        assert len(rule["shortDescription"]["text"]) > 15


def test_the_page_about_it_lists_every_code() -> None:
    page = (ROOT / "docs" / "check.md").read_text()
    table = "".join(f"| `{code}` | {severity} | {means} |\n" for code, (severity, means) in CODES.items())
    assert f"| code | severity | |\n|---|---|---|\n{table}\n" in page
