"""A ledger that has every kind of event, made by the real engine; and what verifying it says."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gateway.kernel.approve import resolve
from gateway.model.alike import alike_digest
from gateway.model.canonical import digest
from gateway.model.events import Event, NoticeSent, Who
from gateway.model.finish import Finish
from gateway.model.note import Note, read_note
from gateway.model.party import Party
from gateway.model.plan import Note as Hypothesis
from gateway.model.plan import Plan
from gateway.model.principal import Parent
from gateway.model.proposal import Proposal, Resume
from gateway.model.run import Run
from gateway.model.tool import InputRequired, NotSent, Silence
from gateway.outbound.cited import CitedOnDisk
from gateway.outbound.seal_keys import SealKey, seal_key, signed_by
from gateway.ports import Ledger
from gateway.runtime.audit import Report, Wanted, verify
from gateway.runtime.sealing import Sealer, Sealing
from tests import world
from tests.people import answer
from tests.runtime.house import House, house

KEY = seal_key("11" * 32)
OTHER_KEY = seal_key("22" * 32)

KEYED: dict[str, Any] = {
    "effect": "write",
    "idempotency": {
        "kind": "key",
        "key": {"argument": "key"},
        "valid_s": 86_400,
        "query": {"probe": {"tool": "read"}, "happened": ["false"], "absent": ["result.content[0].text == 'none'"]},
    },
}
POLICY: dict[str, Any] = {
    "tools": {
        "read": {"effect": "read"},
        "write": {"effect": "write"},
        "pay": {"effect": "write", "cost": 2},
        "keyed": KEYED,
    },
    "phases": {"open": {}, "made": {}, "told": {}},
    "transitions": [
        {"name": "look", "tools": ["read"]},
        {"name": "write", "tools": ["write", "keyed"], "from": ["open"]},
        {"name": "pay", "tools": ["pay"], "from": ["open"], "approval": {}, "to": "made", "verify": "whole"},
        {"name": "tell", "tools": ["pay"], "from": ["made"], "preconditions": ["whole"], "to": "told"},
    ],
    "verifiers": {"whole": {"probe": {"tool": "check"}, "pass": ["has(result.content)"], "covers": ["write"]}},
    "accounts": {
        "daily": {"per": ["tenant"], "limit": {"calls": 100}},
        "ever": {"per": [], "window": "ever", "limit": {"cost": 50}},
    },
    "budgets": {"calls": 40, "reviews": 3, "mutations": 20},
    "success": {"evidence": ["whole"], "phase": "told"},
    "migrate": True,
}
MORE: dict[str, Any] = {"inputResponses": {"q": {"action": "accept"}}, "requestState": "inner"}
BOSS = Who(tenant="local", id="local:boss")


async def every_kind(ledger: Ledger) -> None:
    """Four runs with all that can happen in one; `run_1` ends in a proven success."""
    async with house(ledger, **POLICY) as it:
        asked = InputRequired({"resultType": "input_required", "inputRequests": {}})
        it.upstreams.offer(world.tool("keyed"))
        it.upstreams.will("write", world.ok("first"), NotSent("refused"), Silence("gone"), Silence("gone"), asked)
        it.upstreams.will("read", world.ok("read"), Silence("gone"))
        await it.call("read", {"q": "what is there?"})
        await it.call("write", {"n": 1}, deliver=False)
        await it.call("write", {"n": 1})  # replayed
        await it.call("write", {"n": 2})  # unsent
        await it.call("write", {"n": 3})  # unknown, and refuted below
        await it.call("write", {"n": 3})  # held
        await it.call("write", {"n": 4})  # unknown, and answered by a person below
        await it.call("read", {"q": 2})  # abandoned
        await it.call("gone", {"n": 5})  # denied
        shown = await it.call("write", {"n": 6})
        assert shown.attempt is not None
        assert shown.round is not None
        await it.engine.call(_next_round(it, shown.attempt, shown.round), world.PatientCaller())
        it.clock.tell(3600)
        await _settled(it)
        newer = world.policy(**{**POLICY, "description": "newer"})
        it.book.policies.replace({newer.workflow: newer})
        await it.call("pay", {"n": 7})  # a person is asked
        await _decided(it)
        await it.call("pay", {"n": 7})  # made, verified, and the run in another phase
        await it.engine.open_run(
            run="run_2", principal=world.USER, origin="token", attribution={}, parent=Parent("run_1", None)
        )
        await it.call("write", {"n": 8}, run="run_2", deliver=False)
        await it.open("run_3")
        it.upstreams.will("write", Silence("gone"))
        await it.call("write", {"n": 9}, run="run_3")  # stays unknown
        await it.open("run_4")
        it.upstreams.will("keyed", Silence("gone"))
        await it.call("keyed", {"n": 12}, run="run_4")  # asked after, and sent again
        for wait_s in (0, 90):
            it.clock.tell(wait_s)
            await it.recovery.sweep()
        await _said(it, "run_4")
        await it.call("pay", {"n": 10})  # the run succeeds
        await it.call("write", {"n": 11})  # and is over


async def _said(it: House, run: str) -> None:
    """A plan, a note, a result that contradicts the plan, and that it is all done, which it is not."""
    assumed = {"says": "it is alpha", "tool": "read", "field": "content.0.text", "equals": "alpha"}
    plan = Plan.model_validate({"objective": "read it", "assumptions": [assumed]})
    said = Hypothesis.model_validate({"says": "it is alpha", "sources": [f"{run}#1"], "confidence": 0.5})
    await it.engine.claims.plan(run, world.USER, plan, "gateway__plan")
    await it.engine.claims.note(run, world.USER, said, "gateway__note")
    it.upstreams.will("read", world.ok("beta"))
    await it.call("read", {"q": 3}, run=run)
    await it.engine.finishing.finish(run, world.USER, Finish(says="done"), Party("stdio:1"), "gateway__finish")


def _next_round(it: House, attempt: str, asked: Any) -> Proposal:
    arguments, salt = {"n": 6}, it.ledger.salt
    resumes = Resume(attempt, asked, digest(MORE, salt))
    cited, likened = digest(arguments, salt), alike_digest(arguments, salt)
    proposed = world.proposal("write", arguments)
    return replace(proposed, arguments_digest=cited, alike=likened, more=MORE, resumes=resumes)


async def _settled(it: House) -> None:
    for name, happened in zip(sorted((await it.book.state_of("run_1")).unsettled), (True, False), strict=True):

        def told(run: Run, _: object, now: datetime, one: str = name, yes: bool = happened) -> Sequence[Event]:  # noqa: FBT001
            return resolve(run, one, what="happened" if yes else "did_not_happen", by=BOSS, reason="looked", now=now)

        await it.book.say("run_1", told)


async def _decided(it: House) -> None:
    (approval,) = (await it.book.state_of("run_1")).approvals.values()

    def told(run: Run, _: object, now: datetime) -> Sequence[Event]:
        return (answer(run, approval.id, approval.action, approve=True, by=BOSS, reason="fine", now=now),)

    await it.book.say("run_1", told)
    notice = f"run_1#{approval.seq}:ops"
    sent = NoticeSent(about=approval.id, channel="ops", notice=notice, outcome="delivered")
    await it.book.say("run_1", lambda _run, _rules, _now: (sent,))


async def sealed(ledger: Ledger, key: SealKey | None = KEY) -> Note | None:
    """The ledger has a checkpoint over all that is in it."""
    made = await Sealer(ledger, world.ToldClock(), Sealing(key, signed_by)).seal()
    return None if made is None else read_note(made.note)


async def verified(ledger: Ledger, **wanted: Any) -> Report:
    """The report, with the key's signatures checked and every verdict judged again."""
    asked: dict[str, Any] = {"keys": [KEY.public], "signed": signed_by, "judge": True}
    return await verify(ledger, Wanted(CitedOnDisk, **{**asked, **wanted}))


def found(report: Report) -> list[tuple[str, str, str]]:
    """What is broken, and where."""
    return [(one.invariant, one.where, one.says) for one in report.breaches]
