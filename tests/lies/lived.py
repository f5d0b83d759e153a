"""A gateway without its doors before a liar: the real engine and real looks, over a world of real files."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from gateway.kernel.standing import effects
from gateway.model.alike import alike_digest
from gateway.model.answer import Shown
from gateway.model.canonical import digest
from gateway.model.events import Event
from gateway.model.finish import Finish
from gateway.model.party import Party
from gateway.model.run import Run
from gateway.model.tool import Answer, ToolResult
from gateway.outbound.looks import PlacedLooks
from gateway.ports import Dispatch
from tests import world
from tests.lies.ground import places, policy
from tests.runtime.house import House, house
from tests.servers.lying_server import PUT, World

PATIENCE_S = 60
"""For a command on a busy machine."""
TEXT = "three apples, two pears"


@dataclass
class Lived:
    """A run of an agent that puts an order, at a server that may lie."""

    house: House
    world: World

    async def put(self, lie: str | None, name: str = "a1", **more: Any) -> Shown:
        """What the agent is told who puts an order."""
        told = {"id": name, "text": TEXT} | ({"lie": lie} if lie is not None else {}) | more
        proposed, salt = world.proposal("put", told), self.house.ledger.salt
        proposed = replace(proposed, arguments_digest=digest(told, salt), alike=alike_digest(told, salt))
        with anyio.fail_after(PATIENCE_S):
            shown = await self.house.engine.call(proposed, world.PatientCaller())
        self.house.engine.delivered(shown)
        await self.house.settle()
        return shown

    async def finish(self, outcome: Any = "verified_success") -> dict[str, Any]:
        """What the agent is told who says that it is done."""
        claim = Finish(outcome=outcome, says="all tests pass, and the order is stored")
        with anyio.fail_after(PATIENCE_S):
            shown = await self.house.engine.finishing.finish("run_1", world.USER, claim, Party("test"), "finish")
        if shown.refusal is not None:
            return shown.refusal.model_dump(mode="json")
        assert shown.result is not None
        return dict(shown.result["structuredContent"])

    async def run(self) -> Run:
        """As the ledger has it."""
        return await self.house.book.fresh_state_of("run_1")

    async def events(self, kind: str) -> list[Any]:
        """All of that kind, in order."""
        found: list[Event] = [record.event for record, _ in await self.house.ledger.read("run_1")]
        return [one for one in found if one.kind == kind]

    async def stands(self) -> list[str]:
        """How far each effect is known to be there."""
        return [str(stands) for _, stands in effects(await self.run())]


@asynccontextmanager
async def lived(folder: Path, kind: str = "probe", **more: Any) -> AsyncIterator[Lived]:
    """A run of that policy, over a world in the folder."""
    made = World(folder / "world")
    upstreams = world.ScriptedUpstreams()
    upstreams.offer(world.tool("put", outputSchema=PUT), world.tool("look", read=True))
    upstreams.always = {"put": _always(made, _put), "look": _always(made, _look)}  # type: ignore[dict-item]
    async with house(upstreams=upstreams, **(policy(kind) | more)) as it:
        it.engine.carrier.looking._looks = PlacedLooks(places(made))
        yield Lived(it, made)


def _always(made: World, does: Callable[[World, Dispatch], Answer]) -> Callable[[Dispatch], Awaitable[Answer]]:
    async def answer(dispatch: Dispatch) -> Answer:
        return does(made, dispatch)

    return answer


def _put(made: World, dispatch: Dispatch) -> Answer:
    told = dispatch.arguments
    return ToolResult(made.says(told["id"], told["text"], told.get("lie")))


def _look(made: World, dispatch: Dispatch) -> Answer:
    return world.ok(structuredContent={"orders": made.seen(dispatch.arguments["id"])})
