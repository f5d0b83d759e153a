"""What the reports of the steps come to, told so that the last lines say all: what was slow, not tested, flaky, failed.

`tell.py REPORTS` tells it. `tell.py REPORTS few STEP` says nothing and exits with 0 if tests of the step failed, and
in all steps together so few that they may be run once more. A step's report is STEP.xml, that of its second try
STEP.again.xml, both JUnit's in the family xunit1. Only the standard library: the environment of the project may be
broken.
"""

import sys
from pathlib import Path
from xml.etree import ElementTree as ET  # the reports are our own

MOST_TRIED_AGAIN = 3
SLOWEST = 10


def cases(report: Path) -> dict[str, ET.Element]:
    """Each test by the id that pytest takes; nothing where there is no whole report. One that failed twice is one."""
    try:
        found = list(ET.parse(report).iter("testcase"))  # noqa: S314 - as above
    except (FileNotFoundError, ET.ParseError):
        return {}
    # A test whose teardown failed as well is there twice: what failed counts.
    return {named(case): case for case in sorted(found, key=lambda case: problem(case) is not None)}


def named(case: ET.Element) -> str:
    """As in `pytest ID`."""
    file, within = case.get("file"), case.get("classname", "")
    if file is None or not within:  # what could not be collected
        return file or case.get("name", "?")
    classes = within.removeprefix(file.removesuffix(".py").replace("/", ".")).replace(".", "::")
    return f"{file}{classes}::{case.get('name')}"


def problem(case: ET.Element) -> ET.Element | None:
    """Why it failed, if it did."""
    failure = case.find("failure")
    return case.find("error") if failure is None else failure


def why(case: ET.Element) -> str:
    """The first line of what was wrong, and the last line of where."""
    found = problem(case)
    if found is None:
        return ""
    lines = [line.strip() for line in (found.text or "").splitlines() if line.strip()]
    first = next(iter((found.get("message") or "").splitlines()), "")
    return " | ".join(dict.fromkeys(filter(None, (first[:300], *lines[-1:]))))


def failed(tests: dict[str, ET.Element]) -> set[str]:
    """Their ids."""
    return {name for name, case in tests.items() if problem(case) is not None}


def first_tries(reports: Path) -> dict[str, ET.Element]:
    """The tests of all steps."""
    steps = sorted(path for path in reports.glob("*.xml") if "." not in path.stem)
    return {name: case for step in steps for name, case in cases(step).items()}


def told(reports: Path) -> list[str]:
    """The last lines, what failed at the very end."""
    tests = first_tries(reports)
    again = {name: case for path in reports.glob("*.again.xml") for name, case in cases(path).items()}
    red = failed(tests)
    flaky = sorted(red & (set(again) - failed(again)))
    skipped = [
        (name, skip.get("message")) for name, case in tests.items() if (skip := case.find("skipped")) is not None
    ]
    slowest = sorted(tests, key=lambda name: -float(tests[name].get("time", 0)))[:SLOWEST]
    lost = sorted(red - set(flaky))
    return [
        f"the {len(slowest)} slowest tests:",
        *(f"  {float(tests[name].get('time', 0)):5.1f} s  {name}" for name in slowest),
        *([f"!!! {len(skipped)} NOT TESTED:"] if skipped else []),
        *(f"!!!   {name}: {message}" for name, message in skipped),
        f"{len(tests) - len(skipped) - len(lost)} passed, {len(lost)} failed, {len(skipped)} skipped",
        *(f"!!! FLAKY: {name}: {why(tests[name])}" for name in flaky),
        *(f"!!! FAILED: {name}: {why(tests[name])}" for name in lost),
    ]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    match sys.argv[2:]:
        case ["few", name]:
            few = len(failed(first_tries(folder))) <= MOST_TRIED_AGAIN
            sys.exit(not (few and failed(cases(folder / f"{name}.xml"))))
        case _:
            print("\n".join(told(folder)))
