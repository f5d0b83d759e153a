"""Calls that take longer than a client waits, and calls that take several rounds."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from gateway.model.answer import Shown
from gateway.model.canonical import digest
from gateway.model.events import Outcome
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal, Resume
from gateway.model.record import Record
from gateway.model.run import AttemptState
from gateway.model.tool import Answer, InputRequired, NotSent, TaskStarted
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.ports import Append, Dispatch, LedgerUnavailable, NoSuchRun
from gateway.runtime.book import Options
from tests import world
from tests.runtime.house import House, house, outcome
from tests.runtime.test_engine import VERIFIED

QUESTION = {"resultType": "input_required", "inputRequests": {"q": {"method": "elicitation/create"}}}
MORE: Mapping[str, Any] = {"inputResponses": {"q": {"action": "accept"}}, "requestState": "inner"}


def hurried(it: House) -> None:
    """The house's patience is a moment."""
    it.engine._options = Options(owner="me", patience_s=0.05)


def held() -> tuple[asyncio.Event, Any]:
    gate = asyncio.Event()

    async def answer(_: Dispatch) -> Answer:
        await gate.wait()
        return world.ok("at last")

    return gate, answer


async def test_at_the_patience_limit_the_answer_is_in_flight_and_the_outcome_is_fetched_later() -> None:
    async with house() as it:
        hurried(it)
        gate, answer = held()
        it.upstreams.will("write", answer)
        told = (await it.call("write")).refusal
        assert told is not None
        assert (told.outcome, told.executed, told.attempt) == (Outcome.IN_FLIGHT, "unknown", "run_1.2")
        assert (await it.engine.outcome("run_1.2", world.USER, world.PatientCaller())).refusal == told
        gate.set()
        shown = await it.engine.outcome("run_1.2", world.USER, world.PatientCaller())
        assert shown.result == world.ok("at last").result
        assert len(it.upstreams.sent) == 1


