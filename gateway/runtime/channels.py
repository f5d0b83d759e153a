"""A channel in use: what it is told of, and how long it is left alone after it took nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.model.asked import RISKS
from gateway.model.notice import Audience
from gateway.ports import Notifier, NotTaken
from gateway.runtime.matters import Matter

FIRST_S = 5.0
"""After the first message that was not taken; then three times as long each time, up to the most."""
MOST_S = 3_600.0
AT_ITS_WORD_S = 6 * 3_600.0
"""For so long at most it is left alone because it says so."""
JITTER = 0.25
"""By so much of itself a pause is longer or shorter, so that gateways that failed together do not come together."""


def pause_s(failures: int, said: NotTaken, random: Callable[[], float]) -> float:
    """How long to wait after so many failures in a row. `random` gives numbers from 0 to 1."""
    usual: float = min(FIRST_S * 3.0 ** min(failures - 1, 16), MOST_S) * (1 - JITTER + 2 * JITTER * random())
    return max(usual, min(said.retry_after_s or 0.0, AT_ITS_WORD_S))


@dataclass(slots=True, eq=False)
class Line:
    """One channel of this gateway."""

    name: str
    audience: Audience
    notifier: Notifier
    busy: int = 0
    """How many messages are on their way."""
    failures: int = 0
    """In a row."""
    rests_until: float = 0.0
    """By the monotonic clock."""
    refused: str = ""
    """Why it did not take the last one."""
    given_up: int = 0
    """Messages that are not tried any more, since the gateway started."""

    def wants(self, asked: Matter) -> bool:
        """Whether it is told of that."""
        its = self.audience
        return (
            asked.about in its.about
            and RISKS.index(asked.risk) >= RISKS.index(its.risk)
            and (not its.tenants or asked.tenant in its.tenants)
            and (not its.roles or not asked.roles or not its.roles.isdisjoint(asked.roles))
        )

    def free(self, now: float) -> bool:
        """Whether it may be sent one now; one that took nothing last time is tried with one at a time."""
        return now >= self.rests_until and self.busy < (1 if self.failures else self.notifier.together)

    def took(self) -> None:
        """It took one."""
        self.failures, self.rests_until, self.refused = 0, 0.0, ""

    def left_alone(self, said: NotTaken, now: float, random: Callable[[], float]) -> None:
        """It did not take one."""
        self.failures += 1
        self.refused = said.reason
        self.rests_until = now + pause_s(self.failures, said, random)

    def state(self) -> dict[str, Any]:
        """For `/readyz`."""
        trouble = self.notifier.trouble or self.refused
        return {"trouble": trouble or None, "failures": self.failures, "given_up": self.given_up}
