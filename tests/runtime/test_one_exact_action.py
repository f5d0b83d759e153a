"""A yes is for one exact action as it was shown, and void once what it rested on is otherwise."""

from collections.abc import Sequence
from typing import Any

import pytest

from gateway.model.events import Outcome
from gateway.model.review import Refused, Reviewer
from gateway.model.tool import Silence, ToolResult
from gateway.outbound.ledger.memory import MemoryLedger
from tests import world
from tests.audit.ledgers import found, verified
from tests.runtime.office import ANN, ASK, asking, office

# --- one exact action -------------------------------------------------------------------------------------------------


async def test_other_arguments_need_another_yes() -> None:
    async with office() as it:
        await it.calls({"to": "alice", "n": 1})
        first = await it.says()
        assert await it.calls({"to": "mallory", "n": 1}) == "needs_approval"
        assert ((await it.asked()).follows, it.sent) == (first.id, 0)
        assert await it.calls({"to": "alice", "n": 1.0}) == "needs_approval", "1.0 is not what was seen"
        assert (await it.calls({"to": "alice", "n": 1}), it.sent) == ("result", 1)


async def test_a_newer_proposal_for_the_same_object_takes_the_place_of_the_older() -> None:
    tools = {"write": {"effect": "write", "objects": ["args.path"]}}
    async with office(tools=tools) as it:
        await it.calls({"path": "a", "text": "1"})
        older = await it.asked()
        await it.calls({"path": "b", "text": "1"})
        assert (await it.asked(older.id)).decision is None
        await it.calls({"path": "a", "text": "2"})
        newer = await it.asked()
        assert ((await it.asked(older.id)).decision, (await it.asked(older.id)).by) == ("superseded", newer.id)
        assert await it.refused(of=older.id) == "decided"
        await it.says(of=newer.id)
        await it.calls({"path": "a", "text": "3"})
        assert (await it.asked(newer.id)).decision == "superseded", "also what was agreed to"
        assert await it.calls({"path": "a", "text": "2"}) == "needs_approval"
        assert it.sent == 0


async def test_a_yes_is_void_once_what_it_rested_on_has_changed() -> None:
    look = {"probe": {"tool": "read"}, "pass": ["true"], "scope_from": {"rev": "result.structuredContent.rev"}}
    async with office(transitions=asking(unchanged=["head"]), verifiers={"head": look}) as it:
        state: dict[str, Any] = {"rev": "a", "noise": 1}

        async def looks(_: Any) -> ToolResult:
            return ToolResult({"content": [], "structuredContent": dict(state)})

        it.it.upstreams.always = {"read": looks}  # type: ignore[dict-item]
        await it.calls()
        first = await it.says()
        state["noise"] = 2
        assert (await it.calls(), it.sent) == ("result", 1)
        await it.calls({"n": 2})
        second = await it.says()
        state["rev"] = "b"
        assert (await it.calls({"n": 2}), it.sent) == ("needs_approval", 1)
        again = await it.asked()
        assert (await it.asked(second.id)).decision == "superseded"
        event = next(one.event for one, _ in await it.it.ledger.read("run_1") if one.seq == again.seq)
        assert event.because == f"what `head` sees has changed since `{second.id}` was asked, so its yes is void"
        await it.says()
        it.it.upstreams.always = {"read": Silence("away")}
        assert (await it.calls({"n": 2}), it.sent) == ("denied", 1), "nobody can say whether it is as it was"
        assert first.id != again.id


async def test_a_yes_is_void_once_the_evidence_that_was_shown_holds_no_more() -> None:
    look = {"probe": {"tool": "check"}, "pass": ["true"], "covers": ["pay"]}
    rules = [
        {**ASK, "tools": ["write"]},
        {"name": "prove", "tools": ["read"], "verify": "t"},
        {"name": "rest", "tools": ["*"]},
    ]
    async with office(transitions=rules, verifiers={"t": look}) as it:
        await it.it.call("read")
        assert (await it.it.book.state_of("run_1")).evidence["t"].holds
        await it.calls()
        await it.says()
        await it.it.call("pay", {"n": 1})
        assert (await it.calls(), it.sent) == ("needs_approval", 0)
        assert (await it.asked()).holding == ()


