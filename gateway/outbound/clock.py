"""Time as the machine tells it, and as a ledger's gateways may rely on it."""

import asyncio
import time

from gateway.model.record import decode
from gateway.ports import Clock, Ledger, LedgerUnavailable


class SystemClock:
    """The machine's `Clock`; tests tell the time themselves."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after that long."""
        await asyncio.sleep(seconds)


class LedgerClock:
    """The `Clock` of all who use one ledger: its own time, which never goes back and never stands still.

    A wall clock that is set back would make valid what had expired. So time goes on here from the latest that was told
    or recorded, by the monotonic clock, until the wall clock has caught up. One that is set forward is followed: then
    approvals and deadlines end too early, which is safe.
    """

    def __init__(self, machine: Clock, now: float, latest: float = 0.0) -> None:
        """It is `now` by the ledger's own clock, and its latest record is of `latest`, in seconds since the epoch."""
        self._machine = machine
        self._ahead_s = now - machine.now()
        """Of the ledger's own clock before the machine's."""
        self._told, self._at = max(now, latest), machine.monotonic()

    def hear(self, now: float) -> None:
        """It is `now` by the ledger's own clock."""
        self._ahead_s = now - self._machine.now()

    @property
    def ahead_s(self) -> float:
        """How far time here is before the ledger's own clock, because that one was set back."""
        return max(0.0, self.now() - (self._machine.now() + self._ahead_s))

    def now(self) -> float:
        """Seconds since the epoch."""
        at = self._machine.monotonic()
        self._told, self._at = max(self._machine.now() + self._ahead_s, self._told + at - self._at), at
        return self._told

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._machine.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after that long."""
        await self._machine.sleep(seconds)

    async def keep(self, ledger: Ledger) -> None:
        """Runs for ever: the ledger's own clock is heard again and again, for machines drift apart."""
        while True:
            await self.sleep(HEARD_EVERY_S)
            try:
                self.hear(await ledger.now())
            except LedgerUnavailable:
                continue  # whoever reads or writes says so


HEARD_EVERY_S = 60.0


async def clock_of(ledger: Ledger, machine: Clock) -> LedgerClock:
    """The time of this ledger.

    Raises: LedgerUnavailable.
    """
    now, place = await ledger.now(), await ledger.closed()
    newest = await ledger.log(place - 1, limit=1) if place else ()
    latest = _time_of(newest[0].body) if newest else 0.0
    return LedgerClock(machine, now, latest if latest <= now + BELIEVED_S else 0.0)


BELIEVED_S = 48 * 3600.0
"""By so much a record may be of a later time than it is now, and still be believed: a clock that was wrong by more when
it was made must not have all that is valid for days expire for ever."""


def _time_of(body: bytes) -> float:
    """When the record was made; long ago for one that is damaged, which is for others to say."""
    try:
        return decode(body).at.timestamp()
    except ValueError:
        return 0.0
