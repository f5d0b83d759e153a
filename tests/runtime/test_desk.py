"""What people are asked survives days and restarts, is answered once, and stands in one inbox."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from gateway.model.events import Outcome, RunStopped
from gateway.model.review import Answer, Refused, Reviewer, Settlement, Waiting
from gateway.model.tool import Silence, ToolResult
from gateway.outbound.ledger import open_ledger
from tests import world
from tests.audit.ledgers import found, verified
from tests.runtime.house import outcome
from tests.runtime.office import ANN, BOB, DAY, Office, asking, office

# --- days, restarts ---------------------------------------------------------------------------------------------------


async def test_a_yes_survives_days_and_restarts_and_is_for_one_call(tmp_path: Path) -> None:
    url, clock = f"sqlite:///{tmp_path}/ledger.db", world.ToldClock()
    terms = asking(expires_s=10 * DAY, valid_s=3 * DAY)

    @asynccontextmanager
    async def restarted() -> AsyncIterator[Office]:
        ledger = await open_ledger(url)
        async with office(ledger, clock, transitions=terms) as it:
            yield it
        await ledger.close()

    async with restarted() as it:
        assert await it.calls() == "needs_approval"
    clock.tell(9 * DAY)
    async with restarted() as it:
        assert await it.calls() == "needs_approval", "the same question"
        page = await it.desk.inbox(ANN)
        assert [(row.about, row.tool, row.risk) for row in page.rows] == [("approval", "write", "medium")]
        await it.says()
    clock.tell(2 * DAY)
    async with restarted() as it:
        assert (await it.desk.inbox(ANN)).total == 0
        assert await it.calls() == "result", "the question would be over by now, and the yes is not"
        assert (it.sent, await it.calls()) == (1, "needs_approval")
    async with restarted() as it:
        assert found(await verified(it.it.ledger, keys=[])) == []


async def test_after_its_time_nobody_answers_and_no_yes_is_used() -> None:
    async with office(transitions=asking(expires_s=100, valid_s=50)) as it:
        await it.calls()
        it.it.clock.tell(101)
        assert await it.refused() == "expired"
        assert await it.desk.expire() == 1
        assert ((await it.asked()).decision, await it.refused()) == ("expired", "expired")
        assert await it.calls() == "needs_approval"
        await it.says()
        it.it.clock.tell(51)
        assert await it.calls() == "needs_approval", "the yes had its own time"
        assert it.sent == 0
        assert len((await it.it.book.state_of("run_1")).approvals) == 3


async def test_what_waits_is_listed_until_it_is_answered_or_its_run_is_over() -> None:
    async with office() as it:
        await it.calls({"n": 1})
        await it.calls({"n": 2})
        assert (await it.desk.inbox(ANN)).total == 2
        await it.says("rejected")
        it.it.clock.tell(2)
        assert (await it.desk.inbox(ANN)).total == 1
        await it.desk.stop_run("run_1", BOB, "enough")
        it.it.clock.tell(2)
        assert (await it.desk.inbox(ANN)).total == 0, "who ended the run knows of it"
        left = min((await it.it.book.state_of("run_1")).approvals.values(), key=lambda one: one.seq)
        assert await it.refused(of=left.id) == "run_over"
        assert await it.calls({"n": 1}) == "human_escalation"


# --- who answers, and how often ---------------------------------------------------------------------------------------


async def test_each_answer_that_cannot_be_taken_says_why_and_nothing_is_recorded() -> None:
    async with office(transitions=asking(role="finance", reasons="always")) as it:
        await it.calls()
        version = (await it.it.book.state_of("run_1")).version
        other = Reviewer("acme", "local:ann", frozenset({"finance"}))
        himself = Reviewer("local", world.USER.id, frozenset({"finance"}))
        for check, said in {
            "action": {"action": "c1:" + "0" * 64},
            "reason": {"reason": " "},
            "reuse": {"times": 2},
            "role": {"by": BOB},
            "self_review": {"by": himself},
            "unknown": {"by": other},
        }.items():
            assert await it.refused(**said) == check  # type: ignore[arg-type]
        assert await it.refused("returned", reason="") == "reason"
        with pytest.raises(Refused, match="is known"):
            await it.desk.decide(Answer("ap_none", "c1:", "approved"), ANN)
        assert (await it.it.book.state_of("run_1")).version == version
        await it.says()
        assert (await it.refused(), await it.refused("rejected")) == ("decided", "decided")
        assert (await it.calls(), it.sent) == ("result", 1)


async def test_stages_are_answered_in_order_by_different_people() -> None:
    stages = [{"role": "boss", "quorum": 2}, {"role": "finance"}]
    async with office(transitions=asking(stages=stages)) as it:
        await it.calls()
        half = await it.says(by=BOB)
        assert half.waits_for == (half.stages[0], 1)
        assert await it.refused(by=BOB) == "twice"
        await it.says(by=ANN)
        assert (await it.refused(by=ANN), await it.calls()) == ("twice", "needs_approval")
        shown = await it.it.call("write", {"n": 1})
        assert shown.refusal is not None
        assert shown.refusal.approval is not None
        assert shown.refusal.approval.approve_at.endswith(" --role finance"), "what a person at a terminal must say"
        row = (await it.desk.inbox(ANN)).rows[0]
        assert (row.roles, row.agreed, row.needed) == (("finance",), 0, 1)
        cyd = Reviewer("local", "local:cyd", frozenset({"finance"}))
        assert (await it.says(by=cyd)).decision == "approved"
        assert await it.calls() == "result"


async def test_two_reviewers_at_once_on_two_gateways_and_one_answer_counts(tmp_path: Path) -> None:
    url, clock = f"sqlite:///{tmp_path}/ledger.db", world.ToldClock()
    one, two = await open_ledger(url), await open_ledger(url)
    async with office(one, clock) as here, office(two, clock) as there:
        for number in range(8):
            await here.calls({"n": number})
            asked = await here.asked()
            said = Answer(asked.id, asked.action, "approved")
            no = replace(said, decision="rejected")
            came = await asyncio.gather(here.desk.decide(said, ANN), there.desk.decide(no, BOB), return_exceptions=True)
            assert sorted(type(each).__name__ for each in came) == ["Decided", "Refused"]
            refused = next(each for each in came if isinstance(each, Refused))
            assert refused.check == "decided"
            ends = await asyncio.gather(here.calls({"n": number}), there.calls({"n": number}))
            yes = (await here.asked(asked.id)).decision == "approved"
            assert ("result" in ends) == yes
        made = [one.event for one, _ in await one.read("run_1") if one.event.kind == "intent.recorded"]
        assert len(made) == here.sent + there.sent
        assert found(await verified(one, keys=[])) == []
    await one.close()
    await two.close()


async def test_a_reviewer_makes_so_many_decisions_as_policy_lets_them() -> None:
    async with office(transitions=asking(load={"decisions": 2, "window": "hour"})) as it:
        for number in range(2):
            await it.calls({"n": number})
            await it.says()
        await it.calls({"n": 3})
        assert await it.refused() == "load"
        assert (await it.says(by=BOB)).decision == "approved"
        await it.calls({"n": 4})
        it.it.clock.tell(3600)
        assert (await it.says()).decision == "approved"


# --- looks, attempts, runs --------------------------------------------------------------------------------------------


async def test_the_first_look_of_each_reviewer_is_recorded_once() -> None:
    async with office() as it:
        await it.calls()
        asked = await it.asked()
        for by in (ANN, ANN, BOB, Reviewer("acme", "x")):
            await it.desk.looked(asked.id, by)
        await it.says()
        await it.desk.looked(asked.id, Reviewer("local", "late"))
        seen = [one.event for one, _ in await it.it.ledger.read("run_1") if one.event.kind == "approval.seen"]
        assert [one.by.id for one in seen] == ["local:ann", "local:bob"]


@pytest.mark.parametrize(
    ("what", "after"),
    [("happened", "result"), ("did_not_happen", "result"), ("retry", "result"), ("stop_run", "human_escalation")],
)
async def test_what_is_unknown_waits_in_the_inbox_and_a_person_settles_it(what: Settlement, after: str) -> None:
    async with office(transitions=[{"name": "rest", "tools": ["*"]}]) as it:
        it.it.upstreams.will("write", Silence("timeout"))
        await it.calls()
        it.it.clock.tell(1000)
        row = (await it.desk.inbox(ANN)).rows[0]
        assert (row.about, row.tool, row.risk) == ("attempt", "write", "medium")
        with pytest.raises(Refused, match="say how you know"):
            await it.desk.settle(row.name, what, ANN, "")
        with pytest.raises(Refused, match="is known"):
            await it.desk.settle(row.name, what, Reviewer("acme", "x"), "no")
        await it.desk.settle(row.name, what, ANN, "looked at the bank")
        it.it.clock.tell(2)
        assert (await it.desk.inbox(ANN)).total == (1 if what == "stop_run" else 0), "stopping settles no attempt"
        it.it.upstreams.will("write", ToolResult({"content": []}))
        ended = await it.it.call("write", {"n": 2 if what == "stop_run" else 1})
        assert (outcome(ended) == after) or (what == "happened" and ended.refusal is not None)
        assert it.sent == (2 if what in {"did_not_happen", "retry"} else 1)


async def test_a_person_has_what_is_unknown_undone() -> None:
    rules = [{"name": "rest", "tools": ["*"], "verify": "t", "compensation": {"tool": "pay"}}]
    look = {"probe": {"tool": "check"}, "pass": ["true"]}
    async with office(transitions=rules, verifiers={"t": look}, tools={"pay": {"effect": "write"}}) as it:
        it.it.upstreams.will("write", Silence("timeout"))
        await it.calls()
        it.it.clock.tell(1000)
        (row,) = (await it.desk.inbox(ANN)).rows
        run = await it.desk.settle(row.name, "compensate", ANN, "it went to the wrong one")
        assert run.undo[row.name].state == "owed"
        await it.it.engine.undoer.undo("run_1")
        run = await it.it.book.state_of("run_1")
        assert run.undo[row.name].state in {"running", "undone"}
        assert [one.tool.name for one in it.it.upstreams.sent] == ["write", "pay", "check"]


async def test_a_run_that_ended_for_a_person_waits_until_one_takes_it_over() -> None:
    async with office() as it:
        over = RunStopped(outcome=Outcome.HUMAN_ESCALATION, reason="nobody else can")
        await it.it.book.say("run_1", lambda *_: [over])
        (row,) = (await it.desk.inbox(ANN)).rows
        assert (row.about, row.name, row.reason) == ("run", "run_1", "nobody else can")
        await it.desk.acknowledge("run_1", ANN, "mine")
        it.it.clock.tell(2)
        assert (await it.desk.inbox(ANN)).total == 0
        with pytest.raises(Refused, match="does not wait"):
            await it.desk.acknowledge("run_1", BOB, "mine too")
        assert await it.calls() == "human_escalation"


# --- the inbox --------------------------------------------------------------------------------------------------------


async def test_the_inbox_is_ordered_by_consequence_and_age_and_read_in_parts() -> None:
    rules = [
        {"name": name, "tools": [tool], "approval": {"risk": risk}}
        for name, tool, risk in (("a", "read", "low"), ("b", "write", "critical"), ("c", "pay", "high"))
    ]
    async with office(transitions=rules) as it:
        for number in range(3):
            for tool in ("read", "write", "pay"):
                await it.it.call(tool, {"n": number})
                it.it.clock.tell(1)
        rows: list[Waiting] = []
        after = None
        with anyio.fail_after(5):
            while True:
                page = await it.desk.inbox(ANN, limit=2, after=after)
                rows += page.rows
                if (after := page.next) is None:
                    break
        assert [row.risk for row in rows] == ["critical"] * 3 + ["high"] * 3 + ["low"] * 3
        assert [row.asked_at for row in rows[:3]] == sorted(row.asked_at for row in rows[:3])
        assert page.total == 9
        assert len({row.group for row in rows}) == 3
        assert (await it.desk.inbox(Reviewer("acme", "x"))).total == 0
        mine = Reviewer("local", "y", approval=rows[4].name)
        assert [row.name for row in (await it.desk.inbox(mine)).rows] == [rows[4].name]
        assert await it.desk.packet(rows[0].name, mine) is None
        packet = await it.desk.packet(rows[4].name, mine)
        assert packet is not None
        assert packet.approval == rows[4].name


async def test_many_answers_stand_each_for_itself() -> None:
    async with office() as it:
        answers = []
        for number in range(3):
            await it.calls({"n": number})
            asked = await it.asked()
            answers.append(Answer(asked.id, asked.action, "approved"))
        answers[1] = replace(answers[1], action="c1:forged")
        came = await it.desk.decide_all(answers, ANN)
        assert [type(one).__name__ for one in came] == ["Decided", "Refused", "Decided"]


async def test_a_second_stage_of_one_person_is_what_the_inbox_names_next() -> None:
    async with office(transitions=asking(stages=[{"role": "boss"}, {"role": "finance"}])) as it:
        await it.calls()
        await it.says(by=BOB)
        row = (await it.desk.inbox(ANN)).rows[0]
        assert (row.roles, row.agreed, row.needed, row.people) == (("finance",), 0, 1, 2)
