"""Whatever an agent says of its own work, its run is judged, stopped and proven as if it had not said it."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.claims import Misplaced, heard
from gateway.kernel.finish import missing
from gateway.kernel.reduce import CorruptLedger
from gateway.kernel.rules import Rules, compile_rules
from gateway.kernel.status import failures, held
from gateway.kernel.stop import due, stop
from gateway.model.canonical import digest
from gateway.model.events import (
    Assumed,
    Event,
    EvidenceRecorded,
    NoteRecorded,
    PlanInvalidated,
    PlanRecorded,
    RunOpened,
    RunStopped,
    Who,
)
from gateway.model.record import Record, utc
from gateway.model.run import Run, RunState
from tests import world
from tests.kernel import made

SAID = digest("said", world.SALT)
ASSUMED = Assumed(evidence="t", field="verdict", equals=digest("pass", world.SALT))


def claims(run: Run, at: float) -> list[Event]:
    """All that an agent may say now, and what may be found to be otherwise."""
    revision = 0 if run.plan is None else run.plan.event.revision
    open_ = run.plan is not None and run.plan.event.assumptions and not run.plan.contradicted
    wrong = [PlanInvalidated(plan=revision, assumption=0, says="no", because=(1,))] if open_ else []
    return [
        PlanRecorded(plan=SAID, revision=revision + 1, assumptions=(ASSUMED,)),
        NoteRecorded(note=SAID, sources=(1,), confidence=1.0, expires_at=utc(at + 30), until="t"),
        *wrong,
    ]


@dataclass
class Talkative:
    """The same run, of an agent that also says what it thinks."""

    run: Run
    places: dict[int, int] = field(default_factory=dict)
    """Where what the silent run has at a place stands here."""

    def goes_on(self, event: Event, at: float) -> None:
        """What happened to the silent one happens here."""
        if isinstance(event, EvidenceRecorded):
            event = event.model_copy(update={"after": self.places.get(event.after, 0)})
        self.run = world.after(self.run, event, at=at)
        self.places[len(self.places) + 1] = self.run.version


def apart(told: Any, places: dict[int, int]) -> Any:
    """A stop, with the places of the other run."""
    if not isinstance(told, RunStopped):
        return told
    return told.model_copy(update={"evidence": tuple(places[seq] for seq in told.evidence)})


def named(verdict: Any) -> dict[str, Any]:
    """A verdict without the ids that hold places."""
    return {name: value for name, value in verdict.model_dump().items() if name not in {"attempt", "approval", "key"}}


def of(run: Run, rules: Rules) -> Any:
    """What success hangs on, without places."""
    told = [*held(run), *missing(run, rules), *failures(run)]
    return [one.model_dump(exclude={"event"}) for one in told]


@made.MANY
@given(data=st.data(), fields=made.policies())
def test_decisions_stops_and_success_are_the_same_without_what_was_said(data: Any, fields: dict[str, Any]) -> None:
    rules = compile_rules(world.policy(**fields), digest("policy", world.SALT))
    life = data.draw(made.lives(rules, most=10))
    silent = world.after(Run("run_1"), *_opening(life))
    talks = Talkative(silent, {1: 1})
    for before, event in life.events:
        at = _time(life, before)
        while talks.run.state is RunState.RUNNING and data.draw(st.integers(0, 2)) == 0:
            talks.run = world.after(talks.run, data.draw(st.sampled_from(claims(talks.run, at))), at=at)
        talks.goes_on(event, at)
    now, proposed, seen = utc(life.at), data.draw(made.proposals()), data.draw(made.seen())
    assert apart(stop(life.run, rules, now), talks.places) == _blurred(stop(talks.run, rules, now), talks)
    assert (due(life.run, rules, now) is None) == (due(talks.run, rules, now) is None)
    mine, other = (made.judge(run, proposed, rules, seen, life.at) for run in (life.run, talks.run))
    assert (type(mine), named(mine)) == (type(other), named(other))
    assert of(life.run, rules) == of(talks.run, rules)


def _opening(life: made.Life) -> list[Event]:
    first = life.events[0][0] if life.events else life.run
    return [_opened(first)]


def _opened(run: Run) -> Event:
    assert run.principal is not None
    assert run.policy is not None
    return RunOpened.model_validate(
        {
            "principal": Who.of(run.principal),
            "workflow": run.workflow,
            "policy": run.policy,
            "phase": run.phase,
            "origin": run.origin,
            "parent": run.parent,
            "delegated": None if run.delegated is None else tuple(run.delegated),
        }
    )


def _time(life: made.Life, before: Run) -> float:
    """When the event after that state happened."""
    states = [one for one, _ in life.events] + [life.run]
    after = states[states.index(before) + 1]
    return (after.last_at or utc(world.T0)).timestamp()


def _blurred(told: Any, talks: Talkative) -> Any:
    """A stop that cites the run's last record cites the last one that both have."""
    if not isinstance(told, RunStopped):
        return told
    last = max(talks.places.values())
    return told.model_copy(update={"evidence": tuple(min(seq, last) for seq in told.evidence)})


@pytest.mark.parametrize(
    "event",
    [
        PlanRecorded(plan=SAID, revision=2),
        PlanInvalidated(plan=1, assumption=0, says="no", because=(1,)),
        NoteRecorded(note=SAID, sources=(2,), confidence=0.5, expires_at=utc(world.T0)),
        NoteRecorded(note=SAID, sources=(0,), confidence=0.5, expires_at=utc(world.T0)),
    ],
)
def test_a_claim_about_what_is_not_there_is_a_corrupt_ledger(event: Any) -> None:
    run = world.opened(world.rules())
    with pytest.raises(CorruptLedger):
        world.after(run, event)
    with pytest.raises(Misplaced):
        heard(run, Record(run=run.id, seq=2, at=utc(world.T0), previous=run.head, event=event), event)


def test_an_assumption_is_contradicted_once_and_only_if_it_is_there() -> None:
    run = world.after(world.opened(world.rules()), PlanRecorded(plan=SAID, revision=1, assumptions=(ASSUMED,)))
    wrong = PlanInvalidated(plan=1, assumption=0, says="no", because=(1,))
    for told in (run, world.after(run, wrong)):
        for event in (wrong.model_copy(update={"assumption": 1}), wrong.model_copy(update={"plan": 2})):
            with pytest.raises(CorruptLedger):
                world.after(told, event)
    with pytest.raises(CorruptLedger):
        world.after(run, wrong, wrong)


def test_nothing_is_said_in_a_run_that_is_over() -> None:
    run = world.opened(world.rules())
    over = world.after(run, RunStopped(outcome="infeasible", reason="so"))  # type: ignore[arg-type]  # validated
    for event in claims(run, world.T0):
        with pytest.raises(CorruptLedger):
            world.after(over, event)
