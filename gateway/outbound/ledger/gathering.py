"""Steps that come at about the same time are handed on together, so that they share a transaction and a flush.

A lone step waits for one turn of the event loop. While turns go on bringing more, the loop is at work on other calls,
and a flush for each few of them would only take the processor from it. The same for every ledger that writes in groups.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

GATHER_S = 0.006
"""How long steps may gather while every turn of the event loop brings more: about what they save each other.

Measured with 64 clients on one core: 0.55 commits a call without, 0.08 with this, and a quarter less CPU.
"""
LINGER_S = 0.02
"""How long a step that nobody waits for may wait for others."""


class Gathering(Generic[T]):
    """What waits to be handed on, in the order in which it came. Made on the event loop."""

    def __init__(self, take: Callable[[list[T]], None]) -> None:
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._waiting: list[T] = []
        self._looking = False
        """Whether somebody waits, so that it is handed on as soon as a turn brings nothing more."""
        self._later: asyncio.TimerHandle | None = None

    def add(self, one: T, *, unhurried: bool) -> None:
        """It is handed on with what comes next; at the latest after `GATHER_S`, or `LINGER_S` if it is unhurried."""
        self._waiting.append(one)
        if self._looking:
            return
        if not unhurried:
            self._looking = True
            self._loop.call_soon(self._look, len(self._waiting), self._loop.time() + GATHER_S)
        elif self._later is None:
            self._later = self._loop.call_later(LINGER_S, self.hand_on)

    def hand_on(self) -> None:
        """Nothing waits any more."""
        self._looking = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._waiting:
            gathered, self._waiting = self._waiting, []
            self._take(gathered)

    def _look(self, seen: int, until: float) -> None:
        if not self._looking:
            return  # it was handed on meanwhile, at the end
        if len(self._waiting) == seen or self._loop.time() >= until:
            self.hand_on()
        else:
            self._loop.call_soon(self._look, len(self._waiting), until)
