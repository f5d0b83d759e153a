"""Transitions as contracts: fresh preconditions, failure edges, repeats, modes, delegation, quorum, phases that end."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.events import RunStopped
from gateway.model.principal import Parent
from gateway.model.tool import NotSent, ProtocolError, Silence, ToolResult
from gateway.ports import NoSuchRun
from tests import world
from tests.audit.ledgers import verified
from tests.runtime.house import House, house, refused

pytestmark = pytest.mark.anyio

ERROR = ToolResult({"content": [{"type": "text", "text": "version 3 expected"}], "isError": True})


def says(**content: Any) -> ToolResult:
    """A probe's answer."""
    return ToolResult({"content": [], "structuredContent": content})


FRESH: dict[str, Any] = {
    "verifiers": {
        "unchanged": {
            "probe": {"tool": "check", "arguments": {"deep": False}, "arguments_from": {"path": "args.path"}},
            "pass": ["result.structuredContent.version == args.version"],
        }
    },
    "transitions": [
        {"name": "write", "tools": ["write"], "preconditions": ["unchanged"]},
        {"name": "rest", "tools": ["read", "pay"]},
    ],
}


async def test_a_precondition_is_asked_afresh_before_each_call_and_with_its_arguments() -> None:
    async with house(**FRESH) as it:
        it.upstreams.will("check", says(version=3), says(version=4))
        assert refused(await it.call("write", {"path": "a", "version": 3})) is None
        shown = await it.call("write", {"path": "b", "version": 3})
        assert refused(shown) == ("denied", "write")
        assert shown.refusal is not None
        assert "`unchanged` found that" in shown.refusal.reason
        sent = [(one.tool.name, dict(one.arguments)) for one in it.upstreams.sent]
        assert sent == [
            ("check", {"deep": False, "path": "a"}),
            ("write", {"path": "a", "version": 3}),
            ("check", {"deep": False, "path": "b"}),
        ]
        records = await it.ledger.read("run_1")
        finding = next(one for one in records[-1][0].event.checks if one.check == "preconditions")
        assert finding.inputs["unchanged"]["verdict"] == "fail"
        assert await it.ledger.payload(finding.inputs["unchanged"]["artifact"]) is not None


@pytest.mark.parametrize("answer_", [NotSent("down"), Silence("late"), ERROR, says(other=1)])
async def test_a_precondition_that_cannot_be_checked_denies(answer_: Any) -> None:
    async with house(**FRESH) as it:
        it.upstreams.will("check", answer_)
        assert refused(await it.call("write", {"path": "a", "version": 3})) == ("denied", "write")
        assert [one.tool.name for one in it.upstreams.sent] == ["check"]


async def test_no_probe_is_made_for_a_call_that_is_refused_anyway() -> None:
    async with house(**FRESH, budgets={"mutations": 0}) as it:
        assert refused(await it.call("write", {"path": "a", "version": 3})) == ("budget_exhausted", "budgets.mutations")
        assert it.upstreams.sent == []


EDGES: dict[str, Any] = {
    "tools": {
        "write": {
            "effect": "write",
            "failures": {
                "conflict": ['result.content[0].text.startsWith("version")'],
                "denied": ["result.error.code == -32001"],
            },
        }
    },
    "phases": {"start": {}, "merge": {}, "fix": {}, "ask": {"ends": "human_escalation"}, "other": {}},
    "transitions": [
        {
            "name": "write",
            "tools": ["write"],
            "on": {"conflict": "merge", "invalid": "fix", "denied": "ask", "error": "other"},
        }
    ],
}


@pytest.mark.parametrize(
    ("answered", "phase"),
    [
        (ERROR, "merge"),
        (ProtocolError({"code": -32602, "message": "no"}), "fix"),
        (ProtocolError({"code": -32001, "message": "no"}), "ask"),
        (ToolResult({"content": [{"type": "text", "text": "odd"}], "isError": True}), "other"),
        (ToolResult({"content": [], "isError": True}), "other"),
        (ToolResult({"content": [{"type": "text", "text": "version 4"}]}), "start"),
    ],
    ids=["conflict", "invalid params", "denied", "another error", "an error that cannot be judged", "no error"],
)
async def test_an_error_takes_the_edge_of_its_kind(answered: Any, phase: str) -> None:
    async with house(**EDGES) as it:
        it.upstreams.will("write", answered)
        await it.call("write", {"n": 1})
        run = await it.book.state_of("run_1")
        assert run.phase == phase
        assert (run.stopped.outcome if run.stopped else None) == ("human_escalation" if phase == "ask" else None)


