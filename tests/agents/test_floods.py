"""Whoever sends many tokens that nobody knows, or opens many requests, keeps nobody else from their work."""

import asyncio
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

from gateway.inbound.mcp.http import ROOM
from gateway.model.principal import Principal
from gateway.outbound.oidc import introspection
from gateway.outbound.oidc.asking import Unreachable
from gateway.outbound.oidc.claims import NotLetIn
from gateway.outbound.oidc.introspection import AT_ONCE, KEPT_S, Introspection
from gateway.outbound.oidc.resource import Introspected
from tests.agents.asking import Front
from tests.agents.test_doorkeeper import keeper, run_token
from tests.inbound.asked import until
from tests.inbound.fake_gate import ToldClock
from tests.inbound.fake_relay import FakeRelay, Held

pytestmark = pytest.mark.anyio

TOLD = Introspected("https://idp.example/introspect", "gateway", SecretStr("x"))


class Server:
    """An authorization server that says nothing of strange tokens until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.go = asyncio.Event()
        monkeypatch.setattr(introspection, "ask", self.answer)

    async def answer(self, _: str, __: str, form: Mapping[str, str], ___: Any) -> tuple[int, Mapping[str, Any]]:
        self.asked.append(form["token"])
        if self.asked[-1] == "good":
            return 200, {"active": True, "sub": "ci"}
        await self.go.wait()
        return 200, {"active": False}


async def test_who_is_known_is_asked_about_at_once_whatever_others_send(monkeypatch: pytest.MonkeyPatch) -> None:
    server, clock = Server(monkeypatch), ToldClock()
    asked = Introspection(TOLD, clock.monotonic)
    assert (await asked.claims("good"))["sub"] == "ci"
    clock.tell(KEPT_S)
    flood = [asyncio.ensure_future(asked.claims(f"bad-{number}")) for number in range(3 * AT_ONCE)]
    await asyncio.sleep(0)
    with anyio.fail_after(5):
        assert (await asked.claims("good"))["sub"] == "ci"
    assert len(server.asked) == 2 + AT_ONCE  # the server is not flooded through us
    server.go.set()
    assert {type(one) for one in await asyncio.gather(*flood, return_exceptions=True)} == {NotLetIn}


async def test_beyond_a_bound_nothing_is_said_of_strange_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(introspection, "MAX_WAITING", 3)
    server, clock = Server(monkeypatch), ToldClock()
    asked = Introspection(TOLD, clock.monotonic)
    flood = [asyncio.ensure_future(asked.claims(f"bad-{number}")) for number in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(Unreachable) as told:
        await asked.claims("bad-4")
    assert str(told.value) == "too many tokens that are not known are being asked about"
    server.go.set()
    await asyncio.gather(*flood, return_exceptions=True)
    with pytest.raises(NotLetIn):
        await asked.claims("bad-4")


async def test_no_strange_token_takes_the_place_of_one_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(introspection, "MAX_KEPT", 2)
    server, clock = Server(monkeypatch), ToldClock()
    server.go.set()
    asked = Introspection(TOLD, clock.monotonic)
    for token in ("good", "bad-1", "bad-2", "bad-3"):
        await asyncio.gather(asked.claims(token), return_exceptions=True)
    await asked.claims("good")
    assert server.asked == ["good", "bad-1", "bad-2", "bad-3"]


async def test_one_principal_leaves_connections_for_others() -> None:
    relay, held = FakeRelay(), Held()
    relay.tools["slow"] = held
    front = Front(keeper(), relay, each=2)
    mine, theirs = [{"counterfoil-run": run_token(principal=Principal("ci", tenant))} for tenant in ("acme", "other")]
    waiting = [asyncio.ensure_future(front.call(mine, tool="slow")) for _ in range(2)]
    await until(lambda: len(relay.calls) == 2)
    told = await front.call(mine)
    assert (told.status, told.headers["retry-after"]) == (503, "5")
    assert told.why == f"2 requests of yours are open, as many as may be: {ROOM}"
    assert (await front.call(theirs)).status == 200
    held.gate.set()
    assert [one.status for one in await asyncio.gather(*waiting)] == [200, 200]
    assert (await front.call(mine)).status == 200
