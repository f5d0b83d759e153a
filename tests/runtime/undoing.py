"""A house whose payments can be undone, for tests: what it sends, what it records, what stands on its accounts."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeAlias

import anyio

from gateway.kernel.approve import resolve
from gateway.kernel.explain import conclusion
from gateway.kernel.reduce import fold
from gateway.kernel.rules import Rules
from gateway.model.answer import Refusal
from gateway.model.events import ApprovalRequested, Event, ReceiptRecorded, Reservation
from gateway.model.record import encode, link, utc
from gateway.model.run import AttemptState, Run, Undoing
from gateway.model.tool import ToolResult
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.runtime.explain import again, differences, kept, verdict_of
from tests import world
from tests.audit.ledgers import found, verified
from tests.people import answer as decided
from tests.runtime.house import ME, House, house

Sent: TypeAlias = tuple[str, dict[str, Any]]

WAS_PAID = "result.structuredContent.paid == true"
REFUND = {"tool": "refund", "arguments_from": {"payment": "result.structuredContent.id", "amount": "args.amount"}}
PAY = {"name": "pay", "tools": ["pay"], "from": ["open"], "verify": "paid", "compensation": REFUND}
POLICY: dict[str, Any] = {
    "tools": {
        "read": {"effect": "read"},
        "write": {"effect": "write"},
        "check": {"effect": "read"},
        "pay": {"effect": "write", "cost": 1.0},
        "refund": {"effect": "write", "cost": 0.5, "repeat": "replay"},
    },
    "phases": {"open": {}, "doubt": {}},
    "transitions": [
        PAY,
        {"name": "refund", "tools": ["refund"]},
        {"name": "look", "tools": ["read", "check"]},
        {"name": "write", "tools": ["write"]},
    ],
    "verifiers": {
        "paid": {"probe": {"tool": "check", "arguments_from": {"amount": "args.amount"}}, "pass": [WAS_PAID]}
    },
}
"""A payment that must be found to have been made, or is refunded."""

PAID: Sent = ("pay", {"amount": 5})
REFUNDED: Sent = ("refund", {"payment": "p_1", "amount": 5})
"""A payment, and what undoes it."""

NAMES = ("pay", "refund", "write", "check", "read")


def upstreams() -> world.ScriptedUpstreams:
    """The tools of the policy; every payment has an id, and by the check none was made."""
    made = world.ScriptedUpstreams()
    made.offer(*(world.tool(name, read=name in {"read", "check"}) for name in NAMES))
    made.always = {"pay": answer(id="p_1"), "check": answer(paid=False), "refund": answer(refunded=True)}
    return made


def answer(**content: Any) -> ToolResult:
    """A result with this as its structured content."""
    return world.ok(structuredContent=content)


def transitions(*others: Mapping[str, Any], **pay: Any) -> list[dict[str, Any]]:
    """Those of the policy, the payment's changed, with others of the same names in their places."""
    told = {one["name"]: one for one in others}
    mine = [PAY | pay, *POLICY["transitions"][1:]]
    kept = [dict(told.pop(one["name"], one)) for one in mine]
    return [*(dict(one) for one in told.values()), *kept]


@asynccontextmanager
async def undoing(ledger: Any = None, owner: str = "me", **fields: Any) -> AsyncIterator[House]:
    """A house under that policy, changed by `fields`, whose ledger is sound at the end."""
    given = {"upstreams": upstreams(), **POLICY, **fields}
    async with house(ledger if ledger is not None else MemoryLedger(), owner, **given) as it:
        yield it
        await it.settle()
        with anyio.move_on_after(5):
            await asyncio.gather(*it.engine.carrier._tasks)  # what a file takes a thread for
        await sound(it)
        assert found(await verified(it.ledger, keys=[])) == []


def sent(it: House, *names: str) -> list[Sent]:
    """What was sent of these tools, all but reads where none is named: the effects, in order."""
    wanted = names or ("pay", "refund", "write")
    return [(one.tool.name, dict(one.arguments)) for one in it.upstreams.sent if one.tool.name in wanted]


async def standing(it: House, attempt: str, run: str = "run_1") -> Undoing:
    """How it stands with what undoes that attempt."""
    return (await it.book.fresh_state_of(run)).undo[attempt]


async def kinds(it: House, run: str = "run_1") -> list[str]:
    """The kinds of the run's records, in order."""
    return [record.event.kind for record, _ in await it.ledger.read(run)]


async def swept(it: House) -> int:
    """A sweep, after every lease has run out."""
    for _ in range(2):  # a lease is over once it was seen to stand still for its whole time
        count = await it.recovery.sweep()
        if count:
            return count
        it.clock.tell(it.book.options.lease_s + 1)
    return await it.recovery.sweep()


