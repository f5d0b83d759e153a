"""Whatever becomes of its calls: what a run has spent, and what stands on accounts, is what its standing calls took."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.kernel.accounts import postings
from gateway.model.events import ApprovalRequested, ReceiptRecorded
from gateway.model.run import AttemptState
from tests import world
from tests.kernel import made

UNDONE = {AttemptState.UNSENT, AttemptState.REFUTED}


def measured(life: made.Life) -> dict[str, int]:
    """The tokens of each result, a quarter of its bytes and never less than that."""
    return {
        event.attempt: -(-event.size_bytes // 4) for _, event in life.events if isinstance(event, ReceiptRecorded)
    }  # fmt: skip


def spent(life: made.Life) -> Counter[str]:
    """What the calls that stand have taken of the run's budgets, each told from what became of it."""
    tokens, taken = measured(life), Counter[str]()
    for attempt in life.run.attempts.values():
        if attempt.state not in UNDONE:
            taken.update(vars(attempt.intent.charge))
            taken["tokens"] += tokens.get(attempt.id, attempt.intent.charge.tokens) - attempt.intent.charge.tokens
    taken["reviews"] += len(life.run.approvals)
    return taken


def stands(life: made.Life) -> Counter[tuple[str, str]]:
    """The same of accounts: of those units that the call reserved there."""
    tokens, taken = measured(life), Counter[tuple[str, str]]()
    for attempt in life.run.attempts.values():
        if attempt.state not in UNDONE:
            for one in attempt.intent.accounts:
                amount = tokens.get(attempt.id, one.amount) if one.unit == "tokens" else one.amount
                taken[one.account, one.unit] += amount
    for _, event in life.events:
        for one in event.accounts if isinstance(event, ApprovalRequested) else ():
            taken[one.account, one.unit] += one.amount
    return taken


@st.composite
def paid(draw: st.DrawFn) -> made.Life:
    """A run of many calls that all cost something, and of which anything became."""
    tools = {name: draw(made.TOOL) | {"repeat": "new"} for name in made.NAMES}
    fields: dict[str, Any] = {
        "tools": tools,
        "accounts": {name: draw(made.accounts(())) | {"mode": "observe"} for name in ("daily", "other")},
        "transitions": [
            {"name": "ask", "tools": ["pay"], "approval": {}, "charge": draw(made.SPEND)},
            {"name": "any", "tools": ["*"], "charge": draw(made.SPEND)},
        ],
    }
    return draw(made.lives(world.rules(**fields), 16, ("call", "settle", "doubt", "answer")))


@made.MANY
@given(life=paid())
def test_the_sum_of_all_that_was_taken_and_given_back_is_what_stands(life: made.Life) -> None:
    levels = Counter[tuple[str, str]]()
    for before, event in life.events:
        for one in postings(before, event):
            assert one.amount, "nothing is posted where nothing changes"
            assert one.limit is None or one.amount > 0, "only what is taken can be refused"
            levels[one.account, one.unit] += one.amount
            assert levels[one.account, one.unit] >= 0, "no account falls below nothing"
    assert {name: level for name, level in levels.items() if level} == {
        name: level for name, level in stands(life).items() if level
    }
    assert vars(life.run.spent) == {unit: spent(life)[unit] for unit in vars(life.run.spent)}


def test_such_runs_have_all_that_can_become_of_a_call() -> None:
    """The property above is about something: it is tried on unknown, refuted and late outcomes too."""
    seen: set[tuple[str, str]] = set()

    @settings(made.MANY, max_examples=200, derandomize=True, database=None)
    @given(life=paid())
    def look(life: made.Life) -> None:
        for before, event in life.events:
            attempt = before.attempts.get(getattr(event, "attempt", None) or "")
            seen.add((event.kind, attempt.state if attempt is not None else ""))

    look()
    assert seen >= {
        ("receipt.recorded", "open"),
        ("receipt.recorded", "unknown"),
        ("receipt.recorded", "refuted"),
        ("receipt.recorded", "abandoned"),
        ("attempt.unsent", "open"),
        ("attempt.refuted", "unknown"),
        ("approval.requested", ""),
    }
