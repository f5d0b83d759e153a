"""The runs that the log is being read through, each as it was before its next record. Bounded, whatever the ledger.

A run that nothing was read of for long is let go, and read again from the ledger if it goes on after all.
"""

from collections import OrderedDict
from dataclasses import dataclass

from gateway.kernel.reduce import CorruptLedger, fold
from gateway.model.record import GENESIS, link
from gateway.model.run import Run
from gateway.ports import Ledger, LedgerUnavailable

KEPT = 200_000
"""Records whose runs are kept, in some 200 MB. With few, runs that go on side by side are read again and again."""


ALL = 2**63
"""More records than a run has."""


@dataclass(slots=True)
class Line:
    """One run, up to the last record that was read of it."""

    run: Run | None
    """Its state; None once that cannot be told any more, because a record of it is not what it was."""
    seq: int = 0
    head: str = GENESIS
    """The link that the next record must cite."""


class Lines:
    """Run id to line."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lines: OrderedDict[str, Line] = OrderedDict()
        self._weight = 0

    async def before(self, run_id: str, seq: int) -> Line:
        """The run as it was read, before its record `seq`; a new one for what the ledger has no earlier record of.

        Raises: LedgerUnavailable.
        """
        line = self._lines.get(run_id)
        if line is None:
            line = self._lines[run_id] = Line(Run(run_id)) if seq == 1 else await self._again(run_id, seq)
            self._weight += line.seq
        else:
            self._lines.move_to_end(run_id)
        return line

    def moved(self, run_id: str, run: Run | None, seq: int, head: str) -> None:
        """What the run is after its next record."""
        line = self._lines[run_id]
        self._weight += seq - line.seq
        line.run, line.seq, line.head = run, seq, head
        while self._weight > KEPT and len(self._lines) > 1:
            _, gone = self._lines.popitem(last=False)
            self._weight -= gone.seq

    async def state_of(self, run_id: str) -> Run:
        """The run as far as it was read, or else as it is in the ledger; one without records if that cannot be told.

        Raises: LedgerUnavailable.
        """
        line = self._lines.get(run_id)
        found = line if line is not None else await self._again(run_id, ALL)
        return found.run or Run(run_id)

    async def _again(self, run_id: str, seq: int) -> Line:
        try:
            records = await self._ledger.read(run_id)
        except LedgerUnavailable:
            return Line(None)  # a record of it cannot be read, which is told where it stands
        earlier = [(record, link(body)) for record, body in records if record.seq < seq]
        if not earlier:
            return Line(Run(run_id))
        last, head = earlier[-1]
        try:
            return Line(fold(earlier, Run(run_id)), last.seq, head)
        except CorruptLedger:
            return Line(None, last.seq, head)
