"""Which leases have run out, without a wall clock: those jump, and differ from one gateway to the next.

A lease is over for us once we have seen it stand unrenewed, by our own monotonic time, for as long as a living owner
never leaves it.
"""

from collections.abc import Iterable

from gateway.model.run import Tracked
from gateway.ports import Clock

NOBODYS = 0.0
"""`lease_until` of what nobody works on: it is free at once."""


class Leases:
    """What we have seen of others' leases, and since when."""

    def __init__(self, clock: Clock, owner: str, lease_s: float) -> None:
        self._clock = clock
        self._owner = owner
        self._lease_s = lease_s
        self._since: dict[str, tuple[tuple[str, float], float]] = {}
        """By attempt: owner and end of its lease, and when we first saw them so."""

    def free(self, seen: Tracked) -> bool:
        """Whether it may be claimed now: nobody's, or not renewed for a whole lease time under our eyes.

        Our own is free at once, but for one that is open: its call may be about to be carried, its intent having become
        durable a moment ago. What we renew for ourselves says nothing.
        """
        mine = seen.owner == self._owner
        lease = seen.owner, 0.0 if mine else seen.lease_until
        known, since = self._since.get(seen.attempt, (None, 0.0))
        if known != lease:
            since = self._clock.monotonic()
            self._since[seen.attempt] = lease, since
        if seen.lease_until == NOBODYS or (mine and seen.state != "open"):
            return True
        return self._clock.monotonic() - since >= self._lease_s

    def alive(self, attempt: str) -> None:
        """It is under way here."""
        self._since.pop(attempt, None)

    def forget(self, but: Iterable[str]) -> None:
        """Only these attempts are still unsettled."""
        kept = set(but)
        self._since = {name: seen for name, seen in self._since.items() if name in kept}
