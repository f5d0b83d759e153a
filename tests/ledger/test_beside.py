"""A step names other runs that it was decided by; where these have moved on it is refused, whole, on every ledger."""

import asyncio
from dataclasses import replace
from itertools import permutations

import pytest

from gateway.model.record import GENESIS
from gateway.ports import Append, Conflict, Ledger
from tests.ledger.making import Line, attempt, posting

pytestmark = pytest.mark.anyio

NOTHING = (0, GENESIS)


async def heads(ledger: Ledger, *runs: str) -> list[int]:
    return [len(await ledger.read(run)) for run in runs]


async def test_a_step_is_taken_only_while_the_run_beside_it_stands_where_it_is_said_to(ledger: Ledger) -> None:
    mine, beside = Line("run_1"), Line("switches")
    await ledger.append(mine.step(beside={"switches": NOTHING}))
    await ledger.append(beside.step())
    known = mine.expected
    for wrong in (NOTHING, (1, "another"), (2, beside.expected[1])):
        refused = Line("run_1", known).step(
            beside={"switches": wrong},
            track=[attempt("att_1", "run_1", hold="h")],
            postings=[posting("a", 1)],
        )
        with pytest.raises(Conflict, match="run `switches` was expected at version"):
            await ledger.append(refused)
    assert (await ledger.tracked(), await ledger.levels(["a"])) == ([], {})
    await ledger.append(mine.step(beside={"switches": beside.expected}))
    assert await heads(ledger, "run_1", "switches") == [2, 1], "what it is beside is not moved by it"


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_steps_of_one_group_are_each_held_against_what_those_before_them_made(
    ledger: Ledger, order: tuple[int, ...]
) -> None:
    beside = Line("switches")
    await ledger.append(beside.step())
    before = beside.expected
    moves = beside.step()
    knows = Line("run_1").step(beside={"switches": beside.expected})
    behind = Line("run_2").step(beside={"switches": before})
    steps = [moves, knows, behind]
    came = await asyncio.gather(*(ledger.append(steps[at]) for at in order), return_exceptions=True)
    taken = {steps[at].run for at, error in zip(order, came, strict=True) if error is None}
    assert all(error is None or isinstance(error, Conflict) for error in came)
    due = {"switches"}
    due |= {"run_1"} if order.index(1) > order.index(0) else set()
    due |= {"run_2"} if order.index(2) < order.index(0) else set()
    assert taken == due


async def test_of_a_step_that_only_looks_nothing_is_left(ledger: Ledger) -> None:
    looks = Line("run_1").step(beside={"switches": (1, "x")})
    with pytest.raises(Conflict):
        await ledger.append(looks)
    with pytest.raises(ValueError, match="cannot be stored"):
        await ledger.append(replace(looks, beside={"a\0b": NOTHING}))
    assert isinstance(looks, Append)
    assert await heads(ledger, "run_1", "switches") == [0, 0]
