"""What a person decides: not the one who asks, as many as policy wants, about the calls that it says, once."""

from typing import Any

import pytest

from gateway.model.events import Who
from gateway.model.review import Refused
from tests import world
from tests.people import answer
from tests.runtime.house import House, house, refused

pytestmark = pytest.mark.anyio


async def decide(it: House, who: str, *, yes: bool = True) -> None:
    """That person answers the only request."""
    run = await it.book.state_of("run_1")
    approval = next(iter(run.approvals.values()))
    by = Who(tenant="local", id=who)
    await it.book.say(
        "run_1",
        lambda state, _, now: [answer(state, approval.id, approval.action, approve=yes, by=by, reason="r", now=now)],
    )


async def test_whoever_asks_may_not_answer() -> None:
    async with house(transitions=[{"name": "ask", "tools": ["write"], "approval": {}}]) as it:
        await it.call("write", {"n": 1})
        with pytest.raises(Refused, match=r"asked for .* and may not answer it"):
            await decide(it, world.USER.id)
        await decide(it, "local:boss")
        assert refused(await it.call("write", {"n": 1})) is None


async def test_two_different_people_must_agree_and_one_no_is_enough() -> None:
    async with house(transitions=[{"name": "ask", "tools": ["write"], "approval": {"quorum": 2}}]) as it:
        await it.call("write", {"n": 1})
        await decide(it, "local:ann")
        assert refused(await it.call("write", {"n": 1})) == ("needs_approval", "ask")
        with pytest.raises(Refused, match="has said yes"):
            await decide(it, "local:ann")
        await decide(it, "local:bob")
        assert refused(await it.call("write", {"n": 1})) is None
    async with house(transitions=[{"name": "ask", "tools": ["write"], "approval": {"quorum": 2}}]) as it:
        await it.call("write", {"n": 1})
        await decide(it, "local:ann")
        await decide(it, "local:bob", yes=False)
        assert refused(await it.call("write", {"n": 1})) == ("denied", "ask")


async def test_a_person_is_asked_only_about_the_calls_that_policy_says() -> None:
    approval = {"when": ["args.amount > 100"]}
    async with house(transitions=[{"name": "pay", "tools": ["pay"], "approval": approval}]) as it:
        assert refused(await it.call("pay", {"amount": 100})) is None
        assert refused(await it.call("pay", {"amount": 101})) == ("needs_approval", "pay")
        assert refused(await it.call("pay", {"other": 1})) == ("needs_approval", "pay"), (
            "what cannot be judged is asked"
        )


async def test_a_yes_to_what_one_transition_asked_is_none_to_another() -> None:
    fields: dict[str, Any] = {
        "phases": {"small": {}, "large": {}},
        "transitions": [
            {"name": "grow", "tools": ["write"], "to": "large"},
            {"name": "alone", "tools": ["pay"], "from": ["small"], "approval": {"self_review": True}},
            {"name": "two", "tools": ["pay"], "from": ["large"], "approval": {"quorum": 2}},
        ],
    }
    async with house(**fields) as it:
        assert refused(await it.call("pay", {"n": 1})) == ("needs_approval", "alone")
        await decide(it, world.USER.id)
        await it.call("write")
        assert refused(await it.call("pay", {"n": 1})) == ("needs_approval", "two")


async def test_a_budget_of_reviews_that_only_observes_spares_nobody_who_binds() -> None:
    ask: dict[str, Any] = {"name": "ask", "tools": ["write"], "approval": {}}
    async with house(mode="observe", budgets={"reviews": 0}, transitions=[ask | {"mode": "enforce"}]) as it:
        assert refused(await it.call("write")) == ("needs_approval", "ask")
    async with house(budgets={"reviews": 0}, transitions=[ask | {"mode": "observe"}]) as it:
        assert refused(await it.call("write")) is None, "nobody is asked, so nothing is spent"


async def test_while_a_person_has_still_to_answer_no_precondition_is_asked_again() -> None:
    fields: dict[str, Any] = {
        "verifiers": {"fine": {"probe": {"tool": "check"}, "pass": ["result.isError != true"]}},
        "transitions": [{"name": "ask", "tools": ["write"], "preconditions": ["fine"], "approval": {}}],
    }
    fields["verifiers"]["fine"]["pass"] = ["has(result.content)"]
    async with house(**fields) as it:
        for _ in range(3):
            assert refused(await it.call("write", {"n": 1})) == ("needs_approval", "ask")
        assert [one.tool.name for one in it.upstreams.sent] == ["check"]
        await decide(it, "local:boss")
        assert refused(await it.call("write", {"n": 1})) is None
        assert [one.tool.name for one in it.upstreams.sent] == ["check", "check", "write"]
