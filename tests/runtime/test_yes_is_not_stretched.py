"""Nothing that an agent spells, times or leaves to others makes a yes go further than the person who gave it said."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.model.alike import alike_digest
from gateway.model.answer import Shown
from gateway.model.canonical import digest
from gateway.model.proposal import Resume
from gateway.model.review import Refused, Reviewer
from gateway.model.tool import InputRequired, ToolResult
from gateway.outbound.ledger.memory import MemoryLedger
from tests import world
from tests.audit.ledgers import found, verified
from tests.runtime.house import outcome
from tests.runtime.office import ANN, BOB, Office, asking, office
from tests.runtime.undoing import POLICY, upstreams

LOOK = {"probe": {"tool": "read"}, "pass": ["true"], "scope_from": {"rev": "result.structuredContent.rev"}}
SLOW = {"probe": {"tool": "check"}, "pass": ["true"]}


@pytest.mark.parametrize(
    ("seen", "asked"),
    [
        ({"to": "alice", "n": 1}, {"but": ["n"], "arguments": {"to": "alice"}}),
        ({"but": ["n"], "arguments": {"to": "mallory"}}, {"to": "mallory", "n": 9999}),
        ({"to": "alice"}, {"to": "alice", "n": 9999}),
        ({"to": "alice", "n": 1}, {"to": "alice"}),
    ],
)
async def test_a_yes_beyond_one_call_is_for_arguments_of_those_names(seen: Any, asked: Any) -> None:
    async with office(transitions=asking(reuse={"times": 5, "varies": ["n"]})) as it:
        await it.calls(seen)
        await it.says(times=5)
        assert (await it.calls(asked), it.sent) == ("needs_approval", 0)


async def test_what_the_run_itself_changed_after_a_look_is_looked_at_again() -> None:
    async with office(transitions=asking(unchanged=["head", "slow"]), verifiers={"head": LOOK, "slow": SLOW}) as it:
        state: dict[str, Any] = {"rev": "a"}
        inside, go = asyncio.Event(), asyncio.Event()

        async def looks(_: Any) -> ToolResult:
            return ToolResult({"content": [], "structuredContent": dict(state)})

        async def slowly(_: Any) -> ToolResult:
            inside.set()
            await go.wait()
            return ToolResult({"content": [], "structuredContent": {}})

        async def pays(_: Any) -> ToolResult:
            state["rev"] = "b"
            return ToolResult({"content": [], "structuredContent": {}})

        it.it.upstreams.always = {"read": looks, "check": slowly, "pay": pays}  # type: ignore[dict-item]
        go.set()
        await it.calls()
        await it.says()
        inside.clear()
        go.clear()
        calling = asyncio.ensure_future(it.it.call("write", {"n": 1}))
        await inside.wait()
        assert outcome(await it.it.call("pay", {"n": 1})) == "result"
        go.set()
        assert (outcome(await calling), it.sent) == ("needs_approval", 0)


async def resumed(it: Office, shown: Shown, arguments: dict[str, Any]) -> str:
    """What comes of the next round of the call."""
    more: dict[str, Any] = {"inputResponses": {"q": {"action": "accept"}}, "requestState": "inner"}
    salt = it.it.ledger.salt
    assert shown.attempt is not None
    assert shown.round is not None
    proposed = replace(
        world.proposal("write", arguments),
        arguments_digest=digest(arguments, salt),
        alike=alike_digest(arguments, salt),
        more=more,
        resumes=Resume(shown.attempt, shown.round, digest(more, salt)),
    )
    return outcome(await it.it.engine.call(proposed, world.PatientCaller()))


@pytest.mark.parametrize("what", ["nothing", "the state", "the time", "the tool"])
async def test_the_next_round_of_a_call_is_under_the_yes_of_the_first(what: str) -> None:
    async with office(transitions=asking(unchanged=["head"], expires_s=60), verifiers={"head": LOOK}) as it:
        state: dict[str, Any] = {"rev": "a"}

        async def looks(_: Any) -> ToolResult:
            return ToolResult({"content": [], "structuredContent": dict(state)})

        it.it.upstreams.always = {"read": looks}  # type: ignore[dict-item]
        it.it.upstreams.will("write", InputRequired({"resultType": "input_required", "inputRequests": {}}))
        await it.calls()
        await it.says()
        shown = await it.it.call("write", {"n": 1})
        if what == "the state":
            state["rev"] = "b"
        if what == "the time":
            it.it.clock.tell(61)
        if what == "the tool":
            other = world.tool("write")
            it.it.upstreams.offer(replace(other, definition={**other.definition, "description": "deletes all"}))
        came = await resumed(it, shown, {"n": 1})
        assert (came, it.sent) == (("result", 2) if what == "nothing" else ("denied", 1))


async def test_several_who_agree_let_it_go_as_far_as_the_least_of_them_and_from_the_last_on() -> None:
    reuse = {"times": 5, "for_s": 100}
    async with office(
        transitions=asking(quorum=2, reuse=reuse), tools={"write": {"effect": "write", "repeat": "new"}}
    ) as it:
        await it.calls()
        await it.says(times=5, for_s=10)
        it.it.clock.tell(60)
        assert (await it.says(by=BOB, times=2, for_s=100)).decision == "approved"
        it.it.clock.tell(9)
        assert [await it.calls() for _ in range(3)] == ["result", "result", "needs_approval"]


@pytest.mark.parametrize("decision", ["rejected", "returned"])
async def test_what_was_turned_down_is_not_asked_again_in_another_spelling(decision: str) -> None:
    async with office() as it:
        await it.calls({"n": 1})
        await it.says(decision)
        assert await it.calls({"n": 1.0}) == "denied"
        it.it.upstreams.will("read", ToolResult({"content": [], "isError": True}))
        await it.it.call("read")
        assert await it.calls({"n": 1}) == "denied", "an error is no evidence"
        assert len((await it.it.book.state_of("run_1")).approvals) == 1


async def test_a_question_under_a_policy_that_was_replaced_is_not_answered_and_is_asked_anew() -> None:
    ledger, clock = MemoryLedger(), world.ToldClock()
    async with office(ledger, clock, migrate=True) as it:
        await it.calls()
        old = await it.asked()
    async with office(ledger, clock, migrate=True, description="another") as it:
        assert await it.refused(of=old.id) == "decided"
        assert await it.calls() == "needs_approval"
        assert (await it.asked(old.id)).decision == "superseded"
        assert (await it.desk.inbox(ANN)).total == 1


async def test_an_answer_that_goes_too_far_is_refused() -> None:
    async with office(transitions=asking(reuse={"times": 2, "for_s": 60})) as it:
        await it.calls()
        for too_far in ({"times": 3}, {"times": 0}, {"times": 2, "for_s": 61}, {"for_s": 1e300}, {"for_s": 0}):
            assert await it.refused(**too_far) == "reuse"


async def test_the_gateways_own_questions_are_not_the_agents() -> None:
    """An agent that asks for the very call that would undo something neither uses that yes up nor takes it back."""
    ask = {"name": "refund", "tools": ["refund"], "approval": {}}
    rules = [ask, *(one for one in POLICY["transitions"] if one["name"] != "refund")]
    async with office(upstreams=upstreams(), **{**POLICY, "transitions": rules}) as it:
        it.it.upstreams.will("check", ToolResult({"content": [], "structuredContent": {"paid": False}}))
        await it.it.call("pay", {"amount": 4, "to": "x"})
        await it.it.engine.undoer.sweep()
        run = await it.it.book.state_of("run_1")
        asked = [one for one in run.approvals.values() if one.undoes is not None]
        with pytest.raises(Refused, match="the gateway itself asks"):
            await it.desk.withdraw(asked[0].id, Reviewer("local", world.USER.id).who, "")
        assert await it.refused("returned", of=asked[0].id) == "state"


async def test_who_ends_a_run_with_something_to_be_undone_leaves_it_to_a_person() -> None:
    ledger = MemoryLedger()
    rules = [{"name": "rest", "tools": ["*"], "verify": "t", "compensation": {"tool": "refund"}}]
    look = {"probe": {"tool": "check"}, "pass": ["false"]}
    async with office(ledger, transitions=rules, verifiers={"t": look}) as it:
        await it.it.call("write", {"n": 1})
        run = await it.it.book.state_of("run_1")
        assert run.owed
        await it.desk.stop_run("run_1", BOB, "enough")
        run = await it.it.book.state_of("run_1")
        assert not run.owed
        (row,) = (await it.desk.inbox(ANN)).rows
        assert (row.about, row.name) == ("run", "run_1")
        await it.desk.acknowledge("run_1", ANN, "refunded by hand")
        it.it.clock.tell(2)
        assert (await it.desk.inbox(ANN)).total == 0
    assert found(await verified(ledger, keys=[])) == []


async def test_who_comes_from_elsewhere_does_not_settle_what_acts_for_themselves() -> None:
    async with office() as it:
        himself = Reviewer("local", world.USER.id, via="oidc")
        with pytest.raises(Refused) as caught:
            await it.desk.stop_run("run_1", himself, "mine")
        assert caught.value.check == "self_review"


async def test_a_yes_that_may_still_be_used_is_taken_back() -> None:
    ledger = MemoryLedger()
    terms = asking(role="boss", reuse={"times": 5})
    async with office(ledger, transitions=terms, tools={"write": {"effect": "write", "repeat": "new"}}) as it:
        await it.calls()
        assert await it.refused("revoked") == "decided", "nothing was given yet"
        await it.says(times=5)
        assert await it.calls() == "result"
        assert await it.refused("revoked", by=Reviewer("local", "local:cyd")) == "role"
        assert await it.refused("rejected") == "decided", "a no that comes late is none"
        assert (await it.says("revoked", reason="a mistake")).decision == "revoked", "also by who gave it"
        assert [await it.calls(), await it.calls()] == ["denied", "denied"]
        assert (await it.refused("revoked"), it.sent) == ("decided", 1)
        await it.calls({"n": 2})
        await it.says()
        assert await it.calls({"n": 2}) == "result"
        assert await it.refused("revoked") == "decided", "it is used up"
    assert found(await verified(ledger, keys=[])) == []
