"""A gateway without its doors: the real engine over the shipped memory ledger, scripted upstreams, a told clock."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import anyio

from gateway.model.alike import alike_digest
from gateway.model.answer import Shown
from gateway.model.canonical import digest
from gateway.model.events import Who
from gateway.model.proposal import Key
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.runtime.book import Book, Options
from gateway.runtime.engine import Engine
from gateway.runtime.policies import Policies
from gateway.runtime.recover import Recovery
from tests import world
from tests.people import answer

ME = Who(tenant="local", id="local:boss")


def refused(shown: Shown) -> tuple[str, str | None] | None:
    """How the call was refused, and by which rule."""
    return None if shown.refusal is None else (str(shown.refusal.outcome), shown.refusal.policy.rule)


@dataclass
class House:
    """A gateway without its doors."""

    ledger: Any
    upstreams: world.ScriptedUpstreams
    clock: world.ToldClock
    book: Book
    engine: Engine
    recovery: Recovery

    async def open(self, run: str = "run_1", origin: str = "process") -> None:
        await self.engine.open_run(run=run, principal=world.USER, origin=origin, attribution={})

    async def call(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        run: str = "run_1",
        key: Key | None = None,
        deliver: bool = True,
        caller: world.PatientCaller | None = None,
    ) -> Shown:
        proposed = world.proposal(name, arguments, run=run, key=key)
        given, salt = dict(proposed.arguments), self.ledger.salt
        proposed = replace(proposed, arguments_digest=digest(given, salt), alike=alike_digest(given, salt))
        with anyio.fail_after(5):
            shown = await self.engine.call(proposed, caller or world.PatientCaller())
            if deliver:
                self.engine.delivered(shown)
                await self.settle()
        return shown

    async def settle(self) -> None:
        """Everything that was spawned has run."""
        for _ in range(20):
            await asyncio.sleep(0)


@asynccontextmanager
async def house(
    ledger: Any = None,
    owner: str = "me",
    upstreams: world.ScriptedUpstreams | None = None,
    clock: world.ToldClock | None = None,
    **fields: Any,
) -> AsyncIterator[House]:
    """A gateway under a test policy changed by `fields`."""
    ledger = ledger if ledger is not None else MemoryLedger()
    clock = clock or world.ToldClock()
    if upstreams is None:
        upstreams = world.ScriptedUpstreams()
        upstreams.offer(world.tool("read", read=True), world.tool("write"), world.tool("pay"), world.tool("check"))
    made = world.policy(**fields)
    book = Book(
        ledger, Policies(ledger, {made.workflow: made}, made.workflow), clock, Options(owner=owner, drain_s=0.1)
    )
    engine = Engine(book, upstreams)
    built = House(ledger, upstreams, clock, book, engine, Recovery(book, engine, upstreams))
    await built.open()
    try:
        yield built
    finally:
        await engine.carrier.close()


def outcome(shown: Shown) -> str:
    if shown.refusal is not None:
        return str(shown.refusal.outcome)
    return "error" if shown.error is not None else "result"


async def approve(it: House) -> None:
    """A person says yes to the one approval that was asked for."""
    (approval,) = (await it.book.state_of("run_1")).approvals.values()
    await it.book.say(
        "run_1",
        lambda run, _, now: [answer(run, approval.id, approval.action, approve=True, by=ME, reason="", now=now)],
    )
