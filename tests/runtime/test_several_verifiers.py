"""Several verifiers speak about one call, in order; about what leads to a phase; and now and then about reads."""

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.kernel.standing import standing
from gateway.kernel.status import held as evidence_of
from gateway.model.answer import Failure
from gateway.model.finish import Finish
from gateway.model.party import Party
from gateway.model.plan import Assumption, Plan
from gateway.model.policy import Policy
from gateway.model.tool import Answer, NotSent
from tests import world
from tests.runtime.house import House, house, outcome

OK = world.ok(structuredContent={"ok": True})
PARTY = Party("stdio:1", {}, {"name": "test"})
BAD = world.ok(structuredContent={"ok": False, "why": "x" * 50_000})


def verifier(tool: str, **fields: Any) -> dict[str, Any]:
    return {"probe": {"tool": tool}, "pass": ["result.structuredContent.ok == true"], "covers": ["write"], **fields}


POLICY: Mapping[str, Any] = {
    "phases": {"work": {}, "done": {"verify": ["lint", "types"]}},
    "tools": {
        "read": {"effect": "read"},
        "check": {"effect": "read"},
        "pay": {"effect": "read"},
        "write": {"effect": "write"},
    },
    "transitions": [
        {"name": "write", "tools": ["write"], "verify": ["tests", "lint"], "to": "done"},
        {"name": "look", "tools": ["read"], "effect": ["read"]},
    ],
    "verifiers": {"tests": verifier("check"), "lint": verifier("pay"), "types": verifier("read")},
}


def asked(it: House) -> list[str]:
    return [one.tool.name for one in it.upstreams.sent][1:]


async def state(it: House) -> tuple[str, str | None, str | None]:
    """Phase, and how it stands with the one attempt."""
    run = await it.book.state_of("run_1")
    attempt = run.attempts["run_1.2"]
    return run.phase, attempt.verdict, standing(run, attempt)


async def test_all_of_them_must_pass_those_of_the_phase_last_and_each_once() -> None:
    async with house(**POLICY) as it:
        for tool in ("check", "pay", "read"):
            it.upstreams.will(tool, OK)
        shown = await it.call("write", {"n": 1})
        assert asked(it) == ["check", "pay", "read"]
        assert outcome(shown) == "result"
        assert shown.record is not None
        assert shown.record["standing"] == "committed"
        assert await state(it) == ("done", "pass", "committed")


@pytest.mark.parametrize(
    ("answers", "verdict", "stands"),
    [
        ({"check": BAD}, "fail", "failed"),
        ({"check": OK, "pay": BAD}, "fail", "failed"),
        ({"check": OK, "pay": OK, "read": BAD}, "fail", "failed"),
        ({"check": OK, "pay": NotSent("down")}, "inconclusive", "attempted"),
    ],
)
async def test_the_first_that_does_not_pass_is_the_last_word(
    answers: Mapping[str, Answer], verdict: str, stands: str
) -> None:
    async with house(**POLICY) as it:
        for tool, answer in answers.items():
            it.upstreams.will(tool, answer)
        shown = await it.call("write", {"n": 1})
        assert asked(it) == list(answers)
        assert outcome(shown) == "verification_failed"
        assert await state(it) == ("work", verdict, stands)


async def test_the_agent_is_told_what_was_found_and_not_to_try_again() -> None:
    async with house(**POLICY, budgets={"mutations": 5}) as it:
        it.upstreams.will("check", BAD)
        shown = await it.call("write", {"n": 1})
        assert shown.refusal is not None
        failure = shown.refusal.failure
        assert failure is not None
        assert (failure.verifier, failure.cut) == ("tests", True)
        assert failure.found["structuredContent"]["ok"] is False
        assert len(failure.found["structuredContent"]["why"]) < 3_000
        assert shown.refusal.budget.left == {"mutations": 4.0}
        # The same again, from the record.
        assert (await it.call("write", {"n": 1}, deliver=False)).refusal is not None


