"""A gateway under an approving policy, and its real door for reviewers, in process or on a loopback port."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import anyio
import httpx2
from starlette.types import ASGIApp

from gateway.inbound.console import Access, Keys, console_app, credentials
from gateway.inbound.console.api import Changes, api_routes
from gateway.inbound.console.assistants import Assistants
from gateway.inbound.mcp import server_config
from gateway.model.review import Reviewer
from gateway.runtime.desk import Desk
from tests import world
from tests.runtime.house import House, house

BOUND_S = 20.0
"""No wait of these tests is longer."""

URL = "http://127.0.0.1:1"
API = "/console/api/v1"
KEYS = Keys.of(b"k" * 32)

ANN = Reviewer("local", "ann", frozenset({"finance"}), via="token")
BOB = Reviewer("local", "bob", frozenset({"finance", "boss"}), via="token")
EVE = Reviewer("other", "eve", frozenset({"finance"}), via="token")
"""Of another tenant."""
ROOT_USER = Reviewer("ops", "root", via="token", everywhere=True)

ASKS: Mapping[str, Any] = {
    "transitions": [
        {"name": "look", "tools": ["read"]},
        {"name": "change", "tools": ["write"]},
        {
            "name": "pay",
            "tools": ["pay"],
            "approval": {
                "reason": "money leaves",
                "role": "finance",
                "reasons": "rejection",
                "risk": "high",
                "reuse": {"times": 3, "for_s": 600.0},
            },
        },
    ]
}


@dataclass
class Reviewing:
    """The gateway, its desk and its door."""

    it: House
    desk: Desk
    app: ASGIApp
    url: str = URL

    def token(self, who: Reviewer, *, lives_s: float = 3_600.0) -> str:
        """What a program of that reviewer shows."""
        return credentials.mint(KEYS.tokens, "reviewer", who, now=self.it.clock.now(), lives_s=lives_s)[0]

    def assistants(self, who: Reviewer, *, lives_s: float = 3_600.0, unattended: bool = False) -> str:
        """What their assistant shows."""
        now, key = self.it.clock.now(), KEYS.assistants
        return credentials.mint(key, "assistant", who, now=now, lives_s=lives_s, unattended=unattended)[0]

    def as_(self, who: Reviewer | None) -> httpx2.AsyncClient:
        """A program of that reviewer, in this process."""
        headers = {} if who is None else {"Authorization": f"Bearer {self.token(who)}"}
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app), base_url=self.url, headers=headers)

    async def ask(self, amount: int = 5, run: str = "run_1") -> str:
        """The agent proposes a payment; the name of the question that it becomes."""
        await self.it.call("pay", {"amount": amount}, run=run)
        self.it.clock.tell(2)  # the inbox looks once a second
        approvals = (await self.it.book.state_of(run)).approvals.values()
        return max(approvals, key=lambda one: one.seq).id

    async def action_of(self, approval: str, run: str = "run_1") -> str:
        """The digest that it binds."""
        return (await self.it.book.state_of(run)).approvals[approval].action


@asynccontextmanager
async def reviewing(**fields: Any) -> AsyncIterator[Reviewing]:
    """In this process."""
    async with house(**{**ASKS, **fields}) as it:
        desk = Desk(it.book)
        yield Reviewing(it, desk, _app(it, desk, URL, ()))


@asynccontextmanager
async def served(**fields: Any) -> AsyncIterator[Reviewing]:
    """On a loopback port, with the operators' endpoint."""
    import socket  # noqa: PLC0415 - only here

    import uvicorn  # noqa: PLC0415

    async with house(**{**ASKS, **fields}) as it:
        desk = Desk(it.book)
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            operator = Assistants(desk, it.book, url=url, state_key=KEYS.rounds, version="1")
            app = _app(it, desk, url, operator.routes())
            server = uvicorn.Server(server_config(app, timeout_graceful_shutdown=1))
            async with operator.running():
                serving = asyncio.ensure_future(server.serve(sockets=[listening]))
                with anyio.fail_after(BOUND_S):
                    while not server.started:
                        await asyncio.sleep(0.01)
                try:
                    yield Reviewing(it, desk, app, url)
                finally:
                    server.should_exit = True
                    with anyio.CancelScope(shield=True), anyio.move_on_after(BOUND_S):
                        await serving


def _app(it: House, desk: Desk, url: str, more: Any) -> ASGIApp:
    ledger = it.ledger
    access = Access(keys=KEYS, now=it.clock.now, once=ledger.once, said=ledger.said, url=url)
    return console_app(
        desk, access, pages=(), api=(*api_routes(desk, it.book, Changes(desk, it.clock.monotonic), version="1"), *more)
    )


def elsewhere(who: Reviewer, **changes: Any) -> Reviewer:
    """That reviewer, but."""
    return replace(who, **changes)


def problem(answer: httpx2.Response) -> tuple[int, str]:
    """Status and check of a refusal, which is what it says it is."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    told = json.loads(answer.content)
    assert told["status"] == answer.status_code
    return answer.status_code, told["check"]


async def until(it: House, so: Any) -> None:
    """Told time goes on until it is so."""
    with anyio.fail_after(BOUND_S):
        while not so():
            it.clock.tell(1)
            await asyncio.sleep(0.01)


def paying(**approval: Any) -> dict[str, Any]:
    """A policy in which a payment asks so."""
    return {"transitions": [{"name": "pay", "tools": ["pay"], "approval": approval}]}


OPERATOR_USER = world.USER