async def test_a_result_that_breaks_its_schema_takes_the_edge_of_what_is_invalid() -> None:
    async with house(**EDGES) as it:
        it.upstreams.offer(world.tool("write", outputSchema={"type": "object", "required": ["id"]}))
        it.upstreams.will("write", says(other=1))
        await it.call("write", {"n": 1})
        assert (await it.book.state_of("run_1")).phase == "fix"


@pytest.mark.parametrize(
    ("rule", "first", "again"),
    [
        ({"retry": "never"}, world.ok(), ("denied", "write")),
        ({"retry": "never"}, NotSent("down"), ("denied", "write")),
        ({"retry": "unsent"}, NotSent("down"), None),
        ({"retry": "unsent"}, ERROR, ("denied", "write")),
        ({"retry": "any"}, ERROR, None),
        ({"max_attempts": 1}, NotSent("down"), None),
        ({"max_attempts": 1}, ERROR, ("denied", "write")),
        ({"max_attempts": 2}, ERROR, None),
    ],
)
async def test_policy_says_whether_an_equal_call_may_come_again(
    rule: dict[str, Any], first: Any, again: tuple[str, str] | None
) -> None:
    async with house(transitions=[{"name": "write", "tools": ["write"], **rule}]) as it:
        it.upstreams.will("write", first)
        await it.call("write", {"n": 1})
        assert refused(await it.call("write", {"n": 1})) == again
        assert refused(await it.call("write", {"n": 2})) is None, "another call is another matter"


# --- modes ----------------------------------------------------------------------------------------------------------

FORBID = {"name": "no-b", "tools": ["write"], "when": ['args.path == "b"']}


async def test_a_forbid_that_only_observes_lets_pass_and_is_recorded() -> None:
    async with house(forbid=[FORBID | {"mode": "observe"}]) as it:
        shown = await it.call("write", {"path": "b"})
        assert refused(shown) is None
        assert shown.record is not None
        assert shown.record["would_refuse"] == ["conditions"]
        intent = (await it.ledger.read("run_1"))[1][0].event
        finding = next(one for one in intent.checks if one.check == "conditions")
        assert (finding.passed, finding.rule, finding.reason) == (False, "no-b", "policy forbids this")
        assert intent.transition == "any"


async def test_a_forbid_that_binds_binds_in_a_policy_that_only_observes() -> None:
    async with house(mode="observe", forbid=[FORBID | {"mode": "enforce"}, {"name": "c", "tools": ["pay"]}]) as it:
        assert refused(await it.call("write", {"path": "b"})) == ("denied", "no-b")
        assert refused(await it.call("pay")) is None


async def test_a_forbid_that_observes_hides_none_that_binds() -> None:
    rules = [FORBID | {"name": "soft", "mode": "observe"}, FORBID | {"name": "hard"}]
    async with house(forbid=rules) as it:
        assert refused(await it.call("write", {"path": "b"})) == ("denied", "hard")


@pytest.mark.parametrize(
    "rule",
    [
        {"from": ["later"]},
        {"authority": ["nobody:has"]},
        {"when": ["args.missing == 1"]},
        {"approval": {}},
        {"preconditions": ["never"]},
        {"max_attempts": 1},
    ],
)
async def test_a_transition_that_only_observes_refuses_nothing(rule: dict[str, Any]) -> None:
    fields: dict[str, Any] = {
        "phases": {"now": {}, "later": {}},
        "verifiers": {"never": {"probe": {"tool": "check"}, "pass": ["false"]}},
        "transitions": [{"name": "write", "tools": ["write"], "mode": "observe", **rule}],
    }
    async with house(**fields) as it:
        await it.call("write", {"n": 1})
        shown = await it.call("write", {"n": 1})
        assert shown.record is not None
        assert len(shown.record["would_refuse"]) == 1


async def test_a_laxer_transition_that_allows_goes_before_one_that_observes() -> None:
    fields: dict[str, Any] = {
        "transitions": [
            {"name": "strict", "tools": ["write"], "when": ["args.n == 1"], "mode": "observe"},
            {"name": "lax", "tools": ["write"]},
        ]
    }
    async with house(**fields) as it:
        shown = await it.call("write", {"n": 2})
        assert shown.record is not None
        assert "would_refuse" not in shown.record


# --- authority ------------------------------------------------------------------------------------------------------

