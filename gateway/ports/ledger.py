"""The ledger, and what may be against an append."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gateway.model.account import Posting
from gateway.model.canonical import Digest
from gateway.model.checkpoint import Checkpoint
from gateway.model.record import Record
from gateway.model.run import Tracked
from gateway.ports.consents import Consents


class Conflict(Exception):
    """The run, or one that it was decided by, has moved on since it was read. Nothing was written: decide again."""


class Occupied(Exception):
    """An equal effect is open or unknown in some run. Nothing was written."""

    def __init__(self, held: Tracked) -> None:
        super().__init__(f"attempt `{held.attempt}` of run `{held.run}` holds the same effect")
        self.held = held


class Exhausted(Exception):
    """A posting would take an account above its limit. Nothing was written."""

    def __init__(self, account: str, unit: str, level: int, limit: int) -> None:
        super().__init__(f"account `{account}` stands at {level} {unit} of {limit}")
        self.account = account
        self.unit = unit
        self.level = level
        """Where it stood, the step's own earlier postings included."""
        self.limit = limit


class LedgerUnavailable(Exception):
    """The ledger cannot be written or read now (locked, full, read-only, gone). The write may have happened."""


class UnreadableRecord(LedgerUnavailable):
    """One record or payload cannot be used as it is stored. What does not need it can be read, and all be written."""


class DamagedRecord(UnreadableRecord):
    """It is not what was written."""


class LockedPayload(UnreadableRecord):
    """It is encrypted, and the key is not here. It is what was written, as far as can be told."""

    def __init__(self, digest: Digest, key_id: str, stored: bytes) -> None:
        super().__init__(
            f"the payload `{digest}` of the ledger is encrypted with the key `{key_id}`, which was not given "
            "(`data: {encryption: …}` in gateway.yaml; `--config` of commands)"
        )
        self.stored = stored


class NoSuchRun(Exception):
    """The run cannot be opened for whoever asks: it belongs to somebody else, or its policy is not loaded."""


class NotOurLedger(Exception):
    """What is at the address is no ledger of ours, or one of a newer version. Never guessed at."""


