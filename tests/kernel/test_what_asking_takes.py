"""What it takes of shared accounts to ask a person."""

from gateway.model.events import ApprovalRequested, Reservation
from gateway.model.record import utc
from tests import world
from tests.kernel import made
from tests.kernel.test_what_checks_find import said
from tests.kernel.test_what_spending_finds import ASK, judge


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
