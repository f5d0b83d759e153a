"""A name is said once, whoever says it through whichever gateway; asked of each kind of ledger."""

import asyncio
import time

import anyio
import pytest

from gateway.outbound.ledger import open_ledger
from gateway.outbound.ledger.said import KEPT_S
from gateway.ports import Ledger, LedgerUnavailable


async def test_a_name_is_said_once(ledger: Ledger) -> None:
    until = time.time() + 900
    assert not await ledger.said("a")
    assert [await ledger.once(name, until) for name in ("a", "b", "a", "A")] == [True, True, False, True]
    assert [await ledger.said(name) for name in ("a", "b", "c")] == [True, True, False]
    assert not await ledger.once("a", until + 900)


async def test_of_many_who_say_a_name_at_once_one_is_first(ledger: Ledger) -> None:
    with anyio.fail_after(5):
        firsts = await asyncio.gather(*(ledger.once("a", time.time() + 900) for _ in range(16)))
    assert sum(firsts) == 1


async def test_of_two_gateways_that_hear_a_name_at_once_one_is_first(shared: Ledger, url: str) -> None:
    other = await open_ledger(url)
    with anyio.fail_after(10):
        for turn in range(10):
            said = (one.once(f"a{turn}", time.time() + 900) for one in (shared, other) * 4)
            assert sum(await asyncio.gather(*said)) == 1
    assert await other.said("a9")
    await other.close()


async def test_what_was_said_is_remembered_beyond_its_time_and_then_goes_a_few_at_once(ledger: Ledger) -> None:
    now = time.time()
    for number in range(5):
        assert await ledger.once(f"old{number}", now - 2 * KEPT_S)
    assert await ledger.once("late", now - 60)
    assert not await ledger.once("late", now - 60)
    assert await ledger.once("new", now + 60)
    assert [await ledger.said(f"old{number}") for number in range(5)] == [False] * 5
    assert await ledger.said("late")


async def test_names_that_no_ledger_can_hold_are_never_said(ledger: Ledger) -> None:
    for name in ("a\0b", "\ud800"):
        assert not await ledger.once(name, time.time() + 60)
        assert not await ledger.said(name)


async def test_to_a_closed_ledger_nothing_can_be_said(ledger: Ledger) -> None:
    await ledger.close()
    for call in (ledger.once("a", 0), ledger.said("a")):
        with pytest.raises(LedgerUnavailable, match=r"^the ledger is closed$"):
            await call