GRANTED: dict[str, Any] = {
    "grants": [{"authority": ["a", "b"]}, {"scopes": ["deploy"], "authority": ["c"]}],
    "transitions": [
        {"name": "a", "tools": ["write"], "authority": ["a"]},
        {"name": "b", "tools": ["pay"], "authority": ["b"]},
        {"name": "any", "tools": ["read"]},
    ],
}


async def child(it: House, run: str, parent: str, *authority: str) -> None:
    """The run is opened from that parent."""
    passed_on = Parent(parent, frozenset(authority) if authority else None)
    await it.engine.open_run(run=run, principal=world.USER, origin="token", attribution={}, parent=passed_on)


async def test_a_child_never_has_more_than_its_parent_however_deep() -> None:
    async with house(**GRANTED) as it:
        await child(it, "run_2", "run_1", "a", "c")
        await child(it, "run_3", "run_2", "a", "b")
        await child(it, "run_4", "run_3")
        assert [(await it.book.state_of(run)).delegated for run in ("run_1", "run_2", "run_3", "run_4")] == [
            None,
            frozenset("a"),
            frozenset("a"),
            frozenset("a"),
        ]
        assert refused(await it.call("pay", {"n": 1})) is None
        shown = await it.call("pay", {"n": 2}, run="run_4")
        assert refused(shown) == ("denied", "b")
        assert shown.refusal is not None
        assert shown.refusal.reason == "`local:user` lacks the authority `b` in a run that `run_3` opened"
        assert refused(await it.call("write", {"n": 3}, run="run_4")) is None


async def test_a_child_goes_on_only_as_long_as_its_parent() -> None:
    async with house(**GRANTED) as it:
        await child(it, "run_2", "run_1")
        assert refused(await it.call("read", run="run_2")) is None
        await it.book.say("run_1", lambda *_: [RunStopped(outcome="infeasible", reason="told")])  # type: ignore[arg-type]
        assert refused(await it.call("read", run="run_2")) == ("denied", "run.parent")
        with pytest.raises(NoSuchRun, match="does not go on"):
            await child(it, "run_3", "run_1")
        await child(it, "run_2", "run_1")  # it was opened before, and opening it again changes nothing


async def test_a_grandchild_goes_on_only_as_long_as_all_of_them() -> None:
    async with house(**GRANTED) as it:
        await child(it, "run_2", "run_1")
        await child(it, "run_3", "run_2")
        assert refused(await it.call("read", run="run_3")) is None
        await it.book.say("run_1", lambda *_: [RunStopped(outcome="infeasible", reason="told")])  # type: ignore[arg-type]
        assert refused(await it.call("read", run="run_3")) == ("denied", "run.parent")
        with pytest.raises(NoSuchRun, match="does not go on"):
            await child(it, "run_4", "run_2")


async def test_of_an_unknown_parent_nothing_is_opened() -> None:
    async with house(**GRANTED) as it:
        with pytest.raises(NoSuchRun, match="does not go on"):
            await child(it, "run_2", "run_9")


# --- data -----------------------------------------------------------------------------------------------------------


async def test_a_run_that_has_seen_secret_data_sends_nothing_out() -> None:
    fields: dict[str, Any] = {
        "tools": {"read": {"effect": "read", "data_class": "secret"}, "write": {"effect": "write"}},
        "forbid": [{"name": "leak", "tools": ["write"], "when": ['"secret" in run.data']}],
    }
    async with house(**fields) as it:
        assert refused(await it.call("write", {"n": 1})) is None
        await it.call("read")
        assert refused(await it.call("write", {"n": 2})) == ("denied", "leak")


async def test_a_child_has_seen_what_its_parent_had_and_holds_what_scopes_gave_the_parent() -> None:
    fields: dict[str, Any] = {
        "tools": {"read": {"effect": "read", "data_class": "secret"}, "write": {"effect": "write"}},
        "forbid": [{"name": "leak", "tools": ["write"], "when": ['"secret" in run.data']}],
        "grants": [{"scopes": ["deploy"], "authority": ["c"]}],
    }
    async with house(**fields) as it:
        deployer = replace(world.USER, scopes=frozenset({"deploy"}))
        await it.engine.open_run(run="run_2", principal=deployer, origin="token", attribution={})
        await it.call("read", run="run_2")
        await child(it, "run_3", "run_2")
        assert (await it.book.state_of("run_3")).delegated == frozenset("c")
        assert refused(await it.call("write", run="run_3")) == ("denied", "leak")


