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
    """What the ledger says of credentials by name. One for each door of a process."""

    def __init__(self, said: Callable[[str], Awaitable[bool]], monotonic: Callable[[], float]) -> None:
        """`said` is `Ledger.said`."""
        self._said = said
        self._good = _Good(monotonic)

    async def has(self, name: str) -> bool:
        """Whether that was said in the ledger, at latest two seconds ago.

        Raises: LedgerUnavailable.
        """
        if self._good.until(name) is not None:
            return False
        until = self._good.from_now()
        if await self._said(name):
            return True
        self._good.keep(name, until)
        return False


class RevokedRuns:
    """What the ledger says of the tokens of runs, and of those that they descend from. One for each process."""

    def __init__(
        self,
        said: Callable[[str], Awaitable[bool]],
        opened_from: Callable[[str], Awaitable[str | None]],
        monotonic: Callable[[], float],
    ) -> None:
        """`said` is `Ledger.said`; `opened_from` is the run that a run was opened from, if it was from any."""
        self._said = said
        self._opened_from = opened_from
        self._good = _Good(monotonic)

    async def by(self, run: str, parent: str | None = None) -> str | None:
        """The run whose token was revoked, at latest two seconds ago, and that of `run` with it: itself, or any that it
        descends from. `parent` is what its token says, which counts before its first call too.

        Raises: LedgerUnavailable.
        """
        found, _ = await self._judged(run, parent)
        return found

    async def _judged(self, run: str, parent: str | None) -> tuple[str | None, float]:
        """The same, and until when it is good to go by."""
        known = self._good.until(run)
        if known is not None:
            return None, known
        until = self._good.from_now()
        if await self._said(name_of(run)):
            return run, until
        above = parent or await self._opened_from(run)
        if above is not None:  # ends: a parent was there before its child
            found, good_until = await self._judged(above, None)
            if found is not None:
                return found, until
            until = min(until, good_until)
        self._good.keep(run, until)
        return None, until


class _Good:
    """What was not revoked when it was last asked about."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._until: OrderedDict[str, float] = OrderedDict()

    def until(self, name: str) -> float | None:
        """Until when it is taken for good; None where it must be asked about."""
        until = self._until.get(name, 0.0)
        return until if self._monotonic() < until else None

    def from_now(self) -> float:
        """Until when an answer to what is asked now is good."""
        return self._monotonic() + KNOWN_S

    def keep(self, name: str, until: float) -> None:
        self._until[name] = until
        self._until.move_to_end(name)
        while len(self._until) > MAX_KNOWN:
            self._until.popitem(last=False)
