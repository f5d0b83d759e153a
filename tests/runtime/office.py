"""A gateway and the desk of its people, for tests of what they are asked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.model.review import Answer, Refused, Reviewer
from gateway.model.run import Approval
from gateway.runtime.desk import Desk
from tests import world
from tests.audit.ledgers import found, verified
from tests.runtime.house import House, house, outcome

DAY = 86_400.0
ANN = Reviewer("local", "local:ann", frozenset({"boss", "finance"}), via="oidc")
BOB = Reviewer("local", "local:bob", frozenset({"boss"}), via="oidc")
ASK: dict[str, Any] = {"name": "ask", "tools": ["write"], "approval": {"reason": "it matters"}}


def asking(**approval: Any) -> list[dict[str, Any]]:
    """A transition that asks, with these terms; reads and whatever else is free."""
    return [{**ASK, "approval": {**ASK["approval"], **approval}}, {"name": "rest", "tools": ["*"]}]


@dataclass
class Office:
    """A gateway, and the desk of its people."""

    it: House
    desk: Desk

    async def asked(self, name: str | None = None) -> Approval:
        """The question of that name, or the newest one."""
        run = await self.it.book.fresh_state_of("run_1")
        return run.approvals[name] if name else max(run.approvals.values(), key=lambda one: one.seq)

    async def says(
        self, decision: str = "approved", by: Reviewer = ANN, of: str | None = None, **said: Any
    ) -> Approval:
        asked = await self.asked(of)
        given = {"approval": asked.id, "action": asked.action, "decision": decision, "reason": "seen"} | said
        return (await self.desk.decide(Answer(**given), by)).approval

    async def refused(self, decision: str = "approved", by: Reviewer = ANN, of: str | None = None, **said: Any) -> str:
        with pytest.raises(Refused) as caught:
            await self.says(decision, by, of, **said)
        return caught.value.check

    async def calls(self, arguments: dict[str, Any] | None = None) -> str:
        return outcome(await self.it.call("write", arguments or {"n": 1}))

    @property
    def sent(self) -> int:
        return sum(one.tool.name == "write" for one in self.it.upstreams.sent)


@asynccontextmanager
async def office(ledger: Any = None, clock: world.ToldClock | None = None, **fields: Any) -> AsyncIterator[Office]:
    fields.setdefault("transitions", asking())
    async with house(ledger, clock=clock, **fields) as it:
        yield Office(it, Desk(it.book))
        if ledger is None:
            assert found(await verified(it.ledger, keys=[])) == []
