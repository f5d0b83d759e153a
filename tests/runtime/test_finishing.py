"""An agent says that it is done: what can still be asked is asked, and evidence decides."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.model.finish import Finish
from gateway.model.party import Party
from gateway.model.principal import Principal
from gateway.model.tool import Answer, NotSent, Silence
from gateway.ports import Dispatch, NoSuchRun
from tests import world
from tests.runtime.house import House, house, outcome

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
        told = [await said(it) for _ in range(3)]
        assert [one.get("finished") for one in told] == [False, False, None]
        assert told[2]["outcome"] == "repeated_state"
        assert told[2]["terminal"] is True
        assert await said(it) == told[2]


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
