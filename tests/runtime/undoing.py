"""A house whose payments can be undone, for tests: what it sends, what it records, what stands on its accounts."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from gateway.model.run import Undoing
from gateway.model.tool import ToolResult
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.runtime.recover import sweep
from tests import world
from tests.runtime.house import House, house

PAID = "result.structuredContent.paid == true"
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
    "verifiers": {"paid": {"probe": {"tool": "check", "arguments_from": {"amount": "args.amount"}}, "pass": [PAID]}},
}
"""A payment that must be found to have been made, or is refunded."""

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
    """A house under that policy, changed by `fields`."""
    given = {"upstreams": upstreams(), **POLICY, **fields}
    async with house(ledger if ledger is not None else MemoryLedger(), owner, **given) as it:
        yield it


def sent(it: House, *names: str) -> list[tuple[str, dict[str, Any]]]:
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
        count = await sweep(it.book, it.engine.carrier, it.engine.undoer)
        if count:
            return count
        it.clock.tell(it.book.options.lease_s + 1)
    return await sweep(it.book, it.engine.carrier, it.engine.undoer)
