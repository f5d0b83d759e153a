"""Whatever calls, servers, people and time do: sums hold, nothing is undone twice, every verdict can be judged again.

`undoing` looks at all of that when its house is left.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import anyio
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from gateway.kernel.approve import resolve
from gateway.kernel.rules import Rules
from gateway.model.events import Event
from gateway.model.review import Refused
from gateway.model.run import Run, RunState
from gateway.model.tool import InputRequired, NotSent, Silence
from gateway.outbound.ledger.memory import MemoryLedger
from tests import world
from tests.kernel.made import EXAMPLES
from tests.people import answer as decided
from tests.runtime.house import ME, House
from tests.runtime.undoing import REFUND, WAS_PAID, answer, swept, undoing, upstreams

WORLD: dict[str, Any] = {
    "tools": {
        "read": {"effect": "read"},
        "check": {"effect": "read"},
        "write": {"effect": "write", "compensation": {"tool": "refund", "arguments_from": {"payment": "args.n"}}},
        "pay": {"effect": "write", "cost": 1.0, "repeat": "replay", "result_tokens": 50},
        "refund": {"effect": "write", "cost": 0.5, "result_tokens": 20},
    },
    "phases": {"open": {}, "doubt": {}, "over": {"ends": "human_escalation"}},
    "transitions": [
        {"name": "branch", "tools": ["write"], "from": ["open"]},
        {"name": "pay", "tools": ["pay"], "when": ["args.n < 3"], "verify": "paid", "compensation": REFUND}
        | {"on": {"verification_failed": "doubt"}},
        {"name": "end", "tools": ["pay"], "when": ["args.n == 3"], "verify": "paid", "compensation": REFUND}
        | {"on": {"verification_failed": "over"}},
        {
            "name": "merge",
            "tools": ["pay"],
            "verify": "paid",
            "merges": ["branch"],
            "approval": {"when": ["args.n > 4"]},
        },
        {"name": "refund", "tools": ["refund"], "approval": {"when": ["run.calls > 6"]}, "charge": {"calls": 2}},
        {"name": "look", "tools": ["read", "check"]},
    ],
    "forbid": [{"name": "never", "tools": ["read"], "when": ["args.n == 5"], "final": True}],
    "verifiers": {"paid": {"probe": {"tool": "check"}, "pass": [WAS_PAID]}},
    "budgets": {"calls": 30, "cost": 8, "reviews": 4},
    "accounts": {
        "all": {"per": ["tenant"], "window": "hour", "limit": {"calls": 20, "tokens": 400}},
        "refunds": {"per": ["args.payment"], "window": "ever", "tools": ["refund"], "limit": {"calls": 3}},
    },
    "stops": {"repeated_state": {"after": 6}},
}
ASKS = InputRequired({"resultType": "input_required", "inputRequests": {}, "requestState": "s"})
ANSWERS: dict[str, list[Any]] = {
    "check": [answer(paid=True), answer(paid=False), answer(paid=False), Silence("slow"), world.ok(isError=True)],
    "pay": [answer(id="p_1"), answer(id="p_2"), answer(), NotSent("down"), Silence("slow"), world.ok(isError=True)],
    "write": [answer(), NotSent("down"), Silence("slow"), world.ok(isError=True)],
    "refund": [answer(), NotSent("down"), Silence("slow"), world.ok(isError=True), ASKS],
}
calls = st.tuples(
    st.just("call"), st.sampled_from(["write", "pay", "pay", "refund", "read"]), st.integers(0, 5), st.booleans()
)
steps = st.one_of(
    calls,
    calls,
    st.sampled_from([("answer", name, one) for name, those in ANSWERS.items() for one in those]),
    st.sampled_from([("decide", True), ("decide", False), ("settle", True), ("settle", False)]),
    st.sampled_from([("time", 1.0), ("time", 700.0), ("time", 4_000.0), ("sweep",), ("late",), ("ill", True)]),
    st.sampled_from([("ill", False), ("policy",)]),
)


async def played(it: House, other: House, step: tuple[Any, ...]) -> None:
    match step:
        case ("call", name, n, deliver):
            more = {"payment": n} if name == "refund" else {"amount": n}
            await it.call(name, {"n": n, **more}, deliver=deliver)
        case ("answer", name, given_answer):
            it.upstreams.will(name, given_answer)
        case ("time", seconds):
            it.clock.tell(seconds)
            other.clock.tell(seconds)
        case ("decide" | "settle", yes):
            await says(it, yes=yes)
            await settles(it, yes=yes)
        case ("sweep",):
            await asyncio.gather(swept(it), swept(other))
        case ("late",):
            for late in [one.late for one in it.upstreams.sent if one.late is not None][-3:]:
                late(answer(id="late"))
        case ("ill", ill):
            tool = it.upstreams.tools["refund"]
            it.upstreams.offer(replace(tool, healthy=not ill, trouble="it is ill" if ill else None))
        case ("policy",):
            was = it.book.policies.current().policy
            it.book.policies.replace({was.workflow: was.model_copy(update={"migrate": True, "description": "new"})})
        case _:
            raise AssertionError(step)
    await it.settle()


async def says(it: House, *, yes: bool) -> None:
    """A person answers all that is asked."""
    for approval in (await it.book.fresh_state_of("run_1")).approvals.values():

        def answered(run: Run, _: Rules, now: datetime, asked: Any = approval) -> Sequence[Event]:
            return [decided(run, asked.id, asked.action, approve=yes, by=ME, reason="", now=now)]

        with suppress(Refused):
            await it.book.say("run_1", answered)


async def settles(it: House, *, yes: bool) -> None:
    """A person says of all that is unknown whether it happened."""
    for name in (await it.book.fresh_state_of("run_1")).unsettled:

        def told(run: Run, _: Rules, now: datetime, one: str = name) -> Sequence[Event]:
            return resolve(run, one, what="happened" if yes else "did_not_happen", by=ME, reason="looked", now=now)

        with suppress(Refused):
            await it.book.say("run_1", told)


async def lived(mode: str, script: Sequence[tuple[Any, ...]]) -> None:
    ledger, made = MemoryLedger(), upstreams()
    fields: dict[str, Any] = {**WORLD, "upstreams": made, "mode": mode}
    async with undoing(ledger, "one", **fields) as it, undoing(ledger, "two", **fields) as other:
        for step in script:
            with anyio.fail_after(10):
                await played(it, other, step)
        await peace(it, other)


async def peace(it: House, other: House) -> None:
    """Once servers are well, people answer and time goes on, nothing is left to be undone."""
    it.upstreams.answers.clear()
    tool = it.upstreams.tools["refund"]
    it.upstreams.offer(replace(tool, healthy=True, trouble=None))
    for _ in range(12):
        for house in (it, other):
            house.clock.tell(4_000)
        await says(it, yes=True)
        await settles(it, yes=True)
        await swept(it)
        await swept(other)
        await it.settle()
    run = await it.book.fresh_state_of("run_1")
    assert not run.owed
    assert run.state is not RunState.STOPPED or not run.set_aside
    for one in run.undo.values():
        event(f"in the end it is {one.state}")


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(["enforce", "enforce", "observe"]), st.lists(steps, min_size=4, max_size=40))
def test_what_is_owed_is_undone_once_in_any_run(mode: str, script: list[tuple[Any, ...]]) -> None:
    asyncio.run(lived(mode, script))
