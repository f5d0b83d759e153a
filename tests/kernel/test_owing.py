"""What is set aside, owed, undone, handed to a person: how each event moves it, and which events are no legal move."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.kernel.case import Gather, Observed
from gateway.kernel.decide import decide
from gateway.kernel.owing import due, follows, keeps_going
from gateway.kernel.reduce import CorruptLedger
from gateway.kernel.rules import Rules
from gateway.kernel.stop import due as due_stop
from gateway.kernel.stop import stop
from gateway.model.events import (
    AttemptAbandoned,
    AttemptRefuted,
    AttemptUnknown,
    AttemptUnsent,
    CompensationFailed,
    CompensationOwed,
    Denied,
    Event,
    EvidenceRecorded,
    Outcome,
    ReceiptRecorded,
    RunStopped,
)
from gateway.model.proposal import Key, KeySource
from gateway.model.record import utc
from gateway.model.run import Run
from tests import world

RULES = world.rules(
    tools={"write": {"effect": "write", "repeat": "new"}, "pay": {"effect": "write"}, "check": {"effect": "read"}},
    transitions=[
        {"name": "w", "tools": ["write"], "verify": "t", "compensation": {"tool": "pay"}},
        {"name": "b", "tools": ["branch"], "compensation": {"tool": "pay", "arguments": {"of": "b"}}},
        {"name": "m", "tools": ["merge"], "merges": ["b"], "verify": "t"},
        {"name": "p", "tools": ["pay"]},
    ],
    verifiers={"t": {"probe": {"tool": "check"}, "pass": ["result.ok == true"]}},
)
NOW = utc(world.T0)


def judged(run: Run, name: str, rules: Rules = RULES, undone: str | None = None) -> Event:
    """The verdict on a call; `undone` is what it compensates."""
    proposal = world.proposal(name, {"n": run.version})
    if undone is not None:
        proposal = world.proposal(name, {"n": undone}, key=Key(KeySource.UNDO, undone))
        proposal = replace(proposal, compensates=undone)
    found = decide(run, proposal, rules, Observed(world.tool(name)), NOW)
    assert not isinstance(found, Gather)
    return found


def after(run: Run, *events: Event | Callable[[Run], Event]) -> Run:
    """The run after these events and what follows from them; a callable makes one of the run as it then is."""
    for told in events:
        event = told(run) if callable(told) else told
        run = world.after(run, event)
        run = after(run, *follows(run, event))
    return run


def intent(name: str, undone: str | None = None) -> Callable[[Run], Event]:
    return lambda run: judged(run, name, undone=undone)


def receipt(attempt: str, *, is_error: bool = False) -> Event:
    return ReceiptRecorded(attempt=attempt, answer="result", is_error=is_error)


def evidence(attempt: str, verdict: Any) -> Event:
    return EvidenceRecorded(verifier="t", verdict=verdict, attempt=attempt, says=f"it says {verdict}", started_at=NOW)


OPENED = world.opened(RULES)
X = "run_1.2"
MADE = after(OPENED, intent("write"))
OWED = after(MADE, receipt(X), evidence(X, "fail"))
C = f"run_1.{OWED.version + 1}"
RUNNING = after(OWED, intent("pay", X))


def state(run: Run, attempt: str = X) -> tuple[str | None, bool, bool, int]:
    """How it stands with its undoing, whether it is held back and owed, and what the run has spent on calls."""
    undoing = run.undo.get(attempt)
    return None if undoing is None else undoing.state, attempt in run.set_aside, attempt in run.owed, run.spent.calls


TABLE: dict[str, tuple[Run, tuple[str | None, bool, bool, int]]] = {
    "intended": (MADE, ("set_aside", True, False, 2)),
    "answered": (after(MADE, receipt(X)), ("set_aside", True, False, 2)),
    "answered with an error": (after(MADE, receipt(X, is_error=True)), (None, False, False, 1)),
    "not sent": (after(MADE, AttemptUnsent(attempt=X, reason="x")), (None, False, False, 0)),
    "unknown": (after(MADE, AttemptUnknown(attempt=X, reason="x")), ("set_aside", True, False, 2)),
    "refuted": (
        after(MADE, AttemptUnknown(attempt=X, reason="x"), AttemptRefuted(attempt=X, source="person", reason="x")),
        (None, False, False, 0),
    ),
    "refuted, and answered after all": (
        after(
            MADE,
            AttemptUnknown(attempt=X, reason="x"),
            AttemptRefuted(attempt=X, source="person", reason="x"),
            receipt(X),
        ),
        ("set_aside", True, False, 2),
    ),
    "proven": (after(MADE, receipt(X), evidence(X, "pass")), (None, False, False, 1)),
    "not checked": (after(MADE, receipt(X), evidence(X, "inconclusive")), (None, False, False, 1)),
    "found wrong": (OWED, ("owed", True, True, 2)),
    "being undone": (RUNNING, ("running", False, True, 2)),
    "being undone, perhaps": (after(RUNNING, AttemptUnknown(attempt=C, reason="x")), ("running", False, True, 2)),
    "whose undoing was not sent": (after(RUNNING, AttemptUnsent(attempt=C, reason="x")), ("owed", True, True, 2)),
    "whose undoing was let go": (after(RUNNING, AttemptAbandoned(attempt=C, reason="x")), ("owed", True, True, 3)),
    "whose undoing did not happen": (
        after(RUNNING, AttemptUnknown(attempt=C, reason="x"), AttemptRefuted(attempt=C, source="probe", reason="x")),
        ("owed", True, True, 2),
    ),
    "whose undoing did not happen, and was answered after all": (
        after(
            RUNNING,
            AttemptUnknown(attempt=C, reason="x"),
            AttemptRefuted(attempt=C, source="probe", reason="x"),
            receipt(C),
        ),
        ("undone", False, False, 2),
    ),
    "undone": (after(RUNNING, receipt(C)), ("undone", False, False, 2)),
    "whose undoing went wrong": (after(RUNNING, receipt(C, is_error=True)), ("failed", False, False, 2)),
    "given up": (after(OWED, CompensationFailed(attempt=X, reason="x")), ("failed", False, False, 1)),
}


@pytest.mark.parametrize("name", TABLE)
def test_each_way_that_an_effect_may_go_holds_back_what_it_may_still_need(name: str) -> None:
    run, expected = TABLE[name]
    assert state(run) == expected


NOT_NOW: dict[str, tuple[Run, Event | Callable[[Run], Event]]] = {
    "owed twice": (OWED, CompensationOwed(attempt=X, reason="x")),
    "owed by one that nothing was set aside for": (
        after(OPENED, intent("pay"), receipt(X)),
        CompensationOwed(attempt=X, reason="x"),
    ),
    "owed by one that was never answered": (MADE, CompensationOwed(attempt=X, reason="x")),
    "owed in a run that is over": (
        after(MADE, receipt(X), RunStopped(outcome=Outcome.POLICY_DENIED, reason="x")),
        CompensationOwed(attempt=X, reason="x"),
    ),
    "undone though it is right": (after(MADE, receipt(X), evidence(X, "pass")), intent("pay", X)),
    "undone twice at once": (
        RUNNING,
        lambda _: judged(OWED, "pay", undone=X).model_copy(update={"attempt": "run_1.9"}),
    ),
    "undone again": (
        after(RUNNING, receipt(C)),
        lambda _: judged(OWED, "pay", undone=X).model_copy(update={"attempt": "run_1.9"}),
    ),
}


@pytest.mark.parametrize("name", NOT_NOW)
def test_a_ledger_that_says_so_is_corrupt(name: str) -> None:
    run, event = NOT_NOW[name]
    with pytest.raises(CorruptLedger):
        world.after(run, event(run) if callable(event) else event)


def test_what_is_found_wrong_in_a_run_that_is_over_is_a_persons_to_undo() -> None:
    over = after(
        MADE,
        AttemptUnknown(attempt=X, reason="x"),
        AttemptRefuted(attempt=X, source="person", reason="x"),
        RunStopped(outcome=Outcome.POLICY_DENIED, reason="x"),
        receipt(X),
        evidence(X, "fail"),
    )
    assert state(over) == ("failed", False, False, 1)
    assert due(over) is None


def test_a_stop_waits_for_what_is_owed_and_for_what_may_be() -> None:
    final = Denied.model_validate(judged(MADE, "nothing").model_dump() | {"final": True, "outcome": "denied"})
    waiting = {"open": MADE, "answered": after(MADE, receipt(X)), "owed": OWED, "running": RUNNING}
    for name, run in waiting.items():
        ending = world.after(run, final)
        assert keeps_going(ending), name
        assert stop(ending, RULES, NOW) is None, name
        over = due_stop(ending, RULES, NOW)
        assert over is not None, name
        assert over.evidence == (run.version + 1,), name
    for run in (after(MADE, receipt(X), evidence(X, "pass")), after(RUNNING, receipt(C))):
        assert not keeps_going(run)
        assert stop(world.after(run, final), RULES, NOW) is not None


def test_the_newest_is_due_and_the_others_wait_for_it() -> None:
    branches = after(OPENED, intent("branch"), receipt(X), intent("branch"), receipt("run_1.4"))
    run = after(branches, intent("merge"), receipt("run_1.6"), evidence("run_1.6", "fail"))
    assert set(run.owed) == {X, "run_1.4"}
    assert due(run) == "run_1.4"
    run = after(run, intent("pay", "run_1.4"))
    assert due(run) is None
    assert due(after(run, receipt(f"run_1.{run.version}"))) == X
    merged = after(branches, intent("merge"), receipt("run_1.6"), evidence("run_1.6", "pass"))
    assert not merged.undo