async def test_of_what_a_verifier_saw_nothing_is_told_that_nobody_sees_or_that_has_a_class() -> None:
    bad = world.ok(structuredContent={"ok": False, "why": "no\u200bt\U000e0041 yet"})
    for rule, found in (({}, {"ok": False, "why": "not yet"}), ({"data_class": "secret"}, None)):
        tools = {**POLICY.get("tools", {}), "check": {"effect": "read", **rule}}
        async with house(**{**POLICY, "tools": tools}) as it:
            it.upstreams.will("check", bad)
            shown = await it.call("write", {"n": 1})
            assert shown.refusal is not None
            assert shown.refusal.failure is not None
            assert (shown.refusal.failure.found or {}).get("structuredContent") == found
            assert "secret" not in (await it.book.state_of("run_1")).data


async def test_where_policy_says_so_only_that_it_failed_is_told() -> None:
    """By no way: neither what was seen, nor the condition, the scope or the signature; people are told all of it."""
    hidden = verifier("check", tell="verdict", scope_from={"seen": "result.structuredContent.why"})
    quiet = {
        **POLICY,
        "verifiers": {**POLICY["verifiers"], "tests": hidden},
        "success": {"evidence": ["tests"]},
    }
    guess = Assumption(says="g", evidence="tests", field="scope.seen", equals="x")
    async with house(**quiet) as it:
        it.upstreams.will("check", world.ok(structuredContent={"ok": False, "why": "w0rd"}))
        shown = await it.call("write", {"n": 1})
        assert shown.refusal is not None
        assert shown.refusal.failure == Failure(verifier="tests")
        assert shown.refusal.reason == "`tests` failed"
        claim = await it.engine.finishing.finish(
            "run_1", world.USER, Finish(outcome="verified_success", says="x"), PARTY, "finish"
        )
        stands = await it.engine.claims.status(
            "run_1", world.USER, workflow=None, parent=None, offered=["write"], party=PARTY, since="run_1#1", tool="s"
        )
        plan = await it.engine.claims.plan("run_1", world.USER, Plan(objective="x", assumptions=(guess,)), "plan")
        assert plan.refusal is not None
        assert plan.refusal.reason == (
            "policy keeps what `tests` finds from agents; nothing can be assumed of its `scope.seen`"
        )
        for told in (shown, claim, stands):
            assert "structuredContent.ok" not in repr(told)
            assert "w0rd" not in repr(told)
        assert "c1:" not in repr(stands.result and stands.result["structuredContent"]["failures"])
        (held,) = (await it.book.state_of("run_1")).evidence.values()
        assert held.event.kept == "`tests` found that `result.structuredContent.ok == true` does not hold"
        (packet,) = evidence_of(await it.book.state_of("run_1"), whole=True)
        assert packet.says == held.event.kept


async def test_a_precondition_of_which_the_verdict_alone_is_told_refuses_without_more() -> None:
    quiet = {
        **POLICY,
        "transitions": [{"name": "write", "tools": ["write"], "preconditions": ["tests"]}],
        "phases": {"work": {}},
        "verifiers": {"tests": verifier("check", tell="verdict")},
    }
    async with house(**quiet) as it:
        it.upstreams.will("check", BAD)
        shown = await it.call("write", {"n": 1})
        assert shown.refusal is not None
        assert shown.refusal.reason == "`tests` failed"


async def test_without_a_verifier_it_is_only_reported() -> None:
    async with house() as it:
        shown = await it.call("write", {"n": 1})
        assert shown.record is not None
        assert shown.record["standing"] == "reported"
        read = await it.call("read")
        assert read.record is not None
        assert "standing" not in read.record


