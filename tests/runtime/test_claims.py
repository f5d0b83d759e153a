"""What an agent says of its own work: recorded, served back as what it is, and never in the way of a fact."""

import json
from datetime import timedelta
from typing import Any

import jsonschema_rs
import pytest

from gateway.inbound.mcp.own_tools import OWN_TOOLS
from gateway.model.answer import Shown
from gateway.model.party import Party
from gateway.model.plan import Note, Plan
from gateway.model.principal import Parent, Principal
from gateway.model.record import utc
from gateway.model.tool import Silence
from gateway.ports import LedgerUnavailable, NoSuchRun
from gateway.runtime import claims
from tests import world
from tests.runtime.house import House, house
from tests.runtime.undoing import undoing

pytestmark = pytest.mark.anyio

TOLD: dict[str, Any] = {
    "phases": {"begin": {"description": "nothing is changed yet"}, "changed": {}},
    "verifiers": {"tests": {"probe": {"tool": "check"}, "pass": ["result.structuredContent.exit == 0"]}},
    "transitions": [
        {"name": "change", "tools": ["write"], "to": "changed", "verify": "tests"},
        {"name": "look", "tools": ["read"]},
    ],
    "success": {"evidence": ["tests"]},
}
FAILS = world.ok(structuredContent={"exit": 1})
PASSES = world.ok(structuredContent={"exit": 0})


