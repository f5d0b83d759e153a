"""What whoever asked a person is told of their question, wherever it stands."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import pytest

from gateway.kernel.asker import NEXT_STEP, question, says
from gateway.model.answering import Answering
from gateway.model.approval import Approval
from gateway.model.events import Outcome, RunStopped
from gateway.model.question import QuestionState
from gateway.model.record import utc
from gateway.model.run import RunState
from tests import world

RULES = world.rules(transitions=[{"name": "any", "tools": ["*"], "approval": {"reason": "money leaves"}}])
NOW = utc(world.T0)
WHERE = Answering(approve="approve {id}", console="http://127.0.0.1:8321")
ASKED = Approval(
    id="ap_1",
    action="c1:a",  # type: ignore[arg-type]  # any will do
    tool="pay",
    rule="any",
    role=None,
    quorum=1,
    self_review=False,
    requested_at=NOW,
    expires_at=NOW + timedelta(hours=1),
    seq=3,
)
ENDED = {"by": "ann", "reason": "not now"}
CASES: list[tuple[QuestionState, dict[str, Any], str]] = [
    ("awaiting", {}, "a person must agree (money leaves)"),
    ("approved", {"decision": "approved", **ENDED}, "`ap_1` was approved by `ann`: not now"),
    ("used", {"decision": "approved", "uses": ("run_1.5",), **ENDED}, "`ap_1` was used by `run_1.5`"),
    ("rejected", {"decision": "rejected", **ENDED}, "`ap_1` was rejected by `ann`: not now"),
    ("returned", {"decision": "returned", **ENDED}, "`ap_1` was returned by `ann`, more evidence is wanted: not now"),
    ("expired", {"expires_at": NOW}, f"`ap_1` expired at {NOW.isoformat(timespec='seconds')}, unanswered or unused"),
    ("expired", {"decision": "expired", "expires_at": NOW}, "`ap_1` expired at "),
    ("superseded", {"decision": "superseded", "by": "ap_2"}, "`ap_1` was superseded by `ap_2`"),
    ("withdrawn", {"decision": "withdrawn", **ENDED}, "`ap_1` was withdrawn by `ann`: not now"),
]


@pytest.mark.parametrize(("state", "changes", "told"), CASES)
def test_a_question_is_told_as_it_stands(state: QuestionState, changes: dict[str, Any], told: str) -> None:
    run = world.opened(RULES)
    found = question(run, RULES, replace(ASKED, **changes), NOW, WHERE)
    where = ("approve ap_1", "http://127.0.0.1:8321/console/approvals/ap_1")
    assert (found.told.state, found.told.next) == (state, NEXT_STEP[state])
    assert (found.told.approve_at, found.told.page) == (where if state == "awaiting" else (None, None))
    assert says(found).startswith(told)
    assert found.awaits == (state == "awaiting")
    assert (found.told.superseded_by, found.told.by) == (
        ("ap_2", None) if state == "superseded" else (None, changes.get("by"))
    )


@pytest.mark.parametrize("changes", [{}, {"decision": "approved"}])
def test_the_end_of_the_run_ends_what_was_not_used(changes: dict[str, Any]) -> None:
    over = RunStopped(outcome=Outcome.INFEASIBLE, reason="no way")
    run = world.opened(RULES)._replace(state=RunState.STOPPED, stopped=over)
    found = question(run, RULES, replace(ASKED, **changes), NOW, WHERE)
    assert (found.told.state, says(found)) == ("closed", "the run ended before `ap_1` was answered or used")


def test_a_question_of_a_transition_that_is_gone_says_that_policy_asks() -> None:
    found = question(world.opened(RULES), RULES, replace(ASKED, rule="other"), NOW, WHERE)
    assert found.told.asks == "policy asks for a person"


def test_each_state_has_its_next_step() -> None:
    assert set(NEXT_STEP) == set(get_args(QuestionState))
