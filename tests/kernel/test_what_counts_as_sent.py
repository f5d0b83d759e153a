"""What a transition's `retry` and `max_attempts` count: what was sent, never what is known not to have happened."""

from dataclasses import replace

import pytest

from gateway.model.events import AttemptRefuted, AttemptUnsent, Denied, Event, IntentRecorded
from tests import world
from tests.kernel.test_decide import WRITE, with_write
from tests.kernel.test_what_checks_find import finding, refusal, said
from tests.kernel.test_what_spending_finds import DONE, REPEATS, UNKNOWN, judge

UNMADE: dict[str, list[Event]] = {
    "unsent": [AttemptUnsent(attempt="run_1.2", reason="down")],
    "refuted": [UNKNOWN, AttemptRefuted(attempt="run_1.2", source="probe", reason="no")],
}


@pytest.mark.parametrize("how", UNMADE)
@pytest.mark.parametrize("row", REPEATS)
def test_what_is_known_not_to_have_happened_was_not_sent(row: str, how: str) -> None:
    fields, reason = REPEATS[row]
    rules = world.rules(transitions=[{"name": "w", "tools": ["*"]} | fields])
    run, again = with_write(*UNMADE[how])(world.opened(rules), rules), replace(WRITE, key=None)
    found, inputs = judge(run, rules, again), {"equal": "run_1.2", "count": 0}
    if row == "never":  # nobody may so much as ask for it again
        assert said(found) == refusal("holds", "denied", reason, rule="w", inputs=inputs)
        return
    assert isinstance(found, IntentRecorded)
    assert finding(found, "holds").inputs == inputs
    sent = world.after(run, found, *(one.model_copy(update={"attempt": found.attempt}) for one in DONE))
    assert isinstance(judge(sent, rules, again), Denied)


@pytest.mark.parametrize("row", REPEATS)
def test_what_happened_after_all_was_sent_after_all(row: str) -> None:
    rules = world.rules(transitions=[{"name": "w", "tools": ["*"]} | REPEATS[row][0]])
    run = with_write(*UNMADE["refuted"], *DONE)(world.opened(rules), rules)
    found = judge(run, rules, replace(WRITE, key=None))
    assert isinstance(found, Denied)
    assert finding(found, "holds").inputs == {"equal": "run_1.2", "count": 1}
