"""A repair as `policies/repo-repair.yaml` sees it, from the first look to the end, through the engine."""

from typing import Any

import pytest

from gateway.model.answer import Shown
from gateway.model.tool import ToolResult
from tests import world
from tests.policy.test_shipped_policies import POLICIES
from tests.runtime.house import House, house

pytestmark = pytest.mark.anyio

POLICY: dict[str, Any] = POLICIES["repo-repair"].model_dump(mode="json", by_alias=True)
TOOLS = ("fs__read_text_file", "fs__edit_file", "runner__run_tests", "git__git_add", "git__git_commit", "git__git_push")


def report(*, exit_code: int, tests: int) -> ToolResult:
    return world.ok(structuredContent={"exit_code": exit_code, "tests": tests})


def upstreams(*reports: ToolResult) -> world.ScriptedUpstreams:
    """The three servers; the runner gives these reports in turn, to the agent and to the verifier alike."""
    made = world.ScriptedUpstreams()
    made.offer(*(world.tool(name) for name in TOOLS))
    made.will("runner__run_tests", *reports)
    return made


def told(shown: Shown) -> tuple[str, str]:
    """What the call came to, and the phase after it."""
    if shown.refusal is not None:
        return str(shown.refusal.outcome), shown.refusal.phase
    assert shown.record is not None
    return "result", str(shown.record["phase"])


async def walk(it: House, *calls: tuple[str, dict[str, Any]]) -> list[tuple[str, str]]:
    return [told(await it.call(name, arguments)) for name, arguments in calls]


FAIL, PASS, EMPTY = report(exit_code=1, tests=4), report(exit_code=0, tests=4), report(exit_code=0, tests=0)
LOOK = ("fs__read_text_file", {"path": "app.py"})
EDIT = ("fs__edit_file", {"path": "app.py", "edits": [1]})
EDIT_AGAIN = ("fs__edit_file", {"path": "app.py", "edits": [2]})
TEST: tuple[str, dict[str, Any]] = ("runner__run_tests", {})
ADD = ("git__git_add", {"repo_path": ".", "files": ["app.py"]})
COMMIT = ("git__git_commit", {"repo_path": ".", "message": "Repair"})


async def test_a_repair_goes_from_looking_to_a_proven_commit_and_is_over() -> None:
    async with house(upstreams=upstreams(FAIL, PASS, PASS), **POLICY) as it:
        assert await walk(it, LOOK, TEST, EDIT, TEST, ADD, COMMIT, LOOK) == [
            ("result", "inspect"),
            ("result", "inspect"),
            ("result", "change"),
            ("result", "check"),
            ("result", "check"),
            ("result", "done"),
            ("verified_success", "done"),
        ]


async def test_the_agents_own_test_run_proves_nothing_if_the_verifier_sees_them_fail() -> None:
    async with house(upstreams=upstreams(PASS, FAIL), **POLICY) as it:
        assert await walk(it, EDIT, TEST, COMMIT) == [
            ("result", "change"),
            ("verification_failed", "change"),
            ("denied", "change"),
        ]


async def test_a_run_without_tests_is_no_proof() -> None:
    async with house(upstreams=upstreams(EMPTY, EMPTY), **POLICY) as it:
        assert await walk(it, EDIT, TEST) == [("result", "change"), ("verification_failed", "change")]


async def test_an_edit_after_the_proof_takes_the_run_back() -> None:
    async with house(upstreams=upstreams(PASS, PASS, PASS, PASS), **POLICY) as it:
        assert await walk(it, EDIT, TEST, EDIT_AGAIN, COMMIT, TEST, COMMIT) == [
            ("result", "change"),
            ("result", "check"),
            ("result", "change"),
            ("denied", "change"),
            ("result", "check"),
            ("result", "done"),
        ]


async def test_a_push_ends_the_run_whatever_has_been_proven() -> None:
    async with house(upstreams=upstreams(PASS, PASS), **POLICY) as it:
        assert await walk(it, EDIT, TEST, ("git__git_push", {}), LOOK) == [
            ("result", "change"),
            ("result", "check"),
            ("policy_denied", "check"),
            ("policy_denied", "check"),
        ]


async def test_tests_that_fail_five_times_end_the_run() -> None:
    async with house(upstreams=upstreams(*[FAIL] * 10), **POLICY) as it:
        outcomes = [outcome for outcome, _ in await walk(it, EDIT, *[TEST] * 5, LOOK)]
        assert outcomes == ["result", *["verification_failed"] * 5, "repeated_state"]
