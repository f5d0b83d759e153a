"""How long the event loop was held up meanwhile: what somebody said at once may be read late."""

import asyncio

TICK_S = 0.05


class Lag:
    """Measures from now on, until it is ended."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """In all; less than `TICK_S` at a time is not seen."""
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + TICK_S
        self._timer = self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        now = self._loop.time()
        self.seconds += max(0.0, now - self._due)
        self._due = now + TICK_S
        self._timer = self._loop.call_at(self._due, self._tick)

    def end(self) -> None:
        """It measures no more; what is due by now counts."""
        self._timer.cancel()
        self.seconds += max(0.0, self._loop.time() - self._due)