def plan(*assumptions: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate({"objective": "the tests pass", "assumptions": assumptions, **fields})


def note(**fields: Any) -> Note:
    told = {"says": "the cache is stale", "sources": ["run_1#1"], "confidence": 0.7}
    return Note.model_validate(told | fields)


async def say(it: House, said: Plan | Note, run: str = "run_1", by: Principal = world.USER) -> Shown:
    if isinstance(said, Plan):
        return await it.engine.claims.plan(run, by, said, "gateway__plan")
    return await it.engine.claims.note(run, by, said, "gateway__note")


async def status(it: House, run: str | None = "run_1", since: str | None = None, **more: Any) -> Any:
    asked: dict[str, Any] = {"workflow": None, "parent": None, "offered": ["read", "write"], "party": Party("t")}
    shown = await it.engine.claims.status(run, world.USER, **asked | more, since=since, tool="gateway__status")
    return told(shown)


def told(shown: Shown) -> Any:
    """The structured result, which keeps the schema that is listed; or how it was refused."""
    if shown.refusal is not None:
        return str(shown.refusal.outcome), shown.refusal.reason
    assert shown.result is not None
    found = shown.result["structuredContent"]
    name = "status" if "workflow" in found else "plan" if "revision" in found else "note"
    jsonschema_rs.validate(OWN_TOOLS[f"gateway__{name}"].definition["outputSchema"], found)
    assert json.loads(shown.result["content"][0]["text"]) == found
    return found


async def test_who_may_call_nothing_more_is_told_why_and_not_what() -> None:
    ends = {"name": "never", "tools": ["pay"], "reason": "not here", "final": True}
    async with house(**TOLD, forbid=[ends], stops={"deadline_s": 90}) as it:
        opened: dict[str, Any] = {"principal": world.USER, "origin": "token", "attribution": {}}
        await it.engine.open_run(run="run_2", **opened, parent=Parent("run_1"))
        await it.engine.open_run(run="run_3", **opened, expires_at=it.clock.now() + 50)
        await it.engine.open_run(run="run_4", **opened)
        for run in ("run_1", "run_2", "run_3", "run_4"):
            at_first = await status(it, run)
            assert [one["transition"] for one in at_first["eligible"]] == ["change", "look"]
            assert "closed" not in at_first
        it.clock.tell(50)
        await it.call("pay")
        assert "closed" not in await status(it), "it is over, and says so"
        parent, expired = await status(it, "run_2"), await status(it, "run_3")
        it.clock.tell(40)
        late = await status(it, "run_4")
        for told_, why in (
            (parent, "the run `run_1`, from which this one was opened, is over"),
            (expired, "the run's authorization expired at "),
            (late, "the run had 90 s and is 90 s old"),
        ):
            assert (told_["state"], told_["eligible"], told_["barred"]) == ("running", [], [])
            assert told_["closed"].startswith(why)


# --- plans ----------------------------------------------------------------------------------------------------------


REVISION = {"says": "nobody else commits", "tool": "read", "field": "structuredContent.revision", "equals": 7}


async def test_a_result_that_contradicts_the_plan_says_so_itself_and_once() -> None:
    async with house(**TOLD) as it:
        assert told(await say(it, plan(REVISION))) == {
            "run": "run_1", "event": "run_1#2", "revision": 1, "assumptions": 1, "invalidated": [],
        }  # fmt: skip
        it.upstreams.will("read", *(world.ok(structuredContent={"revision": found}) for found in (7, 7.0, 8, 9)))
        records = [(await it.call("read")).record or {} for _ in range(4)]
        says = "the plan assumes something of `structuredContent.revision`, and the result of `read` says otherwise"
        assert [record.get("plan_invalidated") for record in records] == [
            None,
            None,
            [{"assumption": 0, "says": says, "event": "run_1#9"}],
            None,
        ]
        assert (await status(it))["plan"]["invalidated"] == [
            {"assumption": 0, "assumed": REVISION["says"], "says": says, "event": "run_1#9", "because": ["run_1#8"]}
        ]
        kinds = [record.event.kind for record, _ in await it.ledger.read("run_1")]
        assert kinds.count("plan.invalidated") == 1


async def test_only_calls_with_these_arguments_contradict() -> None:
    async with house(**TOLD) as it:
        await say(it, plan(REVISION | {"arguments": {"branch": "main", "depth": 1.0}}))
        it.upstreams.will("read", *[world.ok(structuredContent={"revision": 8})] * 2)
        other = await it.call("read", {"branch": "next", "depth": 1})
        same = await it.call("read", {"branch": "main", "depth": 1})
        assert ["plan_invalidated" in (shown.record or {}) for shown in (other, same)] == [False, True]


@pytest.mark.parametrize("field", ["structuredContent.other", "structuredContent.revision.deep", "content.3.text"])
async def test_a_field_that_is_not_there_contradicts_nothing(field: str) -> None:
    async with house(**TOLD) as it:
        await say(it, plan(REVISION | {"field": field}))
        it.upstreams.will("read", world.ok(structuredContent={"revision": 8}))
        assert "plan_invalidated" not in ((await it.call("read")).record or {})


async def test_evidence_contradicts_in_the_same_step_and_the_refusal_says_so() -> None:
    async with house(**TOLD) as it:
        await say(it, plan({"says": "green", "evidence": "tests", "field": "verdict", "equals": "pass"}))
        it.upstreams.will("check", FAILS)
        shown = await it.call("write")
        assert shown.refusal is not None
        assert shown.record == {
            "plan_invalidated": [
                {
                    "assumption": 0,
                    "says": "the plan assumes something of `verdict`, and the evidence of `tests` says otherwise",
                    "event": "run_1#6",
                }
            ]
        }
        kinds = [record.event.kind for record, _ in await it.ledger.read("run_1")]
        assert kinds[4:6] == ["evidence.recorded", "plan.invalidated"]


async def test_a_new_plan_replaces_the_old_one_and_is_held_against_what_is_known() -> None:
    async with house(**TOLD) as it:
        await say(it, plan(REVISION, steps=["look", "change"]))
        it.upstreams.will("check", FAILS)
        await it.call("write")
        green = {"says": "green", "evidence": "tests", "field": "verdict", "equals": "pass"}
        answer = told(await say(it, plan(green)))
        assert (answer["revision"], [one["assumption"] for one in answer["invalidated"]]) == (2, [0])
        assert (await status(it))["plan"]["plan"] == {"objective": "the tests pass", "assumptions": [green]}


# --- notes ----------------------------------------------------------------------------------------------------------


async def test_a_wrong_diagnosis_expires_when_the_verifier_speaks_anew() -> None:
    async with house(**TOLD) as it:
        it.upstreams.will("check", FAILS, PASSES)
        await it.call("write")
        wrong = note(about="tests", sources=["run_1#4"], until={"evidence": "tests"})
        assert told(await say(it, wrong))["event"] == "run_1#6"
        it.clock.tell(60)
        assert (await status(it))["hypotheses"] == [
            {
                "event": "run_1#6", "says": "the cache is stale", "about": "tests", "sources": ["run_1#4"],
                "confidence": 0.7, "age_s": 60.0, "until": "tests",
                "expires_at": utc(world.T0 + 3600).isoformat(timespec="seconds"),
            }
        ]  # fmt: skip
        await it.call("write", {"fix": True})
        last = await status(it)
        assert (last["hypotheses"], last["over"]["outcome"]) == ([], "verified_success")


async def test_a_note_expires_by_the_clock() -> None:
    async with house(**TOLD) as it:
        await say(it, note(expires_s=10))
        it.clock.tell(9)
        assert len((await status(it))["hypotheses"]) == 1
        it.clock.tell(1)
        assert (await status(it))["hypotheses"] == []


@pytest.mark.parametrize("source", ["run_1#2", "run_1#0", "run_2#1", "run_1", "run_1#x", f"run_1#{'9' * 30}"])
async def test_a_note_rests_on_events_of_its_own_run(source: str) -> None:
    async with house(**TOLD) as it:
        says = f"`{source}` is no event of this run; `gateway__status` names them as `RUN#SEQ`"
        assert told(await say(it, note(sources=[source]))) == ("invalid_arguments", says)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (note(until={"evidence": "lint"}), "the policy has no verifier `lint`; it has `tests`"),
        (
            plan({"says": "x", "evidence": "lint", "field": "verdict", "equals": "pass"}),
            "the policy has no verifier `lint`; it has `tests`",
        ),
        (
            plan({"says": "x", "evidence": "tests", "field": "verdikt", "equals": "pass"}),
            "evidence has no field `verdikt`; it has `verdict`, `signature`, `scope`, `self_reported`, `opinion`",
        ),
        (note(says="ä" * 1000, sources=["run_1#1"] * 20, about="é" * 200), None),
        (plan(*[REVISION | {"arguments": {"long": "x" * 3000}}] * 16), "it is longer than 32768 bytes"),
    ],
)
async def test_what_can_never_come_true_or_is_too_long_is_one_clear_error(said: Plan | Note, reason: str) -> None:
    async with house(**TOLD) as it:
        found = told(await say(it, said))
        assert (found if reason else "refusal" not in found) == (("invalid_arguments", reason) if reason else True)


