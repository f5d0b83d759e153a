"""How people answered, reckoned from records alone."""

from datetime import timedelta
from typing import Any

import pytest

from gateway.kernel.figures import questions, reckoned, spread
from gateway.model.asked import Stage, Terms
from gateway.model.canonical import Digest
from gateway.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalSeen,
    ApprovalWithdrawn,
    Charge,
    Denied,
    Event,
    IntentRecorded,
    Outcome,
    Who,
)
from gateway.model.figures import Reviews, Spread
from gateway.model.outcome import Effect
from gateway.model.record import Record, utc
from tests import world

ANN, BOB = Who(tenant="t", id="ann"), Who(tenant="t", id="bob")
ACTION = Digest("c1:" + "0" * 64)
ARGUMENTS, OTHERS = Digest("c1:" + "1" * 64), Digest("c1:" + "2" * 64)
START = utc(world.T0)
END = START + timedelta(days=1)
Said = tuple[float, Event]


COMMON: dict[str, Any] = {"tool": "pay", "arguments": ARGUMENTS, "policy": ACTION, "phase": "p", "checks": ()}


def asked(name: str, **changes: Any) -> ApprovalRequested:
    fields = {**COMMON, "approval": name, "action": ACTION, "rule": "ask", "reason": "r", "expires_at": END, "by": ANN}
    return ApprovalRequested(**{**fields, **changes})


def said(name: str, decision: Any = "approved", by: Who = BOB, active_s: float | None = None) -> ApprovalDecided:
    return ApprovalDecided(approval=name, action=ACTION, decision=decision, by=by, active_s=active_s)


def seen(name: str, by: Who = BOB) -> ApprovalSeen:
    return ApprovalSeen(approval=name, by=by)


def sent(name: str) -> IntentRecorded:
    intent: dict[str, Any] = {
        "attempt": "run_1.9",
        "effect": Effect.WRITE,
        "charge": Charge(),
        "timeout_s": 1.0,
        "settles_at": END,
    }
    return IntentRecorded(**COMMON, **intent, approval=name)


REFUSED = Denied(**COMMON, outcome=Outcome.DENIED, reason="r")


def told(*events: Said, after: float = 3_600.0) -> Reviews:
    """The figures of these, each so many seconds after the first."""
    records = [
        Record(run="run_1", seq=at + 1, at=START + timedelta(seconds=seconds), previous="", event=event)
        for at, (seconds, event) in enumerate(events)
    ]
    now = START + timedelta(seconds=after)
    return reckoned(questions(records, now), since=None, now=now, partial=False)


def counts(one: Reviews) -> dict[str, int]:
    """Of all questions, what is not 0."""
    whole = one.all.model_dump(include=set(COUNTED))
    return {name: whole[name] for name in COUNTED if whole[name]}


COUNTED = (
    "asked", "awaiting", "approved", "rejected", "returned", "expired", "superseded", "withdrawn",
    "used", "failed_revalidation", "quick", "timed",
)  # fmt: skip

