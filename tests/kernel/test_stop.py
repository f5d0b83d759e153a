"""When a run is over, and when it must not be."""

from dataclasses import replace

from gateway.kernel.stop import stop
from gateway.model.events import Denied, IntentRecorded, Outcome
from gateway.model.record import utc
from tests import world
from tests.kernel.test_decide import TOOLS, WRITE, judge


def test_who_was_told_to_wait_and_asks_again_is_not_going_in_circles() -> None:
    rules = world.rules(stops={"repeated_state": {"after": 2}})
    run, down = world.opened(rules), replace(TOOLS["write"], healthy=False, trouble="restarting")
    for _ in range(4):
        run = world.after(run, judge(run, rules, WRITE, tool=down))
        assert stop(run, rules, utc(world.T0)) is None
    for _ in range(2):
        run = world.after(run, judge(run, rules, world.proposal("nope")))
    over = stop(run, rules, utc(world.T0))
    assert over is not None
    assert over.outcome is Outcome.REPEATED_STATE


def test_observe_mode_lets_a_forbidden_tool_pass_and_never_one_that_is_not_there() -> None:
    rules = world.rules(mode="observe", transitions=[{"name": "r", "tools": ["read"]}],
                        forbid=[{"name": "no", "tools": ["write", "nope"], "final": True}])  # fmt: skip
    assert isinstance(judge(world.opened(rules), rules, WRITE), IntentRecorded)
    assert isinstance(judge(world.opened(rules), rules, world.proposal("nope")), Denied)
