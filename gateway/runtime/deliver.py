"""What a live client was told is recorded: until then a write is answered from its record to whoever repeats it."""

import logging
from collections.abc import Sequence
from datetime import datetime

from gateway.kernel.rules import Rules
from gateway.model.answer import Shown
from gateway.model.events import Effect, Event, Outcome, OutcomeDelivered
from gateway.model.run import Attempt, AttemptState, Run
from gateway.model.trusted import trusted
from gateway.ports import LedgerUnavailable
from gateway.runtime.book import Book
from gateway.runtime.carry import Carrier

_LOG = logging.getLogger("counterfoil.engine")


class Deliveries:
    """The deliveries of one process. Those of one turn of the event loop are recorded together."""

    def __init__(self, book: Book, carrier: Carrier) -> None:
        self._book = book
        self._clock = book.clock
        self._carrier = carrier
        self._delivered: dict[str, dict[str, int | None]] = {}
        """By run, attempts whose delivery is recorded in the next turn of the event loop; and how much was told."""

    def note(self, shown: Shown) -> None:
        """The outcome was written to a live client. Recorded soon; if that is lost, it is merely told once more."""
        told = shown.refusal
        final = told is None or (told.executed is True and told.outcome is not Outcome.IN_FLIGHT)
        in_time = shown.deliver_by is None or self._clock.monotonic() <= shown.deliver_by
        if (
            shown.attempt is not None
            and shown.awaits is None
            and final
            and in_time
            and (shown.told_bytes is not None or not self._book.only_read(shown.run, shown.attempt))
        ):
            together = self._delivered.setdefault(shown.run, {})
            if not together:
                _ = self._carrier.spawn(self._record_deliveries(shown.run))
            together.setdefault(shown.attempt, shown.told_bytes)

    async def _record_deliveries(self, run_id: str) -> None:
        """Those of one turn of the event loop, in one step. Judged before anything that a client says next is."""

        def noted(run: Run, _rules: Rules, _now: datetime) -> Sequence[Event]:
            found = ((run.attempts.get(name), told) for name, told in names.items())
            return tuple(
                _outcome_delivered(attempt=one.id, told_bytes=told)
                for one, told in found
                if one is not None and _owes_delivery(one, told)
            )

        names = self._delivered.pop(run_id)
        try:
            await self._book.transact(run_id, noted, {}, unhurried=True)
        except LedgerUnavailable as error:
            _LOG.warning("the delivery of %s is not recorded: %s", ", ".join(names), error)


_outcome_delivered = trusted(OutcomeDelivered)


def _owes_delivery(attempt: Attempt, told_bytes: int | None) -> bool:
    """Nothing hangs on the delivery of a read, unless what is told of the next equal one does."""
    answered = attempt.state is AttemptState.ANSWERED and not attempt.delivered
    return answered and (attempt.intent.effect is not Effect.READ or told_bytes is not None)
