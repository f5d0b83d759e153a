"""How many calls are under way at once: of one principal, to one upstream, and in all. Of this process alone.

What waits for a lane waits in the order in which it came, but for what no lane of its own keeps back; for a bounded
time, and only so many at once. A call that gets none is told so and leaves no record: a flood must not fill the ledger.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.model.principal import Principal


@dataclass(frozen=True, slots=True)
class Limits:
    """Calls under way at once, each from its judgement to its recorded end. None: no limit."""

    in_all: int | None = 1_000
    per_principal: int | None = 250
    per_upstream: int | None = 500
    waiting: int = 1_000
    """Calls that wait for others to end."""
    wait_s: float = 10.0
    """How long each of them waits at most."""
    denied: int | None = None
    """Calls of one principal that are denied, and so recorded, in a minute; then none is judged until it ends."""


PAUSE_S = 1.0
"""What is suggested as a pause where others may end at any moment."""


class Crowded(Exception):
    """There is no room for one more. The text says where."""

    def __init__(self, why: str, pause_s: float = PAUSE_S) -> None:
        """Before `pause_s` there is none, as far as is known."""
        super().__init__(why)
        self.pause_s = pause_s


class Lane(NamedTuple):
    """What is counted together."""

    whose: tuple[str, ...]
    """Its parts: put together into one word, `a/b` of `c` would be `b/c` of `a`."""
    says: str
    limit: int


class _Waiting(NamedTuple):
    lanes: Sequence[Lane]
    ready: "asyncio.Future[None]"


class Lanes:
    """Counts what is under way. One for each process."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._taken: Counter[Lane] = Counter()
        self._queue: list[_Waiting] = []

    def of(self, principal: Principal, upstream: str | None) -> Sequence[Lane]:
        """Those that such a call takes up."""
        limits, who = self._limits, principal.whose
        found = [
            ((), "in all", limits.in_all),
            (who, f"of `{'/'.join(who)}`", limits.per_principal),
            *([((upstream,), f"to the upstream `{upstream}`", limits.per_upstream)] if upstream is not None else []),
        ]
        return [Lane(whose, says, limit) for whose, says, limit in found if limit is not None]

    async def enter(self, lanes: Sequence[Lane]) -> None:
        """From here on the call counts as under way, until it leaves.

        Raises: Crowded.
        """
        if self._crowded(lanes) is None:
            self._take(lanes)
        else:
            await self._wait(lanes)

    def leave(self, lanes: Sequence[Lane]) -> None:
        """It has ended; who waits may have its place."""
        for lane in lanes:
            self._taken[lane] -= 1
            if not self._taken[lane]:
                del self._taken[lane]
        for one in list(self._queue):
            if self._crowded(one.lanes) is None:
                self._queue.remove(one)
                self._take(one.lanes)
                one.ready.set_result(None)

    def _take(self, lanes: Sequence[Lane]) -> None:
        for lane in lanes:
            self._taken[lane] += 1

    def _crowded(self, lanes: Sequence[Lane]) -> Lane | None:
        return next((lane for lane in lanes if self._taken[lane] >= lane.limit), None)

    async def _wait(self, lanes: Sequence[Lane]) -> None:
        if len(self._queue) >= self._limits.waiting:
            raise Crowded(f"{self._says(lanes)}, and {len(self._queue)} more wait")
        waiting = _Waiting(lanes, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        try:
            await asyncio.wait_for(asyncio.shield(waiting.ready), self._limits.wait_s)
        except TimeoutError:
            if not waiting.ready.done():
                self._queue.remove(waiting)
                raise Crowded(f"{self._says(lanes)}, and none ended in {self._limits.wait_s:g} s") from None
        except asyncio.CancelledError:
            if waiting.ready.done():
                self.leave(lanes)
            else:
                self._queue.remove(waiting)
            raise

    def _says(self, lanes: Sequence[Lane]) -> str:
        full = self._crowded(lanes) or lanes[0]
        return f"calls under way in this gateway {full.says}: {self._taken[full]}, as many as may be"
