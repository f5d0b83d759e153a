"""What is unknown is asked after, sent again under a key, or left to a person: never before its time, never twice."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from gateway.model.events import AttemptQueried, AttemptRefuted, AttemptResent, ReceiptRecorded
from gateway.model.run import AttemptState
from gateway.model.tool import Answer, NotSent, ProtocolError, Silence, ToolResult
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.ports import Dispatch
from tests import world
from tests.runtime.house import House, approve, house, outcome
from tests.runtime.test_explain import judged_again

LOOK = {
    "probe": {"tool": "read", "arguments_from": {"to": "args.to"}},
    "happened": ["result.structuredContent.state == 'done'", "result.structuredContent.to == args.to"],
    "absent": ["result.structuredContent.state == 'none'"],
}
READ = {"effect": "read"}
ASKED: dict[str, Any] = {
    "tools": {"read": READ, "write": {"effect": "write", "idempotency": {"kind": "query", "query": LOOK}}}
}
KEYED: dict[str, Any] = {
    "tools": {
        "read": READ,
        "write": {"effect": "write", "idempotency": {"kind": "key", "key": {"argument": "key"}, "valid_s": 86_400}},
    }
}
TO = {"to": "alice"}


def state(found: str, to: str = "alice") -> ToolResult:
    return world.ok(structuredContent={"state": found, "to": to})


async def lost(it: House) -> None:
    """A write whose outcome nobody knows, seen by a sweep."""
    it.upstreams.will("write", Silence("timeout"))
    assert outcome(await it.call("write", TO)) == "timeout_unknown"


async def events(it: House, kind: type) -> list[Any]:
    return [record.event for record, _ in await it.ledger.read("run_1") if isinstance(record.event, kind)]


def asked(it: House) -> int:
    return sum(one.tool.name == "read" for one in it.upstreams.sent)


async def test_what_the_upstream_knows_of_is_recorded_as_happened_at_any_time_and_told_to_whoever_asks() -> None:
    async with house(**ASKED) as it:
        await lost(it)
        it.upstreams.will("read", state("done"))
        assert await it.recovery.sweep() == 1
        (receipt,) = await events(it, ReceiptRecorded)
        assert (receipt.source, receipt.reason, receipt.late) == ("probe", "`read` knows of it", True)
        assert await it.ledger.payload(receipt.artifact) is not None
        told = (await it.call("write", TO)).refusal
        assert told is not None
        assert (told.outcome, told.executed, told.evidence[0].says) == ("held", True, "`read` knows of it")
        assert len([one for one in it.upstreams.sent if one.tool.name == "write"]) == 1


async def test_a_no_counts_only_once_this_gateway_has_watched_for_as_long_as_the_upstream_could_act() -> None:
    async with house(**ASKED) as it:
        await lost(it)
        it.upstreams.will("read", *[state("none")] * 9)
        assert await it.recovery.sweep() == 0
        it.clock.tell(89)
        assert await it.recovery.sweep() == 0
        assert outcome(await it.call("write", TO)) == "held"
        (noted,) = await events(it, AttemptQueried)
        assert (noted.verdict, noted.says) == ("absent", "`read` knows nothing of it")
        it.clock.tell(1)
        assert await it.recovery.sweep() == 1
        (refuted,) = await events(it, AttemptRefuted)
        assert (refuted.source, refuted.reason) == ("probe", "`read` knows nothing of it")
        assert (await it.book.state_of("run_1")).spent.mutations == 0
        assert outcome(await it.call("write", TO)) == "result"


async def test_a_gateway_that_comes_later_believes_no_no_of_a_clock_that_has_jumped() -> None:
    ledger, clock = MemoryLedger(), world.ToldClock()
    async with house(ledger, "dead", clock=clock, **ASKED) as dead:
        await lost(dead)
        later = world.ToldClock(clock.seconds + 10 * 86_400)
        async with house(ledger, "new", dead.upstreams, later, **ASKED) as new:
            new.upstreams.will("read", *[state("none")] * 9)
            assert await new.recovery.sweep() == 0
            later.tell(89)
            assert await new.recovery.sweep() == 0
            later.tell(1)
            assert await new.recovery.sweep() == 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (state("pending"), "`read` could not tell: its answer proves neither"),
        (state("done", "bob"), "`read` could not tell: its answer proves neither"),
        (world.ok(), "`read` could not tell: `result.structuredContent` is missing"),
        (world.ok(isError=True), "`read` could not tell: it answered with an error"),
        (NotSent("refused"), "`read` could not tell: refused"),
        (ProtocolError({"code": -32000}), "`read` could not tell: the probe was refused with code -32000"),
    ],
)  # fmt: skip
async def test_what_proves_nothing_is_noted_once_and_settles_nothing(answer: Answer, says: str) -> None:
    async with house(**ASKED) as it:
        await lost(it)
        it.upstreams.will("read", *[answer] * 4)
        for _ in range(4):
            assert await it.recovery.sweep() == 0
            it.clock.tell(500)
        assert asked(it) == 4
        assert [(one.verdict, one.says) for one in await events(it, AttemptQueried)] == [("inconclusive", says)]
        assert outcome(await it.call("write", TO)) == "held"


async def test_an_unknown_is_asked_after_less_and_less_often() -> None:
    async with house(**ASKED) as it:
        await lost(it)
        it.upstreams.will("read", *[state("pending")] * 99)
        for _ in range(3600 // 15):
            await it.recovery.sweep()
            it.clock.tell(15)
        assert 8 <= asked(it) <= 14


async def test_under_a_key_it_is_sent_again_as_the_same_call_once_the_first_can_no_longer_act() -> None:
    async with house(**KEYED) as it:
        await lost(it)
        assert await it.recovery.sweep() == 0
        it.clock.tell(89)
        assert await it.recovery.sweep() == 0
        assert len(it.upstreams.sent) == 1
        it.clock.tell(1)
        it.upstreams.will("write", world.ok("made once"))
        assert await it.recovery.sweep() == 1
        first, second = (one.arguments for one in it.upstreams.sent)
        assert first == second == {**TO, "key": "run_1.2"}
        run = await it.book.state_of("run_1")
        assert (run.attempts["run_1.2"].state, run.attempts["run_1.2"].sent) == (AttemptState.ANSWERED, 2)
        assert run.spent.calls == 1
        assert await judged_again(it) == ["intent.recorded", "attempt.resent"]
        shown = await it.call("write", TO)
        assert shown.result is not None
        assert shown.result["content"][0]["text"] == "made once"
        assert len(it.upstreams.sent) == 2


async def test_a_second_sending_that_is_lost_too_is_watched_anew_and_sent_again() -> None:
    async with house(**KEYED) as it:
        await lost(it)
        await it.recovery.sweep()
        it.upstreams.will("write", NotSent("refused"), world.ok())
        it.clock.tell(90)
        assert await it.recovery.sweep() == 1
        assert (await it.book.state_of("run_1")).attempts["run_1.2"].state is AttemptState.UNKNOWN
        for wait in (0, 60, 29):
            it.clock.tell(wait)
            assert await it.recovery.sweep() == 0
        it.clock.tell(1)
        assert await it.recovery.sweep() == 1
        assert len(await events(it, AttemptResent)) == 2
        assert (await it.book.state_of("run_1")).attempts["run_1.2"].state is AttemptState.ANSWERED


async def test_what_is_lost_each_time_is_sent_again_less_and_less_often_whichever_gateway_does_it() -> None:
    ledger, clock, upstreams = MemoryLedger(), world.ToldClock(), world.ScriptedUpstreams()
    upstreams.offer(world.tool("read", read=True), world.tool("write"))
    upstreams.always = {"write": Silence("timeout")}
    async with house(ledger, "a", upstreams, clock, **KEYED) as a, house(ledger, "b", upstreams, clock, **KEYED) as b:
        await a.call("write", TO)
        times: list[float] = []
        for _ in range(4 * 3600 // 15):
            for it in (a, b):
                await it.recovery.sweep()
                times += [clock.now()] * (len(upstreams.sent) - 1 - len(times))
            clock.tell(15)
        pauses = [later - earlier for earlier, later in pairwise(times)]
        assert 10 <= len(times) <= 30
        assert min(pauses) >= 90
        assert min(pauses[8:]) >= 600


def without(**fields: Any) -> dict[str, Any]:
    told = {"kind": "key", "key": {"argument": "key"}, "valid_s": 86_400} | fields
    kept = {name: value for name, value in told.items() if value is not None}
    return {"tools": {"read": READ, "write": {"effect": "write", "idempotency": kept}}}


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (without(valid_s=None), None),
        (without(valid_s=170), "it is not sent again: the upstream may have forgotten its key by now"),
        ({"tools": {"read": READ, "write": {"effect": "write", "idempotency": {"kind": "natural"}}}}, None),
    ],
)  # fmt: skip
async def test_without_a_key_that_the_upstream_still_knows_nothing_is_sent_again(
    policy: dict[str, Any], why: str | None
) -> None:
    async with house(**policy) as it:
        await lost(it)
        for _ in range(6):
            assert await it.recovery.sweep() == 0
            it.clock.tell(200)
        assert len(it.upstreams.sent) == 1
        assert [one.says for one in await events(it, AttemptQueried)] == ([] if why is None else [why])
        assert outcome(await it.call("write", TO)) == "held"


@pytest.mark.parametrize("headers", [True, False])
async def test_a_key_that_goes_into_a_header_is_none_where_there_are_no_headers(*, headers: bool) -> None:
    async with house(**without(key={"header": "Idempotency-Key"})) as it:
        it.upstreams.offer(replace(it.upstreams.tools["write"], headers=headers))
        await lost(it)
        await it.recovery.sweep()
        it.clock.tell(90)
        assert await it.recovery.sweep() == headers
        assert [one.headers.get("Idempotency-Key") for one in it.upstreams.sent] == ["run_1.2"] * (1 + headers)
        assert it.recovery.state()["for_people"] == (not headers)


async def test_a_stopped_run_sends_nothing_again() -> None:
    final: dict[str, Any] = {"forbid": [{"name": "no", "tools": ["pay"], "final": True}]}
    async with house(**KEYED, **final) as it:
        await lost(it)
        await it.recovery.sweep()
        assert outcome(await it.call("pay")) == "policy_denied"
        it.clock.tell(1000)
        assert await it.recovery.sweep() == 0
        assert len(it.upstreams.sent) == 1
        (noted,) = await events(it, AttemptQueried)
        assert noted.says.startswith("it is not sent again: ")


FROZEN: dict[str, Any] = {
    "forbid": [{"name": "freeze", "tools": ["write"], "when": ["now > timestamp('2027-01-15T08:01:00Z')"]}]
}


async def test_what_policy_forbids_by_now_is_not_sent_again() -> None:
    async with house(**KEYED, **FROZEN) as it:
        await lost(it)
        await it.recovery.sweep()
        it.clock.tell(90)
        assert await it.recovery.sweep() == 0
        assert [one.says for one in await events(it, AttemptQueried)] == ["it is not sent again: policy forbids this"]


@pytest.mark.parametrize(("expires_s", "sent"), [(60, 1), (7200, 2)])
async def test_a_yes_that_has_expired_sends_nothing_again(expires_s: float, sent: int) -> None:
    approval = {"reason": "money", "expires_s": expires_s, "self_review": True}
    fields: dict[str, Any] = {"transitions": [{"name": "any", "tools": ["write"], "approval": approval}]}
    async with house(**KEYED, **fields) as it:
        assert outcome(await it.call("write", TO)) == "needs_approval"
        await approve(it)
        await lost(it)
        await it.recovery.sweep()
        it.clock.tell(90)
        await it.recovery.sweep()
        assert len(it.upstreams.sent) == sent


async def test_a_key_and_a_query_first_ask_and_then_send() -> None:
    by_key = {
        "probe": {"tool": "read", "arguments_from": {"key": "key"}},
        "happened": ["result.structuredContent.key == key"],
    }
    fields = without(query=by_key)
    async with house(**fields) as it:
        await lost(it)
        it.upstreams.will("read", world.ok(structuredContent={"key": "run_1.9"}))
        await it.recovery.sweep()
        assert it.upstreams.sent[-1].arguments == {"key": "run_1.2"}
        it.clock.tell(90)
        it.upstreams.will("read", world.ok(structuredContent={"key": "run_1.2"}))
        assert await it.recovery.sweep() == 1
        assert [one.source for one in await events(it, ReceiptRecorded)] == ["probe"]
        assert [one.tool.name for one in it.upstreams.sent] == ["write", "read", "read"]


async def test_of_two_gateways_one_asks_and_one_sends() -> None:
    ledger, clock, upstreams = MemoryLedger(), world.ToldClock(), world.ScriptedUpstreams()
    upstreams.offer(world.tool("read", read=True), world.tool("write"))
    async with house(ledger, "a", upstreams, clock, **KEYED) as a, house(ledger, "b", upstreams, clock, **KEYED) as b:
        await lost(a)
        for it in (a, b):
            assert await it.recovery.sweep() == 0
        clock.tell(90)
        go = asyncio.Event()

        async def slow(_: Dispatch) -> Answer:
            await go.wait()
            return world.ok()

        upstreams.will("write", slow, slow)
        sweeps = [asyncio.ensure_future(it.recovery.sweep()) for it in (a, b)]
        await a.settle()
        clock.tell(16)
        assert len(upstreams.sent) == 2
        go.set()
        assert sorted(await asyncio.gather(*sweeps)) == [0, 1]
        assert len(upstreams.sent) == 2


async def test_a_living_lease_is_never_touched_whatever_the_clocks_say() -> None:
    ledger, upstreams = MemoryLedger(), world.ScriptedUpstreams()
    upstreams.offer(world.tool("read", read=True), world.tool("write"))
    slow_clock, fast_clock = world.ToldClock(), world.ToldClock(world.T0 + 10 * 86_400)

    async def never(_: Dispatch) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    upstreams.will("write", never)
    async with (
        house(ledger, "slow", upstreams, slow_clock) as slow,
        house(ledger, "fast", upstreams, fast_clock) as fast,
    ):
        keeping = asyncio.ensure_future(slow.engine.carrier.keep_leases())
        calling = asyncio.ensure_future(slow.call("write", TO))
        await slow.settle()
        for _ in range(30):
            assert await fast.recovery.sweep() == 0
            for clock in (slow_clock, fast_clock):
                clock.tell(5)
            await slow.settle()
        keeping.cancel()
        settled = []
        for _ in range(4):
            fast_clock.tell(5)
            settled.append(await fast.recovery.sweep())
        assert settled == [0, 0, 0, 1]
        calling.cancel()
        await asyncio.gather(keeping, calling, return_exceptions=True)


async def test_a_receipt_by_a_probe_is_verified_and_moves_the_phase() -> None:
    fields = ASKED | {
        "phases": {"open": {}, "done": {}},
        "verifiers": {"t": {"probe": {"tool": "check"}, "pass": ["result.structuredContent.exit == 0"]}},
        "transitions": [{"name": "any", "tools": ["*"], "verify": "t", "to": "done"}],
    }
    async with house(**fields) as it:
        await lost(it)
        it.upstreams.will("read", state("done"))
        it.upstreams.will("check", world.ok(structuredContent={"exit": 0}))
        assert await it.recovery.sweep() == 1
        await it.settle()
        assert (await it.book.state_of("run_1")).phase == "done"


def elsewhere(it: House) -> None:
    it.upstreams.tools["write"] = world.tool("write").__class__("write", "other", "write", {"name": "write"})


def gone(it: House) -> None:
    del it.upstreams.tools["write"]


@pytest.mark.parametrize("change", [elsewhere, gone])
async def test_a_gateway_that_does_not_serve_the_server_leaves_it_to_others(change: Callable[[House], None]) -> None:
    async with house(**KEYED) as it:
        await lost(it)
        change(it)
        for _ in range(3):
            it.clock.tell(700)
            assert await it.recovery.sweep() == 0
        assert len(it.upstreams.sent) == 1
        (seen,) = await it.ledger.tracked()
        assert (seen.state, seen.lease_until) == ("unknown", 0.0)


async def test_what_waits_for_a_person_is_counted_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async with house() as it:
        assert it.recovery.state() == {"attempts": 0, "for_people": 0}
        await lost(it)
        for _ in range(3):
            await it.recovery.sweep()
            it.clock.tell(3600)
        assert it.recovery.state() == {"attempts": 1, "for_people": 1}
        (said,) = [one.message for one in caplog.records if "for a person" in one.message]
        assert said.startswith("attempts whose outcome is unknown and that this gateway cannot ask about: 1;")
        assert outcome(await it.call("write", {"to": "bob"})) == "result"
        await it.recovery.sweep()
        assert it.recovery.state()["for_people"] == 1
