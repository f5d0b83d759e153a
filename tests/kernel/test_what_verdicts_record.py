"""What verdicts record, whole: enough to send the call, to settle it, and to judge it again."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gateway.kernel.case import Case, Gather, Observed, Pass, Refuse
from gateway.kernel.decide import CHECKS, Taken, decide
from gateway.kernel.rules import Rules, compile_rules
from gateway.model.asked import Terms
from gateway.model.canonical import digest
from gateway.model.events import (
    ApprovalRequested,
    AttemptResumed,
    AttemptSuspended,
    Charge,
    Denied,
    Effect,
    Finding,
    Held,
    IntentRecorded,
    Outcome,
    OutcomeDelivered,
    Replayed,
    RunStopped,
    UsedKey,
    Verdict,
    Who,
)
from gateway.model.principal import Principal
from gateway.model.proposal import Key, KeySource, Proposal, Resume
from gateway.model.record import utc
from gateway.model.run import Run, Tracked
from tests import world
from tests.kernel import made
from tests.kernel.test_decide import TOOLS, WRITE, intended, receipt, with_write

NOW = utc(world.T0)


def judge(run: Run, rules: Rules, proposed: Proposal, told: made.Seen | None = None) -> Verdict:
    return made.judge(run, proposed, rules, told or made.Seen(), world.T0)


FULL: dict[str, Any] = {
    "tools": {
        "write": {"effect": "destructive", "timeout_s": 9, "grace_s": 7, "data_class": "internal", "cost": 0.5,
                  "result_tokens": 12},
        "read": {"effect": "read", "timeout_s": 5, "grace_s": 0},
    },
    "phases": {"one": {}, "two": {}, "three": {}},
    "verifiers": {"t": {"probe": {"tool": "check"}, "pass": ["true"]}},
    "transitions": [
        {"name": "w", "tools": ["write"], "timeout_s": 3, "verify": "t", "to": "two", "on": {"conflict": "three"}},
        {"name": "r", "tools": ["read"]},
    ],
}  # fmt: skip


def test_an_intent_holds_all_that_is_needed_to_send_and_to_settle_it() -> None:
    rules = world.rules(**FULL)
    proposed = replace(WRITE, attribution={"client": "x"}, reported_tokens=3)
    found = judge(world.opened(rules), rules, proposed)
    assert isinstance(found, IntentRecorded)
    hold = {
        "tenant": "local", "principal": "local:user", "upstream": "fake", "tool": "write",
        "arguments": WRITE.arguments_digest,
    }  # fmt: skip
    expected = IntentRecorded(
        tool="write",
        upstream="fake",
        transition="w",
        arguments=WRITE.arguments_digest,
        definition=digest(dict(TOOLS["write"].definition), world.SALT),
        policy=rules.digest,
        phase="one",
        key=UsedKey(source=KeySource.CALL_ID, value="call-1"),
        checks=found.checks,
        observed={},
        attribution={"client": "x"},
        reported_tokens=3,
        attempt="run_1.2",
        effect=Effect.DESTRUCTIVE,
        charge=Charge(calls=1, mutations=1, tokens=12, cost=500_000),
        timeout_s=3,
        settles_at=NOW + timedelta(seconds=10),
        repeat="hold",
        hold=digest(hold, b""),
        target="two",
        verifier="t",
        edges={"conflict": "three"},
        data_class="internal",
    )
    assert found == expected


def test_a_read_holds_nothing_and_every_one_has_a_key_of_its_own() -> None:
    rules = world.rules(**FULL)
    read = world.proposal("read", key=Key(KeySource.CALL_ID, "c"))
    found = judge(world.opened(rules), rules, read)
    assert isinstance(found, IntentRecorded)
    assert (found.hold, found.target, found.verifier, found.edges, found.accounts) == (None, None, None, {}, ())
    assert (found.timeout_s, found.settles_at) == (5, NOW + timedelta(seconds=5))
    assert found.key == UsedKey(source=KeySource.FRESH, value=f"{read.arguments_digest}/1")
    run = world.after(world.opened(rules), found)
    again = judge(run, rules, read)
    assert again.key == UsedKey(source=KeySource.FRESH, value=f"{read.arguments_digest}/2")
    other = judge(run, rules, world.proposal("read", {"other": 1}))
    assert other.key is not None
    assert other.key.value.endswith("/1")


def test_a_write_without_a_key_is_counted_among_its_equals() -> None:
    rules, bare = world.rules(), replace(WRITE, key=None)
    run = world.opened(rules)
    for count in (1, 2):
        found = judge(run, rules, bare)
        assert isinstance(found, IntentRecorded)
        assert found.key == UsedKey(source=KeySource.DERIVED, value=f"{WRITE.arguments_digest}/{count}")
        run = world.after(run, found, receipt(found.attempt), OutcomeDelivered(attempt=found.attempt))


@pytest.mark.parametrize(("effect", "repeat", "holds"), [
    ("write", "hold", True), ("write", "replay", True), ("write", "new", False), ("read", "hold", False),
])  # fmt: skip
def test_only_effects_that_must_not_overlap_are_held(effect: str, repeat: str, holds: bool) -> None:  # noqa: FBT001
    rules = world.rules(tools={"write": {"effect": effect, "repeat": repeat}})
    found = judge(world.opened(rules), rules, WRITE)
    assert isinstance(found, IntentRecorded)
    assert (found.hold is not None) is holds


def test_each_part_of_what_is_held_tells_one_effect_from_another() -> None:
    rules = world.rules()
    run = world.opened(rules)
    others = [
        (WRITE, "write"),
        (replace(WRITE, arguments_digest=digest(1, b"")), "write"),
        (replace(WRITE, tool="pay"), "pay"),
    ]
    held = {getattr(judge(run, rules, one), "hold", None) for one, _ in others}
    for who in (Principal(id="local:other"), Principal(id="local:user", tenant="acme")):
        mine = run._replace(principal=who)
        held.add(getattr(judge(mine, rules, replace(WRITE, principal=who)), "hold", None))
    elsewhere = made.Seen(tools={"write": replace(TOOLS["write"], upstream="other")})
    held.add(getattr(judge(run, rules, WRITE, elsewhere), "hold", None))
    assert len(held - {None}) == 6


def test_a_transition_may_leave_the_time_to_the_tool() -> None:
    rules = world.rules(tools={"write": {"effect": "write", "timeout_s": 9, "grace_s": 7}})
    found = judge(world.opened(rules), rules, WRITE)
    assert isinstance(found, IntentRecorded)
    assert (found.timeout_s, found.settles_at) == (9, NOW + timedelta(seconds=16))


COMMON = (
    "tool", "upstream", "transition", "arguments", "definition", "policy", "phase", "key", "checks", "observed",
    "attribution",
)  # fmt: skip
ASK: dict[str, Any] = {
    "name": "ask", "tools": ["*"],
    "approval": {"reason": "large", "role": "boss", "quorum": 2, "self_review": True, "expires_s": 60},
}  # fmt: skip


def test_a_question_to_a_person_holds_all_that_an_answer_needs() -> None:
    rules = world.rules(transitions=[ASK])
    run = world.opened(rules)
    found = judge(run, rules, WRITE)
    assert isinstance(found, ApprovalRequested)
    place = digest({"action": found.action, "seq": 2}, b"").partition(":")[2]
    assert found == ApprovalRequested(
        **{name: getattr(found, name) for name in COMMON},
        approval=f"ap_{place[:16]}",
        action=found.action,
        rule="ask",
        role="boss",
        quorum=2,
        self_review=True,
        by=Who(tenant="local", id="local:user"),
        terms=Terms(consequence="a write call that cannot be undone"),
        expires_at=NOW + timedelta(seconds=60),
        reason="large",
    )  # fmt: skip
    asked = Finding(check="approval", passed=False, inputs={"action": found.action}, rule="ask", reason="large")
    assert found.checks[-1] == asked
    waits = judge(world.after(run, found), rules, WRITE)
    assert isinstance(waits, Held)
    assert (waits.approval, waits.attempt, waits.retry_after_s) == (found.approval, None, None)


@pytest.mark.parametrize(("policy", "own", "passes"), [
    ("observe", None, True), ("enforce", "observe", True), ("observe", "enforce", False), ("enforce", None, False),
])  # fmt: skip
def test_whether_a_person_is_only_observed_is_for_the_transition_to_say(
    policy: str, own: str | None, passes: bool  # noqa: FBT001
) -> None:  # fmt: skip
    asking = ASK | ({"mode": own} if own else {})
    enforced = world.rules(transitions=[ASK])
    asked = judge(world.opened(enforced), enforced, WRITE)
    rules = compile_rules(world.policy(mode=policy, transitions=[asking]), enforced.digest)
    for run in (world.opened(enforced), world.after(world.opened(enforced), asked)):
        found = judge(run, rules, WRITE)
        assert isinstance(found, IntentRecorded) is passes
        if isinstance(found, IntentRecorded):
            assert found.waived == ("approval",)
            assert found.approval is None


def test_what_is_waived_of_an_unnamed_tool_is_only_that_nobody_names_it() -> None:
    rules = world.rules(mode="observe", transitions=[{"name": "r", "tools": ["read"]}])
    found = judge(world.opened(rules), rules, WRITE)
    assert isinstance(found, IntentRecorded)
    assert found.waived == ("tool",)
    bound = world.rules(mode="observe", transitions=[{"name": "r", "tools": ["read"]}], forbid=[
        {"name": "no", "mode": "enforce"}])  # fmt: skip
    assert judge(world.opened(bound), bound, WRITE).checks[-1].check == "tool"
    down = made.Seen(tools={"write": replace(TOOLS["write"], healthy=False)})
    assert isinstance(judge(world.opened(rules), rules, WRITE, down), Denied)


def test_a_replay_passed_the_check_that_found_it() -> None:
    rules = world.rules()
    run = with_write(receipt())(world.opened(rules), rules)
    found = judge(run, rules, WRITE)
    assert isinstance(found, Replayed)
    assert found.checks == (Finding(check="key", passed=True, inputs={"attempt": "run_1.2"}),)


def test_what_was_seen_beside_the_run_is_recorded() -> None:
    rules = world.rules(accounts={"d": {"per": ["workflow"], "limit": {"calls": 5}}})
    held = Tracked("run_0.7", "run_0", "open", None, "gone", 0.0)
    found = judge(world.opened(rules), rules, WRITE, made.Seen(held=held, levels={"calls": 3}))
    account = 'accounts.d ["test"] 2027-01-15'
    assert found.observed == {
        "held": {"attempt": "run_0.7", "run": "run_0", "state": "open"},
        "levels": [[account, "calls", 3]],
    }
    who = Principal(id="local:user", roles=frozenset({"b", "a"}), scopes=frozenset({"d", "c"}))
    told = made.Seen(tools={"write": replace(TOOLS["write"], healthy=False, trouble="down")})
    found = judge(world.opened(rules), rules, replace(WRITE, principal=who), told)
    assert found.observed == {
        "principal": {"tenant": "local", "id": "local:user", "roles": ["a", "b"], "scopes": ["c", "d"]},
        "trouble": {"withheld": False, "says": "down"},
    }


def test_each_verdict_cites_the_key_that_was_sent_and_the_next_round_what_it_goes_on_with() -> None:
    rules = world.rules()
    run = world.opened(rules)
    for key, cited in ((WRITE.key, UsedKey(source=KeySource.CALL_ID, value="call-1")), (None, None)):
        assert judge(run, rules, replace(WRITE, tool="gone", key=key)).key == cited
    asked, said = digest("asked", b""), digest("said", b"")
    waits = AttemptSuspended(attempt="run_1.2", awaits="input", answer=asked, expires_at=NOW)
    again = replace(WRITE, resumes=Resume("run_1.2", asked, said), reported_tokens=3)
    found = judge(world.after(intended(run, rules, WRITE), waits), rules, again)
    assert isinstance(found, AttemptResumed)
    assert (found.attempt, found.round, found.said, found.reported_tokens) == ("run_1.2", asked, said, 3)
    assert found.observed == {}
    stopped = world.after(intended(run, rules, WRITE), waits, RunStopped(outcome=Outcome.INFEASIBLE, reason="no"))
    refused = judge(stopped, rules, again)
    assert isinstance(refused, Denied)
    assert refused.observed == {"resumes": {"attempt": "run_1.2", "round": asked, "said": said}}


def test_whoever_explains_a_decision_sees_each_check_with_what_it_looked_at() -> None:
    rules = world.rules(transitions=[{"name": "a", "tools": ["*"], "from": ["two"]}, {"name": "b", "tools": ["*"]}],
                        phases={"one": {}, "two": {}})  # fmt: skip
    taken: list[Taken] = []
    verdict = decide(world.opened(rules), WRITE, rules, Observed(TOOLS["write"]), NOW, taken)
    assert not isinstance(verdict, Gather)
    assert [one.check for one in taken] == list(CHECKS)
    assert {(type(one.case), type(one.step)) for one in taken} == {(Case, Pass)}
    seen = {one.check: [transition.name for transition in one.case.candidates] for one in taken}
    assert (seen["tool"], seen["phase"], seen["authority"]) == ([], ["a", "b"], ["b"])
    denied = list[Taken]()
    decide(world.opened(rules), world.proposal("gone"), rules, Observed(None), NOW, denied)
    assert [type(one.step) for one in denied] == [Pass, Pass, Refuse]
    assert [type(one.step) for one in gathered()] == [Pass] * 6 + [Gather]


def gathered() -> list[Taken]:
    """What is taken up to where somebody must look."""
    rules, taken = world.rules(accounts={"d": {}}), list[Taken]()
    found = decide(world.opened(rules), WRITE, rules, Observed(TOOLS["write"]), NOW, taken)
    assert isinstance(found, Gather)
    assert found.accounts == ('accounts.d ["local"] 2027-01-15',)
    return taken


def test_an_intent_that_was_made_is_the_latest_of_its_equals() -> None:
    rules = world.rules()
    run = intended(world.opened(rules), rules, WRITE)
    assert list(run.equals.values()) == [("run_1.2", 1)]
