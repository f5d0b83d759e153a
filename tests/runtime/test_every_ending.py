"""Every way in which a run is over: reached, told with its evidence, and for ever."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.model.events import TERMINAL, Denied, Outcome, RunStopped
from gateway.model.proposal import Key, KeySource
from gateway.model.tool import ToolResult
from gateway.ports import NotSent
from gateway.runtime.explain import again, differences, kept, verdict_of
from tests import world
from tests.runtime.house import House, approve, house, refused

SURE: dict[str, Any] = {"t": {"probe": {"tool": "check"}, "pass": ["result.structuredContent.ok == true"]}}
PHASES: dict[str, Any] = {
    "open": {},
    "done": {},
    "stuck": {"ends": "infeasible"},
    "asked": {"ends": "human_escalation"},
}
BAD = ToolResult({"content": [], "structuredContent": {"ok": False}})
GOOD = ToolResult({"content": [], "structuredContent": {"ok": True}})


def one(name: str = "any", *tools: str, **more: Any) -> dict[str, Any]:
    """A transition."""
    return {"name": name, "tools": [*tools] or ["*"], **more}


@dataclass(frozen=True)
class Ending:
    """A policy, the calls that end a run under it, and how."""

    outcome: Outcome
    rule: str
    policy: dict[str, Any]
    calls: Sequence[tuple[str, dict[str, Any]]] = (("write", {}),)
    evidence: Sequence[str] = ("proposal.denied",)
    """Kinds of the records that are cited."""
    before: Callable[[House], Any] = lambda _: None
    between_s: float = 0.0
    says: str | None = None


CALL = [("write", {"n": 1}), ("write", {"n": 2})]
ENDINGS: dict[str, Ending] = {
    "success": Ending(
        Outcome.VERIFIED_SUCCESS, "success",
        {"verifiers": SURE, "transitions": [one(verify="t")], "success": {"evidence": ["t"]}},
        evidence=["evidence.recorded"], before=lambda it: it.upstreams.will("check", GOOD)),
    "a phase that is infeasible": Ending(
        Outcome.INFEASIBLE, "phases.stuck", {"phases": PHASES, "transitions": [one(to="stuck")]},
        evidence=["phase.moved"]),
    "a tool that nobody offers": Ending(
        Outcome.INFEASIBLE, "stops.infeasible",
        {"phases": PHASES, "verifiers": SURE, "success": {"evidence": ["t"], "phase": "done"},
         "stops": {"infeasible": "computed"}, "transitions": [one("go", "deploy", to="done")]},
        says="nothing leads to success any more: no upstream offers a tool for `go`: `deploy`"),
    "authority that nobody gave": Ending(
        Outcome.INFEASIBLE, "stops.infeasible",
        {"phases": PHASES, "verifiers": SURE, "success": {"evidence": ["t"], "phase": "done"},
         "stops": {"infeasible": "computed"}, "transitions": [one("go", "write", to="done", authority=["go"])]},
        says="nothing leads to success any more: `local:user` lacks the authority `go`, which `go` needs"),
    "calls": Ending(Outcome.BUDGET_EXHAUSTED, "budgets.calls", {"budgets": {"calls": 1}}, CALL),
    "mutations": Ending(Outcome.BUDGET_EXHAUSTED, "budgets.mutations", {"budgets": {"mutations": 1}}, CALL),
    "tokens": Ending(Outcome.BUDGET_EXHAUSTED, "budgets.tokens", {"budgets": {"tokens": 1}}, CALL),
    "cost": Ending(
        Outcome.BUDGET_EXHAUSTED, "budgets.cost",
        {"budgets": {"cost": 1}, "transitions": [one(charge={"cost": 1})]}, CALL),
    "elapsed time": Ending(
        Outcome.BUDGET_EXHAUSTED, "budgets.elapsed_s", {"budgets": {"elapsed_s": 10}}, CALL, between_s=10),
    "reviews": Ending(
        Outcome.BUDGET_EXHAUSTED, "budgets.reviews", {"budgets": {"reviews": 0}, "transitions": [one(approval={})]}),
    "a final denial": Ending(
        Outcome.POLICY_DENIED, "default-deny",
        {"transitions": [one("look", "read")], "stops": {"final_denials": ["tool"]}}),
    "what is forbidden for good": Ending(
        Outcome.POLICY_DENIED, "never", {"forbid": [{"name": "never", "tools": ["write"], "final": True}]}),
    "a refusal again and again": Ending(
        Outcome.REPEATED_STATE, "stops.repeated_state",
        {"transitions": [one("look", "read")], "stops": {"repeated_state": {"after": 3}}}, [("write", {})] * 3),
    "an answer again and again": Ending(
        Outcome.REPEATED_STATE, "stops.repeated_state", {"stops": {"repeated_state": {"reads": 3}}},
        [("read", {})] * 3, ["receipt.recorded"]),
    "a verdict again and again": Ending(
        Outcome.REPEATED_STATE, "stops.repeated_state",
        {"verifiers": SURE, "transitions": [one(verify="t")], "stops": {"repeated_state": {"after": 2}}}, CALL,
        ["evidence.recorded"], lambda it: it.upstreams.will("check", BAD, BAD)),
    "a deadline": Ending(
        Outcome.DEADLINE_MISSED, "stops.deadline_s", {"stops": {"deadline_s": 10}}, CALL, between_s=10),
    "a deadline that cannot be met any more": Ending(
        Outcome.DEADLINE_MISSED, "stops.deadline_s",
        {"stops": {"deadline_s": 10}, "verifiers": {"t": SURE["t"] | {"takes_s": 5}}, "success": {"evidence": ["t"]}},
        CALL, between_s=6,
        says="success cannot be met any more: it takes at least 5 s, and 4 s are left"),
    "a person": Ending(
        Outcome.HUMAN_ESCALATION, "phases.asked",
        {"phases": PHASES, "transitions": [one(on={"error": "asked"})]}, evidence=["phase.moved"],
        before=lambda it: it.upstreams.will("write", ToolResult({"content": [], "isError": True}))),
}  # fmt: skip


def test_every_terminal_result_has_a_row() -> None:
    assert {one.outcome for one in ENDINGS.values()} == TERMINAL


@pytest.mark.parametrize("name", ENDINGS)
async def test_a_run_ends_as_it_must_is_told_why_and_stays_so(name: str) -> None:
    ending = ENDINGS[name]
    async with house(**ending.policy) as it:
        ending.before(it)
        for tool, arguments in ending.calls:
            await it.call(tool, arguments)
            it.clock.tell(ending.between_s)
        if ending.between_s:
            await it.call("write", {"n": 99})
        over = (await it.book.fresh_state_of("run_1")).stopped
        assert over is not None
        assert (over.outcome, over.rule) == (ending.outcome, ending.rule)
        assert ending.says in {None, over.reason}
        kinds = {record.seq: record.event.kind for record, _ in await it.ledger.read("run_1")}
        assert over.evidence, "each ending has its evidence"
        assert [kinds[seq] for seq in over.evidence] == list(ending.evidence)
        await stays_over(it, over)


async def stays_over(it: House, over: RunStopped) -> None:
    """Nothing is sent in it ever again, and whatever is asked, the answer is the same."""
    sent = len(it.upstreams.sent)
    told = []
    for tool, arguments in (("read", {}), ("write", {"n": 7}), ("nope", {}), ("write", {"n": 7})):
        it.clock.tell(3600)
        shown = await it.call(tool, arguments)
        assert shown.refusal is not None
        told.append(shown.refusal.model_dump() | {"tool": "", "undone": None})
    assert all(one == told[0] for one in told)
    assert (told[0]["outcome"], told[0]["terminal"], told[0]["reason"]) == (over.outcome, True, over.reason)
    assert [cited["event"] for cited in told[0]["evidence"]] == [f"run_1#{seq}" for seq in over.evidence]
    assert len(it.upstreams.sent) == sent
    after = (await it.book.fresh_state_of("run_1")).stopped
    assert after == over


async def test_a_known_key_still_gets_its_record_and_another_run_is_the_way_on() -> None:
    async with house(budgets={"calls": 1}) as it:
        key = Key(KeySource.CALLER, "k")
        first = await it.call("write", {"n": 1}, key=key)
        assert refused(await it.call("write", {"n": 2})) == ("budget_exhausted", "budgets.calls")
        again = await it.call("write", {"n": 1}, key=key)
        assert (again.result, again.attempt) == (first.result, first.attempt)
        await it.open("run_2")
        assert refused(await it.call("write", {"n": 2}, run="run_2")) is None


async def test_a_question_that_waits_keeps_a_run_without_reviews_going() -> None:
    ask: dict[str, Any] = {
        "budgets": {"reviews": 1},
        "transitions": [one("ask", "write", approval={}), one("look", "read")],
    }
    async with house(**ask) as it:
        assert refused(await it.call("write", {"n": 1})) == ("needs_approval", "ask")
        assert refused(await it.call("write", {"n": 2})) == ("denied", "budgets.reviews")
        await approve(it)
        assert refused(await it.call("write", {"n": 1})) is None
        assert refused(await it.call("read")) is None, "what needs nobody goes on"
        assert refused(await it.call("write", {"n": 2})) == ("budget_exhausted", "budgets.reviews")


async def test_a_shared_run_has_no_end() -> None:
    for name, ending in ENDINGS.items():
        async with house(**ending.policy) as it:
            await it.open("run_2", origin="default")
            ending.before(it)
            for tool, arguments in ending.calls:
                await it.call(tool, arguments, run="run_2")
                it.clock.tell(ending.between_s)
            await it.call("write", {"n": 99}, run="run_2")
            assert (await it.book.fresh_state_of("run_2")).stopped is None, name


# --- infeasible, computed -------------------------------------------------------------------------------------------

GOAL: dict[str, Any] = {
    "phases": PHASES,
    "verifiers": SURE,
    "success": {"evidence": ["t"], "phase": "done"},
    "transitions": [one("go", "write", to="done"), one("look", "read", **{"from": ["done"]})],
}


async def test_what_is_lacking_is_looked_for_only_where_policy_wants_it_and_only_with_a_refusal() -> None:
    for infeasible, outcome in (("computed", "infeasible"), ("declared", "denied"), ("never", "denied")):
        async with house(**GOAL, stops={"infeasible": infeasible}) as it:
            del it.upstreams.tools["check"]
            told = refused(await it.call("read", {}))
            assert told is not None
            assert told[0] == outcome
    async with house(**GOAL, stops={"infeasible": "computed"}) as it:
        assert refused(await it.call("read", {})) == ("denied", "look")
        it.upstreams.tools["write"] = world.tool("write")
        it.upstreams.will("write", NotSent("down"))
        assert refused(await it.call("write", {})) == ("upstream_unavailable", "go")
        assert (await it.book.state_of("run_1")).stopped is None


async def test_what_was_offered_then_is_in_the_record() -> None:
    async with house(**GOAL, stops={"infeasible": "computed"}) as it:
        del it.upstreams.tools["check"]
        await it.call("nope")
        denied = (await it.ledger.read("run_1"))[1][0].event
        assert isinstance(denied, Denied)
        assert [lack.model_dump() for lack in denied.lacking] == [
            {"kind": "tool", "what": "check", "rule": "t",
             "says": "no upstream offers `check`, which the verifier `t` asks"},
        ]  # fmt: skip
        assert denied.observed["offered"] == {
            "complete": True, "tools": {"read": ["read", None], "write": ["write", None]},
        }  # fmt: skip


@pytest.mark.parametrize("name", ENDINGS)
async def test_every_verdict_on_the_way_is_judged_again_to_the_byte(name: str) -> None:
    async with house(**ENDINGS[name].policy) as it:
        ENDINGS[name].before(it)
        for tool, arguments in ENDINGS[name].calls:
            await it.call(tool, arguments)
            it.clock.tell(ENDINGS[name].between_s)
        for record, _ in await it.ledger.read("run_1"):
            verdict = verdict_of(record)
            if verdict is not None:
                found = again(await kept(it.ledger, "run_1", record.seq))
                assert differences(verdict, found.verdict) == ()
                assert found.assumed == ()
