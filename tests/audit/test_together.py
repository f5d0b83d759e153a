"""What `reduce` refuses has a number, and what runs do to one another is told."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from gateway.kernel.audit import Breach, Step, Together, refused
from gateway.kernel.reduce import CorruptLedger, reduce
from gateway.model.canonical import Digest
from gateway.model.events import (
    ApprovalDecided,
    AttemptUnknown,
    AttemptUnsent,
    Event,
    IntentRecorded,
    OutcomeDelivered,
    PhaseMoved,
    Reservation,
    RunOpened,
    Who,
)
from gateway.model.record import GENESIS, Record, utc
from gateway.model.run import Run
from tests import world
from tests.audit.told import (
    BOSS,
    Told,
    a_success,
    an_approved_intent,
    open_,
    over,
    proven,
    receipt,
)

# --- what is no legal move ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "event", "number"),
    [
        (Told, receipt("run_1.9"), "I3"),
        (proven, OutcomeDelivered(attempt="run_1.9"), "I3"),
        (open_, OutcomeDelivered(attempt="run_1.2"), "I5"),
        (proven, receipt("run_1.2"), "I9"),
        (proven, AttemptUnknown(attempt="run_1.2", reason="gone"), "I9"),
        (proven, PhaseMoved(source="made", target="open", transition="make"), "I18"),
        (Told, RunOpened(principal=BOSS, workflow="w", policy=Digest("c1:p"), phase="open"), "I18"),
        (over, PhaseMoved(source="made", target="open", transition="make"), "I16"),
    ],
)
def test_what_reduce_refuses_has_the_number_of_what_it_breaks(
    made: Callable[[], Told], event: Event, number: str
) -> None:
    told = made()
    record = Record(run="run_1", seq=told.run.version + 1, at=utc(told.at), previous=told.run.head, event=event)
    with pytest.raises(CorruptLedger) as raised:
        reduce(told.run, record, "")
    assert refused(told.run, record, str(raised.value)) == Breach(number, record.id, str(raised.value))


def test_what_is_out_of_place_breaks_the_chain_whatever_it_says() -> None:
    told = Told()
    record = Record(run="run_1", seq=9, at=utc(told.at), previous=GENESIS, event=receipt("run_1.2"))
    assert refused(told.run, record, "x").invariant == "I1"


def test_an_approval_or_an_intent_twice_is_told_from_each_other() -> None:
    told, event = an_approved_intent()
    before = told.run
    told.then(event)
    again = Record(run="run_1", seq=told.run.version + 1, at=utc(told.at), previous=told.run.head, event=event)
    assert refused(told.run, again, "x").invariant == "I2"
    assert isinstance(event, IntentRecorded)
    other = again.model_copy(update={"event": event.model_copy(update={"attempt": "run_1.99"})})
    assert refused(told.run, other, "x").invariant == "I12"
    decision = decided_again(before)
    assert refused(before, decision, "x").invariant == "I12"


def decided_again(run: Run) -> Record:
    (approval,) = run.approvals.values()
    event = ApprovalDecided(approval=approval.id, action=approval.action, decision="approved", by=BOSS)
    return Record(run="run_1", seq=run.version + 1, at=utc(world.T0), previous=run.head, event=event)


# --- what runs do to one another ------------------------------------------------------------------------------------


def noted(together: Together, step: Step, state: str | None = "open", gave_way: str | None = None) -> list[Breach]:
    name = getattr(step.record.event, "attempt", None)
    return list(together.note(step, {} if name is None else {name: state}, gave_way))


def _in(run: str, told: Told) -> Told:
    told.run = world.opened(told.rules, run=run)
    return told


def test_an_equal_effect_in_the_air_is_told_until_it_is_settled_or_gives_way() -> None:
    together, one, two = Together(), Told(), _in("run_2", Told())
    intent = one.step(one.asks(n=1))
    other = two.step(two.asks(n=1))
    assert noted(together, intent) == []
    assert noted(together, other) == [Breach("I4", "run_2#2", "an equal effect was open at that time, `run_1.2`")]
    assert noted(together, other, gave_way="run_1.2") == []
    assert list(together.unsettled) == ["run_2.2"]
    ended = two.step(AttemptUnsent(attempt=two.sent(n=1), reason="refused"))
    assert noted(together, ended, None) == []
    assert together.unsettled == {}


def reserving(told: Told, account: str, amount: int, limit: int | None = None, until: float | None = None) -> Step:
    end = None if until is None else utc(until)
    kept = Reservation(rule="accounts.a", account=account, unit="calls", amount=amount, limit=limit, until=end)
    return told.step(told.asks("read", n=1), accounts=(kept,), hold=None)


def test_an_account_above_its_limit_is_told_and_its_level_is_the_sum() -> None:
    together, told = Together(), Told()
    assert noted(together, reserving(told, "a", 3, 4)) == []
    assert noted(together, reserving(told, "a", 2, 4)) == [
        Breach("I11", "run_1#2", "with it `a` stands at 5 calls of 4")
    ]
    assert noted(together, reserving(told, "a", 1)) == []
    assert together.levels == {("a", "calls"): 6}


def test_an_account_is_forgotten_an_hour_after_the_furthest_end_that_was_said_of_it() -> None:
    together, told = Together(), Told()
    noted(together, reserving(told, "a", 1, until=world.T0 + 10))
    noted(together, reserving(told, "a", 1, until=world.T0 + 20))
    noted(together, reserving(told, "b", 1, until=world.T0 + 10))
    noted(together, reserving(told, "c", 1))
    told.at = world.T0 + 10 + 48 * 3600
    noted(together, told.step(told.asks("read", n=9)))
    assert sorted(together.levels) == [("a", "calls"), ("c", "calls")]
    told.at += 10
    noted(together, told.step(told.asks("read", n=9)))
    assert sorted(together.levels) == [("c", "calls")]


def test_what_accounts_stood_at_is_kept_only_when_it_is_wanted() -> None:
    together, told = Together(), Told()
    noted(together, reserving(told, "a", 1))
    assert together.stood is None
    together.stood = {}
    noted(together, reserving(told, "a", 2))
    assert together.stood == {("a", "calls"): {1, 3}}


def test_a_child_of_a_run_that_is_over_does_nothing_any_more() -> None:
    together, parent = Together(), over()
    child = Told()
    opened = RunOpened(
        principal=Who(tenant="local", id="local:user"),
        workflow="test",
        policy=child.rules.digest,
        phase="open",
        parent="run_1",
    )
    child.run = Run("run_2")
    together.opened_from(world.opened(parent.rules))
    assert noted(together, child.step(opened)) == []
    child.then(opened)
    assert noted(together, child.step(child.asks(n=1))) == []
    stopping, event = a_success()()
    noted(together, stopping.step(event))
    child.at += timedelta(seconds=60).total_seconds()
    assert noted(together, child.step(child.asks(n=2))) == []
    child.at += 1
    says = "`run_1`, from which its run was opened, was over"
    assert noted(together, child.step(child.asks(n=3))) == [Breach("I16", "run_2#2", says)]
    late = Together()
    late.opened_from(parent.run)
    child.run = Run("run_3")
    assert noted(late, child.step(opened)) == [Breach("I16", "run_3#1", says)]
