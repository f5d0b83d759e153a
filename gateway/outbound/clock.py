"""Time as the machine tells it."""

import asyncio
import time


class SystemClock:
    """The `Clock` of a running gateway; tests tell the time themselves."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after that long."""
        await asyncio.sleep(seconds)
