"""What an effect may cost to undo is set aside with it: from the run's budgets, and from accounts that runs share."""

from typing import Any

import anyio
import pytest

from gateway.model.events import IntentRecorded, Outcome
from gateway.model.run import Run
from gateway.model.tool import Tool
from tests import world
from tests.runtime.house import House, outcome, refused
from tests.runtime.undoing import POLICY, REFUND, answer, says, sent, swept, transitions, undoing

ALL = {"all": {"per": ["tenant"], "window": "ever", "limit": {"calls": 100, "cost": 100}}}


async def left(it: House) -> tuple[int, int, int]:
    """Calls, mutations and cost that the run has spent, what is set aside among it."""
    spent = (await it.book.fresh_state_of("run_1")).spent
    return spent.calls, spent.mutations, spent.cost


async def stands(it: House, unit: str = "calls") -> int:
    """What stands on all accounts together."""
    return sum([standing.level for (_, counted), standing in it.ledger._accounts.items() if counted == unit])


async def test_the_refund_is_set_aside_while_the_payment_is_under_way_and_given_back_when_it_is_right() -> None:
    async with undoing(accounts=ALL) as it:
        seen: list[Any] = []

        async def looking(_: Any) -> Any:
            seen.extend([await left(it), await stands(it), await stands(it, "cost")])
            return answer(paid=True)

        it.upstreams.will("check", looking)
        await it.call("pay", {"amount": 5})
        assert seen == [(2, 2, 1_500_000), 2, 1_500_000]
        assert await left(it) == (1, 1, 1_000_000)
        assert (await stands(it), await stands(it, "cost")) == (1, 1_000_000)


async def test_the_refund_pays_with_what_was_set_aside_and_with_nothing_else() -> None:
    async with undoing(accounts=ALL, budgets={"calls": 2, "mutations": 2, "cost": 1.5}) as it:
        await it.call("pay", {"amount": 5})
        assert sent(it, "refund")
        assert await left(it) == (2, 2, 1_500_000)
        assert (await stands(it), await stands(it, "cost")) == (2, 1_500_000)


@pytest.mark.parametrize(
    ("budgets", "reason"),
    [
        ({"calls": 1}, "this step takes 2 calls, 1 of them to be undone with, and 1 of 1 are left"),
        ({"mutations": 1}, "this step takes 2 mutations, 1 of them to be undone with, and 1 of 1 are left"),
        ({"cost": 1.4}, "this step takes 1.5 cost, 0.5 of them to be undone with, and 1.4 of 1.4 are left"),
    ],
)
async def test_a_payment_whose_refund_could_not_be_paid_is_not_made(budgets: dict[str, Any], reason: str) -> None:
    async with undoing(budgets=budgets) as it:
        shown = await it.call("pay", {"amount": 5})
        assert shown.refusal is not None
        assert (shown.refusal.outcome, shown.refusal.reason) == (Outcome.DENIED, reason)
        assert sent(it) == []
        assert await left(it) == (0, 0, 0)


async def test_nor_is_one_whose_refund_an_account_could_not_pay() -> None:
    limited = {"all": {"per": ["tenant"], "window": "hour", "limit": {"calls": 3}}}
    async with undoing(accounts=limited) as it:
        await it.call("pay", {"amount": 1})
        assert await stands(it) == 2
        assert refused(await it.call("pay", {"amount": 2})) == ("rate_limited", "accounts.all")
        assert await stands(it) == 2
        assert outcome(await it.call("write")) == "result"


async def test_an_account_of_refunds_alone_is_asked_before_the_payment() -> None:
    one = {"refunds": {"per": ["tenant"], "window": "ever", "tools": ["refund"], "limit": {"calls": 1}}}
    async with undoing(accounts=one) as it:
        await it.call("pay", {"amount": 1})
        assert await stands(it) == 1
        assert refused(await it.call("pay", {"amount": 2})) == ("denied", "accounts.refunds")
        assert sent(it) == [("pay", {"amount": 1}), ("refund", {"payment": "p_1", "amount": 1})]


