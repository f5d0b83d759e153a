"""What a check must know of the world before it can judge: looked at, and recorded in the verdict."""

from dataclasses import replace

from gateway.kernel.accounts import looked_at
from gateway.kernel.case import Gather, Observed
from gateway.kernel.rules import Rules
from gateway.model.canonical import Digest
from gateway.model.proposal import Proposal
from gateway.model.record import utc
from gateway.model.run import Run
from gateway.ports import Party, Upstreams
from gateway.runtime.book import Book
from gateway.runtime.lineage import goes_on
from gateway.runtime.offers import offered
from gateway.runtime.verifying import Verifying


class Wanting(Exception):
    """Nothing can be decided before somebody has looked at the world."""

    def __init__(self, wanted: Gather, run: Run, rules: Rules) -> None:
        super().__init__()
        self.wanted = wanted
        self.run = run
        self.rules = rules


class Gathering:
    """Looks at the world. One for each process."""

    def __init__(self, book: Book, upstreams: Upstreams, verifying: Verifying) -> None:
        self._book = book
        self._upstreams = upstreams
        self._verifying = verifying

    async def gather(
        self,
        wanting: Wanting,
        proposal: Proposal,
        observed: Observed,
        payloads: dict[Digest, bytes],
        party: Party | None,
    ) -> Observed:
        """What was seen of the world, for deciding again; what the verdict will cite is among the payloads.

        Raises: LedgerUnavailable.
        """
        wanted = wanting.wanted
        if wanted.parent is not None:
            alive = await goes_on(wanted.parent, self._book.fresh_state_of, utc(self._book.clock.now()))
            observed = replace(observed, parent="running" if alive else "over")
        if wanted.accounts:
            found = await self._book.ledger.levels(wanted.accounts)
            observed = replace(observed, levels=looked_at(wanted.accounts, found))
        if wanted.offered:
            observed = replace(observed, offered=await offered(self._upstreams, wanting.rules, party))
        for name in wanted.probes:
            probed, stored = await self._verifying.before_call(name, wanting.run, proposal.arguments, wanting.rules)
            payloads |= stored
            observed = replace(observed, probes={**observed.probes, name: probed})
        return observed