async def test_another_text_of_the_policy_asks_anew() -> None:
    ledger, clock = MemoryLedger(), world.ToldClock()
    async with office(ledger, clock, migrate=True) as it:
        await it.calls()
        await it.says()
    async with office(ledger, clock, migrate=True, description="another") as it:
        assert (await it.calls(), it.sent) == ("needs_approval", 0)
    assert found(await verified(ledger, keys=[])) == []


# --- more evidence, taken back, further than one call -----------------------------------------------------------------


async def test_what_is_returned_is_asked_again_once_there_is_more_evidence() -> None:
    async with office() as it:
        await it.calls()
        first = await it.says("returned", reason="run the tests first")
        for _ in range(2):
            shown = await it.it.call("write", {"n": 1})
            assert shown.refusal is not None
            assert (shown.refusal.outcome, "run the tests first" in shown.refusal.reason) == (Outcome.DENIED, True)
        await it.it.call("read")
        assert await it.calls() == "needs_approval"
        again = await it.asked()
        assert again.id != first.id
        await it.says()
        assert (await it.calls(), it.sent) == ("result", 1)


async def test_whoever_asked_takes_the_question_back() -> None:
    async with office() as it:
        await it.calls()
        asked = await it.asked()
        who = Reviewer("local", world.USER.id).who
        with pytest.raises(Refused, match="asked no question"):
            await it.desk.withdraw(asked.id, ANN.who, "")
        assert (await it.desk.withdraw(asked.id, who, "cancelled")).decision == "withdrawn"
        assert await it.refused(of=asked.id) == "decided"
        with pytest.raises(Refused, match="is over"):
            await it.desk.withdraw(asked.id, who, "")
        assert (await it.calls(), it.sent) == ("needs_approval", 0)
        assert (await it.asked()).id != asked.id


@pytest.mark.parametrize(
    ("reuse", "said", "allowed"),
    [
        ({"for_s": 1800}, {"times": None}, [{"n": 1}] * 3),
        ({"times": 2}, {"times": 2}, [{"n": 1}] * 2),
        ({"times": 3, "varies": ["n"], "within": ["args.n < 100"]}, {"times": None}, [{"n": 1}, {"n": 99}, {"n": 7}]),
    ],
)
async def test_a_yes_goes_as_far_as_policy_and_reviewer_let_it(
    reuse: dict[str, Any], said: dict[str, Any], allowed: Sequence[dict[str, Any]]
) -> None:
    async with office(transitions=asking(reuse=reuse), tools={"write": {"effect": "write", "repeat": "new"}}) as it:
        await it.calls(allowed[0])
        await it.says(**said)
        for arguments in allowed:
            assert await it.calls(arguments) == "result"
        if "within" in reuse or "times" in reuse:
            assert await it.calls({"n": 8}) == "needs_approval", "it is used up, or for that call alone"
        else:
            it.it.clock.tell(1801)
            assert await it.calls(allowed[0]) == "needs_approval"
        assert it.sent == len(allowed)


async def test_a_yes_beyond_one_call_ends_at_what_it_was_allowed_within() -> None:
    reuse = {"times": 5, "varies": ["n"], "within": ["args.n < 100"]}
    async with office(transitions=asking(reuse=reuse)) as it:
        await it.calls({"to": "a", "n": 1})
        await it.says(times=5)
        for arguments in ({"to": "a", "n": 100}, {"to": "b", "n": 1}, {"to": "a"}):
            assert await it.calls(arguments) == "needs_approval"
        assert it.sent == 0


async def test_a_yes_for_one_call_is_for_that_very_call_whatever_may_vary() -> None:
    async with office(transitions=asking(reuse={"times": 5, "varies": ["n"]})) as it:
        await it.calls({"n": 1})
        await it.says()
        assert await it.calls({"n": 2}) == "needs_approval"
        assert (await it.calls({"n": 1}), it.sent) == ("result", 1)
