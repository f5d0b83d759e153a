"""Run tokens that let nobody in any more.

A token says all by itself and stands in no file. So that it was revoked is a name in the ledger, which all gateways
that it is good at share: one place to say it, whichever of them runs, and nothing to copy.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable

KNOWN_S = 2.0
"""How long a token that was not revoked is taken for good: to look into the ledger for each request costs latency."""
MAX_KNOWN = 10_000


def name_of(run: str) -> str:
    """What is said in the ledger, once, when the token of that run is revoked."""
    return f"run-token:revoked:{run}"


class Revoked:
    """What the ledger says of the tokens of runs. One for each process."""

    def __init__(
        self,
        said: Callable[[str], Awaitable[bool]],
        opened_from: Callable[[str], Awaitable[str | None]],
        monotonic: Callable[[], float],
    ) -> None:
        """`said` is `Ledger.said`; `opened_from` is the run that a run was opened from, if it was from any."""
        self._said = said
        self._opened_from = opened_from
        self._monotonic = monotonic
        self._good_until: OrderedDict[str, float] = OrderedDict()

    async def by(self, run: str, parent: str | None = None) -> str | None:
        """The run whose token was revoked, at latest two seconds ago, and that of `run` with it: itself, or any that it
        descends from. `parent` is what its token says, which counts before its first call too.

        Raises: LedgerUnavailable.
        """
        found, _ = await self._judged(run, parent)
        return found

    async def _judged(self, run: str, parent: str | None) -> tuple[str | None, float]:
        """The same, and until when it is good to go by."""
        until = self._good_until.get(run, 0.0)
        if self._monotonic() < until:
            return None, until
        until = self._monotonic() + KNOWN_S
        if await self._said(name_of(run)):
            return run, until
        above = parent or await self._opened_from(run)
        if above is not None:  # ends: a parent was there before its child
            found, good_until = await self._judged(above, None)
            if found is not None:
                return found, until
            until = min(until, good_until)
        self._keep(run, until)
        return None, until

    def _keep(self, run: str, until: float) -> None:
        self._good_until[run] = until
        self._good_until.move_to_end(run)
        while len(self._good_until) > MAX_KNOWN:
            self._good_until.popitem(last=False)
