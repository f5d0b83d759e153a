"""A run is a reduction of its events; what cannot follow is a corrupt ledger."""

import pytest

from gateway.kernel.moves import NEXT, NEXT_ATTEMPT
from gateway.kernel.reduce import CorruptLedger, fold, reduce
from gateway.model.events import (
    AttemptRefuted,
    AttemptUnknown,
    IntentRecorded,
    Outcome,
    OutcomeDelivered,
    PhaseMoved,
    ReceiptRecorded,
    RunStopped,
)
from gateway.model.record import GENESIS, Record, encode, link, utc
from gateway.model.run import AttemptState, Intent, Run, RunState
from tests import world
from tests.kernel.test_decide import WRITE, intended, judge, receipt


def test_folding_twice_gives_the_same_run() -> None:
    rules = world.rules()
    run = world.opened(rules)
    verdict = judge(run, rules, WRITE)
    first = Record(run="run_1", seq=2, at=utc(world.T0), previous=run.head, event=verdict)
    body = encode(first)
    assert fold([(first, link(body))], run) == fold([(first, link(body))], run) == reduce(run, first, link(body))


@pytest.mark.parametrize(
    ("seq", "previous", "of"), [(3, None, "run_1"), (2, GENESIS, "run_1"), (2, None, "run_2")]
)  # fmt: skip
def test_a_record_out_of_place_is_a_corrupt_ledger(seq: int, previous: str | None, of: str) -> None:
    run = world.opened(world.rules())
    event = RunStopped(outcome=Outcome.INFEASIBLE, reason="x")
    record = Record(run=of, seq=seq, at=utc(1), previous=run.head if previous is None else previous, event=event)
    with pytest.raises(CorruptLedger):
        reduce(run, record, "")


def test_nothing_is_intended_moved_or_asked_in_a_stopped_run() -> None:
    assert {"intent.recorded", "phase.moved", "approval.requested", "approval.decided", "run.stopped"}.isdisjoint(
        NEXT[RunState.STOPPED]
    )


def test_what_was_under_way_when_the_run_stopped_is_still_settled() -> None:
    rules = world.rules()
    run = intended(world.opened(rules), rules, WRITE)
    run = world.after(run, RunStopped(outcome=Outcome.INFEASIBLE, reason="x"), receipt())
    assert run.state is RunState.STOPPED
    assert run.attempts["run_1.2"].state is AttemptState.ANSWERED


def test_every_attempt_state_has_its_moves_and_only_settled_ones_leave_the_open_list() -> None:
    assert set(NEXT_ATTEMPT) == set(AttemptState)
    rules = world.rules()
    run = intended(world.opened(rules), rules, WRITE)
    assert list(run.unsettled) == ["run_1.2"]
    assert list(world.after(run, AttemptUnknown(attempt="run_1.2", reason="t")).unsettled) == ["run_1.2"]
    assert list(world.after(run, receipt()).unsettled) == []


def test_only_attempts_that_can_move_the_phase_are_known_as_moving_and_until_they_are_settled() -> None:
    to_two = [{"name": "w", "tools": ["write"], "to": "two"}]
    rules = world.rules(phases={"one": {}, "two": {}}, transitions=to_two)
    run = world.opened(rules)
    assert not intended(run, world.rules(), WRITE).moving
    moving = intended(run, rules, WRITE)
    assert list(moving.moving.items()) == list(moving.unsettled.items()) != []
    unknown = world.after(moving, AttemptUnknown(attempt="run_1.2", reason="t"))
    assert list(unknown.moving.items()) == list(unknown.unsettled.items()) != []
    assert not world.after(unknown, receipt()).moving


def test_an_unknown_keeps_its_charge_and_a_refuted_one_gives_it_back() -> None:
    rules = world.rules()
    run = intended(world.opened(rules), rules, WRITE)
    run = world.after(run, AttemptUnknown(attempt="run_1.2", reason="t"))
    assert (run.spent.calls, run.spent.mutations) == (1, 1)
    run = world.after(run, AttemptRefuted(attempt="run_1.2", source="person", reason="looked"))
    assert (run.spent.calls, run.spent.mutations) == (0, 0)


def test_a_late_answer_is_always_the_receipt_of_its_attempt() -> None:
    rules = world.rules()
    run = intended(world.opened(rules), rules, WRITE)
    run = world.after(
        run,
        AttemptUnknown(attempt="run_1.2", reason="t"),
        AttemptRefuted(attempt="run_1.2", source="person", reason="looked"),
        receipt(late=True),
    )
    assert run.attempts["run_1.2"].state is AttemptState.ANSWERED
    assert (run.spent.calls, run.spent.mutations) == (1, 1)


@pytest.mark.parametrize(
    "event",
    [
        receipt("run_1.9"),
        OutcomeDelivered(attempt="run_1.2"),
        AttemptRefuted(attempt="run_1.2", source="person", reason="x"),
        PhaseMoved(source="other", target="open", transition="t"),
    ],
)
def test_an_event_that_cannot_follow_is_a_corrupt_ledger(event: ReceiptRecorded) -> None:
    rules = world.rules()
    run = intended(world.opened(rules), rules, WRITE)
    with pytest.raises(CorruptLedger):
        world.after(run, event)


def test_an_attempt_cannot_be_intended_twice() -> None:
    rules = world.rules()
    run = world.opened(rules)
    verdict = judge(run, rules, WRITE)
    assert isinstance(verdict, IntentRecorded)
    with pytest.raises(CorruptLedger):
        world.after(world.after(run, verdict), verdict)


def test_an_unopened_run_has_no_state() -> None:
    assert Run("run_1").state is RunState.UNOPENED


def test_what_the_checks_saw_of_a_call_does_not_stay_in_memory_with_it() -> None:
    assert set(Intent._fields).isdisjoint({"checks", "observed", "attribution"})
    assert set(Intent._fields) < set(IntentRecorded.model_fields)
    rules = world.rules()
    verdict = judge(world.opened(rules), rules, WRITE)
    attempt = world.after(world.opened(rules), verdict).attempts["run_1.2"]
    assert {name: getattr(verdict, name) for name in Intent._fields if name != "key"} == {
        name: value for name, value in attempt.intent._asdict().items() if name != "key"
    }
