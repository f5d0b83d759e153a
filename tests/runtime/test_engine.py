"""The one path of a call, over the shipped memory ledger, scripted upstreams and a told clock."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.kernel.approve import resolve
from gateway.model.answering import Answering
from gateway.model.events import Denied, Outcome
from gateway.model.proposal import Key, KeySource
from gateway.model.run import AttemptState
from gateway.model.tool import Answer, NotSent, ProtocolError, Silence, ToolResult
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.ports import Append, Dispatch, LedgerUnavailable
from gateway.runtime.engine import Engine
from gateway.runtime.explain import again, differences, kept
from tests import world
from tests.people import answer
from tests.runtime.house import ME, house, outcome

pytestmark = pytest.mark.anyio


async def test_a_result_comes_back_unchanged_with_its_record() -> None:
    async with house() as it:
        sent: dict[str, Any] = {"content": [], "structuredContent": {"n": 2**70, "f": 1.0}, "vendor": None}
        it.upstreams.will("write", ToolResult(sent))
        shown = await it.call("write", {"a": 1})
        assert shown.result == sent
        assert shown.record is not None
        assert shown.record["attempt"] == "run_1.2"
        assert it.upstreams.sent[0].arguments == {"a": 1}


@pytest.mark.parametrize("tool", ["write", "read"])
async def test_the_agent_is_told_what_really_became_of_an_answer_that_never_came(tool: str) -> None:
    async with house() as it:
        it.upstreams.will(tool, Silence("the upstream ended with code 9 before it answered"))
        shown = await it.call(tool, {"a": 1})
        assert shown.refusal is not None
        assert shown.refusal.outcome is Outcome.TIMEOUT_UNKNOWN
        assert shown.refusal.reason.startswith("the upstream ended with code 9 before it answered; whether it")


async def test_who_waits_for_a_person_is_told_the_page_where_there_is_a_console() -> None:
    asks = [{"name": "pay", "tools": ["pay"], "approval": {}}, {"name": "any", "tools": ["*"]}]
    async with house(transitions=asks) as it:
        it.book.options = replace(it.book.options, where=Answering(console="https://gate.example"))
        it.engine = Engine(it.book, it.upstreams)
        asked = (await it.call("pay")).refusal
        assert asked is not None
        assert asked.approval is not None
        assert asked.approval.page == f"https://gate.example/console/approvals/{asked.approval.id}"
        it.upstreams.will("write", Silence("the connection was closed"))
        lost = (await it.call("write")).refusal
        assert lost is not None
        page = f"https://gate.example/console/attempts/{lost.attempt}"
        assert f"A person settles it, after looking, at {page} or with `counterfoil resolve" in lost.next


async def test_a_lost_response_is_held_and_never_sent_again_in_this_run_or_another() -> None:
    async with house() as it:
        it.upstreams.will("write", Silence("no answer in 60 s"))
        first = await it.call("write", {"a": 1})
        assert first.refusal is not None
        assert (first.refusal.outcome, first.refusal.executed) == (Outcome.TIMEOUT_UNKNOWN, "unknown")
        assert first.refusal.reason.startswith("no answer in 60 s; whether it happened is not known")
        again = await it.call("write", {"a": 1}, key=Key(KeySource.CALL_ID, "other"))
        await it.open("run_2")
        elsewhere = await it.call("write", {"a": 1}, run="run_2")
        assert [outcome(again), outcome(elsewhere)] == ["held", "held"]
        assert len(it.upstreams.sent) == 1


async def test_a_refused_connection_did_nothing_and_costs_nothing() -> None:
    async with house(budgets={"calls": 1}) as it:
        it.upstreams.will("write", NotSent("connection refused"))
        assert outcome(await it.call("write")) == "upstream_unavailable"
        assert outcome(await it.call("write")) == "result"
        assert outcome(await it.call("write", {"b": 1})) == "budget_exhausted"


async def test_whoever_must_connect_an_account_is_told_so_and_not_to_wait() -> None:
    async with house(budgets={"calls": 1}) as it:
        it.upstreams.will("write", NotSent("connect it at the page", needs_account=True))
        told = (await it.call("write")).refusal
        assert told is not None
        assert (told.outcome, told.executed, told.retry_after_s) == (Outcome.NEEDS_ACCOUNT, False, 60.0)
        assert told.next.startswith("Nothing was sent, and nothing comes of waiting alone.")
        assert outcome(await it.call("write")) == "result"  # it cost nothing


async def test_that_an_account_is_lacking_is_decided_in_the_same_way_again_and_ends_no_run() -> None:
    async with house(stops={"infeasible": "computed"}) as it:
        there = it.upstreams.tools["write"]
        it.upstreams.tools["write"] = replace(there, healthy=False, trouble="connect one", needs_account=True)
        for _ in range(8):
            assert outcome(await it.call("write")) == "needs_account"
        (_, denied, *_) = [record for record, _ in await it.ledger.read("run_1")]
        assert isinstance(denied.event, Denied)
        it_was = await kept(it.ledger, "run_1", denied.seq)
        assert differences(denied.event, again(it_was).verdict) == ()


async def test_a_late_answer_is_recorded_and_told_to_whoever_asks_again() -> None:
    async with house() as it:
        it.upstreams.will("write", Silence("timeout"))
        await it.call("write", {"a": 1})
        late = it.upstreams.sent[0].late
        assert late is not None
        late(world.ok("done after all"))
        await it.settle()
        shown = await it.call("write", {"a": 1})
        assert shown.result == world.ok("done after all").result
        assert shown.record is not None
        assert shown.record["replayed"] is True
        assert len(it.upstreams.sent) == 1


async def test_a_caller_that_is_cancelled_does_not_cancel_the_effect() -> None:
    async with house() as it:
        begun, go = asyncio.Event(), asyncio.Event()

        async def slow(_: Dispatch) -> Answer:
            begun.set()
            await go.wait()
            return world.ok()

        it.upstreams.will("write", slow)
        calling = asyncio.ensure_future(it.call("write", {"a": 1}))
        await begun.wait()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        assert outcome(await it.call("write", {"a": 1})) == "in_flight"
        go.set()
        await it.settle()
        shown = await it.call("write", {"a": 1})
        assert shown.record is not None
        assert shown.record["replayed"] is True
        assert len(it.upstreams.sent) == 1


async def test_a_delivered_write_may_be_meant_again_and_an_undelivered_one_is_told_again() -> None:
    async with house() as it:
        await it.call("write", {"a": 1}, deliver=False)
        assert outcome(await it.call("write", {"a": 1})) == "result"
        assert len(it.upstreams.sent) == 1
        await it.call("write", {"a": 1})
        assert len(it.upstreams.sent) == 2


async def test_an_outcome_written_after_our_patience_counts_as_undelivered() -> None:
    async with house() as it:
        shown = await it.call("write", {"a": 1}, deliver=False)
        it.clock.tell(56)
        it.engine.delivered(shown)
        await it.settle()
        await it.call("write", {"a": 1})
        assert len(it.upstreams.sent) == 1


VERIFIED: dict[str, Any] = {
    "phases": {"change": {}, "done": {}},
    "transitions": [{"name": "w", "tools": ["write"], "verify": "t", "to": "done"}, {"name": "r", "tools": ["read"]}],
    "verifiers": {"t": {"probe": {"tool": "check"}, "pass": ["result.structuredContent.exit == 0"]}},
    "success": {"evidence": ["t"], "phase": "done"},
}


async def test_success_is_proven_by_the_verifier_and_ends_the_run_for_ever() -> None:
    async with house(**VERIFIED) as it:
        it.upstreams.will("check", world.ok(structuredContent={"exit": 0}))
        shown = await it.call("write")
        assert shown.record is not None
        assert shown.record["phase"] == "done"
        assert shown.record["stopped"]["outcome"] == "verified_success"
        over = [await it.call("read"), await it.call("write", {"b": 1}), await it.call("read")]
        assert {outcome(one) for one in over} == {"verified_success"}
        assert [one.refusal and one.refusal.terminal for one in over] == [True] * 3
        assert len(it.upstreams.sent) == 2


@pytest.mark.parametrize(
    ("probed", "reason"),
    [
        (world.ok(structuredContent={"exit": 1}), "`t` found that `result.structuredContent.exit == 0` does not hold"),
        (
            ProtocolError({"code": -32603, "message": "x"}),
            "`t` could not check: the probe was refused with code -32603",
        ),
        (Silence("no answer in 60 s"), "`t` could not check: no answer in 60 s"),
        (
            world.ok(isError=True, structuredContent={"exit": 0}),
            "`t` could not check: the probe answered with an error",
        ),
    ],
)
async def test_an_ok_that_the_verifier_does_not_confirm_is_no_success(probed: Answer, reason: str) -> None:
    async with house(**VERIFIED) as it:
        it.upstreams.will("check", probed)
        shown = await it.call("write")
        assert shown.refusal is not None
        assert (shown.refusal.outcome, shown.refusal.executed) == (Outcome.VERIFICATION_FAILED, True)
        assert shown.refusal.reason == reason
        assert (await it.book.state_of("run_1")).phase == "change"


async def test_an_error_of_the_upstream_is_relayed_as_it_came_and_proves_no_absence() -> None:
    async with house() as it:
        error = {"code": -32000, "message": "boom", "data": {"x": None}}
        it.upstreams.will("write", ProtocolError(error), ToolResult({"content": [], "isError": True}))
        assert (await it.call("write", {"a": 1})).error == error
        assert (await it.call("write", {"a": 2})).result == {"content": [], "isError": True}
        run = await it.book.state_of("run_1")
        assert run.spent.mutations == 2
        assert {one.state for one in run.attempts.values()} == {AttemptState.ANSWERED}


async def test_a_budget_is_never_overspent_whatever_the_concurrency() -> None:
    async with house(budgets={"calls": 50}) as it:
        shown = await asyncio.gather(*(it.call("write", {"n": n}, deliver=False) for n in range(200)))
        assert len(it.upstreams.sent) == 50
        assert sum(outcome(one) == "result" for one in shown) == 50


async def test_two_gateways_over_one_ledger_never_overspend_either() -> None:
    ledger = MemoryLedger()
    async with house(ledger, budgets={"calls": 20}) as one, house(ledger, owner="you", budgets={"calls": 20}) as two:
        calls = [it.call("write", {"n": n, "w": who}, deliver=False) for n in range(30)
                 for who, it in enumerate((one, two))]  # fmt: skip
        await asyncio.gather(*calls)
        assert len(one.upstreams.sent) + len(two.upstreams.sent) == 20


async def test_the_same_call_at_the_same_moment_from_two_gateways_and_two_runs_is_sent_once() -> None:
    ledger = MemoryLedger()
    async with house(ledger) as one, house(ledger, owner="you") as two:
        go = asyncio.Event()

        async def slow(_: Dispatch) -> Answer:
            await go.wait()
            return world.ok()

        one.upstreams.will("write", slow)
        two.upstreams.will("write", slow)
        await two.open("run_2")
        calls = [asyncio.ensure_future(one.call("write", {"a": 1})),
                 asyncio.ensure_future(two.call("write", {"a": 1}, run="run_2"))]  # fmt: skip
        done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED, timeout=5)
        assert [outcome(one.result()) for one in done] == ["held"]
        go.set()
        await asyncio.gather(*calls)
        assert len(one.upstreams.sent) + len(two.upstreams.sent) == 1


async def test_an_approval_runs_nothing_and_lets_the_exact_call_through_once() -> None:
    async with house(transitions=[{"name": "p", "tools": ["pay"], "approval": {"reason": "money"}}]) as it:
        asked = await it.call("pay", {"n": 1})
        assert asked.refusal is not None
        assert asked.refusal.approval is not None
        handle = asked.refusal.approval.id
        action = (await it.book.state_of("run_1")).approvals[handle].action
        await it.book.say("run_1", lambda run, _, now: [
            answer(run, handle, action, approve=True, by=ME, reason="fine", now=now)])  # fmt: skip
        assert it.upstreams.sent == []
        assert outcome(await it.call("pay", {"n": 2})) == "needs_approval"
        assert outcome(await it.call("pay", {"n": 1})) == "result"
        assert outcome(await it.call("pay", {"n": 1})) == "needs_approval"
        assert len(it.upstreams.sent) == 1


async def test_what_a_dead_gateway_left_is_settled_after_its_lease_and_not_before() -> None:
    ledger, clock, upstreams = MemoryLedger(), world.ToldClock(), world.ScriptedUpstreams()
    upstreams.offer(world.tool("read", read=True), world.tool("write"))

    async def never(_: Dispatch) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    upstreams.will("write", never)
    upstreams.will("read", never)
    async with house(ledger, "dead", upstreams, clock) as dead, house(ledger, "alive", upstreams, clock) as alive:
        left = [asyncio.ensure_future(dead.call("write", {"a": 1})), asyncio.ensure_future(dead.call("read"))]
        await dead.settle()
        assert len(upstreams.sent) == 2
        assert await alive.recovery.sweep() == 0
        await alive.open("run_2")
        assert outcome(await alive.call("write", {"a": 1}, run="run_2")) == "held"
        clock.tell(16)
        assert await alive.recovery.sweep() == 2
        states = {one.intent.tool: one.state for one in (await alive.book.state_of("run_1")).attempts.values()}
        assert states == {"write": AttemptState.UNKNOWN, "read": AttemptState.ABANDONED}
        assert outcome(await alive.call("write", {"a": 1}, run="run_2")) == "held"
        for one in left:
            one.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def test_a_person_settles_an_unknown_and_only_then_may_it_be_sent_again() -> None:
    async with house() as it:
        it.upstreams.will("write", Silence("timeout"))
        await it.call("write", {"a": 1})
        it.clock.tell(91)
        await it.book.say(
            "run_1",
            lambda run, _, now: resolve(run, "run_1.2", what="did_not_happen", by=ME, reason="looked", now=now),
        )
        assert outcome(await it.call("write", {"a": 1})) == "result"
        assert len(it.upstreams.sent) == 2


class Failing(MemoryLedger):
    """A ledger whose disk fills up: appends that carry one of these kinds fail while it is full."""

    full: frozenset[str] = frozenset()

    async def append(self, step: Append) -> None:
        if any(record.event.kind in self.full for record in step.records):
            raise LedgerUnavailable("the disk is full")
        await super().append(step)


async def test_nothing_is_dispatched_while_intents_cannot_be_recorded() -> None:
    ledger = Failing()
    async with house(ledger) as it:
        ledger.full = frozenset({"intent.recorded"})
        shown = await it.call("write", {"a": 1})
        assert shown.refusal is not None
        assert (shown.refusal.outcome, shown.refusal.executed) == (Outcome.LEDGER_UNAVAILABLE, False)
        assert it.upstreams.sent == []
        ledger.full = frozenset()
        assert outcome(await it.call("write", {"a": 1})) == "result"


async def test_an_answer_that_cannot_be_recorded_is_no_success_and_is_recorded_later() -> None:
    ledger = Failing()
    async with house(ledger) as it:
        ledger.full = frozenset({"receipt.recorded"})
        shown = await it.call("write", {"a": 1})
        assert shown.refusal is not None
        assert (shown.refusal.outcome, shown.refusal.executed) == (Outcome.LEDGER_UNAVAILABLE, "unknown")
        assert outcome(await it.call("write", {"a": 1})) == "in_flight"
        ledger.full = frozenset()
        it.clock.tell(10)
        await it.settle()
        assert outcome(await it.call("write", {"a": 1})) == "result"
        assert len(it.upstreams.sent) == 1


class Ambiguous(MemoryLedger):
    """A ledger whose commit succeeds and then raises, once, as a database whose connection dies does."""

    lies: int = 0

    async def append(self, step: Append) -> None:
        await super().append(step)
        if self.lies and any(record.event.kind == "intent.recorded" for record in step.records):
            self.lies -= 1
            raise LedgerUnavailable("connection lost in commit")


async def test_an_append_that_raised_but_committed_is_believed_after_reading_it_back() -> None:
    ledger = Ambiguous()
    async with house(ledger) as it:
        ledger.lies = 1
        assert outcome(await it.call("write", {"a": 1})) == "result"
        assert len(it.upstreams.sent) == 1


async def test_what_a_person_settled_is_verified_as_soon_as_somebody_asks() -> None:
    async with house(**VERIFIED) as it:
        it.upstreams.will("write", Silence("timeout"))
        await it.call("write", {"a": 1})
        await it.book.say(
            "run_1", lambda run, _, now: resolve(run, "run_1.2", what="happened", by=ME, reason="seen", now=now)
        )
        it.upstreams.will("check", world.ok(structuredContent={"exit": 0}))
        assert outcome(await it.call("write", {"a": 1})) == "in_flight"
        told = (await it.call("write", {"a": 1})).refusal
        assert told is not None
        assert (told.outcome, told.executed, [one.says for one in told.evidence]) == (
            "held",
            True,
            ["seen", "`t` passed"],
        )
        assert (await it.book.state_of("run_1")).phase == "done"
