"""Whether the ledger takes what is to be recorded: noticed without waiting for a call, said once, over once it writes.

While it does not, every call is refused before anything is sent, so whoever balances loads must know.
"""

import logging
from dataclasses import dataclass
from typing import Any

from gateway.model.record import utc
from gateway.ports import Clock, Ledger, LedgerUnavailable

_LOG = logging.getLogger("counterfoil.ledger")

RETRY_S = 1.0
"""While nothing can be written: how often it is tried."""
LOOK_S = 10.0
"""While all is well and nothing is being written: how often it is asked whether something could be. No disk is touched:
a lock that is held, a file that is gone and a newer version show themselves; a full disk does not.
"""
STORE_S = 300.0
"""How often something is really written then: only who has no calls finds a full or broken disk as late as that."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Nothing can be recorded."""

    reason: str
    """One sentence: what is wrong, and what to do."""
    since: float
    """Seconds since the epoch."""


class Health:
    """What appends and our own tries have shown. One for each process."""

    def __init__(self, clock: Clock) -> None:
        self.trouble: Trouble | None = None
        self._clock = clock
        self._written = clock.monotonic()
        """When something was last stored, in monotonic seconds."""
        self._looked = self._written

    def took(self) -> None:
        """The ledger has stored something."""
        self._written = self._looked = self._clock.monotonic()
        if self.trouble is not None:
            lasted_s = max(0.0, self._clock.now() - self.trouble.since)
            self.trouble = None
            _LOG.warning("the ledger takes records again, after %.0f s; calls are judged and sent as before", lasted_s)

    def refused(self, reason: str) -> None:
        """The ledger has not stored something, or it is not known that it has."""
        known = self.trouble
        if known is None or known.reason != reason:
            since = self._clock.now() if known is None else known.since
            self.trouble = Trouble(reason, since)
            _LOG.error("nothing can be recorded, so no call is sent: %s", reason)

    def state(self) -> dict[str, Any]:
        """For `/readyz`."""
        if self.trouble is None:
            return {"state": "writable"}
        since = utc(self.trouble.since).isoformat(timespec="seconds")
        return {"state": "unavailable", "reason": self.trouble.reason, "since": since}

    async def keep(self, ledger: Ledger) -> None:
        """Runs for ever: what no append shows is found out."""
        while True:
            await self._clock.sleep(RETRY_S)
            await self.look(ledger)

    async def look(self, ledger: Ledger) -> None:
        """Try whether the ledger would take an append, if it is time to."""
        now = self._clock.monotonic()
        store = self.trouble is not None or now - self._written >= STORE_S
        if not store and now - self._looked < LOOK_S:
            return
        try:
            await ledger.touch(store=store)
        except LedgerUnavailable as error:
            self.refused(str(error))
        else:
            self._looked = self._clock.monotonic()
            if store:
                self.took()
