"""How often something may be done that costs others something and that nobody need be known for."""

from collections.abc import Callable


class Pace:
    """Lets so many through at once, and then so many a second. One for each process."""

    def __init__(self, now: Callable[[], float], *, at_once: int, per_s: float) -> None:
        self._now = now
        self._at_once = at_once
        self._per_s = per_s
        self._left = float(at_once)
        self._counted_at = now()

    def lets(self) -> bool:
        """Whether one more may be done now; it counts as done then."""
        now = self._now()
        passed = max(0.0, now - self._counted_at)  # a clock may be set back
        self._counted_at = now
        self._left = min(self._at_once, self._left + passed * self._per_s)
        if self._left < 1:
            return False
        self._left -= 1
        return True
