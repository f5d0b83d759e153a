"""What holds, budgets, accounts, preconditions and approvals say, whole, and where exactly each of them begins."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.kernel.rules import Rules, compile_rules
from gateway.model.canonical import digest
from gateway.model.events import (
    ApprovalRequested,
    AttemptUnknown,
    Charge,
    Held,
    IntentRecorded,
    OutcomeDelivered,
    Replayed,
    Reservation,
    Verdict,
    Who,
)
from gateway.model.proposal import Proposal
from gateway.model.record import utc
from gateway.model.run import Run, Tracked
from tests import world
from tests.kernel import made
from tests.kernel.test_decide import WRITE, receipt, with_write
from tests.kernel.test_what_checks_find import finding, refusal, said
from tests.people import answer

MIDNIGHT = "2027-01-16T00:00:00+00:00"
UNKNOWN = AttemptUnknown(attempt="run_1.2", reason="t")
DONE = (receipt(), OutcomeDelivered(attempt="run_1.2"))
PAY = world.proposal("pay", {"n": 2})
BOSS = Who(tenant="local", id="local:boss")


def judge(
    run: Run, rules: Rules, proposed: Proposal = PAY, told: made.Seen | None = None, after_s: float = 0.0
) -> Verdict:
    """The verdict in that world."""
    return made.judge(run, proposed, rules, told or made.Seen(), world.T0 + after_s)


def held(state: str, run: str = "run_0") -> Tracked:
    return Tracked(f"{run}.7", run, state, None, "gone", 0.0)


HOLDS: dict[str, tuple[str, str, str, float | None]] = {
    "open": ("run_0", "held", "an equal call of run `run_0` is under way; it is not sent twice", 2.0),
    "unknown": (
        "run_0", "held", "an equal call of run `run_0` may have happened and is not settled; it is not sent twice",
        None),
    "unverified": ("run_0", "in_flight", "an equal call of run `run_0` is being verified", 2.0),
    "open ": ("run_1", "held", "an equal call of this run is under way; it is not sent twice", 2.0),
    "unverified ": ("run_1", "in_flight", "an equal call of this run is being verified", 2.0),
}  # fmt: skip


@pytest.mark.parametrize("state", HOLDS)
def test_what_hangs_in_the_air_says_where_and_whether_to_come_back(state: str) -> None:
    run, outcome, reason, retry = HOLDS[state]
    rules, one = world.rules(), held(state.strip(), run)
    inputs = {"attempt": one.attempt, "run": run, "state": one.state}
    expected = refusal("holds", outcome, reason, attempt=one.attempt, retry_after_s=retry, inputs=inputs)
    assert said(judge(world.opened(rules), rules, WRITE, made.Seen(held=one))) == expected


def test_a_write_of_another_run_that_nobody_was_told_of_is_answered_from_its_record() -> None:
    rules = world.rules()
    found = judge(world.opened(rules), rules, WRITE, made.Seen(held=held("undelivered")))
    assert isinstance(found, Replayed)
    assert found.attempt == "run_0.7"
    own = judge(world.opened(rules), rules, WRITE, made.Seen(held=held("undelivered", "run_1")))
    assert isinstance(own, IntentRecorded)


def test_a_call_waits_for_the_first_that_may_move_the_phase() -> None:
    rules = world.rules(phases={"one": {}, "two": {}}, transitions=[{"name": "w", "tools": ["*"], "to": "two"}])
    run = with_write()(world.opened(rules), rules)
    reason = "`write` may move the phase and is not settled yet"
    expected = refusal("holds", "in_flight", reason, attempt="run_1.2", retry_after_s=2.0)
    assert said(judge(run, rules)) == expected
    lost = world.after(run, UNKNOWN)
    assert said(judge(lost, rules)) == refusal("holds", "held", reason, attempt="run_1.2")


REPEATS: dict[str, tuple[dict[str, Any], str]] = {
    "never": ({"retry": "never"}, "policy lets no run repeat this call, and `run_1.2` was equal to it"),
    "unsent": ({"retry": "unsent"}, "policy lets no run repeat this call, and `run_1.2` was equal to it"),
    "once": ({"max_attempts": 1}, "this run has sent 1 equal calls, and policy allows no more"),
}


@pytest.mark.parametrize("row", REPEATS)
def test_a_repetition_that_policy_does_not_want_says_of_what(row: str) -> None:
    fields, reason = REPEATS[row]
    transition = {"name": "w", "tools": ["*"]} | fields
    rules = world.rules(transitions=[transition])
    run, again = with_write(*DONE)(world.opened(rules), rules), replace(WRITE, key=None)
    inputs = {"equal": "run_1.2", "count": 1}
    assert said(judge(run, rules, again)) == refusal("holds", "denied", reason, rule="w", inputs=inputs)
    lax = world.rules(transitions=[transition | {"mode": "observe"}])
    found = judge(run, lax, again)
    assert isinstance(found, IntentRecorded)
    assert found.waived == ("holds",)
    strict = world.rules(mode="observe", transitions=[transition | {"mode": "enforce"}])
    assert said(judge(run, strict, again))["reason"] == reason


def test_a_repetition_that_policy_allows_is_counted() -> None:
    rules = world.rules(transitions=[{"name": "w", "tools": ["*"], "max_attempts": 2}])
    run, again = with_write(*DONE)(world.opened(rules), rules), replace(WRITE, key=None)
    found = finding(judge(run, rules, again), "holds")
    assert (found.passed, found.inputs) == (True, {"equal": "run_1.2", "count": 1})


# --- budgets and accounts -------------------------------------------------------------------------------------------


def account_of(**fields: Any) -> Rules:
    return world.rules(accounts={"d": fields})


LEFT: dict[str, tuple[dict[str, Any], dict[str, int], str | None]] = {
    "calls": ({"limit": {"calls": 2}}, {"calls": 1}, None),
    "no calls": ({"limit": {"calls": 2}}, {"calls": 2}, f"0 of 2 calls left until {MIDNIGHT}"),
    "less than none": ({"limit": {"calls": 2}}, {"calls": 9}, f"0 of 2 calls left until {MIDNIGHT}"),
    "cost": ({"limit": {"cost": 1.5}}, {"cost": 1_250_000}, None),
    "no cost": ({"limit": {"cost": 1.5}}, {"cost": 1_250_001}, f"0.249999 of 1.5 cost left until {MIDNIGHT}"),
    "for good": ({"limit": {"calls": 0}, "window": "ever"}, {}, "0 of 0 calls left for good"),
    "tokens": ({"limit": {"tokens": 10}}, {"tokens": 9}, None),
    "no tokens": ({"limit": {"tokens": 10}}, {"tokens": 10}, f"0 of 10 tokens left until {MIDNIGHT}"),
    "no mutations": ({"limit": {"mutations": 1}}, {"mutations": 1}, f"0 of 1 mutations left until {MIDNIGHT}"),
    "other units": ({"limit": {"reviews": 0}}, {"reviews": 5}, None),
}


@pytest.mark.parametrize("row", LEFT)
def test_an_account_says_what_is_left_and_until_when(row: str) -> None:
    fields, levels, left = LEFT[row]
    rules = world.rules(accounts={"d": fields}, tools={"pay": {"effect": "write", "cost": 0.25}})
    found = judge(world.opened(rules), rules, told=made.Seen(levels=levels))
    name = f'accounts.d ["local"] {"ever" if fields.get("window") else "2027-01-15"}'
    seen = finding(found, "budget").inputs
    assert seen["accounts"] == {"accounts.d": {"account": name, "levels": {"calls": 0} | levels}}
    assert seen["charge"] == {"calls": 1, "mutations": 1, "tokens": 0, "cost": 250_000, "reviews": 0}
    assert seen["spent"] == dict.fromkeys(seen["charge"], 0)
    if left is None:
        assert isinstance(found, IntentRecorded)
        return
    for_good = left.endswith("for good")
    expected = refusal(
        "budget", "denied" if for_good else "rate_limited", f"`accounts.d` has {left}", rule="accounts.d",
        retry_after_s=None if for_good else 57_600.0, inputs=seen,
    )  # fmt: skip
    assert said(found) == expected


def test_tokens_that_are_reserved_at_their_most_count_before_they_are_there() -> None:
    rules = world.rules(
        accounts={"d": {"limit": {"tokens": 100}}}, tools={"pay": {"effect": "write", "result_tokens": 40}}
    )  # fmt: skip
    told = [judge(world.opened(rules), rules, told=made.Seen(levels={"tokens": n})).kind for n in (60, 61)]
    assert told == ["intent.recorded", "proposal.denied"]
    free = [{"name": "w", "tools": ["*"], "charge": {"calls": 0}}]
    rules = world.rules(accounts={"d": {"limit": {"tokens": 0}}}, transitions=free)
    assert judge(world.opened(rules), rules).kind == "intent.recorded", "what is no call counts no tokens"


def test_a_pause_is_told_to_the_millisecond_and_is_never_behind_us() -> None:
    rules = account_of(limit={"calls": 0}, window="minute")
    told = [said(judge(world.opened(rules), rules, after_s=s))["retry_after_s"] for s in (59.75, 59.12345)]
    assert told == [0.25, 0.877]


def test_the_budget_of_the_run_is_asked_before_the_accounts() -> None:
    rules = world.rules(accounts={"d": {"limit": {"calls": 0}}}, budgets={"calls": 0})
    assert said(judge(world.opened(rules), rules))["rule"] == "budgets.calls"
    rules = world.rules(accounts={"d": {"limit": {"calls": 9}}}, budgets={"calls": 0})
    assert said(judge(world.opened(rules), rules))["rule"] == "budgets.calls"


def test_of_several_accounts_the_first_that_binds_is_told() -> None:
    none = {"limit": {"calls": 0}}
    rules = world.rules(accounts={"a": none | {"mode": "observe"}, "b": none, "c": none})
    assert said(judge(world.opened(rules), rules))["rule"] == "accounts.b"
    rules = world.rules(accounts={"a": none | {"mode": "observe"}, "b": none | {"mode": "observe"}})
    found = judge(world.opened(rules), rules)
    assert isinstance(found, IntentRecorded)
    assert found.waived == ("budget",)
    assert finding(found, "budget").rule == "accounts.a"


def test_an_account_that_only_observes_reserves_without_a_limit() -> None:
    limits = []
    for mode in ("observe", "enforce"):
        rules = account_of(limit={"calls": 5}, mode=mode)
        found = judge(world.opened(rules), rules)
        assert isinstance(found, IntentRecorded)
        limits.append(next(one.limit for one in found.accounts if one.unit == "calls"))
    assert limits == [None, 5]


def test_what_is_only_reserved_says_so_and_whether_it_may_come_back_soon() -> None:
    rules = world.rules(budgets={"calls": 1})
    run = with_write()(world.opened(rules), rules)
    reason = "the budget of 1 calls is used up or reserved by calls that are not settled yet"
    inputs = {
        "spent": dict(vars(Charge(calls=1, mutations=1))),
        "charge": dict(vars(Charge(calls=1, mutations=1))),
        "elapsed_s": 0.0,
    }
    expected = refusal("budget", "denied", reason, rule="budgets.calls", retry_after_s=2.0, inputs=inputs)
    assert said(judge(run, rules)) == expected
    assert said(judge(world.after(run, UNKNOWN), rules)) == expected | {"retry_after_s": None}
    over = refusal(
        "budget", "budget_exhausted", "the budget of 1 calls is used up", rule="budgets.calls", final=True,
        inputs=inputs,
    )  # fmt: skip
    assert said(judge(world.after(run, *DONE), rules)) == over


OWN: dict[str, tuple[dict[str, Any], dict[str, Any], str | None, bool]] = {
    "a step that takes all": ({"calls": 3}, {"charge": {"calls": 3}}, None, False),
    "a step that takes more": (
        {"calls": 3}, {"charge": {"calls": 4}}, "this step takes 4 calls, and 3 of 3 are left", False),
    "cost": (
        {"cost": 0.5}, {"charge": {"cost": 0.75}}, "this step takes 0.75 cost, and 0.5 of 0.5 are left", False),
    "nothing of what is used up": ({"mutations": 0}, {"charge": {"mutations": 0}}, None, False),
    "tokens that nobody reserves": ({"tokens": 0}, {}, "the budget of 0 tokens is used up", True),
    "no call, and no tokens": ({"tokens": 0}, {"charge": {"calls": 0}}, None, False),
    "reviews": ({"reviews": 0}, {}, None, False),
}  # fmt: skip


@pytest.mark.parametrize("row", OWN)
def test_a_step_is_paid_if_enough_is_left(row: str) -> None:
    budgets, fields, reason, final = OWN[row]
    rules = world.rules(budgets=budgets, transitions=[{"name": "w", "tools": ["*"]} | fields])
    found = judge(world.opened(rules), rules)
    if reason is None:
        assert isinstance(found, IntentRecorded)
    else:
        told = said(found)
        assert (told["reason"], told["final"], told["rule"]) == (reason, final, f"budgets.{next(iter(budgets))}")


def test_time_and_reported_tokens_are_used_up_at_their_limit() -> None:
    rules = world.rules(budgets={"elapsed_s": 10, "reported_tokens": 5})
    run = world.opened(rules)
    assert said(judge(run, rules, after_s=10))["reason"] == "the budget of 10 s is used up"
    full = run._replace(reported_tokens=5)
    reason = "the client reported 5 tokens, and the budget is 5"
    assert said(judge(full, rules))["reason"] == reason
    assert judge(full._replace(reported_tokens=4), rules).kind == "intent.recorded"


def test_warnings_begin_at_their_part_and_count_as_the_author_does() -> None:
    rules = world.rules(
        budgets={"elapsed_s": 10, "cost": 1.0, "warn_at": 0.5},
        accounts={"d": {"limit": {"cost": 2.0, "calls": 4}, "warn_at": 0.5}},
        tools={"pay": {"effect": "write", "cost": 0.5}},
    )
    run = world.opened(rules)
    told = made.Seen(levels={"cost": 500_000, "calls": 0})
    found = judge(run, rules, told=told, after_s=5)
    assert isinstance(found, IntentRecorded)
    assert found.warnings == (
        "budgets.cost: 0.5 of 1 used",
        "budgets.elapsed_s: 5 of 10 used",
        "accounts.d.cost: 1 of 2 used",
    )
    found = judge(run, rules, told=made.Seen(levels={"cost": 499_999}), after_s=4.99)
    assert isinstance(found, IntentRecorded)
    assert found.warnings == ("budgets.cost: 0.5 of 1 used",)


# --- the world, and a person ----------------------------------------------------------------------------------------

LOOKS = {
    "verifiers": {"t": {"probe": {"tool": "check"}, "pass": ["true"]}},
    "transitions": [{"name": "w", "tools": ["*"], "preconditions": ["t"]}],
    "stops": {"final_denials": ["preconditions"]},
}


@pytest.mark.parametrize(("verdict", "final"), [("fail", True), ("inconclusive", False), ("pass", None)])
def test_a_precondition_says_what_was_seen_and_only_a_failure_ends_a_run(verdict: Any, final: Any) -> None:
    rules = world.rules(**LOOKS)
    inputs = {"t": {"verdict": verdict, "started_at": utc(world.T0).isoformat(), "artifact": None}}
    found = judge(world.opened(rules), rules, told=made.Seen(probes=verdict))
    if final is None:
        assert finding(found, "preconditions").inputs == inputs
        assert isinstance(found, IntentRecorded)
    else:
        assert said(found) == refusal("preconditions", "denied", "looked", rule="w", final=final, inputs=inputs)


def test_an_unnamed_tool_that_is_only_observed_has_no_preconditions() -> None:
    rules = world.rules(mode="observe", transitions=[{"name": "r", "tools": ["read"]}])
    found = judge(world.opened(rules), rules)
    assert isinstance(found, IntentRecorded)
    assert found.waived == ("tool",)


ASK: dict[str, Any] = {"transitions": [{"name": "ask", "tools": ["*"], "approval": {"reason": "large"}}]}


def asked(rules: Rules, *, approve: bool | None = None, why: str = "", proposed: Proposal = PAY) -> Run:
    """A run in which a person was asked, and perhaps has answered."""
    run = world.opened(rules)
    found = judge(run, rules, proposed)
    assert isinstance(found, ApprovalRequested)
    run = world.after(run, found)
    if approve is None:
        return run
    said_so = answer(run, found.approval, found.action, approve=approve, by=BOSS, reason=why, now=utc(world.T0))
    return world.after(run, said_so)


def test_what_waits_for_a_person_says_for_which_answer() -> None:
    rules = world.rules(**ASK)
    run = asked(rules)
    (approval,) = run.approvals.values()
    found = judge(run, rules)
    inputs = {"approval": approval.id, "action": approval.action}
    assert said(found) == refusal("approval", "needs_approval", "large", inputs=inputs)
    assert isinstance(found, Held)
    assert found.approval == approval.id


def test_a_no_is_told_with_or_without_its_reason() -> None:
    rules = world.rules(**ASK)
    for why, told in (("no", ": no"), ("", "")):
        run = asked(rules, approve=False, why=why)
        (approval,) = run.approvals.values()
        reason = f"`local:boss` rejected this action{told}"
        assert said(judge(run, rules)) == refusal(
            "approval", "denied", reason, rule="ask", inputs={"approval": approval.id}
        )
    run = asked(rules, approve=False)
    lax = compile_rules(world.policy(transitions=[ASK["transitions"][0] | {"mode": "observe"}]), rules.digest)
    found = judge(run, lax)
    assert isinstance(found, IntentRecorded)
    assert found.waived == ("approval",)
    strict = world.policy(mode="observe", transitions=[ASK["transitions"][0] | {"mode": "enforce"}])
    assert said(judge(run, compile_rules(strict, rules.digest)))["check"] == "approval"


def test_a_yes_is_for_one_definition_of_the_tool_under_one_policy() -> None:
    rules = world.rules(**ASK)
    run = asked(rules, approve=True)
    (approval,) = run.approvals.values()
    found = judge(run, rules)
    assert isinstance(found, IntentRecorded)
    assert (found.approval, found.transition) == (approval.id, "ask")
    told = finding(found, "approval")
    assert (told.passed, told.inputs) == (True, {"approval": approval.id, "by": "local:boss"})
    other = made.Seen(tools={"pay": world.tool("pay", description="now it means something else")})
    assert judge(run, rules, told=other).kind == "approval.requested"
    assert judge(run, compile_rules(rules.policy, digest("another", b""))).kind == "approval.requested"
    assert judge(run, rules, replace(PAY, run="run_1", arguments_digest=digest(3, b""))).kind == "approval.requested"


def test_a_yes_ends_at_the_moment_that_it_expires() -> None:
    rules = world.rules(transitions=[{"name": "ask", "tools": ["*"], "approval": {"expires_s": 60}}])
    run = asked(rules, approve=True)
    told = [judge(run, rules, after_s=s).kind for s in (59.999, 60.0)]
    assert told == ["intent.recorded", "approval.requested"]


def test_no_person_is_asked_beyond_the_budget_of_reviews() -> None:
    rules = world.rules(**ASK, budgets={"reviews": 1})
    run = asked(rules)
    found = said(judge(run, rules, world.proposal("pay", {"n": 3})))
    reason = "a person must agree, and the budget of 1 reviews is used up"
    assert found | {"inputs": None} == refusal("approval", "denied", reason, rule="budgets.reviews") | {"inputs": None}
    assert (found["inputs"]["reviews"], found["inputs"]["action"][:3]) == (1, "c1:")
    assert found["final"] is False, "the first question may still be answered with a yes"
    for over, after_s in ((asked(rules, approve=False), 0), (run, 86_400)):
        assert said(judge(over, rules, world.proposal("pay", {"n": 3}), after_s=after_s))["final"] is True


def test_asking_takes_a_review_of_an_account_if_one_is_left() -> None:
    rules = world.rules(**ASK, accounts={"people": {"limit": {"reviews": 2}}})
    run = world.opened(rules)
    found = judge(run, rules, told=made.Seen(levels={"reviews": 1}))
    assert isinstance(found, ApprovalRequested)
    assert found.accounts == (
        Reservation(
            rule="accounts.people", account='accounts.people ["local"] 2027-01-15', unit="reviews", amount=1, limit=2,
            until=utc(world.T0 + 57_600),
        ),
    )  # fmt: skip
    over = said(judge(run, rules, told=made.Seen(levels={"reviews": 2})))
    assert (over["check"], over["rule"], over["outcome"]) == ("approval", "accounts.people", "rate_limited")
    rules = world.rules(**ASK, accounts={"people": {"limit": {"reviews": 2}, "mode": "observe"}})
    found = judge(world.opened(rules), rules, told=made.Seen(levels={"reviews": 2}))
    assert found.kind == "approval.requested"
