"""Whether a person has stopped what is relayed without a verdict: resources, prompts, completion, what a server asked
for in the middle of a call.
"""

from collections.abc import Sequence

from gateway.kernel.switches import barred, said, thrown
from gateway.model.principal import Principal
from gateway.model.switch import SWITCHES
from gateway.runtime.book import Book


class Barring:
    """Looks at people's switches. One for each process."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def barred(self, principal: Principal, upstreams: Sequence[str], tool: str | None = None) -> str | None:
        """As `Gate.barred`: the ledger is looked at each time.

        Raises: LedgerUnavailable, CorruptLedger.
        """
        standing = thrown(await self._book.fresh_state_of(SWITCHES))
        found = barred(standing, principal, upstreams, tool) if standing else None
        return None if found is None else said(found)
