"""Going round in circles, and what only looks like it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.steps import MAX_STEPS, RESTARTS, failures, limit_of
from gateway.kernel.stop import stop, warning
from gateway.model.events import Outcome
from gateway.model.policy import RepeatedState
from gateway.model.steps import KINDS
from tests import world
from tests.kernel.loops import (
    CIRCLES,
    GREEN,
    NOW,
    OTHER,
    RED,
    REPETITION,
    Call,
    Refused,
    Step,
    Verdict,
    kept_of,
    read,
    rules,
    walked,
    write,
)
from tests.kernel.made import MANY

RULES = rules()


@pytest.mark.parametrize("name", CIRCLES)
def test_a_circle_ends_the_run_at_its_step_and_the_client_was_warned_once_before(name: str) -> None:
    steps, end = CIRCLES[name]
    found = walked(steps, RULES)
    assert found.over is not None
    assert (found.over.outcome, found.over.rule, found.at) == (Outcome.REPEATED_STATE, "stops.repeated_state", end)
    assert found.over.evidence <= (found.run.version,)
    assert len(found.warned) == 1
    assert found.warned[0] < end


@pytest.mark.parametrize("name", REPETITION)
def test_what_a_careful_agent_does_again_ends_nothing(name: str) -> None:
    assert walked(REPETITION[name], RULES).over is None


def test_without_a_limit_nothing_is_a_circle() -> None:
    by = world.rules(transitions=[{"name": "any", "tools": ["read", "write"]}])
    found = walked([Refused()] * 30, by)
    assert (found.over, found.warned) == (None, [])


def test_what_succeeds_counts_only_where_policy_says_how_often() -> None:
    found = walked([read(1)] * 30 + [write(1)] * 30, rules(reads=None))
    assert (found.over, found.warned) == (None, [])
    assert walked([write(1)] * 30, rules(after=2)).at == 3, "twice is no circle yet"
    assert walked([read(1)] * 30, rules(reads=2)).at == 2
    assert walked([Refused()] * 30, rules(after=2)).at == 2


def test_noise_may_be_declared_for_all_tools() -> None:
    steps: list[Step] = [write(1, {"took_ms": n}) for n in range(9)]
    assert walked(steps, RULES).over is None
    assert walked(steps, rules(noise=["took_ms"])).at == 3
    refused: list[Step] = [Refused({"request_id": n}) for n in range(9)]
    assert walked(refused, RULES).over is None
    assert walked(refused, rules(noise=["request_id"])).at == 3


def test_what_is_said_names_the_step() -> None:
    said = {name: walked(CIRCLES[name][0], RULES) for name in CIRCLES}
    told = {name: found.over.reason for name, found in said.items() if found.over is not None}
    came = "times without new evidence:"
    assert told["one refusal, over and over"] == f"the same failure came 3 {came} a refused call of `nope`"
    assert told["one error"] == f"the same failure came 3 {came} an error of `read`"
    assert told["one read with the same answer"] == f"the same answer came 5 {came} a read by `read`"
    assert told["A-B-C-A-B-C"] == f"the same answer came 3 {came} a call of `write`"
    assert told["fix, fail, fix, fail"] == f"the same failure came 3 {came} verifier `t`"


def test_the_warning_comes_with_the_record_that_makes_it_true_and_with_no_other() -> None:
    found = walked([Refused()] * 2, RULES)
    says = (
        "stops.repeated_state: the same failure came 2 times without new evidence: a refused call of `nope`; once more "
    )
    says += "ends the run"
    assert warning(found.run, RULES, 3) == says
    assert warning(found.run, RULES, 2, None) is None
    assert warning(found.run._replace(origin="default"), RULES, 3) is None
    first = walked([Refused()], rules(after=2))
    assert "came once without" in (warning(first.run, rules(after=2), 2) or "")


def test_a_warning_is_told_again_only_after_something_new() -> None:
    assert walked([Refused(), Refused(), GREEN, Refused(), Refused()], RULES).warned == [2, 5]
    mixed: list[Step] = [Refused({"n": 1}), Refused({"n": 2}), Refused({"n": 1}), Refused({"n": 2})]
    assert walked(mixed, RULES).warned == [3]
    both: list[Step] = [write(1), RED, write(1), RED, write(1)]
    assert walked(both, RULES).warned == [4]


def test_a_verdict_is_only_answered_by_a_verdict() -> None:
    assert walked([RED, read(1, "a"), RED, read(2, "b"), RED], RULES).at == 5
    assert walked([RED, RED, OTHER, RED, RED], RULES).over is None
    assert walked([RED, RED, Verdict("pass", verifier="u"), RED, RED], RULES).over is None


def test_each_kind_of_news_says_what_it_restarts() -> None:
    assert set(RESTARTS) == {*KINDS, "pass", "pass again"}
    assert [limit_of(kind, RepeatedState()) for kind in KINDS] == [3, 3, 3, 10, 3]


def test_the_failures_since_something_new_can_be_listed() -> None:
    found = walked([Refused(), read(1, "no", fails=True), Refused(), write(1), RED], rules(after=9))
    assert {step.split("\0")[0]: times for step, times in failures(found.run.steps).items()} == {"verifier": 1}
    found = walked([read(1, "no", fails=True), Refused(), Refused(), write(1)], rules(after=9))
    assert {step.split("\0")[0]: times for step, times in failures(found.run.steps).items()} == {
        "denied": 2,
        "error": 1,
    }


def test_a_run_keeps_no_more_steps_than_it_may() -> None:
    found = walked([Refused({"n": n}) for n in range(3 * MAX_STEPS)], RULES)
    assert MAX_STEPS < len(kept_of(found.run)) <= 2 * MAX_STEPS
    assert found.over is None
    assert walked([Refused({"n": n}) for n in range(MAX_STEPS)] * 3, RULES).over is not None, "as many are known"
    assert walked([Refused({"n": n}) for n in range(2 * MAX_STEPS + 1)] * 3, RULES).over is None, "these are forgotten"


# --- properties -----------------------------------------------------------------------------------------------------

NUMBERS = st.integers(0, 2)
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(Refused, st.fixed_dictionaries({"n": NUMBERS})),
    st.builds(lambda n, says, bad: read(n, says, fails=bad), NUMBERS, st.sampled_from(["a", "b"]), st.booleans()),
    st.builds(write, NUMBERS, st.sampled_from(["a", "b"])),
    st.builds(lambda says: Call("poll", {}, says), st.sampled_from(["a", "b"])),
    st.sampled_from([RED, OTHER, GREEN, Verdict("inconclusive")]),
    st.sampled_from([Verdict("fail", "red", "u"), Verdict("pass", verifier="u")]),
)
LISTS = st.lists(STEPS, max_size=30)


@MANY
@given(LISTS)
def test_folding_twice_gives_the_same(steps: list[Step]) -> None:
    one, other = walked(steps, RULES), walked(steps, RULES)
    assert (one.over, one.at, one.warned) == (other.over, other.at, other.warned)
    assert failures(one.run.steps) == failures(other.run.steps)


@MANY
@given(LISTS)
def test_a_laxer_limit_never_stops_sooner(steps: list[Step]) -> None:
    strict, lax = walked(steps, RULES), walked(steps, rules(after=4, reads=6))
    assert strict.over is not None or lax.over is None
    assert lax.over is None or strict.at < lax.at


@MANY
@given(LISTS, STEPS)
def test_what_the_client_was_not_warned_of_does_not_come(steps: list[Step], last: Step) -> None:
    found = walked([*steps, last], RULES)
    assert found.over is None or found.warned


@MANY
@given(LISTS, st.data())
def test_noise_changes_nothing(steps: list[Step], data: st.DataObject) -> None:
    def noisy(step: Step) -> Step:
        at = data.draw(st.integers())
        if not isinstance(step, Call) or step.tool != "read":
            return step
        return Call("read", {**step.arguments, "at": at}, {"says": step.says, "in": [{"at": at}]}, step.fails)

    def plain(step: Step) -> Step:
        if not isinstance(step, Call) or step.tool != "read":
            return step
        return Call("read", step.arguments, {"says": step.says, "in": [{}]}, step.fails)

    one, other = walked([noisy(step) for step in steps], RULES), walked([plain(step) for step in steps], RULES)
    assert (one.at, one.warned) == (other.at, other.warned)


@MANY
@given(LISTS)
def test_whoever_goes_round_long_enough_is_stopped(steps: list[Step]) -> None:
    circle = [one for one in steps if isinstance(one, Refused) or (isinstance(one, Call) and one.tool != "poll")]
    if circle:
        assert walked(circle * 8, RULES).over is not None


@MANY
@given(st.lists(st.builds(Refused, st.fixed_dictionaries({"n": st.integers(0, 4 * MAX_STEPS)})), max_size=40))
def test_memory_is_bounded_whatever_comes(steps: list[Step]) -> None:
    run = walked(steps * 3, rules(after=100)).run
    assert len(run.steps.young) <= MAX_STEPS
    assert len(run.steps.old) <= MAX_STEPS
    assert len(run.steps.peaks) <= len(KINDS)
    assert stop(run, RULES, NOW) is None or max(peak.times for peak in run.steps.peaks) >= 3
