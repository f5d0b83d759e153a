"""What verifying is asked, and what it says."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from gateway.kernel.audit import Breach
from gateway.model.note import Note

MAX_TOLD = 200
"""Breaches that are told one by one; whoever has more has one cause for most of them."""


class Unreadable(Exception):
    """It cannot be verified: a newer version wrote it, or what it is to be compared with makes no sense."""


class Cited(Protocol):
    """Digests and where they are cited, on disk: a ledger may cite more than fit into memory."""

    def cite(self, digests: Iterable[tuple[str, str]], others: Iterable[str]) -> None:
        """Each of the first must be stored, and is cited there; the others may be."""
        ...

    def stored(self, digests: Iterable[str]) -> None:
        """These are stored."""
        ...

    def missing(self) -> Iterator[tuple[str, str]]:
        """What must be stored and is not, each with where it was cited first."""
        ...

    def uncited(self) -> int:
        """How many are stored and cited nowhere."""
        ...

    def close(self) -> None:
        """It is not asked any more."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a ledger is compared with, and how far the checks go."""

    cited: Callable[[], Cited]
    head: Note | None = None
    """The external head; None if there is none."""
    keys: Sequence[bytes] = ()
    """Public keys of which one must have signed each signed checkpoint; none: signatures are not judged."""
    signed: Callable[[bytes, bytes, bytes], bool] = lambda _key, _signature, _data: False
    judge: bool = False
    """Whether every verdict is judged again by the recorded policy."""
    progress: Callable[[int, int], None] = lambda _done, _of: None
    """Told now and then: places that were read, and of how many."""


@dataclass(slots=True)
class Report:
    """What was found."""

    origin: str
    """Of the ledger's log, as its checkpoints have it."""
    records: int = 0
    runs: int = 0
    payloads: int = 0
    erased: int = 0
    """Payloads that are cited, and recorded as erased."""
    locked: int = 0
    """Payloads that are encrypted with a key that is not here: whether they are what was written was not checked."""
    lacking: set[str] = field(default_factory=set)
    """Ids of those keys, in hex."""
    redacted: int = 0
    """Payloads of which only a copy without their secrets is stored; nobody can check it."""
    uncited: int = 0
    """Payloads that are stored, and cited by nothing."""
    checkpoints: int = 0
    signed_up_to: int = 0
    """Records under the newest checkpoint that one of the keys signed; where no key was given, that anybody did."""
    sealed_up_to: int = 0
    """Records under the newest checkpoint."""
    signers: set[str] = field(default_factory=set)
    """Key ids that signed checkpoints, in hex."""
    head: int | None = None
    """Records that the head was made over; None without one."""
    judged: int = 0
    """Verdicts that were judged again."""
    not_judged: int = 0
    """Verdicts of which the ledger has no longer what judging needs, or for which something had to be assumed."""
    unknown: list[tuple[str, datetime]] = field(default_factory=list)
    """Attempts whose outcome is not known, or that are still open, with when they were intended; oldest first."""
    root: str = ""
    """Of the log up to where it stood at the start, in hex."""
    breaches: list[Breach] = field(default_factory=list)
    """The first of them, in the order in which they were found."""
    count: int = 0
    """Of all breaches."""

    def broken(self, found: Breach) -> None:
        """One more."""
        self.count += 1
        if len(self.breaches) < MAX_TOLD:
            self.breaches.append(found)

    def oldest_unknown_s(self, now: datetime) -> float | None:
        """Age of the oldest attempt whose outcome is not known; None if there is none."""
        return (now - self.unknown[0][1]).total_seconds() if self.unknown else None

    def as_json(self) -> Mapping[str, object]:
        """For machines: names as above."""
        plain = (
            "origin",
            "records",
            "runs",
            "payloads",
            "erased",
            "uncited",
            "locked",
            "redacted",
            "checkpoints",
            "sealed_up_to",
        )
        more = ("signed_up_to", "head", "judged", "not_judged", "root")
        return {
            **{name: getattr(self, name) for name in (*plain, *more)},
            "lacking": sorted(self.lacking),
            "signers": sorted(self.signers),
            "unknown": [{"attempt": name, "since": since.isoformat()} for name, since in self.unknown],
            "broken": self.count,
            "breaches": [{"invariant": one.invariant, "where": one.where, "says": one.says} for one in self.breaches],
        }
