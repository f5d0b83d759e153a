"""A group of steps, decided in order against the same state, and what to write for those that were not refused.

Pure: no server is asked here. What is decided holds if the ledger is as `State` says, and `put` checks that it is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gateway.model.canonical import Digest
from gateway.outbound.ledger.accounts import Account, Change, Standing, forgettable, past, posted
from gateway.outbound.ledger.chain import Entry, check_beside, check_expected, check_holds
from gateway.ports import Append, Conflict, Exhausted, Occupied, Tracked

REFUSALS = (Conflict, Occupied, Exhausted, ValueError)
"""What a step of a group may be refused with, the others being as they would be without it."""

Head: TypeAlias = tuple[int, str]


@dataclass(slots=True)
class State:
    """What the ledger holds, of what a group asks for, and what the group's steps have made of it so far."""

    head_of: Callable[[str, Head], Head]
    """Version and head of a run, where no earlier step of the group moved it; and where its caller takes it to be."""
    holder_of: Callable[[Digest], Tracked | None]
    """Who has the hold in the ledger."""
    standing_of: Callable[[Account], Standing | None]
    """How the account stands in the ledger."""
    found: dict[str, Head] = field(default_factory=dict)
    """By run that the group appends to, or was decided by: where it was before the group."""
    heads: dict[str, Head] = field(default_factory=dict)
    touched: dict[str, Tracked | None] = field(default_factory=dict)
    """By attempt: what the group made of it; None: it is no longer tracked."""
    holders: dict[Digest, str] = field(default_factory=dict)
    """Holds that the group has given, to the attempt that has them."""
    changes: dict[Account, Change] = field(default_factory=dict)
    """Of accounts: as they were before the group, and as it leaves them."""

    def head(self, run: str, expected: Head) -> Head:
        """Where the run is now."""
        moved = self.heads.get(run) or self.found.get(run)
        return self.head_of(run, expected) if moved is None else moved

    def holder(self, hold: Digest) -> Tracked | None:
        """Who has the hold now."""
        ours = self.holders.get(hold)
        if ours is not None:
            return self.touched[ours]
        theirs = self.holder_of(hold)
        return None if theirs is None or theirs.attempt in self.touched else theirs

    def standing(self, account: Account) -> Standing | None:
        """How the account stands now."""
        changed = self.changes.get(account)
        return self.standing_of(account) if changed is None else changed.after

    def touch(self, attempt: str, now: Tracked | None) -> None:
        """That is what the attempt is from here on."""
        before = self.touched.get(attempt)
        if before is not None and before.hold is not None and self.holders.get(before.hold) == attempt:
            del self.holders[before.hold]
        self.touched[attempt] = now
        if now is not None and now.hold is not None:
            self.holders[now.hold] = attempt


@dataclass(slots=True)
class Plan:
    """What a group writes."""

    entries: list[Entry] = field(default_factory=list)
    payloads: dict[Digest, bytes] = field(default_factory=dict)
    wanted: list[tuple[str, Digest, int]] = field(default_factory=list)
    """Attempt and the hold that it takes, which nobody else may have in the ledger, but for so many of `order`."""
    order: list[str] = field(default_factory=list)
    """Attempts in the order in which the group touched them."""
    untracked: dict[str, None] = field(default_factory=dict)
    tracked: dict[str, Tracked] = field(default_factory=dict)
    """In the order in which the group began to track them."""
    past: float | None = None
    forgotten: int = 0

    def add(self, step: Append, made: Sequence[Entry], state: State) -> None:
        """The step is part of the group.

        Raises: one of REFUSALS; then nothing of it is.
        """
        found = state.head(step.run, step.expected)
        check_expected(step, found)
        check_beside(step, lambda run: state.head(run, step.beside[run]))
        check_holds(step, state.holder)
        changes = posted(step.postings, state.standing) if step.postings else ()
        # Nothing below can fail.
        state.found.setdefault(step.run, found)
        for run, head in step.beside.items():
            state.found.setdefault(run, head)
        last = made[-1] if made else None
        state.heads[step.run] = found if last is None else (last.record.seq, last.link)
        self.entries.extend(made)
        for digest, body in step.payloads.items():
            self.payloads.setdefault(digest, body)
        self._track(step, state)
        self._post(step, changes, state)

    def _track(self, step: Append, state: State) -> None:
        for attempt in step.untrack:
            state.touch(attempt, None)
            self.order.append(attempt)
            self.tracked.pop(attempt, None)
            self.untracked[attempt] = None
        for tracked in step.track:
            if tracked.hold is not None:
                self.wanted.append((tracked.attempt, tracked.hold, len(self.order)))
            state.touch(tracked.attempt, tracked)
            self.order.append(tracked.attempt)
            self.tracked[tracked.attempt] = tracked

    def _post(self, step: Append, changes: Sequence[Change], state: State) -> None:
        for account, before, after in changes:
            first = state.changes.get(account)
            state.changes[account] = Change(account, before if first is None else first.before, after)
        if count := forgettable(changes):
            end = past(step)
            self.forgotten += count
            self.past = end if self.past is None else min(self.past, end)

    def rows(self, version: int, state: State) -> tuple[Any, ...]:
        """The arguments of the function `put`, in its order."""
        # Sorted by what is locked, so that no two gateways wait for each other in a circle.
        entries = sorted(self.entries, key=_run_of)
        payloads = sorted(self.payloads.items())
        changes = [state.changes[account] for account in sorted(state.changes)]
        tracked = self.tracked.values()
        before = [change.before for change in changes]
        return (
            version,
            *_columns(((run, *head) for run, head in sorted(state.found.items())), 3),
            *_columns(self.wanted, 3),
            self.order,
            *_columns(((e.record.run, e.record.seq, e.record.event.kind, e.link, e.body) for e in entries), 5),
            *_columns(payloads, 2),
            list(self.untracked),
            *_columns(((t.attempt, t.run, t.state, t.hold, t.owner, t.lease_until) for t in tracked), 6),
            *_columns(((*change.account, *change.after) for change in changes), 4),
            [None if was is None else was.level for was in before],
            [None if was is None else was.until for was in before],
            self.past,
            self.forgotten,
        )


def _run_of(entry: Entry) -> str:
    return entry.record.run


def _columns(rows: Iterable[Sequence[Any]], count: int) -> Sequence[list[Any]]:
    columns = [list(column) for column in zip(*rows, strict=True)]
    return columns or [[] for _ in range(count)]


def guessed(standings: Mapping[Account, Standing]) -> State:
    """The state as the callers know it: every run is where its first step expects it, and no hold is taken.

    Almost always that is so, and a group costs one statement.
    """
    return State(_expected, _nobody, standings.get)


def _expected(_: str, expected: Head) -> Head:
    return expected


def _nobody(_: Digest) -> None:
    return None
