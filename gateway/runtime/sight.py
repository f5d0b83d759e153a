"""What one reviewer may see of the runs of a ledger. Asked by whatever reads for people."""

from gateway.model.events import RunOpened
from gateway.model.review import Reviewer
from gateway.ports import Ledger


class Sight:
    """Each run's beginning, which says whose it is, is read once."""

    def __init__(self, ledger: Ledger, by: Reviewer) -> None:
        self._ledger = ledger
        self._by = by
        self._known: dict[str, RunOpened | None] = {}

    async def opened(self, run: str) -> RunOpened | None:
        """How the run began; None if there is none, or it is not theirs to see.

        Raises: LedgerUnavailable.
        """
        if run not in self._known:
            first = await self._ledger.read(run, 0, limit=1)
            event = first[0][0].event if first else None
            seen = isinstance(event, RunOpened) and self._by.sees(event.principal.tenant)
            self._known[run] = event if isinstance(event, RunOpened) and seen else None
        return self._known[run]
