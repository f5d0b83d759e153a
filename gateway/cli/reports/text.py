"""For people: a line for each thing that was found, what to do about it below, and one line that says how it went."""

from collections.abc import Iterator

from rich.text import Text

from gateway.cli.plain import counted, visible
from gateway.cli.reports.report import Report, Spot

_STYLES = {"error": "bold red", "failed": "bold red", "warning": "bold yellow", "note": "bold blue"}


def text(report: Report) -> Iterator[Text]:
    """The report, line by line."""
    for problem in report.problems:
        spot = Spot(problem.file, problem.line, problem.column, problem.path)
        path = f"{problem.path}: " if problem.path else ""
        yield _line(spot, "error", path + problem.message)
    for policy in report.policies:
        for finding in policy.findings:
            yield _line(finding.at, finding.severity, finding.message, finding.code)
            yield Text(visible(f"    {finding.advice}"))
        for case in policy.cases:
            if case.why is not None:
                yield _line(case.at, "failed", f"case `{case.name}`: {case.why}")
        held, total = sum(case.why is None for case in policy.cases), len(policy.cases)
        yield Text(f"{policy.workflow}: {f'{held} of {total} cases hold' if total else 'no cases'}")
    yield Text(_summary(report), style="bold red" if report.exit_code else "bold green")


def _line(spot: Spot, kind: str, message: str, code: str = "") -> Text:
    parts = [
        (visible(f"{spot.file}:{spot.line}:{spot.column}: "), "bold"),
        (f"{kind}: ", _STYLES[kind]),
        (visible(message), ""),
        (f" [{code}]" if code else "", "dim"),
    ]
    return Text.assemble(*parts)


def _summary(report: Report) -> str:
    if report.problems:
        return f"{counted(len(report.problems), 'mistake')}; nothing was run"
    total, failed = len(report.cases), len(report.failed)
    held = f"{counted(total, 'case')} held" if total else "no cases"
    cases = f"{failed} of {total} cases failed" if failed else held
    weighed = [counted(number, kind) for kind in ("error", "warning", "note") if (number := report.count(kind))]
    policies = f"{len(report.policies)} {'policy' if len(report.policies) == 1 else 'policies'}"
    strict = "; warnings count as errors" if report.strict and report.count("warning") else ""
    return f"{policies}: {cases}; {', '.join(weighed) or 'nothing found'}{strict}"