async def test_plans_and_notes_are_so_many_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "MAX_PLANS", 2)
    monkeypatch.setattr(claims, "MAX_NOTES", 2)
    async with house(**TOLD) as it:
        for said, reason in ((plan(), "the run has 2 plans"), (note(expires_s=1), "the run has 2 notes")):
            assert [type(told(await say(it, said))) for _ in range(2)] == [dict, dict]
            it.clock.tell(2)
            assert told(await say(it, said)) == ("denied", f"{reason}, and takes no more")


# --- whose, and when ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [plan(), note()])
async def test_nothing_is_said_in_a_run_that_is_over_or_anothers(said: Plan | Note) -> None:
    async with house(**TOLD) as it:
        with pytest.raises(NoSuchRun):
            await say(it, said, by=Principal("somebody"))
        it.upstreams.will("check", PASSES)
        await it.call("write")
        before = (await it.book.state_of("run_1")).version
        assert told(await say(it, said))[0] == "verified_success"
        assert (await it.book.state_of("run_1")).version == before


async def test_what_is_said_costs_nothing() -> None:
    async with house(**TOLD, budgets={"calls": 1}) as it:
        for said in (plan(), note(), plan()):
            await say(it, said)
        assert (await status(it))["budget_left"] == {"calls": 1.0}
        assert (await it.call("read")).refusal is None


async def test_an_erased_plan_and_note_are_told_without_their_words() -> None:
    async with house(**TOLD) as it:
        await say(it, plan(REVISION))
        await say(it, note())
        it.upstreams.will("read", world.ok(structuredContent={"revision": 8}))
        await it.call("read")
        stored = [record.event for record, _ in await it.ledger.read("run_1")]
        cited = [getattr(event, name) for event in stored for name in ("plan", "note") if hasattr(event, name)]
        await it.ledger.erase([one for one in cited if isinstance(one, str)], it.clock.now(), await it.ledger.closed())
        last = await status(it)
        assert ("plan" in last["plan"], "assumed" in last["plan"]["invalidated"][0]) == (False, False)
        assert "says" not in last["hypotheses"][0]


# --- status ---------------------------------------------------------------------------------------------------------


async def test_status_of_a_run_that_nobody_opened_is_where_it_would_begin_and_opens_none() -> None:
    async with house(**TOLD) as it:
        for run in (None, "run_2"):
            found = await status(it, run)
            assert (found["state"], found["phase"]) == (
                "unopened",
                {"name": "begin", "description": "nothing is changed yet"},
            )
            assert [one["transition"] for one in found["eligible"]] == ["change", "look"]
            assert ("run" in found, "cursor" in found) == (False, False)
        assert await it.ledger.read("run_2") == []
        with pytest.raises(NoSuchRun):
            await status(it, None, workflow="nowhere")


