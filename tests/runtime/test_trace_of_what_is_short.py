"""What is told of what is short: of budgets that refuse, and of people's time."""

from typing import Any

import pytest

from tests.emitted import violations
from tests.runtime.house import approve, outcome
from tests.telemetry.told import told_house

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {"transitions": [{"name": "write", "tools": ["write"], "approval": {}}]}


async def test_a_call_that_a_budget_refuses_names_it_also_where_its_run_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dear = [{"name": "write", "tools": ["write"], "charge": {"mutations": 2}}]
    async with told_house(monkeypatch, transitions=dear, budgets={"mutations": 3}) as it:
        await it.call("write", {"note": "one"})
        assert outcome(await it.call("write", {"note": "two"})) == "denied"
        assert it.told.spans[-1].attributes["counterfoil.budget.name"] == "budgets.mutations"
        assert violations(it.told) == []


async def test_questions_that_wait_are_counted_over_the_whole_ledger_whoever_answers_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with told_house(monkeypatch, **ASK) as it:
        recovery, seen = it.house.recovery, []
        for step in (lambda: it.call("write"), lambda: approve(it.house), lambda: it.call("write")):
            await step()
            await recovery.sweep()
            seen.append(recovery.questions())
        assert seen == [1, 0, 0]
