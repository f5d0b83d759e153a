"""Each stop, whole: when exactly it ends a run, as what, and which comes first."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from gateway.kernel.rules import Rules
from gateway.kernel.stop import STOPS, stop
from gateway.model.canonical import digest
from gateway.model.events import (
    AttemptUnknown,
    Denied,
    Event,
    EvidenceRecorded,
    Outcome,
    PhaseMoved,
    RunStopped,
)
from gateway.model.record import utc
from gateway.model.run import Run
from tests import world
from tests.kernel.test_decide import WRITE, intended, judge, receipt

NOW = utc(world.T0)
VERIFIERS = {name: {"probe": {"tool": "check"}, "pass": ["true"]} for name in ("t", "u")}
PROVEN: dict[str, Any] = {"verifiers": VERIFIERS, "success": {"evidence": ["t", "u"]}}


def proof(name: str, verdict: Any = "pass", **changes: Any) -> EvidenceRecorded:
    return EvidenceRecorded(verifier=name, verdict=verdict, says=f"{name} says", started_at=NOW, **changes)


def run_of(rules: Rules, *events: Event) -> Run:
    return world.after(world.opened(rules), *events)


def denial(outcome: Outcome = Outcome.DENIED, *, final: bool = True) -> Denied:
    return Denied(
        tool="write", arguments=WRITE.arguments_digest, policy=digest(1, b""), phase="open", checks=(),
        outcome=outcome, rule="no-push", reason="never", final=final,
    )  # fmt: skip


def test_success_is_the_fresh_pass_of_all_that_it_names_while_nothing_is_unsettled() -> None:
    rules = world.rules(**PROVEN)
    over = RunStopped(
        outcome=Outcome.VERIFIED_SUCCESS, reason="t says; u says", rule="success", evidence=(3, 2)
    )  # fmt: skip
    assert stop(run_of(rules, proof("u"), proof("t")), rules, NOW) == over
    for events in (
        [],
        [proof("t")],
        [proof("t"), proof("u", "fail")],
        [proof("t"), proof("u", "inconclusive")],
        [proof("t"), proof("u"), proof("t", "fail")],
    ):
        assert stop(run_of(rules, *events), rules, NOW) is None
    stale = run_of(rules, proof("t"), proof("u", covers=("pay",)))
    stale = world.after(intended(stale, rules, WRITE), receipt("run_1.4"))
    assert stop(stale, rules, NOW) is None
    covered = run_of(rules, proof("t", covers=()), proof("u", covers=()))
    waiting = intended(covered, rules, WRITE)
    assert stop(waiting, rules, NOW) is None
    assert stop(world.after(waiting, AttemptUnknown(attempt="run_1.4", reason="t")), rules, NOW) is None
    done = stop(world.after(waiting, receipt("run_1.4")), rules, NOW)
    assert done is not None
    assert done.outcome is Outcome.VERIFIED_SUCCESS


def test_success_may_want_a_phase() -> None:
    rules = world.rules(
        phases={"one": {}, "two": {}}, verifiers=VERIFIERS, success={"evidence": ["t"], "phase": "two"}
    )  # fmt: skip
    run = run_of(rules, proof("t"))
    assert stop(run, rules, NOW) is None
    assert stop(world.after(run, PhaseMoved(source="one", target="two", transition="x")), rules, NOW) is not None


def test_a_final_denial_ends_a_run_as_what_it_was() -> None:
    rules = world.rules()
    for outcome, ends in (
        (Outcome.DENIED, Outcome.POLICY_DENIED),
        (Outcome.BUDGET_EXHAUSTED, Outcome.BUDGET_EXHAUSTED),
        (Outcome.DEADLINE_MISSED, Outcome.DEADLINE_MISSED),
    ):
        run = run_of(rules, denial(outcome))
        assert stop(run, rules, NOW) == RunStopped(outcome=ends, reason="never", rule="no-push", evidence=(2,))
    assert stop(run_of(rules, denial(final=False)), rules, NOW) is None


@pytest.mark.parametrize(("about", "why"), [({}, ""), ({"description": "no way on"}, ": no way on")])
def test_a_phase_that_ends_a_run_does_so_once_nothing_is_unsettled(about: dict[str, Any], why: str) -> None:
    rules = world.rules(phases={"one": {"description": "goes on"}, "two": about | {"ends": "infeasible"}})
    moved = PhaseMoved(source="one", target="two", transition="x")
    assert stop(run_of(rules), rules, NOW) is None
    reason = f"the run came to the phase `two`, where it ends{why}"
    assert stop(run_of(rules, moved), rules, NOW) == RunStopped(
        outcome=Outcome.INFEASIBLE, reason=reason, rule="phases.two", evidence=(2,)
    )
    waiting = world.after(intended(world.opened(rules), rules, WRITE), moved)
    assert stop(waiting, rules, NOW) is None
    assert stop(world.after(waiting, receipt()), rules, NOW) is not None
    assert stop(run_of(rules)._replace(phase="gone"), rules, NOW) is None


def test_a_deadline_is_missed_at_its_very_moment_and_once_nothing_is_unsettled() -> None:
    rules = world.rules(stops={"deadline_s": 10})
    run, end = run_of(rules), NOW + timedelta(seconds=10)
    reason = "the run had 10 s from its start and did not succeed in them"
    over = RunStopped(outcome=Outcome.DEADLINE_MISSED, reason=reason, rule="stops.deadline_s", evidence=(1,))
    assert stop(run, rules, end) == over
    assert stop(run, rules, end - timedelta(microseconds=1)) is None
    assert stop(intended(run, rules, WRITE), rules, end) is None
    assert stop(run._replace(opened_at=None), rules, end) is None
    assert stop(run, world.rules(), end + timedelta(days=999)) is None


def failing(rules: Rules, events: Sequence[Event]) -> RunStopped | None:
    return stop(run_of(rules, *events), rules, NOW)


def test_the_same_failure_as_often_as_policy_says_ends_a_run() -> None:
    rules = world.rules(verifiers=VERIFIERS, stops={"repeated_state": {"after": 2}})
    same = proof("t", "fail", signature="s")
    says = "the same failure came 2 times without new evidence: verifier `t`"
    over = RunStopped(outcome=Outcome.REPEATED_STATE, reason=says, rule="stops.repeated_state", evidence=(3,))
    assert failing(rules, [same, same]) == over
    assert failing(rules, [same]) is None
    assert failing(rules, [same, proof("t", "fail", signature="other")]) is None
    assert failing(rules, [same, proof("u"), same]) is None, "new evidence begins anew"
    assert failing(rules, [same, proof("u", "inconclusive"), same]) is not None, "and what proves nothing does not"
    assert failing(world.rules(verifiers=VERIFIERS), [same] * 9) is None
    for often, seldom in (("t", "u"), ("u", "t")):
        found = failing(rules, [proof(seldom, "fail"), proof(often, "fail"), proof(often, "fail")])
        assert found is not None
        assert found.reason.endswith(f"verifier `{often}`")


def test_refused_calls_and_errors_are_failures_too_each_by_what_was_asked() -> None:
    rules = world.rules(stops={"repeated_state": {"after": 2}})
    over = failing(rules, [denial(final=False)] * 2)
    assert over is not None
    assert over.reason.endswith("without new evidence: a refused call of `write`")
    run = world.opened(rules)
    for _ in range(2):
        assert stop(run, rules, NOW) is None
        run = intended(run, rules, world.proposal("read"))
        run = world.after(run, receipt(f"run_1.{run.version}", is_error=True))
    over = stop(run, rules, NOW)
    assert over is not None
    assert over.reason.endswith("without new evidence: an error of `read`")
    budget = judge(world.opened(rules), world.rules(budgets={"calls": 0}), WRITE)
    assert isinstance(budget, Denied)
    spent = budget.model_copy(update={"final": False})
    assert failing(rules, [spent] * 3) is None, "a budget has a stop of its own"


def test_no_stop_ends_a_run_that_is_shared_over_or_not_open() -> None:
    rules = world.rules(**PROVEN, stops={"deadline_s": 1})
    late = NOW + timedelta(days=1)
    shared = world.after(world.opened(rules, origin="default"), denial(), proof("t"), proof("u"))
    assert stop(shared, rules, late) is None
    over = run_of(rules, RunStopped(outcome=Outcome.INFEASIBLE, reason="x"))
    assert stop(over, rules, late) is None
    assert stop(Run("run_1"), rules, late) is None


def test_success_comes_first_and_going_round_in_circles_last() -> None:
    assert [one.__name__ for one in STOPS] == [
        "_verified_success", "_final_denial", "_infeasible", "_phase_ends", "_deadline_missed", "_repeated_state",
    ]  # fmt: skip
    rules = world.rules(**PROVEN, stops={"deadline_s": 1})
    run = run_of(rules, proof("t"), proof("u"), denial())
    found = stop(run, rules, NOW + timedelta(days=1))
    assert found is not None
    assert found.outcome is Outcome.VERIFIED_SUCCESS
