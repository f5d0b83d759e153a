"""Every verdict can be judged again from the ledger alone, to the byte."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.kernel.approve import resolve
from gateway.kernel.explain import conclusion, lines, reading
from gateway.kernel.rules import Rules
from gateway.model.canonical import Digest, canonical, digest, parse
from gateway.model.events import Event
from gateway.model.principal import Parent, Principal
from gateway.model.proposal import Key, KeySource, Resume
from gateway.model.record import decode, encode, utc
from gateway.model.review import Refused
from gateway.model.run import Approval, Run
from gateway.model.tool import InputRequired, NotSent, ProtocolError, Silence, ToolResult
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.ports import Append, NoSuchRun
from gateway.runtime.explain import again, differences, kept, same, verdict_of
from gateway.runtime.foretell import Asked, standing
from tests import world
from tests.people import answer
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
    st.tuples(st.just("policy"), st.booleans()),
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
            ill = it.upstreams.tools["read"]
            it.upstreams.offer(replace(ill, healthy=not broken, trouble="it is ill" if broken else None))
        case ("policy", strict):
            was = it.book.policies.current().policy
            text = {"migrate": True, "mode": "enforce" if strict else "observe", "description": was.description + "."}
            it.book.policies.replace({was.workflow: was.model_copy(update=text)})
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

        with suppress(Refused):
            await it.book.say("run_1", answered)


async def settled(it: House, *, yes: bool) -> None:
    """A person says of all that is unsettled whether it happened."""
    for name in (await it.book.state_of("run_1")).unsettled:

        def told(run: Run, _: Rules, now: datetime, one: str = name) -> Sequence[Event]:
            return resolve(run, one, what="happened" if yes else "did_not_happen", by=ME, reason="looked", now=now)

        with suppress(Refused):
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
            told = lines(verdict, found.taken)
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


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(["enforce", "observe"]), st.lists(calls | others, min_size=5, max_size=40))
def test_every_verdict_of_any_run_is_judged_again_to_the_byte(mode: str, steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(lived(mode, steps))


def test_every_kind_of_verdict_is_judged_again_to_the_byte() -> None:
    payer = PEOPLE[1]
    steps: list[tuple[Any, ...]] = [
        ("call", "gone", 1, None, "run_1", world.USER, True),
        ("call", "write", 1, None, "run_1", world.USER, False),
        ("call", "write", 1, None, "run_1", world.USER, True),
        ("call", "pay", 2, None, "run_1", payer, True),
        ("call", "pay", 2, None, "run_1", payer, True),
        ("answer", "read", ANSWERS[-1]),
        ("call", "read", 1, None, "run_1", world.USER, True),
        ("resume", True),
    ]
    assert asyncio.run(lived("enforce", steps)) == [
        "proposal.denied",
        "intent.recorded",
        "proposal.replayed",
        "approval.requested",
        "proposal.held",
        "intent.recorded",
        "attempt.resumed",
    ]


# --- a call that nobody has made yet --------------------------------------------------------------------------------


async def foretold(steps: list[tuple[Any, ...]], name: str, n: int | None) -> None:
    """What is said of a call before it is made is what is decided when it is made."""
    async with house(**POLICY) as it:
        await it.open("run_2")
        for step in steps:
            with suppress(NoSuchRun):
                await played(it, step)
        asked, now = Asked(name, {} if n is None else {"n": n}, world.USER), utc(it.clock.now())
        before = await it.book.state_of("run_1")
        told = await standing(it.ledger, "run_1", asked, now)
        again_told = await standing(it.ledger, "run_1", asked, now)
        assert told.verdict == again_told.verdict
        assert len(await it.ledger.read("run_1")) == before.version
        await it.call(name, {} if n is None else {"n": n})
        record, _ = (await it.ledger.read("run_1", before.version))[0]
        verdict = verdict_of(record)
        assert verdict is not None
        parts = {one.part for one in differences(told.verdict, verdict)}
        # Nobody has asked the precondition yet; and a tool that was never called has no definition in the ledger.
        allowed = {"checks.preconditions"}
        if "definition" in parts:
            allowed |= {"checks.tool", "definition", "action", "approval", "upstream", "hold"}
        assert parts <= allowed


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(calls | others.filter(lambda one: one[0] not in {"break", "answer", "policy"}), max_size=30),
    st.sampled_from(["read", "write", "pay"]),
    st.integers(0, 3) | st.just(7),
)
def test_a_call_is_foretold_as_it_is_then_decided(steps: list[tuple[Any, ...]], name: str, n: int | None) -> None:
    asyncio.run(foretold(steps, name, n))


# --- what earlier versions recorded ---------------------------------------------------------------------------------

TRACED: dict[str, dict[str, Any]] = {
    "v1-every-kind": {
        "phases": {"change": {}, "done": {}},
        "transitions": [
            {"name": "r", "tools": ["read"]},
            {"name": "w", "tools": ["write"], "from": ["change"], "verify": "t", "to": "done"},
            {"name": "p", "tools": ["pay"], "approval": {"reason": "money", "self_review": True}},
        ],
        "verifiers": {"t": {"probe": {"tool": "check"}, "pass": ["result.structuredContent.exit == 0"]}},
        "success": {"evidence": ["t"], "phase": "done"},
    },
    "v1-rounds": {},
}
"""The policies under which the traces were made, as far as the verdicts tell."""


class Told(MemoryLedger):
    """A ledger whose payloads are taken at their word: nobody has the salt under which traces were made."""

    async def payload(self, digest: Digest) -> bytes | None:
        return self._payloads.get(digest)


async def traced(name: str) -> MemoryLedger:
    """The trace in a ledger, with payloads that could have been its own: the arguments say nothing."""
    ledger, path = Told(), Path(__file__).parent.parent / "traces" / f"{name}.jsonl"
    records = [decode(body) for body in path.read_bytes().splitlines()]
    payloads = {}
    for record in records:
        verdict = verdict_of(record)
        if verdict is not None:
            payloads[verdict.policy] = canonical(world.policy(**TRACED[name]).model_dump(mode="json", by_alias=True))
            payloads[verdict.arguments] = b"{}"
            if verdict.definition is not None:
                payloads[verdict.definition] = canonical({"name": verdict.tool, "inputSchema": {"type": "object"}})
    await ledger.append(Append(records[0].run, (0, ""), records, payloads))
    return ledger


@pytest.mark.parametrize("name", TRACED)
async def test_what_an_earlier_version_decided_is_decided_again(name: str) -> None:
    ledger = await traced(name)
    noted = set()
    for record, _ in await ledger.read("run_1"):
        if (verdict := verdict_of(record)) is not None:
            found = differences(verdict, again(await kept(ledger, "run_1", record.seq)).verdict)
            assert same(found), found
            noted |= {one.part for one in found}
    # What that version did not look at, or did not note.
    assert noted <= {"checks.preconditions", "checks.budget", "checks.approval"}
