"""An agent says that it is done: what can still be asked is asked, and evidence decides."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.model.finish import Finish
from gateway.model.party import Party
from gateway.model.principal import Parent, Principal
from gateway.model.tool import Answer, NotSent, Silence
from gateway.ports import Dispatch, NoSuchRun
from tests import world
from tests.runtime.house import House, house, outcome
from tests.runtime.undoing import POLICY as UNDOABLE
from tests.runtime.undoing import undoing

PARTY = Party("stdio:1", {}, {"name": "test"})
OK = world.ok(structuredContent={"ok": True})
BAD = world.ok(structuredContent={"ok": False, "why": "two tests fail"})

POLICY: Mapping[str, Any] = {
    "phases": {"work": {}, "done": {}},
    "tools": {"read": {"effect": "read"}, "check": {"effect": "read"}, "write": {"effect": "write"}},
    "transitions": [
        {"name": "write", "tools": ["write"], "to": "done"},
        {"name": "look", "tools": ["read"], "effect": ["read"]},
    ],
    "verifiers": {"tests": {"probe": {"tool": "check"}, "pass": ["result.structuredContent.ok == true"]}},
    "success": {"evidence": ["tests"], "phase": "done"},
}

ENDS = {"name": "never", "tools": ["pay"], "reason": "not here", "final": True}


async def said(it: House, claim: str = "verified_success", run: str = "run_1") -> dict[str, Any]:
    """What the agent is told that says so."""
    finish = Finish(outcome=claim, says="all done")  # type: ignore[arg-type]
    shown = await it.engine.finishing.finish(run, world.USER, finish, PARTY, "gateway__finish")
    if shown.refusal is not None:
        return shown.refusal.model_dump(mode="json", exclude_none=True)
    assert shown.result is not None
    told: dict[str, Any] = shown.result["structuredContent"]
    return told


async def kinds(it: House) -> list[str]:
    return [record.event.kind for record, _ in await it.ledger.read("run_1")]


async def test_a_claim_has_what_is_missing_checked_and_ends_the_run_if_it_holds() -> None:
    async with house(**POLICY) as it:
        await it.call("write", {"n": 1})
        it.upstreams.will("check", OK)
        told = await said(it)
        assert (told["finished"], told["outcome"]) == (True, "verified_success")
        assert [one["says"] for one in told["evidence"]] == ["`tests` passed"]
        assert (await kinds(it))[-3:] == ["finish.claimed", "evidence.recorded", "run.stopped"]
        # And for ever the same, whatever is asked.
        assert await said(it) == told
        assert await said(it, "infeasible") == told
        assert outcome(await it.call("write", {"n": 2})) == "verified_success"
        assert [one.tool.name for one in it.upstreams.sent] == ["write", "check"]


async def test_whoever_says_it_at_once_is_told_what_is_missing_and_nothing_is_proven() -> None:
    async with house(**POLICY) as it:
        it.upstreams.will("check", OK)
        told = await said(it)
        assert told["finished"] is False
        assert told["missing"] == [{"what": "done", "says": "the run must be in this phase, and is in `work`"}]
        assert (await kinds(it))[1:] == ["finish.claimed", "evidence.recorded", "finish.refused"]
        await it.call("write", {"n": 1})  # which makes the evidence stale
        run = await it.book.state_of("run_1")
        assert run.stopped is None


async def test_a_verifier_that_fails_says_what_it_found_and_the_run_goes_on() -> None:
    async with house(**POLICY) as it:
        await it.call("write", {"n": 1})
        it.upstreams.will("check", BAD)
        told = await said(it)
        assert told["finished"] is False
        assert [one["what"] for one in told["missing"]] == ["tests"]
        assert "its last word is fail" in told["missing"][0]["says"]
        # Asked again at once it is not asked anew; later it is.
        await said(it)
        assert [one.tool.name for one in it.upstreams.sent] == ["write", "check"]
        it.clock.tell(11)
        it.upstreams.will("check", OK)
        assert (await said(it))["outcome"] == "verified_success"


async def test_the_same_claim_again_and_again_is_a_circle() -> None:
    async with house(**POLICY, stops={"repeated_state": {"after": 3}}) as it:
        it.upstreams.will("check", NotSent("down"), NotSent("down"), NotSent("down"))
        told = []
        for _ in range(3):
            told.append(await said(it))
            it.clock.tell(11)
        assert [one.get("finished") for one in told] == [False, False, None]
        warned = "stops.repeated_state: the same failure came 2 times without new evidence"
        assert ["warnings" in one for one in told] == [False, True, False]
        assert told[1]["warnings"][0].startswith(warned)
        assert told[2]["outcome"] == "repeated_state"
        assert told[2]["terminal"] is True
        assert await said(it) == told[2]


async def test_a_claim_that_comes_before_a_verifier_is_asked_again_says_when_and_is_no_step() -> None:
    async with house(**POLICY, stops={"repeated_state": {"after": 2}}) as it:
        await it.call("write", {"n": 1})
        it.upstreams.will("check", BAD, OK)
        assert "retry_after_s" not in await said(it)
        for left_s in (6.0, 2.0):
            it.clock.tell(4)
            told = await said(it)
            assert (told["finished"], told["retry_after_s"]) == (False, left_s)
            assert "warnings" not in told
        it.clock.tell(4)
        assert (await said(it))["outcome"] == "verified_success"


async def test_nothing_is_asked_while_something_is_under_way() -> None:
    async with house(**POLICY) as it:
        it.upstreams.will("write", Silence("slow"))
        await it.call("write", {"n": 1})
        told = await said(it)
        assert {one["what"] for one in told["missing"]} == {"tests", "done", "run_1.2"}
        assert [one.tool.name for one in it.upstreams.sent] == ["write"]


async def test_infeasible_is_checked_and_not_believed() -> None:
    async with house(**POLICY) as it:
        told = await said(it, "infeasible")
        assert told["finished"] is False
        assert told["reason"].startswith("success can still be reached")
        assert (await kinds(it))[-1] == "finish.refused"
    lost = {**POLICY, "transitions": [{"name": "write", "tools": ["write"], "to": "done", "authority": ["rare"]}]}
    async with house(**lost) as it:
        told = await said(it, "infeasible")
        assert (told["finished"], told["outcome"]) == (True, "infeasible")
        assert "rare" in told["reason"]
        assert (await kinds(it))[-2:] == ["finish.claimed", "run.stopped"]


async def test_a_policy_that_ends_nothing_as_infeasible_says_so() -> None:
    lost = {**POLICY, "transitions": [{"name": "write", "tools": ["write"], "to": "done", "authority": ["rare"]}]}
    async with house(**lost, stops={"infeasible": "never"}) as it:
        told = await said(it, "infeasible")
        assert (told["finished"], told["reason"]) == (False, "the policy of this run ends none as infeasible")
        assert (await kinds(it))[-2:] == ["finish.claimed", "finish.refused"]


async def test_a_verifier_is_asked_about_what_was_done_and_not_about_what_was_not() -> None:
    probe = {"tool": "check", "arguments_from": {"id": "args.id"}}
    policy = {
        "transitions": [{"name": "write", "tools": ["write"], "verify": "tests"}],
        "verifiers": {"tests": POLICY["verifiers"]["tests"] | {"probe": probe}},
        "success": {"evidence": ["tests"], "accept": "independent"},
    }
    async with house(**{**POLICY, **policy}) as it:
        it.upstreams.will("write", world.ok(), world.ok(isError=True))
        it.upstreams.will("check", BAD, BAD)
        await it.call("write", {"id": "mine"})
        await it.call("write", {"id": "another's"})
        it.clock.tell(11)
        await said(it)
        assert [one.arguments for one in it.upstreams.sent if one.tool.name == "check"] == [{"id": "mine"}] * 2


async def test_a_verifier_is_not_asked_about_what_was_undone() -> None:
    async with undoing(success={"evidence": ["paid"]}) as it:
        await it.call("pay", {"amount": 5})
        await it.call("pay", {"amount": 7})
        it.clock.tell(11)
        told = await said(it)
        assert told["missing"][0]["what"] == "paid"
        asked = [dict(one.arguments) for one in it.upstreams.sent if one.tool.name == "check"]
        assert asked == [{"amount": 5}, {"amount": 7}], "both were refunded, and nothing is left to ask about"


async def test_a_shared_run_is_proven_and_does_not_end() -> None:
    async with house(**POLICY) as it:
        await it.open("run_2", origin="default")
        await it.call("write", {"n": 1}, run="run_2")
        it.upstreams.will("check", OK)
        told = await said(it, run="run_2")
        assert (told["finished"], told.get("outcome")) == (True, None)
        assert "does not end" in told["reason"]


async def test_a_policy_without_success_can_prove_none() -> None:
    async with house() as it:
        told = await said(it)
        assert (told["finished"], [one["what"] for one in told["missing"]]) == (False, ["success"])


async def test_nobody_finishes_the_run_of_another() -> None:
    async with house(**POLICY) as it:
        other = Principal("web:guest")
        with pytest.raises(NoSuchRun):
            await it.engine.finishing.finish("run_1", other, Finish(), PARTY, "gateway__finish")


@pytest.mark.parametrize(
    "newer",
    [
        {"success": {"evidence": ["tests"]}, "verifiers": POLICY["verifiers"]},
        {
            "success": {"evidence": ["tests", "lint"]},
            "verifiers": {
                name: {"probe": {"tool": "check"}, "pass": ["result.structuredContent.ok == true && true"]}
                for name in ("tests", "lint")
            },
        },
    ],
    ids=["one is gone", "all ask otherwise"],
)
async def test_a_newer_text_while_verifiers_are_asked_leaves_no_claim_unanswered(newer: Mapping[str, Any]) -> None:
    both = {"tests": POLICY["verifiers"]["tests"], "lint": POLICY["verifiers"]["tests"]}
    async with house(**{**POLICY, "verifiers": both, "success": {"evidence": ["tests", "lint"]}}) as it:

        async def replaced(_: Dispatch) -> Answer:
            it.book.policies.replace({"test": world.policy(**{**POLICY, **newer, "migrate": True})})
            return OK

        it.upstreams.will("check", replaced, OK, OK, OK)
        told = await said(it)
        assert told["missing"][0] == {"what": "tests", "says": "it has not been asked yet"}
        assert (await kinds(it))[-2:] == ["run.migrated", "finish.refused"]
        assert (await said(it))["outcome"] == "verified_success"


async def test_a_run_with_an_effect_that_a_person_must_undo_succeeds_no_more() -> None:
    proven = {"probe": {"tool": "read"}, "pass": ["result.structuredContent.ok == true"], "covers": ["write"]}
    success = {"verifiers": UNDOABLE["verifiers"] | {"tests": proven}, "success": {"evidence": ["tests"]}}
    async with undoing(**success) as it:
        it.upstreams.always = {**it.upstreams.always, "read": OK}
        it.upstreams.will("refund", world.ok(isError=True))
        await it.call("pay", {"amount": 5})
        told = await said(it)
        assert (told["finished"], [one["what"] for one in told["missing"]]) == (False, ["run_1.2"])
        assert "only a person can undo it" in told["reason"]
        assert "another run" in told["next"]
        told = await said(it, "infeasible")
        assert (told["finished"], told["outcome"]) == (True, "infeasible")
        assert "`run_1.2` must not stay" in told["reason"]


async def test_two_claims_at_once_are_decided_each_for_itself() -> None:
    answered = asyncio.Event()

    async def slowly(_: Dispatch) -> Answer:
        await answered.wait()
        return OK

    lost = {**POLICY, "transitions": [{"name": "write", "tools": ["write"], "to": "done", "authority": ["rare"]}]}
    async with house(**lost) as it:
        it.upstreams.will("check", slowly)
        done, again = asyncio.ensure_future(said(it)), asyncio.ensure_future(said(it))
        await it.settle()
        told = await said(it, "infeasible")
        assert (told["finished"], told["outcome"]) == (True, "infeasible")
        answered.set()
        assert await done == await again == told
        assert [one.tool.name for one in it.upstreams.sent] == ["check"]


async def test_the_time_of_the_verifiers_of_a_claim_counts_from_the_claim_on() -> None:
    answered = asyncio.Event()

    async def slowly(_: Dispatch) -> Answer:
        await answered.wait()
        return OK

    slow = POLICY["verifiers"]["tests"] | {"takes_s": 60, "timeout_s": 65}
    async with house(**{**POLICY, "verifiers": {"tests": slow}}, stops={"deadline_s": 100}) as it:
        await it.call("write", {"n": 1})
        it.upstreams.will("check", slowly)
        it.clock.tell(30)
        claim = asyncio.ensure_future(said(it))
        await it.settle()
        it.clock.tell(30)
        assert outcome(await it.call("read")) == "result", "40 s are left, and 30 of the 60 s are over"
        it.clock.tell(30)
        answered.set()
        assert (await claim)["outcome"] == "verified_success"


async def test_a_run_that_may_do_nothing_more_claims_nothing_either() -> None:
    async with house(**{**POLICY, "success": {"evidence": ["tests"]}}, forbid=[ENDS]) as it:
        opened: dict[str, Any] = {"principal": world.USER, "origin": "token", "attribution": {}}
        await it.engine.open_run(run="run_2", **opened, parent=Parent("run_1"))
        await it.engine.open_run(run="run_3", **opened, expires_at=it.clock.now() + 50)
        it.clock.tell(50)
        assert outcome(await it.call("pay")) == "policy_denied"
        told = [await said(it, run=run) for run in ("run_2", "run_3")]
        assert [one["outcome"] for one in told] == ["denied", "denied"]
        assert told[0]["reason"] == "the run `run_1`, from which this one was opened, is over"
        assert told[1]["reason"].startswith("the run's authorization expired at ")
        assert it.upstreams.sent == []
        assert [(await it.book.state_of(run)).version for run in ("run_2", "run_3")] == [1, 1]


async def test_a_slow_verifier_goes_on_while_the_client_is_told_to_wait() -> None:
    answered = asyncio.Event()

    async def slowly(_: Dispatch) -> Answer:
        await answered.wait()
        return OK

    async with house(**{**POLICY, "phases": {"done": {}}}) as it:
        it.upstreams.will("check", slowly)
        it.book.options = replace(it.book.options, patience_s=0.01)
        told = await said(it)
        assert (told["finished"], told["reason"], told["retry_after_s"]) == (False, "verifiers are at work", 5.0)
        answered.set()
        it.book.options = replace(it.book.options, patience_s=5.0)
        assert (await said(it))["outcome"] == "verified_success"
        assert [one.tool.name for one in it.upstreams.sent] == ["check"]
