"""Whatever becomes of its calls: what a run has spent, and what stands on accounts, is what its standing calls took."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.accounts import held_back, postings
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
    for undo in life.run.set_aside.values():
        taken.update(vars(undo.charge))
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
    for undo in life.run.set_aside.values():
        for one in undo.accounts:
            taken[one.account, one.unit] += one.amount
    for _, event in life.events:
        for one in event.accounts if isinstance(event, ApprovalRequested) else ():
            taken[one.account, one.unit] += one.amount
    return taken


UNDONE_BY = {"verify": "t", "compensation": {"tool": "pay"}}


@st.composite
def paid(draw: st.DrawFn) -> made.Life:
    """A run of many calls that all cost something, and of which anything became."""
    tools = {name: draw(made.TOOL) | {"repeat": "new"} for name in made.NAMES}
    fields: dict[str, Any] = {
        "tools": tools,
        "accounts": {name: draw(made.accounts(())) | {"mode": "observe"} for name in ("daily", "other")},
        "transitions": [
            {"name": "ask", "tools": ["pay"], "approval": {}, "charge": draw(made.SPEND)},
            {"name": "any", "tools": ["*"], "charge": draw(made.SPEND), **draw(st.sampled_from([{}, UNDONE_BY]))},
        ],
        "verifiers": {"t": made.VERIFIER},
    }
    return draw(made.lives(world.rules(**fields), 16, ("call", "settle", "doubt", "answer")))


def balances(life: made.Life) -> None:
    """Fails unless what was posted, and what the run has spent, are what its standing calls took."""
    levels = Counter[tuple[str, str]]()
    stages = pairwise([*(before for before, _ in life.events), life.run])
    for (_, event), (before, after) in zip(life.events, stages, strict=True):
        for one in (*postings(before, event), *held_back(before, after)):
            assert one.amount, "nothing is posted where nothing changes"
            assert one.limit is None or one.amount > 0, "only what is taken can be refused"
            levels[one.account, one.unit] += one.amount
            assert levels[one.account, one.unit] >= 0, "no account falls below nothing"
    assert {name: level for name, level in levels.items() if level} == {
        name: level for name, level in stands(life).items() if level
    }
    assert vars(life.run.spent) == {unit: spent(life)[unit] for unit in vars(life.run.spent)}


@made.MANY
@given(life=paid())
def test_the_total_of_all_that_was_taken_and_given_back_is_what_stands(life: made.Life) -> None:
    balances(life)


RECEIPT = "receipt.recorded"
PATHS = {
    "answered": [RECEIPT, "evidence.recorded", "outcome.delivered"],
    "unsent": ["attempt.unsent"],
    "unknown": ["attempt.unknown"],
    "late": ["attempt.unknown", RECEIPT],
    "refuted": ["attempt.unknown", "attempt.refuted"],
    "refuted and late": ["attempt.unknown", "attempt.refuted", RECEIPT],
    "abandoned and late": ["attempt.abandoned", RECEIPT],
    "asked": ["attempt.suspended", "attempt.suspended", RECEIPT],
}
COSTLY: dict[str, Any] = {
    "tools": {"pay": {"effect": "write", "repeat": "new", "cost": 0.25, "result_tokens": 100}},
    "transitions": [{"name": "any", "tools": ["*"], "charge": {"calls": 2, "mutations": 3}}],
    "accounts": {
        "all": {"limit": {"calls": 99, "mutations": 99, "tokens": 9999, "cost": 9.0}},
        "counted": {"per": ["principal"], "window": "ever"},
        "calls": {"per": ["tool"], "limit": {"calls": 99}},
    },
}


@pytest.mark.parametrize("size", [0, 4, 399, 401, 4000])
@pytest.mark.parametrize("path", PATHS)
def test_each_way_that_a_call_may_go_balances(path: str, size: int) -> None:
    life = made.Life(world.opened(rules := world.rules(**COSTLY)))
    for _ in range(2):
        life.goes_on(made.judge(life.run, world.proposal("pay"), rules, made.Seen(), life.at))
        latest = life.run.attempts[f"run_1.{life.run.version}"]
        for kind in PATHS[path]:
            life.goes_on(made.happens(latest, kind, size, life.at))
    balances(life)
    undone = path in {"unsent", "refuted"}
    tokens = 100 if path == "unknown" else -(-size // 4)
    taken = {"calls": 4, "mutations": 6, "tokens": 2 * tokens, "cost": 500_000, "reviews": 0}
    assert vars(life.run.spent) == (dict.fromkeys(taken, 0) if undone else taken)
    assert {(one.rule, one.unit) for one in life.run.attempts["run_1.2"].intent.accounts} == {
        *(("accounts.all", unit) for unit in ("calls", "mutations", "tokens", "cost")),
        *(("accounts.counted", unit) for unit in ("calls", "mutations", "tokens", "cost")),
        *(("accounts.calls", unit) for unit in ("calls", "mutations", "tokens", "cost")),
    }
