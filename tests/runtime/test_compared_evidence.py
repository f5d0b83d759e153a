"""A verifier compares what it sees with what the run has proven before."""

from typing import Any

import pytest

from gateway.model.answer import Shown
from gateway.model.tool import ToolResult
from tests import world
from tests.runtime.house import house

pytestmark = pytest.mark.anyio

POLICY: dict[str, Any] = {
    "annotations": "trust",
    "tools": {"test": {"effect": "read"}, "head": {"effect": "read"}},
    "verifiers": {
        "tests": {
            "probe": {"tool": "test"},
            "pass": ["true"],
            "scope_from": {"revision": "result.structuredContent.revision"},
        },
        "same": {
            "probe": {"tool": "head"},
            "pass": ["result.structuredContent.revision == evidence.tests.scope.revision"],
        },
    },
    "transitions": [
        {"name": "test", "tools": ["test"], "verify": "tests"},
        {"name": "push", "tools": ["push"], "preconditions": ["same"]},
    ],
}


def revision(name: str) -> ToolResult:
    return world.ok(structuredContent={"revision": name})


def outcome(shown: Shown) -> str:
    return "result" if shown.refusal is None else str(shown.refusal.outcome)


@pytest.mark.parametrize(
    ("head", "expected"),
    [(revision("a"), "result"), (revision("b"), "denied"), (world.ok(), "denied")],
    ids=["the same", "another", "none that can be told"],
)
async def test_a_precondition_holds_if_the_world_is_as_it_was_proven(head: ToolResult, expected: str) -> None:
    upstreams = world.ScriptedUpstreams()
    upstreams.offer(*(world.tool(name) for name in ("test", "head", "push")))
    upstreams.will("test", revision("a"), revision("a"))
    upstreams.will("head", head)
    async with house(upstreams=upstreams, **POLICY) as it:
        assert outcome(await it.call("test")) == "result"
        assert outcome(await it.call("push")) == expected


async def test_what_was_not_proven_compares_with_nothing() -> None:
    upstreams = world.ScriptedUpstreams()
    upstreams.offer(*(world.tool(name) for name in ("test", "head", "push")))
    upstreams.will("head", revision("a"))
    async with house(upstreams=upstreams, **POLICY) as it:
        shown = await it.call("push")
        assert outcome(shown) == "denied"
        assert shown.refusal is not None
        assert "`evidence.tests` is missing" in shown.refusal.reason
