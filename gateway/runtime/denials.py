"""How many calls of one principal are denied in a minute: each is recorded, and a flood of them fills a disk."""

from collections import Counter
from collections.abc import Callable

from gateway.model.principal import Principal
from gateway.runtime.lanes import PAUSE_S, Crowded

MINUTE_S = 60.0


class Denials:
    """Counts them, minute by minute. One for each process."""

    def __init__(self, most: int | None, monotonic: Callable[[], float]) -> None:
        """`most` for each principal; None: no limit."""
        self._most = most
        self._monotonic = monotonic
        self._since = monotonic()
        self._counts: Counter[tuple[str, str]] = Counter()

    def check(self, principal: Principal) -> None:
        """One more may be denied.

        Raises: Crowded until the minute is over.
        """
        now = self._monotonic()
        if now - self._since >= MINUTE_S:
            self._since = now
            self._counts.clear()
        if self._most is not None and self._counts[principal.whose] >= self._most:
            whose = "/".join(principal.whose)
            raise Crowded(
                f"calls of `{whose}` that this gateway denied within a minute: {self._most}, as many as may be",
                max(PAUSE_S, round(self._since + MINUTE_S - now, 3)),
            )

    def add(self, principal: Principal) -> None:
        """One was."""
        self._counts[principal.whose] += 1