class Slow(MemoryLedger):
    """A ledger whose disk, or whose payloads, one can hold up."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = asyncio.Event()
        self.disk.set()
        self.lost = False

    async def append(self, step: Append) -> None:
        await self.disk.wait()
        await super().append(step)

    async def read(self, run: str, after: int = 0, *, limit: int | None = None) -> Sequence[tuple[Record, bytes]]:
        if self.lost:
            raise LedgerUnavailable("the ledger is gone")
        return await super().read(run, after, limit=limit)


async def test_at_the_patience_limit_nothing_is_told_whose_receipt_is_not_on_disk() -> None:
    ledger = Slow()

    async def answered(_: Dispatch) -> Answer:
        ledger.disk.clear()
        return world.ok()

    async with house(ledger) as it:
        await it.call("write", {"n": 1})  # so that an equal result is in the ledger already
        hurried(it)
        it.upstreams.will("write", answered)
        told = (await it.call("write", {"n": 2})).refusal
        assert told is not None
        assert (told.outcome, told.executed) == (Outcome.IN_FLIGHT, "unknown")
        ledger.disk.set()
        shown = await it.engine.outcome(str(told.attempt), world.USER, world.PatientCaller())
        assert shown.result == world.ok().result


async def test_at_the_patience_limit_a_ledger_that_cannot_be_read_is_told_as_such() -> None:
    ledger = Slow()
    async with house(ledger) as it:
        hurried(it)
        gate = asyncio.Event()

        async def answered(_: Dispatch) -> Answer:
            ledger.lost = True
            it.book._heads._heads.clear()  # as after many other runs
            it.book._heads._durable.clear()
            await gate.wait()
            return world.ok()

        it.upstreams.will("write", answered)
        shown = await it.call("write")
        assert shown.refusal is not None
        assert (shown.refusal.outcome, shown.refusal.executed) == (Outcome.LEDGER_UNAVAILABLE, "unknown")
        assert shown.attempt == "run_1.2"
        ledger.lost = False
        gate.set()


async def test_what_its_verifier_has_not_judged_is_told_by_nobody_as_done() -> None:
    async with house(**VERIFIED) as it:
        hurried(it)
        gate, answer = held()
        it.upstreams.will("check", answer)
        told = (await it.call("write")).refusal
        assert told is not None
        assert (told.outcome, told.executed) == (Outcome.IN_FLIGHT, True)
        attempt = (await it.book.state_of("run_1")).attempts[str(told.attempt)]
        assert not attempt.delivered  # what was told is not its outcome
        later = await it.engine.outcome(str(told.attempt), world.USER, world.PatientCaller(waits_since=float("-inf")))
        assert later.refusal == told
        gate.set()
        shown = await it.engine.outcome(str(told.attempt), world.USER, world.PatientCaller())
        assert outcome(shown) != "in_flight"


async def test_the_patience_of_a_known_client_is_its_own() -> None:
    options = Options(owner="me")
    assert options.patience_of("claude-code") == 280.0
    assert options.patience_of("somebody") == options.patience_s == 55.0


async def test_time_in_which_the_client_is_asked_is_no_time_in_which_it_waits() -> None:
    async with house() as it:
        hurried(it)
        gate, answer = held()
        it.upstreams.will("write", answer)
        caller = world.PatientCaller(waits_since=None)
        asyncio.get_running_loop().call_later(0.3, gate.set)
        assert outcome(await it.call("write", caller=caller)) == "result"


@pytest.mark.parametrize("attempt", ["run_1.99", "run_9.1", "nonsense", ""])
async def test_an_attempt_that_is_not_known_is_no_such_run(attempt: str) -> None:
    async with house() as it:
        with pytest.raises(NoSuchRun):
            await it.engine.outcome(attempt, world.USER, world.PatientCaller())


async def test_an_attempt_of_another_principal_is_not_told() -> None:
    async with house() as it:
        await it.call("write")
        with pytest.raises(NoSuchRun):
            await it.engine.outcome("run_1.2", Principal("local:other"), world.PatientCaller())


async def asked(it: House) -> Shown:
    it.upstreams.will("write", InputRequired(QUESTION))
    shown = await it.call("write", {"a": 1})
    assert (shown.awaits, shown.result) == ("input", QUESTION)
    return shown


def next_round(it: House, shown: Shown, arguments: Mapping[str, Any] | None = None, **changes: Any) -> Proposal:
    assert shown.attempt is not None
    assert shown.round is not None
    salt = it.ledger.salt
    resumes = replace(Resume(shown.attempt, shown.round, digest(MORE, salt)), **changes)
    proposed = world.proposal("write", arguments or {"a": 1})
    cited = digest(dict(proposed.arguments), salt)
    return replace(proposed, arguments_digest=cited, more=MORE, resumes=resumes)


async def go_on(it: House, proposal: Proposal) -> Shown:
    with anyio.fail_after(5):
        return await it.engine.call(proposal, world.PatientCaller())


async def test_the_next_round_goes_on_with_the_same_attempt_and_is_charged_nothing_again() -> None:
    async with house(budgets={"calls": 1}) as it:
        shown = await asked(it)
        done = await go_on(it, next_round(it, shown))
        assert (done.attempt, done.result) == (shown.attempt, world.ok().result)
        assert [dict(one.more) for one in it.upstreams.sent] == [{}, MORE]
        assert (await it.book.state_of("run_1")).spent.calls == 1


async def test_of_two_that_answer_one_round_only_one_is_sent() -> None:
    async with house() as it:
        shown = await asked(it)
        both = await asyncio.gather(*(go_on(it, next_round(it, shown)) for _ in range(2)))
        assert sorted(map(outcome, both)) == ["in_flight", "result"]
        assert len(it.upstreams.sent) == 2


async def test_a_round_that_was_answered_before_is_told_from_the_record() -> None:
    async with house() as it:
        shown = await asked(it)
        first = await go_on(it, next_round(it, shown))
        again = await go_on(it, next_round(it, shown))
        assert again.result == first.result
        assert again.record is not None
        assert again.record["replayed"] is True
        assert len(it.upstreams.sent) == 2


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [({"a": 2}, {}), (None, {"attempt": "run_1.9"}), (None, {"round": "c1:0"})],
    ids=["other arguments", "another attempt", "another round"],
)
async def test_input_for_another_call_is_refused(arguments: Any, changes: Any) -> None:
    async with house() as it:
        shown = await asked(it)
        told = (await go_on(it, next_round(it, shown, arguments, **changes))).refusal
        assert told is not None
        assert told.outcome in {Outcome.CONFLICT, Outcome.IN_FLIGHT}
        assert len(it.upstreams.sent) == 1


async def test_policy_is_asked_again_for_the_next_round() -> None:
    async with house() as it:
        shown = await asked(it)
        it.upstreams.tools.pop("write")
        told = (await go_on(it, next_round(it, shown))).refusal
        assert told is not None
        assert told.outcome is Outcome.DENIED


async def test_a_next_round_that_could_not_be_sent_proves_nothing_about_the_first() -> None:
    async with house(budgets={"calls": 1}) as it:
        shown = await asked(it)
        it.upstreams.will("write", NotSent("refused"))
        told = (await go_on(it, next_round(it, shown))).refusal
        assert told is not None
        assert (told.outcome, told.executed) == (Outcome.TIMEOUT_UNKNOWN, "unknown")
        assert outcome(await it.call("write", {"a": 1})) == "held"
        assert len(it.upstreams.sent) == 2


async def test_an_equal_call_waits_while_the_first_one_awaits_input() -> None:
    async with house() as it:
        await asked(it)
        assert outcome(await it.call("write", {"a": 1})) == "in_flight"


async def test_the_end_of_an_upstreams_task_is_the_receipt_of_its_attempt() -> None:
    task = {"resultType": "task", "taskId": "t", "status": "working", "ttlMs": 60_000}
    async with house() as it:
        it.upstreams.will("write", TaskStarted(task))
        shown = await it.call("write")
        assert (shown.awaits, shown.result) == ("task", task)
        assert shown.attempt is not None
        told = await it.engine.ended(shown.attempt, world.USER, world.ok("made"))
        assert told.result == world.ok("made").result
        attempt = (await it.book.state_of("run_1")).attempts[shown.attempt]
        assert attempt.state is AttemptState.ANSWERED
        again = await it.engine.ended(shown.attempt, world.USER, world.ok("another end"))
        assert again.result == told.result
