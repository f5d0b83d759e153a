"""One run that cannot be read keeps nobody from answering, and nothing from ending, in the others."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from gateway.model.review import Answer, Refused, Reviewer
from gateway.outbound.ledger import MemoryLedger
from gateway.ports import LedgerUnavailable
from gateway.runtime.book import Book, Options
from gateway.runtime.desk import Decided, Desk
from gateway.runtime.policies import Policies
from tests import world
from tests.runtime.house import house
from tests.runtime.office import ANN, asking

Damage = Callable[[MemoryLedger], None]
RUNS = ("run_1", "run_2", "run_3")
BAD, GOOD = "run_1", ("run_2", "run_3")
"""The oldest: whatever goes through all comes to it first."""


def _altered(ledger: MemoryLedger) -> None:
    _written(ledger, 1, b"{")


def _torn(ledger: MemoryLedger) -> None:
    """Its records are sound, and do not fit together."""
    del ledger._runs[BAD][0]


def _unasked(ledger: MemoryLedger) -> None:
    """The record by which the question was asked."""
    _written(ledger, 2, b"{")


def _written(ledger: MemoryLedger, seq: int, body: bytes) -> None:
    kind, _, link, run, place, at = ledger._runs[BAD][seq - 1]
    line = ledger._runs[BAD][seq - 1] = ledger._log[at] = (kind, body, link, run, place, at)
    for name, held in ledger._named.items():
        if held[-1] == at:
            ledger._named[name] = line


@asynccontextmanager
async def damaged(damage: Damage) -> AsyncIterator[tuple[Desk, MemoryLedger, world.ToldClock, list[Answer]]]:
    """The desk of a gateway that has begun after the damage was done, and an answer to the question of each run."""
    ledger, clock = MemoryLedger(), world.ToldClock()
    fields: dict[str, Any] = {"transitions": asking(expires_s=100)}
    answers = []
    async with house(ledger, clock=clock, **fields) as it:
        for run in RUNS:
            if run != "run_1":
                await it.open(run)
            await it.call("write", {"n": 1}, run=run)
            (one,) = (await it.book.state_of(run)).approvals.values()
            answers.append(Answer(one.id, one.action, "approved", "seen"))
    damage(ledger)
    made = world.policy(**fields)
    book = Book(ledger, Policies(ledger, {made.workflow: made}, made.workflow), clock, Options(owner="next"))
    yield Desk(book), ledger, clock, answers


damage = pytest.mark.parametrize("done", [_altered, _torn, _unasked])
EVE = Reviewer("other", "eve", via="token")
ROOT = replace(EVE, everywhere=True)


@damage
async def test_of_several_answers_those_about_sound_runs_are_recorded(done: Damage) -> None:
    async with damaged(done) as (desk, _, __, answers):
        assert (await desk.inbox(ROOT)).total == len(RUNS), "what cannot be read waits as well"
        came = await desk.decide_all(answers, ROOT)
        assert [one.check if isinstance(one, Refused) else one.run.id for one in came] == ["damaged", *GOOD]
        assert [isinstance(one, Decided) and one.complete for one in came] == [False, True, True]


@damage
async def test_who_may_not_see_the_damaged_question_is_not_told_that_there_is_one(done: Damage) -> None:
    async with damaged(done) as (desk, _, __, answers):
        await desk.inbox(EVE)
        came = await desk.decide_all(answers, EVE)
        assert [one.check for one in came if isinstance(one, Refused)] == ["unknown"] * len(RUNS)


@damage
async def test_what_stands_behind_a_damaged_run_expires(done: Damage) -> None:
    async with damaged(done) as (desk, _, clock, answers):
        clock.tell(101)
        assert await desk.expire() == len(GOOD)
        for run, answer in zip(GOOD, answers[1:], strict=True):
            assert (await desk.book.state_of(run)).approvals[answer.approval].decision == "expired"
        clock.tell(2)
        assert [row.run for row in (await desk.inbox(ROOT)).rows] == [BAD]
        assert await desk.expire() == 0


async def test_a_ledger_that_is_away_still_ends_both() -> None:
    async with damaged(_altered) as (desk, ledger, clock, answers):
        await desk.inbox(ANN)
        clock.tell(101)
        ledger.trouble = "it is away"
        with pytest.raises(LedgerUnavailable, match="it is away"):
            await desk.expire()
        with pytest.raises(LedgerUnavailable, match="it is away"):
            await desk.decide_all(answers, ANN)