async def test_a_run_that_is_told_what_another_run_called_for_has_seen_it_too() -> None:
    fields: dict[str, Any] = {
        "tools": {"read": {"effect": "read", "data_class": "secret"}, "pay": {"effect": "write", "data_class": "bank"}},
        "forbid": [{"name": "leak", "tools": ["write"], "when": ["run.data.size() > 0"]}],
    }
    async with house(**fields) as it:
        asked = await it.call("read")
        made = await it.call("pay", deliver=False)
        await it.open("run_2")
        for attempt in (asked.attempt, made.attempt):
            await it.engine.check_told(attempt or "", world.USER, "run_1")
            for other in ("run_2", None):
                with pytest.raises(NoSuchRun, match="make the same call in this run"):
                    await it.engine.check_told(attempt or "", world.USER, other)
        assert refused(await it.call("write", {"n": 1}, run="run_2")) is None
        told = await it.call("pay", run="run_2")
        assert told.record is not None
        assert told.record["run"] == "run_1"
        assert (await it.book.state_of("run_2")).data == {"bank"}
        assert refused(await it.call("write", {"n": 2}, run="run_2")) == ("denied", "leak")
        assert (await verified(it.ledger, keys=[])).breaches == []


async def test_evidence_says_what_it_is_about_and_a_condition_can_ask_for_that() -> None:
    fields: dict[str, Any] = {
        "tools": {"read": {"effect": "read"}, "check": {"effect": "read"}, "pay": {"effect": "write"}},
        "verifiers": {
            "tests": {
                "probe": {"tool": "check"},
                "pass": ["result.structuredContent.failed == 0"],
                "scope_from": {"revision": "result.structuredContent.revision"},
                "covers": ["write"],
            }
        },
        "transitions": [
            {"name": "test", "tools": ["read"], "verify": "tests"},
            {"name": "push", "tools": ["pay"], "when": ["evidence.tests.scope.revision == args.revision"]},
        ],
    }
    async with house(**fields) as it:
        it.upstreams.will("check", says(failed=0, revision="abc"))
        assert refused(await it.call("pay", {"revision": "abc"})) == ("denied", "push")
        await it.call("read")
        assert refused(await it.call("pay", {"revision": "def"})) == ("denied", "push")
        assert refused(await it.call("pay", {"revision": "abc"})) is None


LAXER: list[dict[str, Any]] = [
    {"name": "strict", "tools": ["write"], "authority": ["b"], "approval": {}},
    {"name": "lax", "tools": ["write"]},
]


async def test_less_authority_is_not_handed_to_a_transition_that_asks_less() -> None:
    async with house(grants=[{"authority": ["b"]}], transitions=LAXER) as it:
        assert refused(await it.call("write", {"n": 1})) == ("needs_approval", "strict")
    async with house(transitions=LAXER) as it:
        shown = await it.call("write", {"n": 1})
        assert refused(shown) == ("denied", "strict")
        assert shown.refusal is not None
        assert shown.refusal.reason == "`local:user` lacks the authority `b`"
        finding = (await it.ledger.read("run_1"))[-1][0].event.checks[-1]
        assert finding.inputs["unmet"]["lax"] == "`lax` asks less than `strict`: `local:user` lacks the authority `b`"


async def test_less_authority_is_handed_to_a_transition_that_asks_more() -> None:
    transitions = [
        {"name": "admins", "tools": ["write"], "authority": ["b"]},
        {"name": "others", "tools": ["write"], "approval": {}},
    ]
    async with house(transitions=transitions) as it:
        assert refused(await it.call("write", {"n": 1})) == ("needs_approval", "others")
    async with house(grants=[{"authority": ["b"]}], transitions=transitions) as it:
        assert refused(await it.call("write", {"n": 1})) is None


async def test_a_failed_postcondition_says_why_nothing_undid_it() -> None:
    fields: dict[str, Any] = {
        "tools": {"write": {"effect": "write", "compensation": {"tool": "unwrite"}}, "check": {"effect": "read"}},
        "verifiers": {"right": {"probe": {"tool": "check"}, "pass": ["false"]}},
        "transitions": [{"name": "write", "tools": ["write"], "verify": "right"}],
    }
    async with house(**fields) as it:
        shown = await it.call("write", {"n": 1})
        assert refused(shown) == ("verification_failed", "write")
        assert shown.refusal is not None
        assert [one.says for one in shown.refusal.undone or ()] == ["`unwrite` is about to be called"]
