"""What a stream tells its reader, and of whom; and how many each reviewer may have."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import anyio
import pytest

from gateway.inbound.console.api import Changes
from gateway.inbound.console.streams import BEAT_S, EACH, Streams, View, view_of
from gateway.inbound.console.visitor import Stands
from gateway.model.review import Reviewer
from tests.console.reviewing import ANN, BOB, BOUND_S, EVE, Reviewing, elsewhere, reviewing

pytestmark = pytest.mark.anyio


async def in_(*, yes: bool = True) -> bool:
    """Whether the session still stands."""
    return yes


def stream(changes: Changes, by: Reviewer, stands: Stands = in_) -> AsyncIterator[Any]:
    found: Any = changes.stream(by, None, stands)
    return aiter(found.body_iterator)


async def heard(at: Reviewing, one: AsyncIterator[Any]) -> str:
    """What is said next, while time goes on."""
    saying = asyncio.ensure_future(anext(one))
    with anyio.fail_after(BOUND_S):
        while not saying.done():
            at.it.clock.tell(1)
            await asyncio.sleep(0.001)
    said: bytes = await saying
    return said.decode()


async def test_what_others_are_asked_is_neither_told_nor_to_be_guessed_from_when_something_is_said() -> None:
    async with reviewing() as at:
        await at.ask(1)
        theirs = elsewhere(EVE, tenant="other")
        mine, before = await view_of(at.desk, ANN), await view_of(at.desk, theirs)
        streams = Streams(at.desk, 10, at.it.clock.monotonic)
        listening = streams.views(theirs)
        assert await anext(listening) == before
        began = at.it.clock.monotonic()
        waiting = asyncio.ensure_future(anext(listening))
        for number in range(2, 5):
            await at.ask(number)
            await asyncio.sleep(0.01)
            assert not waiting.done(), "three questions of another tenant"
        with anyio.fail_after(BOUND_S):
            while not waiting.done():
                at.it.clock.tell(0.5)
                await asyncio.sleep(0.001)
        assert await waiting is None
        assert at.it.clock.monotonic() - began >= BEAT_S
        await listening.aclose()
        assert await view_of(at.desk, theirs) == before
        after = await view_of(at.desk, ANN)
        assert (after.total, after.version != mine.version) == (4, True)


async def test_a_version_is_the_same_at_every_gateway_and_another_with_what_is_seen() -> None:
    async with reviewing() as at:
        await at.ask(1)
        one = await view_of(at.desk, ANN)
        assert await view_of(type(at.desk)(at.it.book), BOB) == one
        await at.desk.stop_run("run_1", ANN, "enough")
        at.it.clock.tell(2)
        assert (await view_of(at.desk, ANN)).version != one.version


async def test_the_oldest_stream_of_a_reviewer_gives_way_and_no_other_reviewers() -> None:
    async with reviewing() as at:
        streams = Streams(at.desk, EACH + 2, at.it.clock.monotonic)
        bobs = streams.views(BOB)
        assert isinstance(await anext(bobs), View)
        held = [streams.views(ANN) for _ in range(EACH + 1)]
        for one in held:
            assert isinstance(await anext(one), View)
        with pytest.raises(StopAsyncIteration):
            await anext(held[0])
        assert not streams.is_full()
        eves = streams.views(EVE)
        assert isinstance(await anext(eves), View)
        assert streams.is_full()
        for one in (bobs, eves, *held[1:]):
            await one.aclose()
        assert not streams.is_full()


async def test_a_program_hears_a_number_that_it_may_come_back_with() -> None:
    async with reviewing() as at:
        changes = Changes(at.desk, at.it.clock.monotonic)
        one = stream(changes, ANN)
        assert (await heard(at, one)).startswith("retry: ")
        first = await heard(at, one)
        assert first.startswith("id: ")
        await at.ask(1)
        second = await heard(at, one)
        assert (second.startswith("id: "), second != first) == (True, True)
        changes.close()
        with pytest.raises(StopAsyncIteration):
            await heard(at, one)


async def test_a_program_whose_session_is_over_hears_no_more() -> None:
    async with reviewing() as at:
        left = partial(in_, yes=False)
        one = stream(Changes(at.desk, at.it.clock.monotonic), ANN, left)
        assert (await anext(one)).startswith(b"retry")
        with pytest.raises(StopAsyncIteration):
            await anext(one)