@dataclass(frozen=True, slots=True)
class Append:
    """One atomic step of one run: its records, the payloads that they cite, and what is tracked from now on."""

    run: str
    expected: tuple[int, str]
    """Version and head of the run as the caller knows it."""
    records: Sequence[Record]
    payloads: Mapping[Digest, bytes] = field(default_factory=dict)
    track: Sequence[Tracked] = ()
    """Put in place of what stood under the same attempt."""
    untrack: Sequence[str] = ()
    """Attempts that are settled."""
    postings: Sequence[Posting] = ()
    """What the step takes from accounts and gives back to them, in this order. It needs a record that says why."""
    beside: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Version and head of other runs that it was decided by, as the caller knows them; with records only."""
    unhurried: bool = False
    """Nobody waits for it: it is written with what comes after it, or by itself a moment later."""


@dataclass(frozen=True, slots=True)
class Logged:
    """One record as it is stored, whatever became of it there: nothing of it was checked or understood."""

    place: int
    """Where it stands in the log of all runs; places only grow, and may have gaps."""
    run: str
    seq: int
    kind: str
    """That it is looked for by."""
    link: str
    body: bytes


class Stands(NamedTuple):
    """One account in one unit, as it is stored."""

    account: str
    unit: str
    level: int
    until: float | None
    """As in `Posting`."""


class Ledger(Protocol):
    """The append-only log of events, and the only memory that survives us."""

    @property
    def salt(self) -> bytes:
        """Under which this ledger's payloads are cited; 32 random bytes, made with the ledger."""
        ...

    @property
    def consents(self) -> Consents:
        """What principals let the gateway do in their name at other providers: beside the log, and in no export."""
        ...

    async def append(self, step: Append) -> None:
        """The step is durable. All of it, or nothing.

        Raises: Conflict, Occupied, Exhausted, of which the first that applies; LedgerUnavailable.
        """
        ...

    async def read(self, run: str, after: int = 0, *, limit: int | None = None) -> Sequence[tuple[Record, bytes]]:
        """The run's records beyond `after`, in order, at most so many, each with its stored bytes.

        Empty for an unknown run.
        """
        ...

    async def find(
        self, kinds: Sequence[str], *, limit: int = 1000, before: tuple[str, int] | None = None
    ) -> Sequence[Record]:
        """The newest records of these kinds, over all runs, newest first; of those before the record of that run and
        place in it, where one is named: so a long list is read page by page.
        """
        ...

    async def named(self, names: Collection[str]) -> Sequence[Record]:
        """The records by which the questions of these names were asked, of those that were; in no order.

        One look into an index, however long the log is, and whether or not there is such a name.
        """
        ...

    async def payload(self, digest: Digest) -> bytes | None:
        """The bytes that were stored under that digest, or None if they were erased or never stored here, or if only a
        copy without their secrets was.

        Raises: DamagedRecord, LockedPayload, LedgerUnavailable.
        """
        ...

    async def levels(self, accounts: Sequence[str]) -> Mapping[tuple[str, str], int]:
        """The level of each of these accounts in each of its units, by both; those that never were are absent.

        It is the exact sum of what was posted, by whomever: below 0, if more was given back than taken.
        """
        ...

    async def accounts(self, after: tuple[str, str] = ("", ""), *, limit: int = 1000) -> Sequence[Stands]:
        """All that stands on accounts, in the order of account and unit, from beyond those."""
        ...

    async def tracked(self, *, states: Collection[str] | None = None) -> Sequence[Tracked]:
        """All that is unsettled, oldest first; with `states`, only what is in one of them."""
        ...

    async def claim(self, seen: Tracked, owner: str, lease_until: float) -> bool:
        """Whether `owner` now holds the lease: only if its owner, its end and its state are still those of `seen`.

        No clock is asked: whether a lease has run out is for the caller to say, who has watched it.
        """
        ...

    async def renew(self, owner: str, attempts: Collection[str], lease_until: float) -> None:
        """Those of these attempts on which `owner` has a lease (`lease_until` above 0) are leased until then.

        With 0 they are nobody's again.
        """
        ...

    async def now(self) -> float:
        """Seconds since the epoch, by the clock that all who use this ledger share."""
        ...

    async def touch(self, *, store: bool) -> None:
        """An append would be taken: the right to write could be had. With `store`, some room was written to as well,
        durably, as much as an append takes. Nothing that can be read has changed.

        Raises: LedgerUnavailable.
        """
        ...

    async def once(self, name: str, until: float) -> bool:
        """Whether nobody said this name before, through any gateway. It is remembered until then, in seconds since the
        epoch, and somewhat longer; then it may go, with others whose time is over, a few for each that is new.

        Raises: LedgerUnavailable; the name may then have been said.
        """
        ...

    async def said(self, name: str) -> bool:
        """Whether somebody said this name and it is still remembered. Saying it is for `once`, and no one else."""
        ...

    # --- the log of all runs, in which records stand in the order in which they became durable ---------------------

    async def log(self, after: int = 0, *, limit: int = 1000) -> Sequence[Logged]:
        """The records beyond the place `after`, in order, as they are stored. For `verify` and for an export."""
        ...

    async def strange(self) -> Sequence[str]:
        """What the store lacks of what this version makes, and what was added to it that acts by itself; a line each.

        Whoever can write it can have it lose what is written, or lists not find what is there.
        """
        ...

    async def lax(self) -> Sequence[str]:
        """Settings of the store by which something acknowledged could be lost with the power; a line each."""
        ...

    async def links(self, after: int = 0, *, limit: int = 10_000) -> Sequence[tuple[int, str]]:
        """As `log`, but only place and link: what a checkpoint is made of."""
        ...

    async def closed(self) -> int:
        """A place such that nothing at or before it can still come, whatever is being written now."""
        ...

    async def checkpoint(self, made: Checkpoint) -> bool:
        """Whether it was added: only if the log had more records then than at every checkpoint before."""
        ...

    async def checkpoints(self, *, limit: int = 1) -> Sequence[Checkpoint]:
        """The newest, newest first."""
        ...

    # --- retention --------------------------------------------------------------------------------------------------

    async def payloads(self, after: str = "", *, limit: int = 1000) -> Sequence[tuple[Digest, bytes]]:
        """What is stored of payloads whose digest comes after that one, in the order of their digests.

        What is encrypted with a key that is not here is given as it is stored, and so is a copy without secrets
        (`model/at_rest`).
        """
        ...

    async def erase(self, digests: Collection[Digest], at: float, seen: int) -> int:
        """How many payloads were erased: their digests are remembered with the time, their bytes are gone.

        `seen` is the place up to which the log was read before it was decided: what a record beyond it cites stays, and
        none comes meanwhile. One that is stored anew afterwards is no longer an erased one.
        """
        ...

    async def erased(self, digests: Collection[Digest]) -> Mapping[Digest, float]:
        """Which of these were erased, and when, in seconds since the epoch."""
        ...

    async def close(self) -> None:
        """What was queued is durable or refused; nothing is held open."""
        ...