BECAME: tuple[tuple[str, tuple[Said, ...], dict[str, int]], ...] = (
    ("waits", ((0, asked("a")),), {"asked": 1, "awaiting": 1}),
    ("approved", ((0, asked("a")), (1, said("a"))), {"asked": 1, "approved": 1}),
    ("used", ((0, asked("a")), (1, said("a")), (2, sent("a"))), {"asked": 1, "approved": 1, "used": 1}),
    ("rejected", ((0, asked("a")), (1, said("a", "rejected"))), {"asked": 1, "rejected": 1}),
    ("returned", ((0, asked("a")), (1, said("a", "returned"))), {"asked": 1, "returned": 1}),
    ("withdrawn", ((0, asked("a")), (1, ApprovalWithdrawn(approval="a", by=ANN))), {"asked": 1, "withdrawn": 1}),
    ("expired", ((0, asked("a")), (1, ApprovalExpired(approval="a"))), {"asked": 1, "expired": 1}),
    ("too late", ((0, asked("a", expires_at=START + timedelta(seconds=9))),), {"asked": 1, "expired": 1}),
    (
        "superseded by other arguments",
        ((0, asked("a")), (1, said("a")), (2, asked("b", supersedes=("a",), arguments=OTHERS))),
        {"asked": 2, "awaiting": 1, "superseded": 1},
    ),
    (
        "asked anew for the same call",
        ((0, asked("a")), (1, said("a")), (2, asked("b", supersedes=("a",)))),
        {"asked": 2, "awaiting": 1, "superseded": 1, "failed_revalidation": 1},
    ),
    (
        "refused when it came",
        ((0, asked("a")), (1, said("a")), (2, REFUSED)),
        {"asked": 1, "approved": 1, "failed_revalidation": 1},
    ),
    ("refused before", ((0, asked("a")), (1, REFUSED), (2, said("a"))), {"asked": 1, "approved": 1}),
    (
        "a first yes of two",
        ((0, asked("a", quorum=2)), (1, said("a", active_s=2.9))),
        {"asked": 1, "awaiting": 1, "quick": 1, "timed": 1},
    ),
    (
        "two stages",
        ((0, asked("a", terms=Terms(stages=(Stage(), Stage())))), (1, said("a")), (2, said("a", by=ANN, active_s=3.0))),
        {"asked": 1, "approved": 1, "timed": 1},
    ),
    ("asked before", ((0, said("z")), (1, seen("z"))), {}),
)


@pytest.mark.parametrize(("events", "expected"), [one[1:] for one in BECAME], ids=[one[0] for one in BECAME])
def test_each_question_is_counted_as_what_became_of_it(events: tuple[Said, ...], expected: dict[str, int]) -> None:
    assert counts(told(*events)) == expected


def test_times_are_from_the_question_and_a_reviewers_own_are_theirs() -> None:
    one = told(
        (0, asked("a")),
        (10, seen("a")),
        (15, seen("a", ANN)),
        (60, said("a", active_s=2)),
        (100, asked("b", tool="wire", rule="big", terms=Terms(risk="critical"))),
        (400, said("b", "rejected", by=ANN, active_s=30)),
        (500, asked("c")),
    )
    assert (one.all.first_look, one.all.active, one.all.waited) == (
        Spread(count=1, median_s=10, p90_s=10, max_s=10),
        Spread(count=2, median_s=2, p90_s=30, max_s=30),
        Spread(count=2, median_s=60, p90_s=300, max_s=300),
    )
    assert one.all.rates == {
        "approved": 0.5, "rejected": 0.5, "returned": 0.0, "revoked": 0.0, "expired": 0.0, "superseded": 0.0,
        "withdrawn": 0.0, "void": 0.0, "used": 0.0, "failed_revalidation": 0.0, "quick": 1.0,
    }  # fmt: skip
    assert [
        (load.reviewer, load.decisions, load.looked_at, load.quick, load.waited.max_s) for load in one.reviewers
    ] == [
        ("ann", 1, 1, 0, 300),
        ("bob", 1, 1, 1, 60),
    ]
    assert [[group.name for group in groups] for groups in (one.tools, one.transitions, one.risks)] == [
        ["pay", "wire"],
        ["ask", "big"],
        ["critical", "medium"],
    ]


def test_the_busiest_hour_is_any_hour_and_not_one_of_the_clock() -> None:
    hours = [0.0, 1_800.0, 3_599.0, 3_600.0, 9_000.0]
    events: list[Said] = [(0.0, asked(f"a{number}")) for number in range(len(hours))]
    events += [(at, said(f"a{number}")) for number, at in enumerate(hours)]
    [load] = told(*events).reviewers
    assert (load.decisions, load.busiest_hour) == (5, 3)


def test_what_is_told_of_durations_was_really_seen() -> None:
    assert spread([]) == Spread()
    assert spread([5.0]) == Spread(count=1, median_s=5, p90_s=5, max_s=5)
    assert spread(float(one) for one in range(1, 11)) == Spread(count=10, median_s=5, p90_s=9, max_s=10)
