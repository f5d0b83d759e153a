"""Who made a call may have it stopped while it is under way, and nobody else may."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.model.principal import Principal
from gateway.model.tool import ToolResult
from tests import world
from tests.runtime.house import house

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("who", "stops"),
    [
        (world.USER, True),
        (replace(world.USER, scopes=frozenset({"more"}), roles=frozenset()), True),  # as after a step-up
        (replace(world.USER, tenant="other"), False),
        (Principal("somebody"), False),
    ],
    ids=["the same", "with other scopes", "of another tenant", "another"],
)
async def test_who_made_a_call_has_it_stopped_whatever_scopes_they_have_by_then(who: Principal, *, stops: bool) -> None:
    async with house() as it:
        sent, go = asyncio.Event(), asyncio.Event()

        async def slow(_: Any) -> ToolResult:
            sent.set()
            await go.wait()
            return ToolResult({"content": []})

        it.upstreams.will("write", slow)
        caller = world.PatientCaller()
        work = asyncio.ensure_future(it.call("write", caller=caller))
        await sent.wait()
        (attempt,) = it.engine.carrier.open
        it.engine.withdraw(attempt, who)
        assert caller.withdrawal.gone is stops
        go.set()
        await work
