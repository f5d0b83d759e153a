"""A gateway that tells people by real webhooks, and the questions that it tells of."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from gateway.model.events import NoticeSent, Who
from gateway.model.notice import Audience
from gateway.model.review import Answer, Reviewer
from gateway.outbound.notices.webhook import Webhook, key_of
from gateway.runtime.announce import Announcer
from gateway.runtime.channels import Line
from gateway.runtime.desk import Desk
from gateway.runtime.outbox import SPREAD_S
from gateway.runtime.wording import console_links
from tests import world
from tests.notices.receiver import SECRET, Receiver
from tests.runtime.house import House, house

ASKS: dict[str, Any] = {
    "tools": {"pay": {"effect": "write", "reversible": "no"}},
    "transitions": [
        {"name": "pay", "tools": ["pay"], "approval": {"reason": "money leaves", "expires_s": 3600, "role": "finance"}},
        {"name": "any", "tools": ["*"]},
    ],
}
BOSS = Reviewer("local", "local:boss", frozenset({"finance"}))
LINKS = console_links("http://127.0.0.1:8321")


def line(it: Receiver, name: str = "ops", timeout_s: float = 5.0, **audience: Any) -> Line:
    """A channel that posts to the receiver."""
    return Line(name, Audience(**audience), Webhook(it.url, key_of(SECRET), time.time, timeout_s))


@dataclass
class Told:
    """The house, with somebody who tells people."""

    house: House
    announcer: Announcer
    lines: list[Line]

    async def look(self) -> None:
        """One look, and all that follows from it."""
        with anyio.fail_after(10):
            await self.announcer.look()
            await self.announcer.idle()

    async def tell(self) -> None:
        """What waits is seen, and told of once it is this gateway's turn."""
        await self.look()
        await self.after(SPREAD)

    async def after(self, seconds: float) -> None:
        """The same, so much later."""
        self.house.clock.tell(seconds)
        await self.look()

    async def sent(self, run: str = "run_1") -> list[NoticeSent]:
        """What the ledger knows of messages."""
        return [one.event for one, _ in await self.house.ledger.read(run) if isinstance(one.event, NoticeSent)]

    async def approval(self, run: str = "run_1") -> str:
        """The newest question of the run."""
        approvals = (await self.house.book.fresh_state_of(run)).approvals.values()
        return max(approvals, key=lambda one: one.seq).id

    async def decide(self, *, yes: bool = True, run: str = "run_1") -> None:
        """A person answers it."""
        name = await self.approval(run)
        asked = (await self.house.book.fresh_state_of(run)).approvals[name]
        said = Answer(name, asked.action, "approved" if yes else "rejected", "r")
        await Desk(self.house.book).decide(said, BOSS)

    async def withdraw(self, run: str = "run_1") -> None:
        """Whoever asks takes it back."""
        asks = Who(tenant=world.USER.tenant, id=world.USER.id)
        await Desk(self.house.book).withdraw(await self.approval(run), asks, "not needed")

    async def expire(self) -> None:
        """What nobody answered in time is recorded so."""
        await Desk(self.house.book).expire()


@asynccontextmanager
async def telling(
    *lines: Line,
    for_people: Callable[[str], bool] = lambda _: False,
    redact: Callable[[str], str] = lambda text: text,
    **fields: Any,
) -> AsyncIterator[Told]:
    """A gateway that tells people by these channels."""
    async with house(**{**ASKS, **fields}) as it:
        announcer = Announcer(it.book, lines, LINKS, lambda: 0.5, for_people, redact)
        yield Told(it, announcer, list(lines))


async def until(true: Callable[[], bool]) -> None:
    """Soon it is true."""
    with anyio.fail_after(10):
        while not true():
            await asyncio.sleep(0.01)


SPREAD = SPREAD_S + 0.1
