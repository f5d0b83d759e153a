"""One request under way: its answer, its time limit, and whoever still waits for it. The same for every transport."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from gateway.model.party import Behalf
from gateway.model.tool import Answer, NotSent, Silence
from gateway.outbound.upstream.wire import Ask, Hear
from gateway.ports import Caller

MAX_HELD_S = 3600.0
"""So long may a client think about a question, all in all, while the time limit of its call stands still."""

AFTER_CANCEL_S = 10.0
"""For the answer to a call that the client cancelled: the upstream may be past stopping, or say what it did."""

UNSENT = NotSent("the client had cancelled the call before it was sent")
HELD_UP = NotSent("it was held up for so long before it could be sent that it may not be any more")
CANCELLED = Silence("the client cancelled the call, and no answer came")


class Deadline:
    """A time limit that stands still while somebody is asked something."""

    def __init__(self, seconds: float, then: Callable[[], None]) -> None:
        """`then` is called when the time is up, unless `stop` came first."""
        self.over = False
        self._loop = asyncio.get_running_loop()
        self._then = then
        self._holds = 0
        self._left_s = seconds
        self._may_hold_s = MAX_HELD_S
        self._since = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._end)

    def hold(self) -> None:
        """It stands still until each `hold` had its `release`, or for `MAX_HELD_S`."""
        self._holds += 1
        if self._holds == 1 and not self.over:
            self._left_s = max(0.0, self._left_s - self._lap())
            self._again(self._may_hold_s)

    def release(self) -> None:
        """It goes on, if nobody else holds it."""
        self._holds -= 1
        if self._holds == 0 and not self.over:
            self._may_hold_s = max(0.0, self._may_hold_s - self._lap())
            self._again(self._left_s)

    def stop(self) -> None:
        """It never comes."""
        self._timer.cancel()
        self.over = True

    def left_s(self) -> float:
        """What is left of it."""
        return max(0.0, self._left_s - (0.0 if self._holds else self._loop.time() - self._since))

    def _lap(self) -> float:
        since, self._since = self._since, self._loop.time()
        return self._since - since

    def _again(self, seconds: float) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._end)

    def _end(self) -> None:
        self.over = True
        self._then()


@dataclass(slots=True, eq=False)
class Call:
    """One request, from the moment that it has an id until nobody wants its answer any more."""

    id: int
    ask: Ask
    counts: Counter[str] = field(default_factory=Counter)
    caller: Caller | None = None
    hears: Hear | None = None
    """What takes the notifications on its own stream; None: its caller does."""
    reached: bool = False
    """Some bytes of it may have been written."""
    expired: bool = False
    """The caller was told that no answer came, so it must not be sent again."""
    session: str | None = None
    """Under which it was sent, on HTTP."""
    answer: Answer | None = None
    deadline: Deadline | None = None
    _stirred: asyncio.Future[None] | None = None

    def end(self, answer: Answer) -> None:
        """Whoever waits has this answer, unless one came before. After its time, `late` has it."""
        if self.answer is not None and not (self.expired and isinstance(self.answer, Silence)):
            return
        self.answer = answer
        if not self.expired:
            self.stir()
        elif self.ask.late is not None and not isinstance(answer, Silence | NotSent):
            self.counts["late"] += 1
            asyncio.get_running_loop().call_soon(self.ask.late, answer)

    def stir(self) -> None:
        """Whoever waits looks again."""
        if self._stirred is not None and not self._stirred.done():
            self._stirred.set_result(None)

    async def come(self) -> bool:
        """Whether there is an answer; if not, its time is up or the client has withdrawn."""
        while self.answer is None and not self.withdrawn and self.deadline is not None and not self.deadline.over:
            self._stirred = asyncio.get_running_loop().create_future()
            await self._stirred
        return self.answer is not None

    async def come_within(self, seconds: float) -> bool:
        """Whether there is an answer within that time, which nothing holds up."""
        if self.answer is None and seconds > 0:
            self._stirred = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._stirred}, timeout=seconds)
        return self.answer is not None

    @property
    def withdrawn(self) -> bool:
        """Whether the upstream is to hear that nobody waits any longer."""
        if self.caller is None:
            return False
        withdrawal = self.caller.withdrawal
        return withdrawal.said or (withdrawal.gone and self.ask.heed_loss)

    def hold(self) -> None:
        """The client is asked something: the time limit stands still."""
        if self.deadline is not None:
            self.deadline.hold()

    def release(self) -> None:
        """It has answered."""
        if self.deadline is not None:
            self.deadline.release()


def behalf_of(call: Call) -> Behalf | None:
    """For whom it is made, to upstreams that ask."""
    return call.caller.party.behalf if call.caller is not None else None


class Way(Protocol):
    """What a transport does for one call."""

    async def begin(self, call: Call) -> NotSent | None:
        """The call was sent, or is being sent; or it is known that it was not."""
        ...

    def withdraw(self, call: Call) -> float:
        """The upstream hears that nobody waits; for how long an answer may still come, in seconds."""
        ...

    def hope_for(self, call: Call) -> None:
        """Nobody waits any longer, but an answer that still comes is given to the call."""
        ...

    def forget(self, call: Call) -> None:
        """Nothing about the call is wanted any more."""
        ...


async def carry(call: Call, way: Way) -> Answer:
    """What came of the call: its answer, or why there is none. To cancel this is to withdraw the call."""
    ask, caller = call.ask, call.caller
    if call.withdrawn:
        return UNSENT
    call.deadline = Deadline(ask.timeout_s if ask.left_s is None else max(0.0, ask.left_s()), call.stir)
    then = call.stir
    if caller is not None:
        caller.withdrawal.then = then
    try:
        unsent = await way.begin(call)
        answer = unsent if unsent is not None else await _come_of(call, way)
    except asyncio.CancelledError:
        if call.answer is None:
            way.withdraw(call)
        way.forget(call)
        raise
    finally:
        call.deadline.stop()
        if caller is not None and caller.withdrawal.then is then:
            caller.withdrawal.then = None
    return answer


async def _come_of(call: Call, way: Way) -> Answer:
    came = await call.come()
    silence = Silence(f"no answer within {round(call.ask.timeout_s, 2):g} s")
    if not came:
        if not call.reached:
            way.forget(call)
            return UNSENT if call.withdrawn else NotSent(f"there was no connection within {call.ask.timeout_s:g} s")
        if call.withdrawn:
            silence = CANCELLED
            came = await call.come_within(way.withdraw(call))
        else:
            call.counts["timed_out"] += 1
    if came and call.answer is not None and not isinstance(call.answer, Silence):
        way.forget(call)
        return call.answer
    # What came was not valid, or nothing did; what comes yet may be.
    call.expired = True
    way.hope_for(call)
    return call.answer or silence