# --- what people do -------------------------------------------------------------------------------------------------

ASKS: dict[str, Any] = {
    "transitions": transitions({"name": "refund", "tools": ["refund"], "approval": {"reason": "money back"}})
}


async def told(it: House, attempt: str = "run_1.2") -> Refusal:
    """What the client is told who asks for the outcome of that attempt."""
    shown = await it.engine.outcome(attempt, world.USER, world.PatientCaller())
    assert shown.refusal is not None
    return shown.refusal


async def says(it: House, *, approve: bool) -> None:
    """A person answers what the run has asked last."""

    def answered(run: Run, _: Rules, now: datetime) -> Sequence[Event]:
        one = max(run.approvals.values(), key=lambda asked: asked.seq)
        return [decided(run, one.id, one.action, approve=approve, by=ME, reason="so", now=now)]

    await it.book.say("run_1", answered)


async def finds(it: House, attempt: str, *, happened: bool) -> None:
    """A person settles an attempt whose outcome is unknown."""
    it.clock.tell(3_600)

    def settled(run: Run, _: Rules, now: datetime) -> Sequence[Event]:
        return resolve(run, attempt, what="happened" if happened else "did_not_happen", by=ME, reason="looked", now=now)

    await it.book.say("run_1", settled)


# --- what must hold of any ledger -----------------------------------------------------------------------------------


async def sound(it: House) -> None:
    """Fails unless every verdict is judged again to the byte, every sum is what its parts are, and no effect was
    undone twice.
    """
    taken: Counter[tuple[str, str]] = Counter()
    for run_id in dict.fromkeys([record.run for record in await it.ledger.find(["run.opened"])]):
        records = [(record, link(body)) for record, body in await it.ledger.read(run_id)]
        run = fold(records, Run(run_id))
        assert run == await it.book.fresh_state_of(run_id)
        await _judged_again(it, run_id)
        events = [record.event for record, _ in records]
        measured = {one.attempt: -(-one.size_bytes // 4) for one in events if isinstance(one, ReceiptRecorded)}
        spends = _spent(run, measured)
        assert vars(run.spent) == {unit: spends[unit] for unit in vars(run.spent)}
        now = utc(it.clock.now())
        for one, amount in _posted(run, measured, events):
            if one.until is None or now < one.until:  # what is past may be forgotten
                taken[one.account, one.unit] += amount
        undone = [one.intent.compensates for one in run.attempts.values() if one.intent.compensates is not None]
        made = [one for one in run.attempts.values() if one.intent.compensates and one.state not in _NOT_MADE]
        assert len({one.intent.compensates for one in made}) == len(made), f"undone twice: {undone}"
        assert set(run.owed) == {name for name, one in run.undo.items() if one.state in {"owed", "running"}}
        assert set(run.set_aside) == {name for name, one in run.undo.items() if one.state in {"owed", "set_aside"}}
        assert run.stopped is None or not (run.owed or run.set_aside)
    accounts = {account for account, _ in taken}
    stands = {one: level for one, level in (await it.ledger.levels(sorted(accounts))).items() if level}
    assert stands == {one: level for one, level in taken.items() if level}


_NOT_MADE = {AttemptState.UNSENT, AttemptState.REFUTED}


async def _judged_again(it: House, run_id: str) -> None:
    for record, body in await it.ledger.read(run_id):
        verdict = verdict_of(record)
        if verdict is not None:
            found = again(await kept(it.ledger, run_id, record.seq))
            assert differences(verdict, found.verdict) == ()
            assert encode(record.model_copy(update={"event": found.verdict})) == body
            assert conclusion(verdict)


def _spent(run: Run, measured: Mapping[str, int]) -> Counter[str]:
    """What calls that stand have taken, what people were asked, and what is set aside."""
    taken: Counter[str] = Counter(reviews=len(run.approvals))
    for attempt in run.attempts.values():
        if attempt.state not in _NOT_MADE:
            charge = vars(attempt.intent.charge)
            taken.update(charge | {"tokens": measured.get(attempt.id, charge["tokens"])})
    for undo in run.set_aside.values():
        taken.update(vars(undo.charge))
    return taken


def _posted(run: Run, measured: Mapping[str, int], events: Sequence[Event]) -> Iterator[tuple[Reservation, int]]:
    """The same of accounts, one by one."""
    for attempt in run.attempts.values():
        for one in attempt.intent.accounts if attempt.state not in _NOT_MADE else ():
            yield one, measured.get(attempt.id, one.amount) if one.unit == "tokens" else one.amount
    held = [one for undo in run.set_aside.values() for one in undo.accounts]
    asked = [one for event in events if isinstance(event, ApprovalRequested) for one in event.accounts]
    yield from ((one, one.amount) for one in (*held, *asked))
