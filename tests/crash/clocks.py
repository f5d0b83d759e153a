"""Time as the world has it, and as each gateway takes it to be: told, never waited for."""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.world import T0


@dataclass
class TrueClock:
    """The one clock that is right. It stands still until it is told; what is due then happens in its order."""

    seconds: float = T0
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def at(self, when: float, then: Callable[[], None]) -> None:
        """Do that once the time has come."""
        heapq.heappush(self._due, (when, next(self._numbers), then))

    def reach(self, when: float) -> None:
        """It is at least that late."""
        while self._due and self._due[0][0] <= when:
            due, _, then = heapq.heappop(self._due)
            self.seconds = max(self.seconds, due)
            then()
        self.seconds = max(self.seconds, when)

    @property
    def next_due(self) -> float | None:
        """When something happens by itself the next time."""
        return self._due[0][0] if self._due else None

    async def wait(self, seconds: float) -> None:
        """Return after that long."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.at(self.seconds + seconds, lambda: None if woken.done() else woken.set_result(None))
        await woken


@dataclass
class OwnClock:
    """A machine's clock: its wall time may be wrong and may jump; its monotonic time began at some point of its own."""

    true: TrueClock
    ahead_s: float = 0.0
    """How far its wall clock is ahead of the true time."""
    born: float = 0.0

    def now(self) -> float:
        return self.true.seconds + self.ahead_s

    def monotonic(self) -> float:
        return self.true.seconds - self.born

    async def sleep(self, seconds: float) -> None:
        await self.true.wait(seconds)


class ToldLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers are those of a told clock, so that what happens in it depends on nothing else."""

    def __init__(self, clock: TrueClock) -> None:
        super().__init__()
        self._told = clock

    def time(self) -> float:
        return self._told.seconds

    @property
    def idle(self) -> bool:
        """Whether nothing is left that could run now; asked by whoever is running."""
        return not self._ready  # type: ignore[attr-defined]  # asyncio has no word for it