async def test_status_of_anothers_run_is_not_told() -> None:
    async with house(**TOLD) as it:
        await it.engine.open_run(run="run_2", principal=Principal("else"), origin="process", attribution={})
        with pytest.raises(NoSuchRun):
            await status(it, "run_2")


async def test_what_happened_since_a_cursor_is_told_by_relevance() -> None:
    async with house(**TOLD) as it:
        begun = (await status(it))["cursor"]
        it.upstreams.will("check", FAILS)
        await it.call("read")
        await it.call("write")
        await it.call("nowhere")
        found = await status(it, since=begun)
        assert found["since"] == {
            "events": [
                {
                    "event": "run_1#6",
                    "about": "failure",
                    "says": "fail: `tests` found that `result.structuredContent.exit == 0` does not hold",
                },
                {
                    "event": "run_1#8",
                    "about": "hold",
                    "says": "`nowhere` was refused (denied): no upstream offers a tool named `nowhere`",
                },
            ],
            "more": 0,
            "routine": {"intent.recorded": 2, "receipt.recorded": 2, "outcome.delivered": 1},
        }
        assert found["cursor"] == "run_1#8"
        assert (await status(it, since=found["cursor"]))["since"]["events"] == []
        assert (await status(it, since="run_1#99"))[0] == "invalid_arguments"


async def test_a_long_story_is_told_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "MAX_EVENTS", 3)
    async with house(**TOLD) as it:
        for _ in range(3):
            await it.call("nowhere")
        first = await status(it, since="run_1#1")
        assert (first["cursor"], len(first["since"]["events"])) == ("run_1#4", 3)
        assert (await status(it, since=first["cursor"]))["since"]["events"] == []


async def test_reading_the_status_leaves_the_run_as_it_is() -> None:
    async with house(**TOLD, stops={"deadline_s": 10}) as it:
        it.clock.tell(timedelta(hours=1).total_seconds())
        before = await it.book.state_of("run_1")
        assert (await status(it))["state"] == "running"
        assert await it.book.fresh_state_of("run_1") == before


async def test_what_waits_for_a_person_says_where_to_answer() -> None:
    asks = [{"name": "pay", "tools": ["pay"], "approval": {}}, {"name": "any", "tools": ["*"]}]
    async with house(transitions=asks) as it:
        await it.call("pay")
        it.upstreams.will("write", Silence("no answer came"))
        await it.call("write")
        found = await status(it)
        [asked] = (await it.book.state_of("run_1")).approvals
        begun = utc(world.T0).isoformat(timespec="seconds")
        assert found["approvals"] == [
            {
                "approval": asked,
                "tool": "pay",
                "approve_at": f"counterfoil approvals approve {asked}",
                "expires_at": utc(world.T0 + 86_400).isoformat(timespec="seconds"),
            }
        ]
        assert found["unsettled"] == [
            {
                "attempt": "run_1.3",
                "tool": "write",
                "state": "unknown",
                "since": begun,
                "settle_at": "counterfoil resolve run_1.3",
            }
        ]
        it.clock.tell(86_400)
        assert (await status(it))["approvals"] == []


async def test_an_effect_that_must_not_stay_is_told_until_it_is_undone() -> None:
    async with undoing() as it:
        it.upstreams.will("refund", world.ok(isError=True))
        await it.call("pay", {"amount": 5})
        [told_] = (await status(it))["undoing"]
        assert (told_["attempt"], told_["state"], told_["tool"]) == ("run_1.2", "failed", "refund")


async def test_whether_a_run_is_over_is_no_where_nobody_can_say(monkeypatch: pytest.MonkeyPatch) -> None:
    async with house(**TOLD) as it:
        assert [await it.engine.claims.over(run) for run in ("run_1", "run_9")] == [False, False]
        it.upstreams.will("check", PASSES)
        await it.call("write")
        assert await it.engine.claims.over("run_1")

        async def gone(*_: object) -> None:
            raise LedgerUnavailable("gone")

        monkeypatch.setattr(it.book, "fresh_state_of", gone)
        assert not await it.engine.claims.over("run_1")
