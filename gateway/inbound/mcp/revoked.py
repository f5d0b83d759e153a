"""Credentials that let nobody in any more: run tokens, and what reviewers have (`inbound/console/revoking`).

Each says all by itself and stands in no file. So that it was revoked is a name in the ledger, which all gateways
that it is good at share: one place to say it, whichever of them runs, and nothing to copy.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable

KNOWN_S = 2.0
"""How long what was not revoked is taken for good: to look into the ledger for each request costs latency."""
MAX_KNOWN = 10_000


def name_of(run: str) -> str:
    """What is said in the ledger, once, when the token of that run is revoked."""
    return f"run-token:revoked:{run}"


class Revoked:
    """What the ledger says of credentials. `said` is `Ledger.said`; one for each door of a process."""

    def __init__(self, said: Callable[[str], Awaitable[bool]], monotonic: Callable[[], float]) -> None:
        self._said = said
        self._monotonic = monotonic
        self._good_until: OrderedDict[str, float] = OrderedDict()

    async def has(self, name: str) -> bool:
        """Whether that was said in the ledger, at latest two seconds ago.

        Raises: LedgerUnavailable.
        """
        if self._monotonic() < self._good_until.get(name, 0.0):
            return False
        if await self._said(name):
            return True
        self._good_until[name] = self._monotonic() + KNOWN_S
        self._good_until.move_to_end(name)
        while len(self._good_until) > MAX_KNOWN:
            self._good_until.popitem(last=False)
        return False