async def test_two_payments_at_once_cannot_both_have_the_last_refund() -> None:
    one = {"refunds": {"per": ["tenant"], "window": "ever", "tools": ["refund"], "limit": {"calls": 1}}}
    async with undoing(accounts=one) as it:
        await it.open("run_2")
        inside, go = anyio.Event(), anyio.Event()

        async def slowly(_: Any) -> Any:
            inside.set()
            await go.wait()
            return answer(id="p_1")

        it.upstreams.will("pay", slowly)
        async with anyio.create_task_group() as group:
            group.start_soon(it.call, "pay", {"amount": 1})
            with anyio.fail_after(5):
                await inside.wait()
            assert refused(await it.call("pay", {"amount": 2}, run="run_2")) == ("denied", "accounts.refunds")
            go.set()
        assert len(sent(it, "refund")) == 1


async def test_what_was_set_aside_pays_though_the_account_has_been_used_up_since() -> None:
    """Results are measured only when they are there, and may take an account beyond its limit."""
    tokens = {"all": {"per": ["tenant"], "window": "ever", "limit": {"tokens": 100}}}
    tools = POLICY["tools"] | {"refund": {"effect": "write", "result_tokens": 10}}
    async with undoing(accounts=tokens, tools=tools) as it:
        it.upstreams.will("pay", answer(id="p_1", note="x" * 4_000))
        await it.call("pay", {"amount": 5})
        assert await stands(it, "tokens") > 100
        assert len(sent(it, "refund")) == 1


async def test_a_refund_in_the_next_window_is_paid_from_the_window_of_its_payment() -> None:
    hourly = {"all": {"per": ["tenant"], "window": "hour", "limit": {"calls": 2}}}
    asks = transitions({"name": "refund", "tools": ["refund"], "approval": {}})
    async with undoing(accounts=hourly, transitions=asks) as it:
        await it.call("pay", {"amount": 5})
        it.clock.tell(3_600)
        await swept(it)
        for number in (1, 2):
            await it.call("read", {"n": number})
        assert refused(await it.call("read", {"n": 3})) == ("rate_limited", "accounts.all")
        await says(it, approve=True)
        await swept(it)
        assert len(sent(it, "refund")) == 1


async def test_an_account_of_an_argument_that_only_the_result_tells_is_asked_when_the_refund_is_made() -> None:
    per = {"same": {"per": ["args.payment"], "window": "hour", "tools": ["refund"], "limit": {"calls": 1}}}
    async with undoing(accounts=per) as it:
        await it.call("pay", {"amount": 1})
        await it.call("pay", {"amount": 2})
        assert len(sent(it, "refund")) == 1, "it is the second of this payment"
        run = await it.book.state_of("run_1")
        waits = [one.waits for one in run.undo.values() if one.state == "owed"]
        assert [one[0] for one in waits if one] == [Outcome.RATE_LIMITED]
        it.clock.tell(3_600)
        assert await swept(it) == 1
        assert len(sent(it, "refund")) == 2


def costing(formula: str) -> list[dict[str, Any]]:
    """The policy's transitions, with refunds that cost by a formula."""
    return transitions({"name": "refund", "tools": ["refund"], "charge": {"cost_from": formula}})


async def test_what_a_refund_costs_is_told_by_the_arguments_that_are_known_before() -> None:
    async with undoing(transitions=costing("double(args.amount)"), budgets={"cost": 6}) as it:
        assert refused(await it.call("pay", {"amount": 6})) == ("denied", "budgets.cost")
        await it.call("pay", {"amount": 5})
        assert await left(it) == (2, 2, 6_000_000)


@pytest.mark.parametrize("mode", ["enforce", "observe"])
async def test_a_payment_whose_refund_has_no_price_yet_is_refused(mode: str) -> None:
    async with undoing(transitions=costing("double(args.payment)"), mode=mode) as it:
        shown = await it.call("pay", {"amount": 5})
        if mode == "observe":
            assert sent(it, "refund"), "what is only observed is undone all the same"
            return
        assert shown.refusal is not None
        assert shown.refusal.reason == (
            "what it would cost to undo this call, `double(args.payment)`, cannot be told beforehand: "
            "`args.payment` is missing"
        )
        assert sent(it) == []


async def test_a_refund_that_is_handed_to_a_person_gives_back_what_was_set_aside() -> None:
    gone = transitions(compensation={**REFUND, "arguments_from": {"payment": "result.structuredContent.number"}})
    async with undoing(accounts=ALL, transitions=gone) as it:
        await it.call("pay", {"amount": 5})
        assert await left(it) == (1, 1, 1_000_000)
        assert (await stands(it), await stands(it, "cost")) == (1, 1_000_000)


