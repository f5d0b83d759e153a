"""Each rule of `decide` is one row: a policy, what has happened, what is asked, and the verdict."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.case import Gather, Observed
from gateway.kernel.decide import CHECKS, decide
from gateway.kernel.registry import pin, pinned_part
from gateway.kernel.rules import Rules
from gateway.kernel.stop import stop
from gateway.model.canonical import digest
from gateway.model.events import (
    ApprovalRequested,
    AttemptAbandoned,
    AttemptRefuted,
    AttemptResent,
    AttemptResumed,
    AttemptUnknown,
    AttemptUnsent,
    Denied,
    EvidenceRecorded,
    Held,
    IntentRecorded,
    Outcome,
    OutcomeDelivered,
    ReceiptRecorded,
    Replayed,
    RunStopped,
    Verdict,
    Who,
)
from gateway.model.policy import Policy
from gateway.model.principal import Principal
from gateway.model.proposal import Key, KeySource, Proposal
from gateway.model.record import utc
from gateway.model.run import Run, Tracked
from gateway.model.tool import Tool
from tests import world
from tests.people import answer

TOOLS = {one.name: one for one in (world.tool("read", read=True), world.tool("write"), world.tool("pay"))}
SAME = {"digest": pin(TOOLS["write"].definition), "definition": pinned_part(TOOLS["write"].definition)}
OTHER = {"digest": pin({}), "definition": {}}
CALL = Key(KeySource.CALL_ID, "call-1")
MINE = Key(KeySource.CALLER, "mine")


def judge(
    run: Run,
    rules: Rules,
    proposal: Proposal,
    *,
    held: Tracked | None = None,
    tool: Tool | None = None,
    after_s: float = 0.0,
) -> Verdict:
    """The verdict, with the tool as the fake upstream defines it."""
    defined = tool or TOOLS.get(proposal.tool)
    definition = digest(dict(defined.definition), world.SALT) if defined else None
    found = decide(run, proposal, rules, Observed(defined, definition, held), utc(world.T0 + after_s))
    assert not isinstance(found, Gather)
    return found


def intended(run: Run, rules: Rules, proposal: Proposal, **changes: Any) -> Run:
    """The run after this proposal became an intent."""
    verdict = judge(run, rules, proposal)
    assert isinstance(verdict, IntentRecorded), verdict
    return world.after(run, verdict.model_copy(update=changes))


def receipt(attempt: str = "run_1.2", **changes: Any) -> ReceiptRecorded:
    """A plain success of the attempt."""
    said: dict[str, Any] = {"answer": "result", "is_error": False, "result": digest({"ok": 1}, world.SALT)}
    return ReceiptRecorded(attempt=attempt, **(said | changes))


def brief(verdict: Verdict) -> tuple[Any, ...]:
    """What a row of the table names."""
    match verdict:
        case Denied():
            return ("denied", verdict.checks[-1].check, str(verdict.outcome), verdict.final)
        case Held():
            return ("held", verdict.checks[-1].check, str(verdict.outcome), verdict.attempt)
        case Replayed():
            return ("replayed", verdict.attempt)
        case ApprovalRequested():
            return ("asked", verdict.rule)
        case IntentRecorded():
            return ("allowed", verdict.transition, verdict.charge.calls, verdict.charge.mutations)
        case AttemptResumed() | AttemptResent():
            return (verdict.kind.removeprefix("attempt."), verdict.attempt)


PHASED = {
    "phases": {"look": {}, "change": {}},
    "transitions": [
        {"name": "reading", "tools": ["read"]},
        {"name": "writing", "tools": ["write"], "from": ["change"]},
    ],
}
GUARDED = {
    "transitions": [
        {"name": "large", "tools": ["pay"], "when": ["args.amount > 100"], "approval": {}},
        {"name": "small", "tools": ["pay"]},
    ]
}
GRANTED = {
    "grants": [{"principal": "local:*", "authority": ["pay.small"]}, {"roles": ["boss"], "authority": ["pay.any"]}],
    "transitions": [{"name": "paying", "tools": ["pay"], "authority": ["pay.any"]}],
}
WRITE = world.proposal("write", {"path": "a"}, key=CALL)

type_row = tuple[dict[str, Any], Callable[[Run, Rules], Run], Proposal, tuple[Any, ...]]


def as_opened(run: Run, _rules: Rules) -> Run:
    return run


def with_write(*events: Any) -> Callable[[Run, Rules], Run]:
    """After `WRITE` was intended, and these events."""
    return lambda run, rules: world.after(intended(run, rules, WRITE), *events)


ROWS: dict[str, type_row] = {
    # known key
    "a write with the key of an open one is in flight": (
        {}, with_write(), WRITE, ("held", "key", "in_flight", "run_1.2")),
    "a write with the key of an unknown one is held": (
        {}, with_write(AttemptUnknown(attempt="run_1.2", reason="t")), WRITE, ("held", "key", "held", "run_1.2")),
    "a write with the key of an ended one is replayed": (
        {}, with_write(receipt()), WRITE, ("replayed", "run_1.2")),
    "a key used with other arguments is a conflict": (
        {}, with_write(receipt()), world.proposal("write", {"path": "b"}, key=CALL),
        ("denied", "key", "conflict", False)),
    "an undelivered write is answered from its record, whatever the new call id": (
        {}, with_write(receipt()), replace(WRITE, key=Key(KeySource.CALL_ID, "call-2")), ("replayed", "run_1.2")),
    "an undelivered write is answered from its record without any key": (
        {}, with_write(receipt()), replace(WRITE, key=None), ("replayed", "run_1.2")),
    "a delivered write that is asked for again is a new attempt": (
        {}, with_write(receipt(), OutcomeDelivered(attempt="run_1.2")), replace(WRITE, key=None),
        ("allowed", "any", 1, 1)),
    "a delivered write under its own call id stays the same call": (
        {}, with_write(receipt(), OutcomeDelivered(attempt="run_1.2")), WRITE, ("replayed", "run_1.2")),
    "an equal call under another call id waits for the open one": (
        {}, with_write(), replace(WRITE, key=Key(KeySource.CALL_ID, "call-2")), ("held", "key", "in_flight", "run_1.2")),  # noqa: E501
    "the caller's own new key makes a new call of an ended one": (
        {}, with_write(receipt()), replace(WRITE, key=MINE), ("allowed", "any", 1, 1)),
    "a tool that is never repeated is replayed even after delivery": (
        {"tools": {"write": {"effect": "write", "repeat": "replay"}}},
        with_write(receipt(), OutcomeDelivered(attempt="run_1.2")), replace(WRITE, key=None), ("replayed", "run_1.2")),
    "no key of the caller's lifts what may never be repeated": (
        {"tools": {"write": {"effect": "write", "repeat": "replay"}}},
        with_write(receipt(), OutcomeDelivered(attempt="run_1.2")), replace(WRITE, key=MINE), ("replayed", "run_1.2")),
    "a tool whose equal calls may overlap does so": (
        {"tools": {"write": {"effect": "write", "repeat": "new"}}}, with_write(), replace(WRITE, key=None),
        ("allowed", "any", 1, 1)),
    "a refuted write leaves its key free": (
        {}, with_write(AttemptUnknown(attempt="run_1.2", reason="t"),
                       AttemptRefuted(attempt="run_1.2", source="person", reason="looked")), WRITE,
        ("allowed", "any", 1, 1)),
    "an unsent write leaves its key free": (
        {}, with_write(AttemptUnsent(attempt="run_1.2", reason="refused")), WRITE, ("allowed", "any", 1, 1)),
    "a read is always an attempt of its own": (
        {}, lambda run, rules: intended(run, rules, world.proposal("read", key=CALL)), world.proposal("read", key=CALL),
        ("allowed", "any", 1, 0)),
    "an abandoned read may be asked for again": (
        {}, lambda run, rules: world.after(intended(run, rules, world.proposal("read")),
                                           AttemptAbandoned(attempt="run_1.2", reason="t")),
        world.proposal("read"), ("allowed", "any", 1, 0)),
    # run
    "a stopped run answers with its terminal outcome": (
        {}, lambda run, _: world.after(run, RunStopped(outcome=Outcome.INFEASIBLE, reason="no way")),
        world.proposal("read"), ("denied", "run", "infeasible", False)),
    "a known key is still replayed in a stopped run": (
        {}, with_write(receipt(), RunStopped(outcome=Outcome.INFEASIBLE, reason="no way")), WRITE,
        ("replayed", "run_1.2")),
    "another principal cannot use the run": (
        {}, as_opened, world.proposal("read", principal=Principal(id="local:other")), ("denied", "run", "denied", False)),  # noqa: E501
    # tool
    "a tool that no upstream offers is denied": (
        {}, as_opened, world.proposal("nope"), ("denied", "tool", "denied", False)),
    "a tool that no transition names is denied": (
        {"transitions": [{"name": "r", "tools": ["read"]}]}, as_opened, WRITE, ("denied", "tool", "denied", False)),
    "a pinned tool with another definition is withheld": (
        {"pins": {"write": OTHER}}, as_opened, WRITE, ("denied", "tool", "tool_withheld", False)),
    "a pinned tool with its definition is allowed": (
        {"pins": {"write": SAME}}, as_opened, WRITE, ("allowed", "any", 1, 1)),
    "a denial that policy calls final says so": (
        {"transitions": [{"name": "r", "tools": ["read"]}], "stops": {"final_denials": ["tool"]}}, as_opened, WRITE,
        ("denied", "tool", "denied", True)),
    "a forbidden tool that nobody offers is forbidden all the same, and for good": (
        {"forbid": [{"name": "no-push", "tools": ["*push*"], "final": True}]}, as_opened, world.proposal("git_push"),
        ("denied", "tool", "denied", True)),
    # phase
    "a tool is denied outside the phases of its transition": (
        PHASED, as_opened, WRITE, ("denied", "phase", "denied", False)),
    "a transition without phases is legal in all": (
        PHASED, as_opened, world.proposal("read"), ("allowed", "reading", 1, 0)),
    # authority
    "a principal without the authority is denied": (
        GRANTED, as_opened, world.proposal("pay"), ("denied", "authority", "denied", False)),
    "a tool's permission is needed whatever the transition says": (
        {"tools": {"write": {"permissions": ["files"]}}}, as_opened, WRITE, ("denied", "authority", "denied", False)),
    # conditions
    "a condition that holds chooses its transition": (
        GUARDED, as_opened, world.proposal("pay", {"amount": 101}), ("asked", "large")),
    "a condition that does not hold leaves the next transition": (
        GUARDED, as_opened, world.proposal("pay", {"amount": 1}), ("allowed", "small", 1, 1)),
    "a condition that cannot be judged denies, whatever comes after it": (
        GUARDED, as_opened, world.proposal("pay", {}), ("denied", "conditions", "denied", False)),
    "a forbid rule wins over every transition": (
        {"forbid": [{"name": "no-pay", "tools": ["pay"], "final": True}]}, as_opened, world.proposal("pay"),
        ("denied", "conditions", "denied", True)),
    "a forbid rule that cannot be judged denies": (
        {"forbid": [{"name": "no-pay", "tools": ["pay"], "when": ["args.amount > 1"]}]}, as_opened,
        world.proposal("pay"), ("denied", "conditions", "denied", False)),
    # holds
    "a mutation waits for one that may move the phase": (
        {"transitions": [{"name": "w", "tools": ["write"], "to": "two"}, {"name": "p", "tools": ["*"]}],
         "phases": {"one": {}, "two": {}}}, with_write(), world.proposal("pay"), ("held", "holds", "in_flight", "run_1.2")),  # noqa: E501
    "a read does not wait for a mutation": (
        {"transitions": [{"name": "w", "tools": ["write"], "to": "two"}, {"name": "p", "tools": ["*"]}],
         "phases": {"one": {}, "two": {}}}, with_write(), world.proposal("read"), ("allowed", "p", 1, 0)),
    # budget
    "a call over the budget ends the run once nothing is open": (
        {"budgets": {"calls": 1}}, with_write(receipt()), world.proposal("read"),
        ("denied", "budget", "budget_exhausted", True)),
    "a call over a budget that is only reserved is merely denied": (
        {"budgets": {"calls": 1}}, with_write(), world.proposal("read"), ("denied", "budget", "denied", False)),
    "a step that costs more than what is left is denied and the run goes on": (
        {"budgets": {"calls": 4}, "transitions": [{"name": "big", "tools": ["pay"], "charge": {"calls": 5}},
                                                  {"name": "any", "tools": ["*"]}]},
        as_opened, world.proposal("pay"), ("denied", "budget", "denied", False)),
    "what was proven not to have happened is given back": (
        {"budgets": {"calls": 1}}, with_write(AttemptUnsent(attempt="run_1.2", reason="refused")),
        world.proposal("read"), ("allowed", "any", 1, 0)),
    "a read costs no mutation": (
        {"budgets": {"mutations": 0}}, as_opened, world.proposal("read"), ("allowed", "any", 1, 0)),
    "a mutation beyond its budget is denied": (
        {"budgets": {"mutations": 0}}, as_opened, WRITE, ("denied", "budget", "budget_exhausted", True)),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_each_rule_gives_its_verdict(row: str) -> None:
    fields, happened, proposed, expected = ROWS[row]
    rules = world.rules(**fields)
    run = happened(world.opened(rules), rules)
    assert brief(judge(run, rules, proposed)) == expected


def test_the_order_of_the_checks_is_the_design() -> None:
    assert list(CHECKS) == [
        "key", "run", "tool", "schema", "phase", "authority", "conditions", "holds", "budget", "preconditions",
        "approval",
    ]  # fmt: skip


def test_every_check_records_its_own_finding_under_its_own_name() -> None:
    for fields, proposed in (({}, WRITE), (GUARDED, world.proposal("pay", {"amount": 1})), (PHASED, WRITE)):
        rules = world.rules(**fields)
        verdict = judge(world.opened(rules), rules, proposed)
        assert [one.check for one in verdict.checks] == list(CHECKS)[: len(verdict.checks)]


def test_arguments_that_break_the_schema_are_told_path_by_path() -> None:
    rules = world.rules()
    strict = world.tool("write", schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["p"]})
    verdict = judge(world.opened(rules), rules, world.proposal("write", {"n": "1"}), tool=strict)
    assert isinstance(verdict, Denied)
    assert verdict.outcome is Outcome.INVALID_ARGUMENTS
    assert {one["path"] for one in verdict.checks[-1].inputs["violations"]} == {"(root)", "/n"}


def test_a_lax_registry_entry_records_the_violation_and_lets_it_pass() -> None:
    rules = world.rules(tools={"write": {"effect": "write", "schema": "observe"}})
    strict = world.tool("write", schema={"type": "object", "required": ["p"]})
    verdict = judge(world.opened(rules), rules, world.proposal("write"), tool=strict)
    assert isinstance(verdict, IntentRecorded)
    assert next(one for one in verdict.checks if one.check == "schema").inputs["violations"]


@pytest.mark.parametrize("state", ["open", "unknown"])
def test_an_equal_effect_in_another_run_holds_this_one(state: str) -> None:
    rules = world.rules()
    held = Tracked("run_0.7", "run_0", state, None, "gone", 0.0)
    verdict = judge(world.opened(rules), rules, WRITE, held=held)
    assert brief(verdict) == ("held", "holds", "held", "run_0.7")


def test_no_key_lifts_the_hold_on_an_unknown_of_the_same_run() -> None:
    rules = world.rules()
    held = Tracked("run_1.2", "run_1", "unknown", None, "me", 0.0)
    run = world.after(intended(world.opened(rules), rules, WRITE), AttemptUnknown(attempt="run_1.2", reason="t"))
    assert brief(judge(run, rules, replace(WRITE, key=MINE), held=held)) == ("held", "holds", "held", "run_1.2")


def test_elapsed_time_is_a_budget_and_a_deadline_is_a_stop() -> None:
    rules = world.rules(budgets={"elapsed_s": 10})
    assert brief(judge(world.opened(rules), rules, WRITE, after_s=10)) == ("denied", "budget", "budget_exhausted", True)
    rules = world.rules(stops={"deadline_s": 10})
    assert brief(judge(world.opened(rules), rules, WRITE, after_s=10)) == ("denied", "run", "deadline_missed", True)
    assert brief(judge(world.opened(rules), rules, WRITE, after_s=9.9)) == ("allowed", "any", 1, 1)


def test_a_shared_run_is_denied_but_never_ended() -> None:
    rules = world.rules(budgets={"calls": 0})
    run = world.opened(rules, origin="default")
    assert brief(judge(run, rules, WRITE)) == ("denied", "budget", "denied", False)


def test_an_approval_is_used_once_and_for_the_exact_arguments_only() -> None:
    rules = world.rules(**GUARDED)
    run, pay = world.opened(rules), world.proposal("pay", {"amount": 200})
    asked = judge(run, rules, pay)
    assert isinstance(asked, ApprovalRequested)
    run = world.after(run, asked)
    assert brief(judge(run, rules, pay))[:3] == ("held", "approval", "needs_approval")
    by = Who(tenant="local", id="local:boss")
    run = world.after(run, answer(run, asked.approval, asked.action, approve=True, by=by, reason="", now=utc(world.T0)))
    assert brief(judge(run, rules, world.proposal("pay", {"amount": 201}))) == ("asked", "large")
    assert brief(judge(run, rules, world.proposal("pay", {"amount": 200.0}))) == ("asked", "large")
    intent = judge(run, rules, pay)
    assert isinstance(intent, IntentRecorded)
    assert intent.approval == asked.approval
    run = world.after(run, intent, receipt(intent.attempt), OutcomeDelivered(attempt=intent.attempt))
    assert brief(judge(run, rules, pay)) == ("asked", "large")


def test_a_rejected_action_is_denied_with_the_reviewers_reason_and_an_expired_one_is_asked_again() -> None:
    rules = world.rules(**GUARDED)
    run, pay = world.opened(rules), world.proposal("pay", {"amount": 200})
    asked = judge(run, rules, pay)
    assert isinstance(asked, ApprovalRequested)
    run = world.after(run, asked)
    late = asked.expires_at - utc(world.T0) + timedelta(seconds=1)
    assert brief(judge(run, rules, pay, after_s=late.total_seconds())) == ("asked", "large")
    by = Who(tenant="local", id="local:boss")
    no = answer(run, asked.approval, asked.action, approve=False, by=by, reason="too much", now=utc(world.T0))
    verdict = judge(world.after(run, no), rules, pay)
    assert isinstance(verdict, Denied)
    assert verdict.reason == "`local:boss` rejected this action: too much"


def test_observe_mode_lets_pass_what_policy_would_refuse_and_says_what() -> None:
    rules = world.rules(mode="observe", **PHASED)
    verdict = judge(world.opened(rules), rules, WRITE)
    assert isinstance(verdict, IntentRecorded)
    assert verdict.waived == ("phase",)
    assert brief(judge(world.after(world.opened(rules), verdict), rules, WRITE))[:3] == ("held", "key", "in_flight")


def test_evidence_opens_a_gate_and_a_later_write_closes_it() -> None:
    rules = world.rules(
        transitions=[
            {"name": "commit", "tools": ["pay"],
             "when": ["'t' in evidence && evidence.t.verdict == 'pass' && evidence.t.fresh"]},
            {"name": "write", "tools": ["write"]},
        ],
    )  # fmt: skip
    run, commit = world.opened(rules), world.proposal("pay")
    assert brief(judge(run, rules, commit)) == ("denied", "conditions", "denied", False)
    run = world.after(run, EvidenceRecorded(verifier="t", verdict="pass", says="ok", started_at=utc(world.T0), after=1))
    assert brief(judge(run, rules, commit)) == ("allowed", "commit", 1, 1)
    run = world.after(intended(run, rules, WRITE), receipt("run_1.3"))
    assert brief(judge(run, rules, commit)) == ("denied", "conditions", "denied", False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=10,
)


@given(arguments=st.dictionaries(st.text(), JSON, max_size=4) | st.fixed_dictionaries({"amount": JSON}))
def test_decide_is_total_over_arguments(arguments: dict[str, Any]) -> None:
    rules = RULES
    defined = TOOLS["pay"]
    proposed = Proposal("run_1", world.USER, "pay", arguments, digest("x", world.SALT))
    verdict = decide(world.opened(rules), proposed, rules, Observed(defined), utc(world.T0))
    assert not isinstance(verdict, Gather)
    assert verdict.tool == "pay"
    assert stop(world.opened(rules), rules, utc(world.T0)) is None


RULES = world.rules(**GUARDED)


def test_a_policy_is_plain_data_that_survives_its_own_text() -> None:
    made = world.policy(**GUARDED)
    assert Policy.model_validate(made.model_dump(mode="json", by_alias=True)) == made
