"""Test commands that are green for no reason: what tested nothing has proven nothing, and what failed has failed."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lies.lived import Lived, lived

pytestmark = pytest.mark.anyio

PASSED, FAILED = '<testcase name="a"/>', '<testcase name="a"><failure/></testcase>'
SKIPPED = '<testcase name="a"><skipped/></testcase><testcase name="b" status="notrun"/>'


def runner(tests: str | None, code: int, sums: str = "") -> list[str]:
    """A command that reports so, and ends so."""
    report = f"open('report.xml', 'w').write('<testsuite {sums}>{tests}</testsuite>');" if tests is not None else ""
    return [sys.executable, "-I", "-S", "-c", f"{report} raise SystemExit({code})"]


def proving(run: list[str], **said: Any) -> dict[str, Any]:
    """A workflow that is done once its tests pass."""
    return {
        "phases": {"open": {}, "done": {"verify": "tests", "accept": "independent"}},
        "transitions": [{"name": "put", "tools": ["put"], "to": "done"}],
        "verifiers": {"tests": {"command": {"place": "shop", "run": run, **said}}},
        "success": {"evidence": ["tests"], "phase": "done"},
    }


async def found_by(it: Lived) -> list[tuple[str, str]]:
    """What the verifier said, and how the run ended, after a change and two claims."""
    await it.put(None)
    for wait_s in (0.0, 11.0):
        it.house.clock.tell(wait_s)
        await it.finish()
    said = [(one.verdict, one.says) for one in await it.events("evidence.recorded")]
    ended = [(str(one.outcome), "") for one in await it.events("run.stopped")]
    return [*dict.fromkeys(said), *ended]


@pytest.mark.parametrize(
    ("run", "verdict", "says"),
    [
        (runner("", 0), "inconclusive", "could not judge: 0 of 0 tests ran, and 1 must"),
        (runner("", 0, 'tests="5" failures="0"'), "inconclusive", "could not judge: 0 of 0 tests ran, and 1 must"),
        (runner(SKIPPED, 0), "inconclusive", "could not judge: 0 of 2 tests ran, and 1 must"),
        (runner(None, 0), "inconclusive", "could not judge: it has written no report (`report.xml`) that can be read"),
        (runner(PASSED, 1), "fail", "found that the exit code is 1, not 0"),
        (runner(FAILED, 0, 'failures="0"'), "fail", "found that 1 of 1 tests failed: `a`"),
    ],
    ids=["no test", "no test, and sums that lie", "all skipped", "no report", "green, exit red", "red, exit green"],
)
async def test_what_is_green_for_no_reason_is_no_success(
    tmp_path: Path, run: list[str], verdict: str, says: str
) -> None:
    async with lived(tmp_path, **proving(run, junit="report.xml")) as it:
        assert await found_by(it) == [(verdict, f"`tests` {says}")]
        assert (await it.run()).phase == "open"


async def test_one_test_that_ran_and_passed_is_one(tmp_path: Path) -> None:
    async with lived(tmp_path, **proving(runner(PASSED, 0), junit="report.xml")) as it:
        assert await found_by(it) == [("pass", "`tests` passed"), ("verified_success", "")]
    few = {"junit": "report.xml", "least_tests": 2}
    async with lived(tmp_path / "few", **proving(runner(PASSED, 0), **few)) as it:
        assert [verdict for verdict, _ in await found_by(it)] == ["inconclusive"]


async def test_without_a_report_the_exit_code_is_all_that_there_is(tmp_path: Path) -> None:
    """As the docs say: a run that skipped every test is green then."""
    async with lived(tmp_path, **proving(runner(SKIPPED, 0))) as it:
        assert [verdict for verdict, _ in await found_by(it)] == ["pass", "verified_success"]
