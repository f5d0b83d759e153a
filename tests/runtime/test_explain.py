"""Every verdict can be judged again from the ledger alone, to the byte."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.kernel.approve import NotAwaiting, answer, resolve
from gateway.kernel.explain import conclusion, lines, reading
from gateway.kernel.rules import Rules
from gateway.model.canonical import digest, parse
from gateway.model.events import Event
from gateway.model.principal import Parent, Principal
from gateway.model.proposal import Key, KeySource, Resume
from gateway.model.record import encode
from gateway.model.run import Approval, Run
from gateway.model.tool import InputRequired, NotSent, ProtocolError, Silence, ToolResult
from gateway.ports import NoSuchRun
from gateway.runtime.explain import again, differences, kept, verdict_of
from tests import world
from tests.runtime.house import ME, House, house

WHOLE = "!has(result.structuredContent) || result.structuredContent.ok == true"
POLICY: dict[str, Any] = {
    "tools": {
        "read": {"effect": "read", "data_class": "internal"},
        "write": {"effect": "write", "rate": {"calls": 3, "per": "minute"}},
        "pay": {"effect": "write", "cost": 2.5, "repeat": "replay"},
        "check": {"effect": "read"},
    },
    "grants": [{"authority": ["pay"], "roles": ["payer"], "scopes": ["money"]}],
    "phases": {"begun": {}, "made": {}},
    "transitions": [
        {"name": "look", "tools": ["read"], "when": ['args.n != 3 || "x" in principal.scopes']},
        {"name": "few", "tools": ["write"], "from": ["begun"], "when": ["accounts.daily.calls < 1"], "to": "made"},
        {"name": "sure", "tools": ["write"], "preconditions": ["whole"], "max_attempts": 3, "verify": "whole"},
        {"name": "pay", "tools": ["pay"], "authority": ["pay"], "approval": {"when": ["args.n > 1"]}},
    ],
    "forbid": [
        {"name": "never", "tools": ["*"], "when": ["args.n == 7"], "mode": "observe"},
        {"name": "late", "tools": ["write"], "when": ["run.elapsed_s > 3000.0"], "final": True, "mode": "enforce"},
    ],
    "verifiers": {"whole": {"probe": {"tool": "check"}, "pass": [WHOLE], "covers": ["pay"]}},
    "accounts": {
        "daily": {"per": ["tenant", "args.n"], "limit": {"calls": 2}, "tools": ["write", "pay"]},
        "spent": {"per": [], "window": "ever", "limit": {"cost": 6}},
    },
    "budgets": {"calls": 12, "reviews": 3, "elapsed_s": 4000},
    "stops": {"repeated_state": {"after": 5}},
}
ANSWERS = [
    world.ok(),
    world.ok(structuredContent={"ok": True}),
    world.ok(structuredContent={"ok": False}),
    ToolResult({"content": [], "isError": True}),
    ProtocolError({"code": -32000, "message": "no"}),
    NotSent("refused"),
    Silence("gone"),
    InputRequired({"resultType": "input_required", "inputRequests": {}, "requestState": "s"}),
]
PEOPLE = [
    world.USER,
    Principal("local:user", roles=frozenset({"payer"}), scopes=frozenset({"money", "x"})),
    Principal("other"),
]

calls = st.tuples(
    st.just("call"),
    st.sampled_from(["read", "write", "pay", "check", "gone"]),
    st.integers(0, 3) | st.sampled_from([7, None]),
    st.sampled_from([None, Key(KeySource.CALLER, "k"), Key(KeySource.CALL_ID, "i")]),
    st.sampled_from(["run_1", "run_1", "run_2", "run_3"]),
    st.sampled_from(PEOPLE),
    st.booleans(),
)
others = st.one_of(
    st.tuples(st.just("answer"), st.sampled_from(["read", "write", "pay", "check"]), st.sampled_from(ANSWERS)),
    st.tuples(st.just("time"), st.sampled_from([0.5, 40.0, 1500.0])),
    st.tuples(st.just("decide"), st.booleans()),
    st.tuples(st.just("settle"), st.booleans()),
    st.tuples(st.just("break"), st.booleans()),
    st.tuples(st.just("resume"), st.booleans()),
)


async def played(it: House, step: tuple[Any, ...]) -> None:
    match step:
        case ("call", name, n, key, run, who, deliver):
            proposed = world.proposal(name, {} if n is None else {"n": n}, run=run, key=key, principal=who)
            proposed = replace(proposed, arguments_digest=digest(dict(proposed.arguments), it.ledger.salt))
            with anyio.fail_after(5):
                shown = await it.engine.call(proposed, world.PatientCaller())
            if deliver:
                it.engine.delivered(shown)
                await it.settle()
        case ("answer", name, given_answer):
            it.upstreams.will(name, given_answer)
        case ("time", seconds):
            it.clock.tell(seconds)
        case ("break", broken):
            was = it.upstreams.tools["read"]
            it.upstreams.offer(replace(was, healthy=not broken, trouble="it is ill" if broken else None))
        case ("decide", yes):
            await decided(it, yes=yes)
        case ("settle", yes):
            await settled(it, yes=yes)
        case ("resume", yes):
            await resumed(it, same=yes)
        case _:
            raise AssertionError(step)


async def decided(it: House, *, yes: bool) -> None:
    """A person answers all that is asked."""
    for approval in (await it.book.state_of("run_1")).approvals.values():

        def answered(run: Run, _: Rules, now: datetime, one: Approval = approval) -> list[Event]:
            return [answer(run, one.id, one.action, approve=yes, by=ME, reason="", now=now)]

        with suppress(NotAwaiting):
            await it.book.say("run_1", answered)


async def settled(it: House, *, yes: bool) -> None:
    """A person says of all that is unsettled whether it happened."""
    for name in (await it.book.state_of("run_1")).unsettled:

        def told(run: Run, _: Rules, now: datetime, one: str = name) -> list[Event]:
            return [resolve(run, one, happened=yes, by=ME, reason="", now=now)]

        with suppress(NotAwaiting):
            await it.book.say("run_1", told)


async def resumed(it: House, *, same: bool) -> None:
    """The client brings what it was asked for, about the same call or about another one."""
    for attempt in (await it.book.state_of("run_1")).attempts.values():
        if attempt.asked is None:
            continue
        body = await it.ledger.payload(attempt.intent.arguments)
        arguments = parse(body) if same else {"other": 1}
        more = {"inputResponses": {"yes": same}}
        proposed = replace(
            world.proposal(attempt.intent.tool, arguments, run="run_1"),
            arguments_digest=digest(arguments, it.ledger.salt),
            more=more,
            resumes=Resume(attempt.id, attempt.asked, digest(more, it.ledger.salt)),
        )
        await it.engine.call(proposed, world.PatientCaller())


async def judged_again(it: House) -> list[str]:
    """The kinds of all verdicts of the ledger, each judged again to the byte."""
    kinds: list[str] = []
    for run in ("run_1", "run_2", "run_3"):
        for record, body in await it.ledger.read(run):
            verdict = verdict_of(record)
            if verdict is None:
                continue
            was = await kept(it.ledger, run, record.seq)
            found = again(was)
            assert differences(verdict, found.verdict) == ()
            assert encode(record.model_copy(update={"event": found.verdict})) == body
            assert found.assumed == ()
            told = lines(verdict, found.taken, resumed=verdict.checks[0].check == "round")
            assert [one.check for one in told if one.finding] == [one.check for one in verdict.checks]
            assert conclusion(verdict)
            assert isinstance(reading(verdict, found.taken), tuple)
            kinds.append(verdict.kind)
    return kinds


async def lived(mode: str, steps: list[tuple[Any, ...]]) -> list[str]:
    async with house(mode=mode, **POLICY) as it:
        await it.open("run_2")
        await it.engine.open_run(
            run="run_3",
            principal=world.USER,
            origin="token",
            attribution={},
            parent=Parent("run_1", frozenset({"nothing"})),
        )
        for step in steps:
            try:
                await played(it, step)
            except NoSuchRun:
                continue
        return await judged_again(it)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(["enforce", "observe"]), st.lists(calls | others, min_size=5, max_size=40))
def test_every_verdict_of_any_run_is_judged_again_to_the_byte(mode: str, steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(lived(mode, steps))
