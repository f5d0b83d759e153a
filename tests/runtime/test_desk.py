"""What people are asked survives days and restarts, binds to one action, and is used once."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.model.events import Outcome, RunStopped
from gateway.model.review import Answer, Refused, Reviewer, Settlement, Waiting
from gateway.model.run import Approval
from gateway.model.tool import Silence, ToolResult
from gateway.outbound.ledger import open_ledger
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.runtime.desk import Desk
from tests import world
from tests.audit.ledgers import found, verified
from tests.runtime.house import House, house, outcome

DAY = 86_400.0
ANN = Reviewer("local", "local:ann", frozenset({"boss", "finance"}), via="oidc")
BOB = Reviewer("local", "local:bob", frozenset({"boss"}), via="oidc")
ASK: dict[str, Any] = {"name": "ask", "tools": ["write"], "approval": {"reason": "it matters"}}


def asking(**approval: Any) -> list[dict[str, Any]]:
    """A transition that asks, with these terms; reads and whatever else is free."""
    return [{**ASK, "approval": {**ASK["approval"], **approval}}, {"name": "rest", "tools": ["*"]}]


@dataclass
class Office:
    """A gateway, and the desk of its people."""

    it: House
    desk: Desk

    async def asked(self, name: str | None = None) -> Approval:
        """The question of that name, or the newest one."""
        run = await self.it.book.fresh_state_of("run_1")
        return run.approvals[name] if name else max(run.approvals.values(), key=lambda one: one.seq)

    async def says(
        self, decision: str = "approved", by: Reviewer = ANN, of: str | None = None, **said: Any
    ) -> Approval:
        asked = await self.asked(of)
        given = {"approval": asked.id, "action": asked.action, "decision": decision, "reason": "seen"} | said
        return (await self.desk.decide(Answer(**given), by)).approval

    async def refused(self, decision: str = "approved", by: Reviewer = ANN, of: str | None = None, **said: Any) -> str:
        with pytest.raises(Refused) as caught:
            await self.says(decision, by, of, **said)
        return caught.value.check

    async def calls(self, arguments: dict[str, Any] | None = None) -> str:
        return outcome(await self.it.call("write", arguments or {"n": 1}))

    @property
    def sent(self) -> int:
        return sum(one.tool.name == "write" for one in self.it.upstreams.sent)


@asynccontextmanager
async def office(ledger: Any = None, clock: world.ToldClock | None = None, **fields: Any) -> AsyncIterator[Office]:
    fields.setdefault("transitions", asking())
    async with house(ledger, clock=clock, **fields) as it:
        yield Office(it, Desk(it.book))
        if ledger is None:
            assert found(await verified(it.ledger, keys=[])) == []


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
        with pytest.raises(Refused, match="does not wait"):
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
