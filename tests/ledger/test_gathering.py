"""Steps that come together are committed together, and what nobody waits for costs no commit of its own."""

import asyncio
from dataclasses import replace

import anyio
import pytest

from gateway.outbound.ledger import open_ledger
from gateway.outbound.ledger.gathering import LINGER_S, Gathering
from gateway.ports import Ledger, LedgerUnavailable
from tests.ledger.conftest import Grouped
from tests.ledger.making import Line, small

pytestmark = pytest.mark.anyio

LIMIT_S = 10


@pytest.fixture
async def gathered() -> list[list[str]]:
    """What was handed on, group by group."""
    return []


@pytest.fixture
async def gathering(gathered: list[list[str]]) -> Gathering[str]:
    return Gathering(gathered.append)


async def test_what_comes_in_turns_that_follow_each_other_is_one_group(
    gathering: Gathering[str], gathered: list[list[str]]
) -> None:
    async def after(turns: int, one: str) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        gathering.add(one, unhurried=False)

    with anyio.fail_after(LIMIT_S):
        await asyncio.gather(after(2, "c"), after(1, "b"), after(0, "a"))
        while not gathered:
            await asyncio.sleep(0)
    assert gathered == [["a", "b", "c"]]


async def test_a_lone_step_waits_for_a_turn_and_no_longer(gathering: Gathering[str], gathered: list[list[str]]) -> None:
    gathering.add("a", unhurried=False)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert gathered == [["a"]]


async def test_a_step_is_handed_on_though_every_turn_brings_another(
    gathering: Gathering[str], gathered: list[list[str]]
) -> None:
    with anyio.fail_after(LIMIT_S):
        while not gathered:
            gathering.add("a", unhurried=False)
            await asyncio.sleep(0)
    assert set(gathered[0]) == {"a"}


async def test_an_unhurried_step_goes_with_the_next_one_and_before_it(
    gathering: Gathering[str], gathered: list[list[str]]
) -> None:
    gathering.add("unhurried", unhurried=True)
    gathering.add("hurried", unhurried=False)
    gathering.add("late", unhurried=True)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert gathered == [["unhurried", "hurried", "late"]]
    await asyncio.sleep(2 * LINGER_S)  # its timer is gone
    assert len(gathered) == 1


async def test_an_unhurried_step_that_nothing_follows_is_handed_on_by_itself(
    gathering: Gathering[str], gathered: list[list[str]]
) -> None:
    gathering.add("a", unhurried=True)
    gathering.add("b", unhurried=True)
    with anyio.fail_after(LIMIT_S):
        while not gathered:
            await asyncio.sleep(0.001)
    assert gathered == [["a", "b"]]


async def test_what_waits_is_handed_on_once_at_the_end(gathering: Gathering[str], gathered: list[list[str]]) -> None:
    gathering.add("a", unhurried=False)
    gathering.hand_on()
    gathering.add("b", unhurried=True)
    for _ in range(3):
        await asyncio.sleep(0)
    assert gathered == [["a"]]
    gathering.hand_on()
    gathering.hand_on()
    assert gathered == [["a"], ["b"]]


# --- over a ledger ----------------------------------------------------------------------------------------------------


async def test_a_delivery_costs_no_commit_where_a_call_follows(grouped: Grouped) -> None:
    line, ledger = Line("run_a"), grouped.ledger
    before = ledger.commits
    with anyio.fail_after(LIMIT_S):
        unhurried = asyncio.ensure_future(ledger.append(replace(line.step(small("1")), unhurried=True)))
        await asyncio.sleep(0)
        await ledger.append(line.step(small("2")))
        await unhurried
    assert ledger.commits == before + 1
    assert [record.seq for record, _ in await ledger.read("run_a")] == [1, 2]


async def test_a_delivery_that_nothing_follows_is_durable_a_moment_later(shared: Ledger) -> None:
    with anyio.fail_after(LIMIT_S):
        await shared.append(replace(Line("run_a").step(small("1")), unhurried=True))
    assert len(await shared.read("run_a")) == 1


async def test_a_ledger_that_closes_stores_what_still_waits_for_company(url: str) -> None:
    ledger = await open_ledger(url)
    lingering = asyncio.ensure_future(ledger.append(replace(Line("run_a").step(small("1")), unhurried=True)))
    await asyncio.sleep(0)
    with anyio.fail_after(LIMIT_S):
        await ledger.close()
        await lingering
    again = await open_ledger(url)
    assert len(await again.read("run_a")) == 1
    await again.close()
    with pytest.raises(LedgerUnavailable):
        await again.append(Line("run_b").step(small("1")))
