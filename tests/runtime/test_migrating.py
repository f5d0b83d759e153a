"""A run goes on under the text of its policy that it began with, unless a newer one takes over running runs."""

from typing import Any

import pytest

from gateway.model.tool import Silence
from gateway.runtime.policies import unfit
from tests import world
from tests.runtime.house import House, house

pytestmark = pytest.mark.anyio

FORBID: dict[str, Any] = {"forbid": [{"name": "no", "tools": ["write"]}]}


async def outcome(it: House, n: int) -> str:
    shown = await it.call("write", {"n": n})
    return "passed" if shown.refusal is None else str(shown.refusal.outcome)


async def kinds(it: House) -> list[str]:
    return [record.event.kind for record, _ in await it.ledger.read("run_1")]


async def test_a_run_keeps_the_text_under_which_it_began() -> None:
    async with house() as it:
        assert await outcome(it, 1) == "passed"
        it.book.policies.replace({"test": world.policy(**FORBID)})
        assert await outcome(it, 2) == "passed"
        await it.open("run_2")
        assert (await it.call("write", {"n": 3}, run="run_2")).refusal is not None


async def test_a_newer_text_takes_over_where_it_says_so_in_the_step_that_is_judged_by_it() -> None:
    async with house() as it:
        assert await outcome(it, 1) == "passed"
        newer = world.policy(**FORBID, migrate=True)
        it.book.policies.replace({"test": newer})
        assert await outcome(it, 2) == "denied"
        assert (await kinds(it))[-2:] == ["run.migrated", "proposal.denied"]
        run = await it.book.state_of("run_1")
        assert run.policy == it.book.policies.current().digest
        assert await it.ledger.payload(run.policy or "") is not None
        assert await outcome(it, 3) == "denied"
        assert (await kinds(it)).count("run.migrated") == 1


async def test_nothing_that_is_unsettled_changes_its_policy() -> None:
    async with house() as it:
        it.upstreams.will("write", Silence("gone"))
        await it.call("write", {"n": 1})
        it.book.policies.replace({"test": world.policy(**FORBID, migrate=True)})
        assert await outcome(it, 2) == "passed"
        assert "run.migrated" not in await kinds(it)


async def test_a_run_whose_phase_is_no_more_stays_where_it_is() -> None:
    async with house(phases={"open": {}, "two": {}}) as it:
        it.book.policies.replace({"test": world.policy(**FORBID, phases={"two": {}}, migrate=True)})
        assert await outcome(it, 2) == "passed"


async def test_a_run_that_is_open_can_be_opened_again_when_its_workflow_is_loaded_no_more() -> None:
    async with house() as it:
        other = world.policy(workflow="other")
        it.book.policies.replace({"test": world.policy(), "other": other})
        opening: dict[str, Any] = {"principal": world.USER, "origin": "token", "attribution": {}, "workflow": "other"}
        await it.engine.open_run(run="run_2", **opening)
        it.book.policies.replace({"test": world.policy()})
        assert (await it.engine.open_run(run="run_2", **opening)).workflow == "other"
        assert (await it.call("write", {"n": 1}, run="run_2")).refusal is None


def test_what_does_not_fit_the_tools_of_the_servers_is_told() -> None:
    policy = world.policy(transitions=[{"name": "any", "tools": ["clock__now"], "when": ['args.zon == "UTC"']}])
    schema = {"type": "object", "properties": {"zone": {"type": "string"}}}
    assert list(unfit(policy, [{"name": "clock__now", "inputSchema": schema}])) == [
        "transitions.0.when.0: the tool `clock__now` takes no argument `zon` (did you mean `zone`?)"
    ]
    assert list(unfit(policy, [{"name": "clock__other", "inputSchema": schema}])) == []


def proving(**more: Any) -> dict[str, Any]:
    """A policy whose writes are proven by a probe, but for a phase that nothing leads to."""
    return {
        "phases": {"open": {}, "two": {}},
        "transitions": [
            {"name": "w", "tools": ["write"], "verify": "t"},
            {"name": "r", "tools": ["read"], "to": "two"},
        ],
        "verifiers": {"t": {"probe": {"tool": "check"}, "pass": ["true"]}},
        "success": {"evidence": ["t"], "phase": "two"},
        **more,
    }


STRICTER: Any = {"t": {"probe": {"tool": "check"}, "pass": ["result.structuredContent.exit == 0"]}}


@pytest.mark.parametrize(
    ("more", "counts"), [({}, True), ({"verifiers": STRICTER}, False), ({"values": {"least": 3}}, False)]
)
async def test_what_a_verifier_proved_counts_no_more_once_it_asks_for_something_else(
    more: dict[str, Any], *, counts: bool
) -> None:
    async with house(**proving()) as it:
        assert await outcome(it, 1) == "passed"
        it.book.policies.replace({"test": world.policy(**proving(**more, migrate=True, description="newer"))})
        await it.call("read")
        assert "run.migrated" in await kinds(it)
        run = await it.book.state_of("run_1")
        assert (run.evidence["t"].fresh, run.stopped is not None) == (counts, counts)
