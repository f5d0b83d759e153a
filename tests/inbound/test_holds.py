"""Calls that are kept waiting for a person with their client, and what comes of them."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from gateway.model.canonical import digest
from gateway.model.principal import Principal
from tests import world
from tests.inbound.asked import ME, until
from tests.inbound.desk import TOLD, Desk, desk

LONG: dict[str, Any] = {"hold_s": 30.0, "patience_s": 60.0}
NOT_KEPT_S = 15.0
"""Whoever was kept comes later, and nobody else, on however busy a machine."""


def outcome(result: Any) -> str:
    """What the client was told."""
    refused = result.get("structuredContent", {})
    return str(refused.get("outcome", "result")) if result.get("isError") else "result"


def begun(it: Desk, text: str = "a", **more: Any) -> "tuple[Any, asyncio.Task[Any]]":
    exchange = it.it.modern_exchange("tools/call", it.asks(text), meta=TOLD, **more)
    return exchange, asyncio.ensure_future(it.it.relay.request(exchange))


async def test_a_call_is_made_as_soon_as_a_person_agrees_while_its_client_waits() -> None:
    async with desk(**LONG) as it:
        exchange, work = begun(it)
        await it.held()
        (said,) = exchange.line.sent
        (approval,) = await it.asked()
        assert said["method"] == "notifications/progress"
        assert said["params"]["progressToken"] == "p1"
        assert said["params"]["progress"] <= 0
        assert said["params"]["message"] == (
            "waiting for a person to approve `write` (a person looks at each write): "
            f"counterfoil approvals approve {approval}"
        )
        assert it.sent == []
        await it.decide(approval)
        answer: Any = await asyncio.wait_for(work, 5)
        assert answer["result"]["content"][0]["text"] == "ok"
        assert it.sent == [{"text": "a"}]
        assert exchange.shown.attempt is not None


async def test_a_held_call_hears_why_it_is_refused() -> None:
    async with desk(**LONG) as it:
        _, work = begun(it)
        await it.held()
        (approval,) = await it.asked()
        await it.decide(approval, approve=False, reason="not on a Friday")
        answer: Any = await asyncio.wait_for(work, 5)
        told = answer["result"]["structuredContent"]
        assert (told["outcome"], told["executed"]) == ("denied", False)
        assert told["reason"] == "`local:boss` rejected this action: not on a Friday"
        assert it.sent == []


@pytest.mark.parametrize("stands", [True, False])
async def test_nothing_is_sent_for_who_would_not_be_let_in_any_more_when_the_yes_comes(*, stands: bool) -> None:
    async def found_again() -> Principal | None:
        return exchange.principal if stands else None

    async with desk(**LONG) as it:
        exchange = it.it.modern_exchange("tools/call", it.asks(), meta=TOLD)
        exchange.found_again = found_again
        work = asyncio.ensure_future(it.it.relay.request(exchange))
        await it.held()
        (approval,) = await it.asked()
        await it.decide(approval)
        answer: Any = await asyncio.wait_for(work, 5)
        assert outcome(answer["result"]) == ("result" if stands else "needs_approval")
        assert len(it.sent) == stands
        if not stands:
            assert outcome(await it.call()) == "result", "the yes is not burnt"


async def test_progress_is_told_again_and_again_and_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.inbound.mcp.holds.EVERY_S", 0.02)
    async with desk(hold_s=0.2) as it:
        exchange, work = begun(it)
        answer: Any = await asyncio.wait_for(work, 5)
        assert outcome(answer["result"]) == "needs_approval"
        told = [one["params"]["progress"] for one in exchange.line.sent]
        assert len(told) >= 3
        assert told == sorted(set(told))
        assert told[-1] <= 0
        assert it.sent == []


@pytest.mark.parametrize(
    ("options", "meta", "client"),
    [
        ({"hold_s": 30.0}, {}, "test"),
        ({"hold_s": 0.0}, TOLD, "test"),
        ({"hold_s": 0.0}, {}, "claude-code"),
        ({"hold_s": 30.0, "patience_by_client": {}}, {}, "claude-code"),
    ],
)
async def test_who_is_not_told_of_progress_or_shall_not_be_kept_gets_the_handle_at_once(
    options: dict[str, Any], meta: dict[str, Any], client: str
) -> None:
    async with desk(**options) as it:
        named = {"io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"}}
        begun_at = time.monotonic()
        told = (await it.call(meta={**named, **meta}))["structuredContent"]
        assert time.monotonic() - begun_at < NOT_KEPT_S
        assert (told["outcome"], told["approval"]["id"]) == ("needs_approval", (await it.asked())[0])
        assert "`gateway__approval`" in told["next"]


async def test_a_client_that_is_known_to_wait_long_is_kept_without_progress() -> None:
    async with desk(**LONG) as it:
        meta = {"io.modelcontextprotocol/clientInfo": {"name": "codex-mcp-client", "version": "1"}}
        exchange = it.it.modern_exchange("tools/call", it.asks(), meta=meta)
        work = asyncio.ensure_future(it.it.relay.request(exchange))
        await it.held()
        (approval,) = await it.asked()
        await it.decide(approval)
        answer: Any = await asyncio.wait_for(work, 5)
        assert outcome(answer["result"]) == "result"
        assert exchange.line.sent == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("rule", [{"hold_s": 0}, {}])
async def test_policy_says_how_long_before_the_gateway_does(rule: dict[str, Any]) -> None:
    async with desk(approval=rule, hold_s=0.05 if not rule else 30.0) as it:
        begun_at = time.monotonic()
        assert outcome(await it.call(meta=TOLD)) == "needs_approval"
        assert time.monotonic() - begun_at < NOT_KEPT_S


async def test_nobody_is_kept_beyond_our_own_patience_for_that_client() -> None:
    async with desk(hold_s=30.0, patience_s=0.2) as it:
        begun_at = time.monotonic()
        assert outcome(await it.call(meta=TOLD)) == "needs_approval"
        assert 0.15 < time.monotonic() - begun_at < NOT_KEPT_S


# --- nobody waits any more --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_client_that_leaves_while_it_waits_has_nothing_executed_and_its_repeat_finds_the_question(
    *, cancelled: bool
) -> None:
    async with desk(**LONG) as it:
        exchange, work = begun(it)
        await it.held()
        exchange.withdrawal.say(cancelled=cancelled)
        await asyncio.wait_for(work, 5)
        assert it.holding == 0
        (approval,) = await it.asked()
        await it.decide(approval)
        await asyncio.sleep(0.01)
        assert it.sent == []
        assert outcome(await it.call()) == "result"
        assert it.sent == [{"text": "a"}]
        assert await it.asked() == [approval]


async def test_a_client_that_leaves_in_the_moment_of_the_answer_has_nothing_executed() -> None:
    async with desk(**LONG) as it:
        exchange, work = begun(it)
        await it.held()
        (approval,) = await it.asked()
        await it.decide(approval)  # it was rung, and has not had its turn
        exchange.withdrawal.say(cancelled=False)
        await asyncio.wait_for(work, 5)
        assert it.sent == []


async def test_a_legacy_client_without_a_connection_is_waited_for_and_not_acted_for() -> None:
    async with desk(hold_s=0.3) as it:
        legacy = await it.it.session()
        exchange, work = legacy.begin("tools/call", {**it.asks(), "_meta": TOLD})
        await it.held()
        exchange.line.there = False  # type: ignore[misc]
        (approval,) = await it.asked()
        await it.decide(approval)
        answer: Any = await asyncio.wait_for(work, 5)
        assert outcome(answer["result"]) == "needs_approval"
        assert it.sent == []


async def test_a_legacy_client_that_comes_back_in_time_gets_what_it_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.inbound.mcp.holds.AGAIN_S", 0.01)
    async with desk(**LONG) as it:
        legacy = await it.it.session()
        exchange, work = legacy.begin("tools/call", {**it.asks(), "_meta": TOLD})
        await it.held()
        exchange.line.there = False  # type: ignore[misc]
        (approval,) = await it.asked()
        await it.decide(approval)
        await asyncio.sleep(0.05)
        assert (it.sent, work.done()) == ([], False)
        exchange.line.there = True  # type: ignore[misc]
        answer: Any = await asyncio.wait_for(work, 5)
        assert (outcome(answer["result"]), it.sent) == ("result", [{"text": "a"}])


async def test_the_end_of_the_process_ends_holds_with_the_handle() -> None:
    async with desk(**LONG) as it:
        works = [begun(it, str(number))[1] for number in range(3)]
        await it.held(3)
        it.it.relay.release()
        answers: Any = await asyncio.wait_for(asyncio.gather(*works), 5)
        assert [outcome(one["result"]) for one in answers] == ["needs_approval"] * 3
        assert outcome(await it.call("d", meta=TOLD)) == "needs_approval"
        assert it.sent == []


async def test_a_conversation_from_which_no_more_is_heard_ends_its_holds_alone() -> None:
    async with desk(**LONG) as it:
        legacy = await it.it.session()
        _, mine = legacy.begin("tools/call", {**it.asks("a"), "_meta": TOLD})
        _, other = begun(it, "b")
        await it.held(2)
        it.it.relay.leaving(legacy.session)
        answer: Any = await asyncio.wait_for(mine, 5)
        assert (outcome(answer["result"]), other.done()) == ("needs_approval", False)
        it.it.relay.release()
        await other


# --- many -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [True, False])
async def test_of_two_equal_calls_that_wait_exactly_one_is_made(*, ids: bool) -> None:
    async with desk(**LONG) as it:
        works = []
        for number in range(2):
            more = {"claudecode/toolUseId": f"toolu_{number}"} if ids else {}
            exchange = it.it.modern_exchange("tools/call", it.asks(), meta={**TOLD, **more})
            works.append(asyncio.ensure_future(it.it.relay.request(exchange)))
        await it.held(2)
        (approval,) = await it.asked()
        await it.decide(approval)
        answers: Any = await asyncio.wait_for(asyncio.gather(*works), 5)
        assert it.sent == [{"text": "a"}]
        told = sorted(outcome(one["result"]) for one in answers)
        assert told in (["result", "result"], ["in_flight", "result"], ["held", "result"])
        assert await it.asked() == [approval]


async def test_a_call_that_waited_is_answered_from_the_record_of_the_equal_one_that_was_quicker() -> None:
    async with desk(**LONG) as it, desk(it.ledger, owner="other", upstreams=it.upstreams, clock=it.clock) as other:
        exchange, waits = begun(it)
        await it.held()
        (approval,) = await it.asked()
        await other.decide(approval)
        run = (await it.ledger.find(["approval.requested"]))[0].run
        proposal = world.proposal("write", {"text": "a"}, run=run, principal=ME)
        cited = digest({"text": "a"}, it.ledger.salt)
        made = await other.engine.call(replace(proposal, arguments_digest=cited), world.PatientCaller())
        other.engine.delivered(made)
        await until(lambda: len(it.sent) == 1)
        it.clock.tell(1.0)
        answer: Any = await asyncio.wait_for(waits, 5)
        assert (outcome(answer["result"]), exchange.shown.attempt) == ("result", made.attempt)
        assert it.sent == [{"text": "a"}]


@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.long])])
async def test_many_calls_that_wait_cost_a_timer_each_and_one_look_for_all(count: int) -> None:
    async with desk(**LONG) as it:
        looks = 0
        find = it.ledger.find

        async def counted(kinds: Any, **more: Any) -> Any:
            nonlocal looks
            looks += kinds[0] == "approval.decided"
            return await find(kinds, **more)

        it.ledger.find = counted
        works = [begun(it, str(number))[1] for number in range(count)]
        await it.held(count, within_s=60)
        tasks = len(asyncio.all_tasks())
        assert tasks <= count + 5, "a hold is the task of its request, and no other"
        used = time.process_time()
        for _ in range(5):
            it.clock.tell(1.1)
            await asyncio.sleep(0.02)
        assert looks <= 6
        assert time.process_time() - used < 1.0
        assert [attempt for run in [it.it.gate] for attempt in run.carrier.open] == []  # type: ignore[attr-defined]
        approvals = await it.asked(count)
        await it.decide(approvals[count // 2])
        await until(lambda: sum(work.done() for work in works) == 1)
        assert len(it.sent) == 1
        it.it.relay.release()
        answers: Any = await asyncio.wait_for(asyncio.gather(*works), 60)
        assert sorted(outcome(one["result"]) for one in answers) == ["needs_approval"] * (count - 1) + ["result"]
