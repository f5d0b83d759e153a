"""What a run has left, and what it waits for, when more than one thing has happened in it."""

from typing import Any

import pytest
from rpds import HashTrieMap

from gateway.model.events import ApprovalRequested, Charge, IntentRecorded, Who
from gateway.model.policy import MAX_COST
from gateway.model.record import utc
from tests import world
from tests.kernel import made
from tests.kernel.test_decide import with_write
from tests.kernel.test_what_checks_find import said
from tests.people import answer

PAY = world.proposal("pay", {"n": 2})


@pytest.mark.parametrize(
    ("budgets", "charge", "spent", "reason"),
    [
        ({"calls": 5}, {"calls": 4}, {"calls": 3}, "this step takes 4 calls, and 2 of 5 are left"),
        ({"cost": 0.5}, {"cost": 0.25}, {"cost": 500_000}, "the budget of 0.5 cost is used up"),
        ({"tokens": 3}, {"calls": 0}, {"tokens": 9}, None),
        ({"mutations": 3}, {"mutations": 0}, {"mutations": 9}, None),
    ],
)
def test_what_is_left_is_what_was_not_spent(
    budgets: dict[str, Any], charge: dict[str, Any], spent: dict[str, int], reason: str | None
) -> None:
    rules = world.rules(budgets=budgets, transitions=[{"name": "w", "tools": ["*"], "charge": charge}])
    run = world.opened(rules)._replace(spent=Charge(**spent))
    found = made.judge(run, PAY, rules, made.Seen(), world.T0)
    if reason is None:
        assert isinstance(found, IntentRecorded)
        return
    told = said(found)
    assert told["reason"] == reason
    assert told["inputs"]["spent"] == vars(Charge(**spent))


def test_an_account_that_binds_does_so_whatever_is_only_observed_of_the_run() -> None:
    fields: dict[str, Any] = {"mode": "observe", "budgets": {"calls": 0}}
    accounts = {"a": {"limit": {"calls": 0}}, "b": {"limit": {"calls": 0}, "mode": "enforce"}}
    rules = world.rules(**fields, accounts=accounts)
    told = said(made.judge(world.opened(rules), PAY, rules, made.Seen(), world.T0))
    assert (told["check"], told["rule"], told["final"]) == ("budget", "accounts.b", False)
    assert set(told["inputs"]) == {"accounts", "spent", "charge", "elapsed_s"}
    lax = world.rules(**fields, accounts={"a": accounts["a"]})
    found = made.judge(world.opened(lax), PAY, lax, made.Seen(), world.T0)
    assert isinstance(found, IntentRecorded)
    assert found.waived == ("budget",)
    last = next(one for one in found.checks if one.check == "budget")
    assert (last.rule, set(last.inputs)) == ("budgets.calls", set(told["inputs"]))


def test_of_several_that_may_move_the_phase_the_earliest_is_waited_for() -> None:
    rules = world.rules(phases={"one": {}, "two": {}}, transitions=[{"name": "w", "tools": ["*"], "to": "two"}])
    run = with_write()(world.opened(rules), rules)
    first = run.attempts["run_1.2"]
    for earliest in ("a", "b", "c"):
        those = {name: first._replace(id=name, seq=1 if name == earliest else 9) for name in "abc"}
        found = said(made.judge(run._replace(moving=HashTrieMap(those)), PAY, rules, made.Seen(), world.T0))
        assert found["attempt"] == earliest


def costly(formula: str, amount: Any, **budgets: Any) -> Any:
    """The verdict about a call whose cost its arguments tell."""
    told = [{"name": "w", "tools": ["*"], "charge": {"cost_from": formula}}]
    rules = world.rules(transitions=told, budgets=budgets)
    given = {} if amount is None else {"amount": amount}
    return made.judge(world.opened(rules), world.proposal("pay", given), rules, made.Seen(), world.T0)


@pytest.mark.parametrize(("amount", "cost"), [(0, 0), (0.5, 500_000), (MAX_COST, MAX_COST * 1_000_000)])
def test_a_call_costs_what_its_formula_gives(amount: Any, cost: int) -> None:
    found = costly("args.amount", amount)
    assert isinstance(found, IntentRecorded)
    assert found.charge.cost == cost


@pytest.mark.parametrize(
    ("amount", "why"),
    [(-1, "it gives no amount"), (True, "it gives no amount"), ("1", "it gives no amount"),
     (MAX_COST + 1, "it gives no amount"), (None, "`args.amount` is missing")],
)  # fmt: skip
def test_what_cannot_be_told_of_a_cost_is_not_sent(amount: Any, why: str) -> None:
    told = said(costly("args.amount", amount))
    assert told["reason"] == f"what this call costs, `args.amount`, cannot be told: {why}"
    assert (told["check"], told["rule"]) == ("budget", "w")


def test_a_person_is_asked_only_where_the_conditions_of_asking_hold_or_cannot_be_judged() -> None:
    ask = {"name": "ask", "tools": ["*"], "approval": {"when": ["args.n > 1"]}}
    rules = world.rules(transitions=[ask])
    run = world.opened(rules)
    for given, kind in (({"n": 2}, "approval.requested"), ({"n": 1}, "intent.recorded"), ({}, "approval.requested")):
        assert made.judge(run, world.proposal("pay", given), rules, made.Seen(), world.T0).kind == kind


def test_whether_a_person_is_only_observed_hangs_on_no_review_that_is_left() -> None:
    ask = {"name": "ask", "tools": ["*"], "approval": {}, "mode": "observe"}
    rules = world.rules(transitions=[ask], budgets={"reviews": 0}, accounts={"p": {"limit": {"reviews": 0}}})
    found = made.judge(world.opened(rules), PAY, rules, made.Seen(), world.T0)
    assert isinstance(found, IntentRecorded)
    last = found.checks[-1]
    assert (found.waived, last.rule) == (("approval",), "ask")
    assert str(last.inputs["action"]).startswith("c1:")


def test_what_a_formula_gave_is_charged_whatever_is_asked_after_it() -> None:
    transition = {"name": "w", "tools": ["*"], "charge": {"cost_from": "args.amount"}}
    pay = world.proposal("pay", {"amount": 2})
    rules = world.rules(transitions=[transition | {"approval": {}}])
    asked = made.judge(world.opened(rules), pay, rules, made.Seen(), world.T0)
    assert isinstance(asked, ApprovalRequested)
    run, boss = world.after(world.opened(rules), asked), Who(tenant="local", id="local:boss")
    yes = answer(run, asked.approval, asked.action, approve=True, by=boss, reason="", now=utc(world.T0))
    approved = made.judge(world.after(run, yes), pay, rules, made.Seen(), world.T0)
    looked = transition | {"preconditions": ["t"], "mode": "observe"}
    lax = world.rules(transitions=[looked], verifiers={"t": made.VERIFIER})
    waived = made.judge(world.opened(lax), pay, lax, made.Seen(probes="fail"), world.T0)
    for found in (approved, waived):
        assert isinstance(found, IntentRecorded)
        assert found.charge.cost == 2_000_000
