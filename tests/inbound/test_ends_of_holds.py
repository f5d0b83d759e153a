"""What ends the wait of a call that waits for a person: an answer elsewhere, another question, time, the run's end."""

import asyncio
from typing import Any

import pytest

from gateway.outbound.ledger import open_ledger
from gateway.ports import LedgerUnavailable
from tests.inbound.desk import REVIEWER, TOLD, desk, people
from tests.inbound.test_holds import LONG, begun, outcome


async def test_a_decision_by_another_process_is_seen_within_a_look() -> None:
    async with desk(**LONG) as it, desk(it.ledger, owner="other", upstreams=it.upstreams, clock=it.clock) as other:
        _, work = begun(it)
        await it.held()
        (approval,) = await it.asked()
        await other.decide(approval)
        await asyncio.sleep(0.02)
        assert not work.done()
        it.clock.tell(1.0)
        answer: Any = await asyncio.wait_for(work, 5)
        assert (outcome(answer["result"]), it.sent) == ("result", [{"text": "a"}])


@pytest.mark.slow
async def test_on_postgresql_a_call_waits_at_one_gateway_for_a_person_at_another(postgres_url: str) -> None:
    mine, theirs = await open_ledger(postgres_url), await open_ledger(postgres_url)
    try:
        async with desk(mine, **LONG) as it, desk(theirs, owner="other", clock=it.clock) as other:
            works = [begun(it)[1], begun(it)[1]]
            await it.held(2)
            (approval,) = await it.asked()
            await other.decide(approval)
            it.clock.tell(1.0)
            answers: Any = await asyncio.wait_for(asyncio.gather(*works), 10)
            assert "result" in [outcome(one["result"]) for one in answers]
            assert (it.sent, other.sent) == ([{"text": "a"}], [])
            used = (await other.told(approval))["state"]
            assert used == "used"
    finally:
        await mine.close()
        await theirs.close()


async def test_more_decisions_than_one_look_reads_wake_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.runtime.bells.PAGE", 2)
    async with desk(**LONG) as it, desk(it.ledger, owner="other", upstreams=it.upstreams, clock=it.clock) as other:
        works = [begun(it, str(number))[1] for number in range(4)]
        await it.held(4)
        for approval in await it.asked(4):
            await other.decide(approval)
        it.clock.tell(1.0)
        answers: Any = await asyncio.wait_for(asyncio.gather(*works), 5)
        assert [outcome(one["result"]) for one in answers] == ["result"] * 4


async def test_a_question_that_expires_while_its_call_waits_is_asked_anew() -> None:
    async with desk(approval={"expires_s": 10}, hold_s=0.3) as it:
        _, work = begun(it)
        await it.held()
        it.clock.tell(11)
        answer: Any = await asyncio.wait_for(work, 5)
        told = answer["result"]["structuredContent"]
        assert told["outcome"] == "needs_approval"


async def test_who_waits_is_judged_by_how_things_stand_then() -> None:
    async with desk(**LONG, rules={"budgets": {"calls": 1}}) as it:
        works = [begun(it, text)[1] for text in ("a", "b")]
        await it.held(2)
        for approval in await it.asked(2):
            await it.decide(approval)
        answers: Any = await asyncio.wait_for(asyncio.gather(*works), 5)
        told = sorted(outcome(one["result"]) for one in answers)
        assert len(it.sent) == 1
        assert told[1] == "result"
        assert told[0] in {"budget_exhausted", "denied"}


async def test_a_call_that_waits_hears_that_a_newer_one_about_the_same_object_took_its_place() -> None:
    rules = {"tools": {"write": {"effect": "write", "objects": ["args.file"]}}}
    async with desk(**LONG, rules=rules) as it:
        first = {"name": "write", "arguments": {"file": "f", "text": "a"}}
        exchange = it.it.modern_exchange("tools/call", first, meta=TOLD)
        waits = asyncio.ensure_future(it.it.relay.request(exchange))
        await it.held()
        newer = await it.it.modern("tools/call", {"name": "write", "arguments": {"file": "f", "text": "b"}})
        told = newer["result"]["structuredContent"]
        answer: Any = await asyncio.wait_for(waits, 5)
        older = answer["result"]["structuredContent"]
        assert (older["outcome"], older["executed"]) == ("denied", False)
        assert older["reason"].endswith(f"was superseded by `{told['approval']['id']}`")
        where = await it.told((await it.asked(2))[0])
        assert (where["state"], where["superseded_by"]) == ("superseded", told["approval"]["id"])
        assert it.sent == []


async def test_a_call_that_waits_hears_which_evidence_is_wanted() -> None:
    async with desk(**LONG) as it:
        _, work = begun(it)
        await it.held()
        (approval,) = await it.asked()
        await it.give_back(approval, "show me the tests")
        answer: Any = await asyncio.wait_for(work, 5)
        told = answer["result"]["structuredContent"]
        assert (told["outcome"], "show me the tests" in told["reason"]) == ("denied", True)
        where = await it.told(approval)
        assert (where["state"], where["said"], where["by"]) == ("returned", "show me the tests", "local:boss")
        assert "evidence" in where["next"]


async def test_a_run_that_ends_while_a_call_waits_ends_the_wait() -> None:
    async with desk(**LONG) as it:
        _, work = begun(it)
        await it.held()
        (record,) = await it.ledger.find(["approval.requested"])
        await people(it.book).stop_run(record.run, REVIEWER, "enough")
        answer: Any = await asyncio.wait_for(work, 5)
        told = answer["result"]["structuredContent"]
        assert (told["outcome"], told["terminal"], it.sent) == ("human_escalation", True, [])


async def test_a_ledger_that_cannot_be_read_for_a_moment_ends_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.inbound.mcp.holds.EVERY_S", 0.01)
    async with desk(**LONG) as it:
        _, work = begun(it)
        await it.held()
        (approval,) = await it.asked()
        read, refused = it.ledger.read, asyncio.Event()

        async def refuses(*_: Any, **__: Any) -> Any:
            it.ledger.read = read
            refused.set()
            raise LedgerUnavailable("it is locked")

        it.ledger.read = refuses
        await asyncio.wait_for(refused.wait(), 5)
        assert not work.done()
        await it.decide(approval)
        answer: Any = await asyncio.wait_for(work, 10)
        assert (outcome(answer["result"]), it.sent) == ("result", [{"text": "a"}])