async def test_a_run_with_something_set_aside_is_not_ended_by_a_budget_that_may_come_back() -> None:
    async with undoing(budgets={"calls": 3}) as it:
        refusals: list[Any] = []

        async def meanwhile(_: Any) -> Any:
            refusals.append(outcome(await it.call("read", {"n": 1})))
            refusals.append(refused(await it.call("read", {"n": 2})))
            return answer(paid=True)

        it.upstreams.will("check", meanwhile)
        await it.call("pay", {"amount": 5})
        assert refusals == ["result", ("denied", "budgets.calls")]
        assert outcome(await it.call("read", {"n": 2})) == "result"
        assert refused(await it.call("read", {"n": 4})) == ("budget_exhausted", "budgets.calls")


async def test_a_call_that_nothing_can_make_necessary_to_undo_sets_nothing_aside() -> None:
    unproven = transitions(verify=None)
    async with undoing(transitions=unproven) as it:
        await it.call("pay", {"amount": 5})
        intents = [one.event for one, _ in await it.ledger.read("run_1") if isinstance(one.event, IntentRecorded)]
        assert [one.undo for one in intents] == [None]


async def test_reads_need_no_undoing() -> None:
    reading = POLICY["tools"] | {"pay": {"effect": "read"}}
    async with undoing(tools=reading) as it:
        await it.call("pay", {"amount": 5})
        run: Run = await it.book.state_of("run_1")
        assert (len(run.undo), sent(it, "refund")) == (0, [])


async def test_tools_of_the_same_server_are_counted_on_its_account_and_others_when_they_are_called() -> None:
    per = {"server": {"per": ["upstream"], "window": "ever", "limit": {"calls": 9}}}
    async with undoing(accounts=per) as it:
        await it.call("pay", {"amount": 1})
        intents = [one.event for one, _ in await it.ledger.read("run_1") if isinstance(one.event, IntentRecorded)]
        assert [(one.rule, one.amount) for one in intents[0].undo.accounts if one.unit == "calls"] == [  # type: ignore[union-attr]
            ("accounts.server", 1)
        ]
    named = {"s__pay": {"effect": "write"}, "t__refund": {"effect": "write"}}
    steps = [
        {"name": "pay", "tools": ["s__pay"], "verify": "paid", "compensation": {**REFUND, "tool": "t__refund"}},
        {"name": "any", "tools": ["*"]},
    ]
    async with undoing(accounts=per, tools=POLICY["tools"] | named, transitions=steps) as it:
        it.upstreams.offer(world.tool("t__refund"), Tool("s__pay", "s", "pay", {"name": "pay"}))
        it.upstreams.will("s__pay", answer(id="p_1"))
        await it.call("s__pay", {"amount": 1})
        intents = [one.event for one, _ in await it.ledger.read("run_1") if isinstance(one.event, IntentRecorded)]
        assert intents[0].undo is not None
        assert intents[0].undo.accounts == ()
        assert [one.rule for one in intents[1].accounts if one.unit == "calls"] == ["accounts.server"]


async def test_a_refund_that_takes_only_what_was_set_aside_is_no_overspending_where_the_payment_was_only_observed() -> (
    None
):
    async with undoing(mode="observe", budgets={"mutations": 1}) as it:
        await it.call("pay", {"amount": 5})
        assert len(sent(it, "refund")) == 1
        assert (await it.book.fresh_state_of("run_1")).spent.mutations == 2


async def test_nor_where_the_payments_result_was_larger_than_what_was_reserved_for_it() -> None:
    """`undoing` has its ledger verified at the end."""
    tools = POLICY["tools"] | {
        "pay": {"effect": "write", "result_tokens": 10},
        "refund": {"effect": "write", "result_tokens": 10},
    }
    async with undoing(tools=tools, budgets={"tokens": 100}) as it:
        it.upstreams.will("pay", answer(id="p_1", note="x" * 4_000))
        await it.call("pay", {"amount": 5})
        assert len(sent(it, "refund")) == 1
        assert (await it.book.fresh_state_of("run_1")).spent.tokens > 100
