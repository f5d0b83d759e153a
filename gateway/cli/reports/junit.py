"""For CI servers: one suite for each policy; a test for each case, and for each finding that is no note.

A warning is a skipped test, so that it is seen and fails nothing; with `--strict` it is a failed one.
"""

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from gateway.cli.plain import visible
from gateway.cli.reports.report import Checked, Noted, Report, Tried


def junit(report: Report) -> str:
    """The report as JUnit XML."""
    root = Element("testsuites", {"name": "counterfoil check"})
    for file in dict.fromkeys(problem.file for problem in report.problems):
        suite = SubElement(root, "testsuite", _named(file))
        for problem in report.problems:
            if problem.file == file:
                place = f"{file}:{problem.line}:{problem.column}"
                test = SubElement(suite, "testcase", _test(place, "file", file, problem.line))
                SubElement(test, "error", _said("file-problem", problem.message)).text = visible(str(problem))
    for policy in report.policies:
        _suite(root, policy, report)
    for suite in root:
        _count(suite)
    _total(root)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode")


def _suite(root: Element, policy: Checked, report: Report) -> None:
    suite = SubElement(root, "testsuite", _named(policy.workflow))
    for finding in policy.findings:
        if finding.severity != "note":
            _finding(suite, policy, finding, failing=report.counts_as_error(finding))
    for case in policy.cases:
        _case(suite, policy, case)


def _finding(suite: Element, policy: Checked, finding: Noted, *, failing: bool) -> None:
    at = finding.at
    name = f"{finding.code}: {at.path}" if at.path else finding.code
    test = SubElement(suite, "testcase", _test(name, f"{policy.workflow}.findings", at.file, at.line))
    if failing:
        failure = SubElement(test, "failure", _said(finding.severity, finding.message))
        failure.text = visible(f"{at.file}:{at.line}:{at.column}: {finding.message}\n{finding.advice}", keep="\n")
    else:
        SubElement(test, "skipped", {"message": visible(f"{finding.severity}: {finding.message}; {finding.advice}")})


def _case(suite: Element, policy: Checked, case: Tried) -> None:
    test = SubElement(suite, "testcase", _test(case.name, f"{policy.workflow}.cases", case.at.file, case.at.line))
    if case.why is not None:
        failure = SubElement(test, "failure", _said("case-failed", case.why))
        failure.text = visible(f"{case.at.file}:{case.at.line}:{case.at.column}: {case.why}")


def _named(name: str) -> dict[str, str]:
    return {"name": visible(name)}


def _test(name: str, group: str, file: str, line: int) -> dict[str, str]:
    return {
        "name": visible(name),
        "classname": visible(group),
        "file": visible(file),
        "line": str(line),
        "time": "0",
    }


def _said(kind: str, message: str) -> dict[str, str]:
    return {"type": kind, "message": visible(message)}


_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def _count(suite: Element) -> None:
    suite.set("tests", str(len(suite)))
    for name, tag in _COUNTED.items():
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("time", "0")


def _total(root: Element) -> None:
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
