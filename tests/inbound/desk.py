"""A relay before the real engine, over the shipped memory ledger, in which `write` needs a person; and that person."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio

from gateway.model.review import Answer, Reviewer
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.runtime.book import Book, Options
from gateway.runtime.desk import Desk as People
from gateway.runtime.engine import Engine
from gateway.runtime.policies import Policies
from tests import world
from tests.inbound.asked import Asked, until
from tests.inbound.fake_gate import FakeOffers, ToldClock

REVIEWER = Reviewer("local", "local:boss", via="local")
TASKS: Mapping[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
FORM: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}}
TOLD = {"progressToken": "p1"}
"""`_meta` of a client that is told of progress."""


def people(book: Book) -> People:
    """The people's side of that ledger."""
    return People(book)


@dataclass
class Desk:
    """Agents on one side, a person on the other."""

    ledger: Any
    upstreams: world.ScriptedUpstreams
    clock: world.ToldClock
    engine: Engine
    book: Book
    it: Asked
    delivered: list[Any] = field(default_factory=list)

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The arguments of all calls that were made."""
        return [dict(dispatch.arguments) for dispatch in self.upstreams.sent]

    @property
    def holding(self) -> int:
        return self.it.relay.holding

    async def call(self, text: str = "a", **more: Any) -> Any:
        """The answer of a modern client's call."""
        answer = await self.it.modern("tools/call", self.asks(text), **more)
        return answer["result"]

    def asks(self, text: str = "a") -> dict[str, Any]:
        return {"name": "write", "arguments": {"text": text}}

    async def told(self, approval: str, **arguments: Any) -> Any:
        """What `gateway__approval` says."""
        params = {"name": "gateway__approval", "arguments": {"approval": approval, **arguments}}
        return (await self.it.modern("tools/call", params))["result"]["structuredContent"]

    async def asked(self, count: int = 1) -> list[str]:
        """The questions that were asked, oldest first, once there are so many."""
        records: list[Any] = []
        with_bound = 500
        for _ in range(with_bound):
            records = list(await self.ledger.find(["approval.requested"], limit=2_000))
            if len(records) >= count:
                break
            await until(lambda: True)
        return [record.event.approval for record in reversed(records)]

    async def decide(self, approval: str, *, approve: bool = True, by: Reviewer = REVIEWER, reason: str = "") -> None:
        """A person answers, in this process."""
        await self._say(approval, "approved" if approve else "rejected", by, reason)

    async def give_back(self, approval: str, reason: str) -> None:
        """A person wants more evidence."""
        await self._say(approval, "returned", REVIEWER, reason)

    async def _say(
        self, approval: str, decision: Literal["approved", "rejected", "returned"], by: Reviewer, reason: str
    ) -> None:
        records = await self.ledger.find(["approval.requested"], limit=2_000)
        action = next(one.event.action for one in records if one.event.approval == approval)
        await people(self.book).decide(Answer(approval, action, decision, reason), by)

    async def held(self, count: int = 1, within_s: float = 10) -> None:
        """So many calls are kept waiting now."""
        with anyio.fail_after(within_s):
            while self.holding != count:
                await asyncio.sleep(0.001)


@asynccontextmanager
async def desk(
    ledger: Any = None,
    approval: Mapping[str, Any] | None = None,
    *,
    owner: str = "me",
    upstreams: world.ScriptedUpstreams | None = None,
    clock: world.ToldClock | None = None,
    rules: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Desk]:
    """A gateway in which a person must agree to each `write`, as `approval` says."""
    ledger, clock = ledger if ledger is not None else MemoryLedger(), clock or world.ToldClock()
    if upstreams is None:
        upstreams = world.ScriptedUpstreams()
        upstreams.offer(world.tool("read", read=True), world.tool("write"))
    rule = {"reason": "a person looks at each write", **(approval or {})}
    transitions = [
        {"name": "reads", "tools": ["*"], "effect": ["read"]},
        {"name": "writes", "tools": ["*"], "approval": rule},
    ]
    made = world.policy(transitions=transitions, **(rules or {}))
    policies = Policies(ledger, {made.workflow: made}, made.workflow)
    book = Book(ledger, policies, clock, Options(owner=owner, drain_s=0.1, **options))
    engine = Engine(book, upstreams)
    gate: Any = engine
    asked = Asked(gate=gate, offers=FakeOffers(), clock=ToldClock(clock.now()))
    try:
        yield Desk(ledger, upstreams, clock, engine, book, asked)
    finally:
        asked.relay.close()
        await engine.carrier.close()
