"""Requests of modern clients that take several rounds [MCP 2026-07-28, multi round-trip requests].

A server of the newer era keeps nothing between rounds: what it wants back goes out sealed, and comes back with the
next. A server of the older era asks in the middle of its work, and cannot be told to forget it: the work is parked
here, in this process, until the client comes back with the answers or its time is up.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gateway.inbound.mcp.asking import FEATURES, Asking
from gateway.inbound.mcp.callers import ModernCaller
from gateway.inbound.mcp.faults import INVALID_PARAMS, Fault
from gateway.inbound.mcp.seals import BrokenSeal, Seals

LIVES_S = 600.0
"""How long a client may take for a round [SDK: request state lives 600 s]."""
MAX_PARKED = 1_000
"""Works that wait for a client; beyond it the oldest is given up of whoever has most."""

_KINDS = ("parked", "round", "again", "asked")
"""Of what a client brings back: work that is parked here, an upstream's next round, a call to be made again once an
address was visited, and an answer to a question of ours.
"""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Parked(Generic[T]):
    """A request whose work goes on while its client looks for the answers."""

    work: "asyncio.Task[T]"
    caller: ModernCaller
    timer: asyncio.TimerHandle


class Rounds(Generic[T]):
    """The rounds of one kind of request; `T` is what its work comes to."""

    def __init__(self, seals: Seals) -> None:
        self._seals = seals
        self._parked: dict[str, _Parked[T]] = {}

    # --- servers of the older era: the work is parked -----------------------------------------------------------------

    async def first(self, asking: Asking, start: Callable[[ModernCaller], Any]) -> T | dict[str, Any]:
        """What the work comes to, or the client's next round."""
        caller = ModernCaller(asking)
        if not asking.capabilities or not any(map(asking.can, FEATURES)):
            result: T = await start(caller)
            return result
        return await self._wait(asking, asyncio.ensure_future(start(caller)), caller)

    async def go_on(self, asking: Asking, name: str) -> T | dict[str, Any]:
        """As `first`, for the work of that name, with what the client brings.

        Raises: Fault if it is not parked here any more.
        """
        parked = self._parked.pop(name, None)
        if parked is None:
            raise Fault(INVALID_PARAMS, "the request that this state belongs to has ended; make it again")
        parked.timer.cancel()
        parked.caller.attach(asking)
        brought = asking.params.get("inputResponses")
        parked.caller.bring(brought if isinstance(brought, Mapping) else {})
        await asyncio.sleep(0)  # whoever was answered takes its question away
        return await self._wait(asking, parked.work, parked.caller)

    async def _wait(self, asking: Asking, work: "asyncio.Task[T]", caller: ModernCaller) -> T | dict[str, Any]:
        while not work.done() and not caller.questions:
            either: set[asyncio.Future[Any]] = {work, caller.rung()}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if caller.withdrawal.gone:
            caller.give_up()  # nobody is there to be told what is asked
        if work.done() or caller.withdrawal.gone:
            return await work
        caller.detach()
        return self._park(asking, work, caller)

    def _park(self, asking: Asking, work: "asyncio.Task[T]", caller: ModernCaller) -> dict[str, Any]:
        name = uuid.uuid4().hex
        timer = asyncio.get_running_loop().call_later(LIVES_S, self._give_up, name)
        self._parked[name] = _Parked(work, caller, timer)
        if len(self._parked) > MAX_PARKED:
            self._make_room()
        questions = {key: {"method": one.method, "params": dict(one.params)} for key, one in caller.questions.items()}
        state = self.seal(asking, "parked", {"name": name})
        return {"resultType": "input_required", "inputRequests": questions, "requestState": state}

    def _make_room(self) -> None:
        ((most, _),) = Counter(one.caller.party.whose for one in self._parked.values()).most_common(1)
        self._give_up(next(name for name, one in self._parked.items() if one.caller.party.whose == most))

    def _give_up(self, name: str) -> None:
        parked = self._parked.pop(name, None)
        if parked is not None:
            parked.timer.cancel()
            parked.caller.give_up()

    def close(self) -> None:
        """Nobody waits for a client any more."""
        for name in list(self._parked):
            self._give_up(name)

    # --- servers of the newer era: the state is sealed ----------------------------------------------------------------

    def seal(self, asking: Asking, kind: str, state: dict[str, Any]) -> str:
        """`requestState` for this request and nothing else."""
        return self._seals.seal(kind, asking.exchange.principal, asking.about(), state, LIVES_S)

    def open(self, asking: Asking) -> tuple[str, dict[str, Any]] | None:
        """The kind and the state that come back with this round; None if it is a first one.

        Raises: Fault.
        """
        if "requestState" not in asking.params:
            return None
        text = asking.params["requestState"]
        try:
            if not isinstance(text, str):
                raise BrokenSeal("it is no string")  # noqa: TRY301 - one message for all that is wrong with it
            return self._seals.open(text, asking.exchange.principal, asking.about(), *_KINDS)
        except BrokenSeal as broken:
            raise Fault(INVALID_PARAMS, f"`requestState` cannot be used: {broken}") from None
