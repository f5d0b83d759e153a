"""A reviewer's answer and a person's word on an unknown call: who may give it, when, and for what."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gateway.kernel.approve import action_digest, pending, resolve
from gateway.kernel.rules import Rules
from gateway.model.canonical import digest
from gateway.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    AttemptRefuted,
    AttemptUnknown,
    AttemptUnsent,
    Outcome,
    ReceiptRecorded,
    RunStopped,
    Who,
)
from gateway.model.principal import Principal
from gateway.model.record import utc
from gateway.model.review import Refused
from gateway.model.run import Approval, Run
from tests import world
from tests.kernel.test_decide import WRITE, judge, receipt, with_write
from tests.people import answer

NOW = utc(world.T0)
BOSS = Who(tenant="local", id="local:boss", roles=("boss",))
OTHER = Who(tenant="local", id="local:other", roles=("boss", "x"))


def asked(**approval: Any) -> tuple[Run, Approval]:
    """A run in which a person was asked under this rule."""
    rules = world.rules(transitions=[{"name": "ask", "tools": ["*"], "approval": {"expires_s": 60} | approval}])
    found = judge(world.opened(rules), rules, WRITE)
    assert isinstance(found, ApprovalRequested)
    run = world.after(world.opened(rules), found)
    return run, run.approvals[found.approval]


def says(
    run: Run, approval: Approval, by: Who = BOSS, *, approve: bool = True, at: datetime = NOW, **changes: Any
) -> ApprovalDecided:
    given = {"approval_id": approval.id, "action": approval.action} | changes
    return answer(run, given["approval_id"], given["action"], approve=approve, by=by, reason="seen", now=at)


def test_an_answer_is_recorded_with_who_gave_it() -> None:
    run, approval = asked()
    for approve, decision in ((True, "approved"), (False, "rejected")):
        expected = ApprovalDecided.model_validate(
            {
                "approval": approval.id,
                "action": approval.action,
                "decision": decision,
                "by": BOSS,
                "reason": "seen",
                "via": "cli",
                "everywhere": True,
            }
        )
        assert says(run, approval, approve=approve) == expected


def refused(run: Run, approval: Approval, by: Who = BOSS, **changes: Any) -> str:
    with pytest.raises(Refused) as caught:
        says(run, approval, by, **changes)
    return str(caught.value)


def test_an_answer_that_nobody_waits_for_says_why() -> None:
    run, approval = asked()
    name = approval.id
    assert refused(run, approval, approval_id="ap_1") == "no approval `ap_1` was asked for in run `run_1`"
    other = refused(run, approval, action=digest(1, b""))
    assert other == f"approval `{name}` is for another action than the one that was shown"
    decided = world.after(run, says(run, approval))
    assert refused(decided, approval) == f"approval `{name}` was approved by `local:boss` already"
    over = world.after(run, RunStopped(outcome=Outcome.INFEASIBLE, reason="x"))
    assert refused(over, approval) == "run `run_1` is over (infeasible)"
    me = Who(tenant="local", id="local:user")
    mine = f"`local:user` asked for `{name}` and may not answer it, unless the policy says `self_review: true`"
    assert refused(run, approval, me) == mine


def test_an_answer_comes_before_the_question_expires() -> None:
    run, approval = asked()
    late = NOW + timedelta(seconds=60)
    assert pending(approval, late - timedelta(microseconds=1))
    assert not pending(approval, late)
    assert says(run, approval, at=late - timedelta(microseconds=1)).decision == "approved"
    assert refused(run, approval, at=late) == f"approval `{approval.id}` expired at 2027-01-15T08:01:00+00:00"
    run = world.after(run, says(run, approval))
    assert not pending(run.approvals[approval.id], NOW)


def test_only_people_of_the_role_are_asked() -> None:
    run, approval = asked(role="x")
    assert refused(run, approval, BOSS) == f"approval `{approval.id}` needs a reviewer with the role `x`"
    assert says(run, approval, OTHER).decision == "approved"


def test_who_asked_may_answer_where_policy_says_so_and_by_no_other_tenants_name() -> None:
    run, approval = asked(self_review=True)
    assert says(run, approval, Who(tenant="local", id="local:user")).decision == "approved"
    run, approval = asked()
    assert "asked for" in refused(run, approval, Who(tenant="acme", id="local:user")), (
        "who sees all tenants is one person"
    )


def test_several_people_must_say_yes_and_each_only_once() -> None:
    run, approval = asked(quorum=2)
    run = world.after(run, says(run, approval))
    half = run.approvals[approval.id]
    assert (half.decision, half.agreed, half.by) == (None, (("local", "local:boss"),), "local:boss")
    twice = f"`local:boss` has said yes to `{approval.id}` already; 2 different people must"
    assert refused(run, approval) == twice
    whole = world.after(run, says(run, approval, OTHER)).approvals[approval.id]
    assert (whole.decision, whole.by, whole.reason) == ("approved", "local:other", "seen")
    no = world.after(run, says(run, approval, OTHER, approve=False)).approvals[approval.id]
    assert (no.decision, no.agreed) == ("rejected", (("local", "local:boss"),))


def test_each_part_of_an_action_tells_it_from_another() -> None:
    definition, policy = digest("tool", b""), digest("policy", b"")
    others = [
        action_digest(WRITE, definition, policy),
        action_digest(WRITE, None, policy),
        action_digest(WRITE, definition, definition),
        action_digest(replace(WRITE, run="run_2"), definition, policy),
        action_digest(replace(WRITE, tool="pay"), definition, policy),
        action_digest(replace(WRITE, arguments_digest=policy), definition, policy),
        action_digest(replace(WRITE, principal=Principal(id="local:other")), definition, policy),
        action_digest(replace(WRITE, principal=Principal(id="local:user", tenant="acme")), definition, policy),
    ]
    assert len(set(others)) == len(others)
    assert action_digest(replace(WRITE, key=None, reported_tokens=3), definition, policy) == others[0]


# --- what became of a call ------------------------------------------------------------------------------------------

SETTLED = NOW + timedelta(seconds=90)


def unknown(*more: Any) -> tuple[Run, Rules]:
    rules = world.rules()
    return with_write(AttemptUnknown(attempt="run_1.2", reason="t"), *more)(world.opened(rules), rules), rules


def test_a_person_may_say_that_a_call_happened_or_once_nothing_can_come_any_more_that_it_did_not() -> None:
    run, _ = unknown()
    for at in (NOW, SETTLED):
        found = resolve(run, "run_1.2", what="happened", by=BOSS, reason="seen", now=at)
        receipt = ReceiptRecorded(
            attempt="run_1.2", source="person", answer="result", is_error=False, late=True, by=BOSS, reason="seen"
        )
        assert found == (receipt,)
    refuted = resolve(run, "run_1.2", what="did_not_happen", by=BOSS, reason="looked", now=SETTLED)
    assert refuted == (AttemptRefuted(attempt="run_1.2", source="person", reason="looked", by=BOSS),)


@pytest.mark.parametrize(
    ("more", "attempt", "says"),
    [
        ([], "run_1.9", "attempt `run_1.9` is not of this run; only an unknown one can be resolved"),
        ([receipt()], "run_1.2",
         "attempt `run_1.2` was settled already: it happened; only an unknown one can be resolved"),
        ([AttemptRefuted(attempt="run_1.2", source="person", reason="x")], "run_1.2",
         "attempt `run_1.2` was settled already: it did not happen; only an unknown one can be resolved"),
    ],
)  # fmt: skip
def test_only_what_is_unknown_can_be_resolved(more: list[Any], attempt: str, says: str) -> None:
    run, _ = unknown(*more)
    with pytest.raises(Refused) as caught:
        resolve(run, attempt, what="happened", by=BOSS, reason="", now=SETTLED)
    assert str(caught.value) == says


OPEN = "once its gateway is gone, another here says within a minute that it is unknown"


def test_what_is_open_is_said_to_be_open_and_what_was_unsent_unsent() -> None:
    rules = world.rules()
    for events, state in (([], f"open: {OPEN}"), ([AttemptUnsent(attempt="run_1.2", reason="t")], "unsent")):
        run = with_write(*events)(world.opened(rules), rules)
        with pytest.raises(Refused) as caught:
            resolve(run, "run_1.2", what="happened", by=BOSS, reason="", now=SETTLED)
        assert str(caught.value) == f"attempt `run_1.2` is {state}; only an unknown one can be resolved"


def test_nobody_may_say_that_it_did_not_happen_while_it_still_can() -> None:
    run, _ = unknown()
    with pytest.raises(Refused) as caught:
        resolve(run, "run_1.2", what="did_not_happen", by=BOSS, reason="", now=SETTLED - timedelta(microseconds=1))
    until = "2027-01-15T08:01:30+00:00"
    assert str(caught.value) == f"the upstream may still act on `run_1.2` until {until}; ask again then"
