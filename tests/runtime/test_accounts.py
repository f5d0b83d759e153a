"""Budgets that many runs share: reserved with the intent, kept while unknown, given back, never overspent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.kernel.approve import resolve
from gateway.model.events import Who
from gateway.model.tool import NotSent, Silence, ToolResult
from gateway.outbound.ledger import open_ledger
from tests import world
from tests.people import answer
from tests.runtime.house import House, house, refused

pytestmark = pytest.mark.anyio

DAILY: dict[str, Any] = {"accounts": {"daily": {"per": ["tenant"], "limit": {"calls": 2}}}}


async def stands(it: House, unit: str = "calls") -> int:
    """What stands on all accounts of the ledger in this unit."""
    names = {account for account, _ in it.ledger._accounts}
    levels = await it.ledger.levels(sorted(names))
    return sum(level for (_, named), level in levels.items() if named == unit)


async def test_an_account_is_shared_by_runs_and_says_when_it_begins_anew() -> None:
    async with house(**DAILY) as it:
        await it.open("run_2")
        assert refused(await it.call("write", {"n": 1})) is None
        assert refused(await it.call("write", {"n": 2}, run="run_2")) is None
        shown = await it.call("write", {"n": 3})
        assert refused(shown) == ("rate_limited", "accounts.daily")
        assert shown.refusal is not None
        assert shown.refusal.reason == "`accounts.daily` has 0 of 2 calls left until 2027-01-16T00:00:00+00:00"
        assert shown.refusal.retry_after_s == 57_600.0
        assert not shown.refusal.terminal
        it.clock.tell(57_600.0)
        assert refused(await it.call("write", {"n": 3})) is None


async def test_what_was_never_sent_is_given_back_and_what_is_unknown_is_kept() -> None:
    async with house(**DAILY) as it:
        it.upstreams.will("write", NotSent("refused"), Silence("gone"))
        await it.call("write", {"n": 1})
        assert await stands(it) == 0
        await it.call("write", {"n": 2})
        assert await stands(it) == 1
        it.clock.tell(3600)
        boss = Who(tenant="local", id="local:boss")
        await it.book.say(
            "run_1",
            lambda run, _, now: resolve(run, "run_1.4", what="did_not_happen", by=boss, reason="looked", now=now),
        )
        assert await stands(it) == 0


async def test_a_call_that_is_denied_costs_nothing() -> None:
    async with house(**DAILY, forbid=[{"name": "no", "tools": ["pay"]}]) as it:
        for n in range(5):
            assert refused(await it.call("pay", {"n": n})) == ("denied", "no")
        assert await stands(it) == 0


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_of_200_concurrent_calls_on_a_budget_of_50_exactly_50_are_sent(kind: str, tmp_path: Path) -> None:
    accounts: dict[str, Any] = {"accounts": {"daily": {"per": [], "limit": {"calls": 50}}}}
    async with ledger_of(kind, tmp_path) as ledger, house(ledger, **accounts) as it:
        for run in range(10):
            await it.open(f"run_c{run}")
        shown = await asyncio.gather(
            *(it.call("write", {"n": n}, run=f"run_c{n % 10}", deliver=False) for n in range(200))
        )
        assert len(it.upstreams.sent) == 50
        told = [refused(one) for one in shown]
        assert told.count(None) == 50
        assert told.count(("rate_limited", "accounts.daily")) == 150


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_of_200_concurrent_calls_of_one_run_its_own_budget_sends_exactly_50(kind: str, tmp_path: Path) -> None:
    async with ledger_of(kind, tmp_path) as ledger, house(ledger, budgets={"mutations": 50}) as it:
        shown = await asyncio.gather(*(it.call("write", {"n": n}, deliver=False) for n in range(200)))
        assert len(it.upstreams.sent) == 50
        assert [refused(one) for one in shown].count(None) == 50


@asynccontextmanager
async def ledger_of(kind: str, folder: Path) -> AsyncIterator[Any]:
    """A ledger of that kind."""
    ledger = await open_ledger("memory:" if kind == "memory" else f"sqlite:///{folder / 'l.db'}")
    try:
        yield ledger
    finally:
        await ledger.close()


async def test_tokens_are_reserved_at_their_most_and_measured_when_they_are_there() -> None:
    fields: dict[str, Any] = {
        "tools": {"read": {"effect": "read", "result_tokens": 400}},
        "budgets": {"tokens": 1000},
        "accounts": {"reading": {"per": ["principal"], "limit": {"tokens": 1000}}},
    }
    async with house(**fields) as it:
        it.upstreams.will("read", ToolResult({"content": [{"type": "text", "text": "x" * 369}]}))
        shown = await it.call("read")
        assert shown.record is not None
        assert shown.record["budget"]["charged"]["tokens"] == 400
        assert (await it.book.state_of("run_1")).spent.tokens == 102  # of 408 bytes
        assert await stands(it, "tokens") == 102
        assert shown.record["budget"]["left"] == {"tokens": 898.0}


async def test_a_budget_of_tokens_is_soft_for_tools_that_declare_no_most() -> None:
    async with house(budgets={"tokens": 10}) as it:
        it.upstreams.will("read", ToolResult({"content": [{"type": "text", "text": "x" * 4000}]}))
        assert refused(await it.call("read", {"n": 1})) is None
        assert refused(await it.call("read", {"n": 2})) == ("budget_exhausted", "budgets.tokens")


async def test_cost_is_counted_exactly_and_left_is_told_as_the_author_counts_it() -> None:
    async with house(tools={"pay": {"effect": "write", "cost": 0.1}}, budgets={"cost": 0.3}) as it:
        left = []
        for n in range(3):
            shown = await it.call("pay", {"n": n})
            assert shown.record is not None
            left.append(shown.record["budget"]["left"]["cost"])
        assert left == [0.2, 0.1, 0.0]
        assert refused(await it.call("pay", {"n": 4})) == ("budget_exhausted", "budgets.cost")


async def test_little_that_is_left_is_told_with_the_result() -> None:
    fields: dict[str, Any] = {"budgets": {"calls": 5}, "accounts": {"d": {"limit": {"mutations": 4}, "warn_at": 0.5}}}
    async with house(**fields) as it:
        told = [(await it.call("write", {"n": n})).record for n in range(4)]
        assert [one.get("warnings") if one else None for one in told] == [
            None,
            ["accounts.d.mutations: 2 of 4 used"],
            ["accounts.d.mutations: 3 of 4 used"],
            ["budgets.calls: 4 of 5 used", "accounts.d.mutations: 4 of 4 used"],
        ]


async def test_asking_a_person_costs_a_review_of_the_run_and_of_the_account() -> None:
    fields: dict[str, Any] = {
        "transitions": [{"name": "ask", "tools": ["*"], "approval": {"self_review": True}}],
        "budgets": {"reviews": 3},
        "accounts": {"people": {"per": [], "limit": {"reviews": 2}}},
    }
    async with house(**fields) as it:
        told = [refused(await it.call("pay", {"n": n})) for n in range(3)]
        assert told == [("needs_approval", "ask"), ("needs_approval", "ask"), ("rate_limited", "accounts.people")]
        assert refused(await it.call("pay", {"n": 0})) == ("needs_approval", "ask"), "asking again asks nobody"
        assert (await it.book.state_of("run_1")).spent.reviews == 2
        assert await stands(it, "reviews") == 2


async def test_a_rate_counts_the_calls_of_one_tool_by_principal() -> None:
    async with house(tools={"write": {"effect": "write", "rate": {"calls": 1, "per": "minute"}}}) as it:
        assert refused(await it.call("write", {"n": 1})) is None
        shown = await it.call("write", {"n": 2})
        assert refused(shown) == ("rate_limited", "tools.write.rate")
        assert refused(await it.call("pay", {"n": 2})) is None


async def test_conditions_read_what_stands_on_an_account_even_of_an_argument() -> None:
    fields: dict[str, Any] = {
        "accounts": {"known": {"per": ["tenant", "args.to"], "window": "ever", "tools": ["pay"]}},
        "transitions": [
            {"name": "known", "tools": ["pay"], "when": ["accounts.known.calls > 0"]},
            {"name": "first", "tools": ["pay"], "approval": {"self_review": True}},
        ],
    }
    async with house(**fields) as it:
        assert refused(await it.call("pay", {"to": "a", "n": 1})) == ("needs_approval", "first")
        run = await it.book.state_of("run_1")
        approval = next(iter(run.approvals.values()))
        await approve(it, approval.id)
        assert refused(await it.call("pay", {"to": "a", "n": 1})) is None
        assert refused(await it.call("pay", {"to": "a", "n": 2})) is None
        assert refused(await it.call("pay", {"to": "b", "n": 2})) == ("needs_approval", "first")


async def approve(it: House, approval_id: str) -> None:
    """A person says yes."""
    seen = (await it.book.state_of("run_1")).approvals[approval_id].action
    boss = Who(tenant="local", id="local:boss")
    await it.book.say(
        "run_1",
        lambda run, _, now: [answer(run, approval_id, seen, approve=True, by=boss, reason="", now=now)],
    )


async def test_a_reservation_that_may_come_back_stops_no_run() -> None:
    async with house(budgets={"calls": 1}) as it:
        it.upstreams.will("write", Silence("gone"))
        await it.call("write", {"n": 1})
        shown = await it.call("write", {"n": 2})
        assert refused(shown) == ("denied", "budgets.calls")
        assert (await it.book.state_of("run_1")).stopped is None


async def test_tokens_that_the_client_reports_are_a_claim_with_a_soft_budget_of_their_own() -> None:
    async with house(budgets={"reported_tokens": 100}) as it:
        for n, expected in ((1, None), (2, ("budget_exhausted", "budgets.reported_tokens"))):
            proposed = replace(world.proposal("write", {"n": n}), reported_tokens=100)
            assert refused(await it.engine.call(proposed, world.PatientCaller())) == expected
        assert (await it.book.state_of("run_1")).reported_tokens == 200


async def test_an_account_that_only_observes_counts_and_lets_pass() -> None:
    fields: dict[str, Any] = {"accounts": {"d": {"limit": {"calls": 1}, "mode": "observe"}}}
    async with house(**fields) as it:
        shown = [await it.call("write", {"n": n}) for n in range(3)][-1]
        assert shown.record is not None
        assert shown.record["would_refuse"] == ["budget"]
        assert await stands(it) == 3


async def test_levels_that_were_read_in_the_window_before_are_read_anew() -> None:
    per_minute: dict[str, Any] = {"accounts": {"d": {"window": "minute", "limit": {"calls": 1}}}}
    async with house(**per_minute, forbid=[{"name": "twice", "when": ["accounts.d.calls > 0"]}]) as it:
        read, asked = it.ledger.levels, []

        async def levels(accounts: Any) -> Any:
            found = await read(accounts)
            asked.append(list(accounts))
            if len(asked) == 1:
                it.clock.tell(60.0)  # the minute ends between the look and the verdict
            return found

        it.ledger.levels = levels
        assert refused(await it.call("write", {"n": 1})) is None
        assert len(asked) == 2
        assert asked[0] != asked[1]
        assert refused(await it.call("write", {"n": 2})) == ("denied", "twice")


async def test_a_budget_that_only_observes_hides_no_account_that_binds() -> None:
    strict = {"mode": "enforce", "limit": {"calls": 2}}
    async with house(mode="observe", budgets={"calls": 1}, accounts={"strict": strict}) as it:
        found = [refused(await it.call("read")) for _ in range(3)]
        assert found == [None, None, ("rate_limited", "accounts.strict")]


async def test_an_amount_has_one_account_however_its_number_is_spelled() -> None:
    once = {"per": ["args.amount"], "window": "ever", "limit": {"calls": 1}}
    async with house(accounts={"once": once}) as it:
        spellings: list[Any] = [2000, 2000.0, 0.5, 1e300, -0.0, 0, {"a": [3.0]}, {"a": [3]}]
        found = [refused(await it.call("pay", {"amount": amount})) is None for amount in spellings]
        assert found == [True, False, True, True, True, False, True, False]


COSTLY: dict[str, Any] = {
    "transitions": [{"name": "pay", "tools": ["pay"], "charge": {"cost_from": "args.amount / 100.0"}}],
    "accounts": {"daily": {"per": ["tenant"], "limit": {"cost": 50}}},
}


async def test_a_call_costs_what_its_arguments_say() -> None:
    async with house(**COSTLY, budgets={"cost": 1000}) as it:
        shown = await it.call("pay", {"amount": 1999.0})
        assert shown.record is not None
        assert shown.record["budget"]["charged"]["cost"] == 19.99
        assert refused(await it.call("pay", {"amount": 3001.0})) is None
        shown = await it.call("pay", {"amount": 1.0})
        assert refused(shown) == ("rate_limited", "accounts.daily")
        assert shown.refusal is not None
        assert shown.refusal.reason.startswith("`accounts.daily` has 0 of 50 cost left")
        assert await stands(it, "cost") == 50_000_000


@pytest.mark.parametrize("amount", [-1.0, "10", None, True, 1e300, {"n": 1}])
async def test_a_call_whose_cost_cannot_be_told_is_refused(amount: Any) -> None:
    async with house(**COSTLY) as it:
        assert refused(await it.call("pay", {"amount": amount})) == ("denied", "pay")
        assert refused(await it.call("pay", {})) == ("denied", "pay")
        assert await stands(it, "cost") == 0


async def test_what_a_call_costs_is_counted_where_its_budget_only_observes() -> None:
    async with house(**COSTLY, mode="observe", budgets={"cost": 1}) as it:
        shown = await it.call("pay", {"amount": 4000.0})
        assert shown.record is not None
        assert shown.record["would_refuse"] == ["budget"]
        assert (await it.book.state_of("run_1")).spent.cost == 40_000_000
        assert await stands(it, "cost") == 40_000_000


async def test_what_a_call_costs_is_told_to_an_account_that_binds_whatever_only_observes() -> None:
    pay = {"name": "pay", "tools": ["pay"], "charge": {"cost_from": "args.amount"}}
    strict = {"mode": "enforce", "limit": {"cost": 5}}
    async with house(mode="observe", transitions=[pay], accounts={"strict": strict}) as it:
        assert refused(await it.call("pay", {"amount": "5"})) == ("denied", "pay")
        assert refused(await it.call("pay", {"amount": -5})) == ("denied", "pay")
        assert refused(await it.call("pay", {"amount": 5})) is None
    async with house(mode="observe", transitions=[pay], accounts={"soft": {"limit": {"cost": 5}}}) as it:
        assert refused(await it.call("pay", {"amount": "5"})) is None


async def test_no_cost_is_so_small_that_it_is_none() -> None:
    async with house(tools={"pay": {"effect": "write", "cost": 0.0000004}}, budgets={"cost": 0.000002}) as it:
        found = [refused(await it.call("pay", {"n": n})) for n in range(3)]
        assert found == [None, None, ("budget_exhausted", "budgets.cost")]
