"""What only all runs together show: who holds which effect, what stands on accounts, which parents are over.

Fed with every record in the order of the log. It keeps what is not settled, the accounts whose window is not past, and
the runs that others were opened from; nothing of it grows with the log alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import TypeAlias

from gateway.kernel.accounts import held_back, postings
from gateway.kernel.audit.breach import Breach, Step
from gateway.model.account import Posting
from gateway.model.canonical import Digest
from gateway.model.events import IntentRecorded, RunOpened, RunStopped
from gateway.model.run import Attempt, Run

Account: TypeAlias = tuple[str, str]
"""Account and unit."""

FORGOTTEN_S = 48 * 3600.0
"""So long after its end an account may be forgotten; what stands on it then is no longer judged."""

UNDER_WAY = timedelta(seconds=60)
"""So long after its parent stopped a child's call may still be recorded: it was being decided, and clocks differ."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the ledger must have among what is not settled."""

    run: str
    state: str
    hold: Digest | None
    since: datetime
    """When it was intended, or asked."""


class Together:
    """One ledger, up to the last record that was noted."""

    def __init__(self) -> None:
        self.unsettled: dict[str, Expected] = {}
        """By attempt."""
        self.levels: dict[Account, int] = {}
        """Of every account that is not past."""
        self.stood: dict[Account, set[int]] | None = None
        """While it is a map: what accounts stood at, before and after each posting."""
        self._holders: dict[Digest, str] = {}
        self.ends: dict[Account, float | None] = {}
        """Until when each of them may be asked for, in seconds since the epoch; None: for ever."""
        self._order: list[tuple[float, str, str]] = []
        """A heap of when accounts end; some of it is no longer true."""
        self._latest = 0.0
        self._parents: dict[str, datetime | None] = {}
        """Runs that others were opened from, and when they stopped."""

    def note(self, step: Step, tracked: Mapping[str, str | None], gave_way: str | None) -> Iterator[Breach]:
        """What the record breaks of what other runs did.

        `tracked` has the attempts that it moves, and what people are asked, each with what it must be listed as; None
        for what is settled.
        `gave_way` is the attempt whose hold ended with it.
        """
        self._latest = max(self._latest, step.record.at.timestamp())
        yield from self._of_parents(step)
        if gave_way is not None:
            self._settle(gave_way)
        yield from self._of_holds(step)
        for name, state in tracked.items():
            if name in step.after.attempts:
                self._track(step.after, step.after.attempts[name], state)
            elif state is None:
                self._settle(name)
            else:
                self.unsettled[name] = Expected(step.after.id, state, None, step.record.at)
        for posting in (*postings(step.before, step.record.event), *held_back(step.before, step.after)):
            yield from self._post(step, posting)
        self._forget()

    # --- holds ------------------------------------------------------------------------------------------------------

    def _of_holds(self, step: Step) -> Iterator[Breach]:
        event = step.record.event
        holder = self._holders.get(event.hold) if isinstance(event, IntentRecorded) and event.hold else None
        if holder is not None:
            state = self.unsettled[holder].state
            yield Breach("I4", step.record.id, f"an equal effect was {state} at that time, `{holder}`")

    def _track(self, run: Run, attempt: Attempt, state: str | None) -> None:
        hold = attempt.intent.hold
        if state is None:
            self._settle(attempt.id)
            return
        self.unsettled[attempt.id] = Expected(run.id, state, hold, attempt.at)
        if hold is not None:
            self._holders.setdefault(hold, attempt.id)

    def _settle(self, name: str) -> None:
        gone = self.unsettled.pop(name, None)
        if gone is not None and gone.hold is not None and self._holders.get(gone.hold) == name:
            del self._holders[gone.hold]

    # --- accounts ---------------------------------------------------------------------------------------------------

    def _post(self, step: Step, posting: Posting) -> Iterator[Breach]:
        account = posting.account, posting.unit
        known = self.ends.get(account, posting.until)
        until = None if known is None or posting.until is None else max(known, posting.until)
        if until is not None and (account not in self.ends or until != known):
            heappush(self._order, (until, *account))
        self.ends[account] = until
        level = self.levels[account] = self.levels.get(account, 0) + posting.amount
        if self.stood is not None:
            self.stood.setdefault(account, set()).update((level - posting.amount, level))
        if posting.limit is not None and posting.amount > 0 and level > posting.limit:
            says = f"with it `{posting.account}` stands at {level} {posting.unit} of {posting.limit}"
            yield Breach("I11", step.record.id, says)

    def _forget(self) -> None:
        while self._order and self.forgets(self._order[0][0]):
            until, *(account, unit) = heappop(self._order)
            if self.ends.get((account, unit)) == until:
                del self.ends[account, unit], self.levels[account, unit]

    def forgets(self, until: float | None) -> bool:
        """Whether what an account of that end stood at may be forgotten by now."""
        return until is not None and until <= self._latest - FORGOTTEN_S

    # --- parents ----------------------------------------------------------------------------------------------------

    def _of_parents(self, step: Step) -> Iterator[Breach]:
        event, run = step.record.event, step.after
        if isinstance(event, RunStopped) and run.id in self._parents:
            self._parents[run.id] = step.record.at
        if isinstance(event, RunOpened | IntentRecorded) and run.parent is not None:
            stopped = self._parents.get(run.parent)
            if stopped is not None and step.record.at > stopped + UNDER_WAY:
                yield Breach("I16", step.record.id, f"`{run.parent}`, from which its run was opened, was over")

    def opened_from(self, parent: Run) -> None:
        """A run was opened from that one, as it stands."""
        self._parents.setdefault(parent.id, parent.last_at if parent.stopped is not None else None)