async def test_a_part_of_the_reads_is_verified_the_same_part_each_time() -> None:
    sampled: dict[str, Any] = {
        "transitions": [{"name": "look", "tools": ["read"], "effect": ["read"], "verify": "tests", "sample": 0.25}],
        "tools": {"read": {"effect": "read"}, "check": {"effect": "read"}},
        "verifiers": {"tests": verifier("check")},
    }
    async with house(**sampled) as it:
        it.upstreams.always = {"check": OK}
        for n in range(200):
            await it.call("read", {"n": n})
        checked = sum(one.tool.name == "check" for one in it.upstreams.sent)
        assert 25 <= checked <= 80


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"transitions": [{"name": "w", "tools": ["write"], "sample": 0.5}]},
            "only a transition that names a verifier",
        ),
        (
            {"transitions": [{"name": "w", "tools": ["write"], "verify": "tests", "to": "done", "sample": 0.5}]},
            "only a transition that names a verifier",
        ),
        (
            {"success": {"evidence": ["own"]}},
            "success accepts no evidence of this kind, and `own` is self-reported",
        ),
        (
            {"success": {"evidence": ["model"]}},
            "success accepts no evidence of this kind, and `model` is an opinion",
        ),
        (
            {
                "phases": {"work": {}, "done": {"accept": "independent"}},
                "transitions": [{"name": "w", "tools": ["write"], "to": "done"}],
            },
            "the phase `done` is entered by evidence alone, and nothing is verified here",
        ),
        (
            {
                "phases": {"work": {}, "done": {"accept": "opinion"}},
                "transitions": [{"name": "w", "tools": ["write"], "verify": "own", "to": "done"}],
            },
            "the phase `done` accepts no evidence of this kind, and `own` is self-reported",
        ),
        (
            {
                "phases": {"work": {}, "done": {"accept": "independent"}},
                "transitions": [{"name": "w", "tools": ["write"], "on": {"error": "done"}}],
            },
            "the phase `done` is entered by evidence alone, and a failure is none",
        ),
    ],
)
def test_gates_are_held_to_what_can_come_through_them(fields: Mapping[str, Any], says: str) -> None:
    policy = {
        "workflow": "w",
        "phases": {"work": {}, "done": {}},
        "transitions": [{"name": "w", "tools": ["write"], "verify": ["tests", "own", "model"]}],
        "verifiers": {
            "tests": verifier("check"),
            "own": {"result": {}, "pass": ["result.isError == false"]},
            "model": verifier("check", opinion=True),
        },
    }
    Policy.model_validate(policy)
    with pytest.raises(ValueError, match=r"accept|verifier|evidence") as refused:
        Policy.model_validate({**policy, **fields})
    assert says in str(refused.value)


ABOUT: Mapping[str, Any] = {
    "phases": {"work": {}},
    "tools": {
        "read": {"effect": "read"},
        "check": {"effect": "read"},
        "write": {"effect": "write", "objects": ["args.path"]},
        "pay": {"effect": "write"},
    },
    "transitions": [
        {"name": "write", "tools": ["write"], "verify": "right"},
        {"name": "pay", "tools": ["pay"]},
    ],
    "verifiers": {
        "right": {
            "probe": {"tool": "check", "arguments_from": {"path": "args.path"}},
            "pass": ["result.structuredContent.ok == true"],
            "about": ["args.path"],
        }
    },
}


@pytest.mark.parametrize(
    ("tool", "arguments", "fresh"),
    [
        ("write", {"path": "b"}, True),
        ("write", {"path": ["b", "c"]}, True),
        ("write", {"path": "a"}, False),
        ("write", {"path": ["b", "a"]}, False),
        ("write", {"other": "b"}, False),
        ("write", {"path": []}, False),
        ("write", {"path": "./x/../a/"}, False),
        ("write", {"path": "a/b"}, False),
        ("write", {"path": "b/a"}, True),
        ("pay", {"path": "b"}, False),
    ],
)
async def test_a_write_of_other_objects_leaves_evidence_fresh(
    tool: str, arguments: dict[str, Any], *, fresh: bool
) -> None:
    async with house(**ABOUT) as it:
        it.upstreams.always = {"check": OK}
        await it.call("write", {"path": "a"})
        # What comes next is not verified itself, so that the first evidence stays the last word.
        it.upstreams.will(tool, world.ok(isError=True))
        await it.call(tool, arguments)
        held = (await it.book.state_of("run_1")).evidence["right"]
        assert (held.event.about, held.fresh) == (("a",), fresh)
