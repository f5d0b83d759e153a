"""Repeats across runs, gateways and restarts: what was made is told before it is made again."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.kernel.approve import resolve
from gateway.model.canonical import digest
from gateway.model.events import Outcome
from gateway.model.proposal import Key, KeySource
from gateway.model.tool import Answer, Silence
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.ports import Append, Dispatch, LedgerUnavailable
from tests import world
from tests.runtime.house import ME, house, outcome
from tests.runtime.test_engine import VERIFIED

pytestmark = pytest.mark.anyio


async def test_a_write_whose_client_was_never_told_is_told_in_the_next_run_and_only_then_made_again() -> None:
    ledger = MemoryLedger()
    async with house(ledger) as one, house(ledger, owner="next") as two:
        one.upstreams.will("write", world.ok("made"))
        await one.call("write", {"a": 1}, deliver=False)
        await two.open("run_2")
        told = await two.call("write", {"a": 1}, run="run_2")
        assert told.result == world.ok("made").result
        assert told.record is not None
        assert (told.record["run"], told.record["replayed"]) == ("run_1", True)
        assert two.upstreams.sent == []
        assert outcome(await two.call("write", {"a": 1}, run="run_2")) == "result"
        assert len(two.upstreams.sent) == 1


async def test_the_callers_own_new_key_is_another_call_even_while_the_first_was_never_told() -> None:
    async with house() as it:
        await it.call("write", {"a": 1}, deliver=False)
        shown = await it.call("write", {"a": 1}, key=Key(KeySource.CALLER, "second"))
        assert shown.record is not None
        assert "replayed" not in shown.record
        assert len(it.upstreams.sent) == 2


async def test_a_gateway_of_another_server_never_judges_an_attempt_by_its_own_world() -> None:
    ledger, clock = MemoryLedger(), world.ToldClock()
    async with house(ledger, "dead", clock=clock, **VERIFIED) as dead:

        async def never(_: Dispatch) -> Answer:
            await asyncio.Event().wait()
            raise AssertionError

        dead.upstreams.will("check", never)
        left = asyncio.ensure_future(dead.call("write", {"a": 1}))
        await dead.settle()
        clock.tell(16)
        other = world.ScriptedUpstreams()
        other.offer(*(replace(tool, upstream="other") for tool in dead.upstreams.tools.values()))
        async with house(ledger, "other", other, clock, **VERIFIED) as stranger:
            assert await stranger.recovery.sweep() == 0
            assert other.sent == []
            assert [one.state for one in await ledger.tracked()] == ["unverified"]
            run = await stranger.book.fresh_state_of("run_1")
            assert (run.phase, run.stopped) == ("change", None)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)


async def test_evidence_that_was_overtaken_while_it_was_made_moves_nothing() -> None:
    fields: dict[str, Any] = VERIFIED | {"transitions": [*VERIFIED["transitions"], {"name": "p", "tools": ["pay"]}]}
    async with house(**fields) as it:
        begun, go = asyncio.Event(), asyncio.Event()

        async def slow(_: Dispatch) -> Answer:
            begun.set()
            await go.wait()
            return world.ok()

        async def probe(_: Dispatch) -> Answer:
            go.set()
            await paying
            return world.ok(structuredContent={"exit": 0})

        it.upstreams.will("pay", slow)
        it.upstreams.will("check", probe)
        paying = asyncio.ensure_future(it.call("pay", deliver=False))
        await begun.wait()
        await it.call("write")
        run = await it.book.state_of("run_1")
        assert (run.phase, run.evidence["t"].fresh, run.stopped) == ("change", False, None)


class Locked(MemoryLedger):
    """A ledger that takes nothing while it is locked."""

    locked = False

    async def append(self, step: Append) -> None:
        if self.locked:
            raise LedgerUnavailable("the ledger is locked")
        await super().append(step)


async def test_a_refusal_for_want_of_the_ledger_claims_nothing_about_an_earlier_equal_call() -> None:
    ledger = Locked()
    async with house(ledger) as it:
        await it.call("write", {"a": 1})
        ledger.locked = True
        again, first = await it.call("write", {"a": 1}), await it.call("write", {"a": 2})
        assert again.refusal is not None
        assert first.refusal is not None
        assert (again.refusal.outcome, again.refusal.executed) == (Outcome.LEDGER_UNAVAILABLE, "unknown")
        ledger.locked = False


@pytest.mark.parametrize(("origin", "executed"), [("process", False), ("token", "unknown")])
async def test_whether_another_gateway_has_sent_a_call_is_not_known_from_what_was_read_before(
    origin: str, executed: Any
) -> None:
    ledger, key = Locked(), Key(KeySource.CALL_ID, "toolu_1")
    async with house(ledger) as it:
        await it.open("run_2", origin)
        ledger.locked = True
        told = (await it.call("write", {"a": 1}, run="run_2", key=key)).refusal
        assert told is not None
        assert (told.outcome, told.executed) == (Outcome.LEDGER_UNAVAILABLE, executed)
        ledger.locked = False


async def test_what_a_person_settled_as_happened_is_told_once_in_any_run() -> None:
    async with house() as it:
        it.upstreams.will("write", Silence("timeout"))
        await it.call("write", {"a": 1})
        await it.book.say(
            "run_1", lambda run, _, now: resolve(run, "run_1.2", what="happened", by=ME, reason="seen", now=now)
        )
        await it.open("run_2")
        told = await it.call("write", {"a": 1}, run="run_2")
        assert told.refusal is not None
        assert (told.refusal.run, told.refusal.executed) == ("run_1", True)
        assert outcome(await it.call("write", {"a": 1}, run="run_2")) == "result"


async def test_a_state_that_is_behind_the_ledger_is_read_again_and_loses_no_receipt() -> None:
    ledger = MemoryLedger()
    async with house(ledger) as it:
        proposed = world.proposal("write", {"a": 1})
        proposed = replace(proposed, arguments_digest=digest({"a": 1}, ledger.salt))

        async def forgetful(_: Dispatch) -> Answer:
            head = await it.book._heads.get("run_1")
            head.moved(world.opened((await it.book.policies.of(head.run.policy)), at=it.clock.now()))
            return world.ok()

        it.upstreams.will("write", forgetful)
        assert (await it.engine.call(proposed, world.PatientCaller())).result == world.ok().result


async def test_a_verifier_never_asks_a_tool_that_is_not_as_policy_pins_it() -> None:
    other = {"check": {"digest": digest({}, b""), "definition": {}}}
    fields: dict[str, Any] = VERIFIED | {"tools": {"check": {"effect": "read"}}, "pins": other}
    async with house(**fields) as it:
        told = (await it.call("write")).refusal
        assert told is not None
        assert told.reason == "`t` could not check: no upstream offers `check` as policy pins it"
        assert [one.tool.name for one in it.upstreams.sent] == ["write"]


async def test_a_whole_number_is_one_effect_however_it_is_spelled() -> None:
    async with house() as it:
        it.upstreams.will("pay", Silence("gone"))
        await it.call("pay", {"amount": 1500})
        shown = await it.call("pay", {"amount": 1500.0})
        assert shown.refusal is not None
        assert shown.refusal.outcome == "held"
        await it.open("run_2")
        shown = await it.call("pay", {"amount": 1500.0}, run="run_2")
        assert shown.refusal is not None
        assert shown.refusal.outcome == "held"
        assert len(it.upstreams.sent) == 1


async def test_what_is_never_repeated_is_not_repeated_in_another_spelling() -> None:
    async with house(tools={"pay": {"effect": "write", "repeat": "replay"}}) as it:
        await it.call("pay", {"amount": 1500.0})
        shown = await it.call("pay", {"amount": 1500})
        assert shown.record is not None
        assert shown.record["replayed"] is True
        assert [dict(one.arguments) for one in it.upstreams.sent] == [{"amount": 1500.0}]
