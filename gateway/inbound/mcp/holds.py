"""Calls that wait for a person with their client: told how long and for what, and ended with the process.

A hold is a future and a timer: it has no attempt, no lease and nothing under way, and whoever ends it has nothing to
undo. What is done when a person has answered is for whoever holds.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.inbound.mcp.asking import Asking
from gateway.inbound.mcp.callers import LegacyCaller, ModernCaller
from gateway.inbound.mcp.exchange import Session
from gateway.inbound.mcp.ports import Gate
from gateway.model.question import Question
from gateway.ports import LedgerUnavailable

EVERY_S = 5.0
"""Between two words of progress: well below the silence that any client is known to bear."""
AGAIN_S = 0.5
"""Between two looks whether a client has come back that lost its connection."""


class Hold:
    """One call that waits."""

    __slots__ = ("_bell", "_rung", "ended")

    def __init__(self) -> None:
        self._bell: asyncio.Future[None] | None = None
        self._rung = False
        self.ended = False
        """It waits no more, whatever it waited for."""

    def ring(self) -> None:
        """Something has changed."""
        self._rung = True
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    def end(self) -> None:
        """It waits no more."""
        self.ended = True
        self.ring()

    async def rest(self, seconds: float) -> None:
        """It was rung since the last rest, or that long has passed."""
        if not self._rung:
            self._bell = asyncio.get_running_loop().create_future()
            timer = asyncio.get_running_loop().call_later(seconds, self.ring)
            try:
                await self._bell
            finally:
                timer.cancel()
                self._bell = None
        self._rung = False


@dataclass(frozen=True, slots=True)
class Held:
    """How a hold has ended."""

    question: Question
    there: bool
    """Whether the client is there to hear what comes of it."""


class Holds:
    """All that are held in one relay."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._open: dict[Hold, Session | None] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    def close(self) -> None:
        """Nothing is held any more: who waits is told how things stand."""
        self._closed = True
        for hold in list(self._open):
            hold.end()

    def end(self, session: Session) -> None:
        """Nor anything of that conversation, from which no more is heard."""
        for hold, whose in list(self._open.items()):
            if whose is session:
                hold.end()

    async def keep(
        self,
        asking: Asking,
        caller: LegacyCaller | ModernCaller,
        question: Question,
        within_s: float,
        asked: "asyncio.Future[Any] | None" = None,
    ) -> Held:
        """The question as it stands once it waits no more, `asked` is done, the client has left, or the time is up."""
        loop, hold = asyncio.get_running_loop(), Hold()
        until, telling = loop.time() + within_s, _Telling(caller, within_s)
        exchange, withdrawal = asking.exchange, caller.withdrawal
        self._open[hold] = exchange.session
        silent = self._gate.questions.listen(question, hold.ring) if within_s > 0 else _not_listening
        before, withdrawal.then = withdrawal.then, _both(withdrawal.then, hold.ring)
        if asked is not None:
            asked.add_done_callback(lambda _: hold.ring())
        try:
            while True:
                question = await self._fresh(question, asking)
                over = withdrawal.gone or hold.ended or self._closed
                left, there = until - loop.time(), exchange.line.there
                if over or left <= 0 or (asked is not None and asked.done()) or (there and not question.awaits):
                    return Held(question, there=there and not over)
                pause = telling.pause_s(question) if question.awaits else AGAIN_S
                await hold.rest(min(left, pause))
        finally:
            silent()
            withdrawal.then = before
            del self._open[hold]

    async def _fresh(self, question: Question, asking: Asking) -> Question:
        """As the ledger has it now; as it was, while that cannot be read."""
        try:
            return await self._gate.questions.of(question.id, asking.exchange.principal, question.told.run)
        except LedgerUnavailable:
            return question


class _Telling:
    """Tells a client every few seconds who must do what, and where."""

    def __init__(self, caller: LegacyCaller | ModernCaller, within_s: float) -> None:
        self._caller = caller
        self._until = asyncio.get_running_loop().time() + within_s
        self._next = asyncio.get_running_loop().time()

    def pause_s(self, question: Question) -> float:
        """The client was told if it was time for it; how long until it is again."""
        now = asyncio.get_running_loop().time()
        if now >= self._next:
            self._next = now + EVERY_S
            # Seconds that are left, below 0: so the number grows, and stays below whatever the tool tells afterwards.
            progress = min(0.0, round(now - self._until, 3))
            self._caller.tell("notifications/progress", {"progress": progress, "message": waits_for(question)})
        return self._next - now


def waits_for(question: Question) -> str:
    """Who must do what, and where."""
    told = question.told
    missing = told.needed - len(told.agreed)
    who = "a person" if missing == 1 else f"{missing} people"
    return f"waiting for {who} to approve `{told.tool}` ({told.asks}): {told.page or told.approve_at}"


def _not_listening() -> None:
    """Who is answered at once waits for nothing."""


def _both(first: Callable[[], None] | None, second: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        if first is not None:
            first()
        second()

    return both
