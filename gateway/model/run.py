"""One task's state: a reduction of its events and nothing else.

What changes with every event is a named tuple: a changed copy of one costs a fifth of a frozen dataclass's, and what
stays of a call in memory is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, NamedTuple, TypeVar

from rpds import HashTrieMap

from gateway.model.canonical import Digest
from gateway.model.events import Charge, Denied, Effect, EvidenceRecorded, Outcome, Reservation, RunStopped, Undo
from gateway.model.principal import Principal
from gateway.model.proposal import Key
from gateway.model.record import GENESIS


class RunState(StrEnum):
    """Where a run stands, whatever its phase."""

    UNOPENED = "unopened"
    RUNNING = "running"
    STOPPED = "stopped"


class AttemptState(StrEnum):
    """Where an attempt stands. `NEXT` in `kernel/reduce.py` has every legal move."""

    OPEN = "open"
    """Sent, or about to be; an answer may come."""
    SUSPENDED = "suspended"
    """The upstream waits for input or works on a task."""
    UNKNOWN = "unknown"
    """Whether it happened is not known; held."""
    ANSWERED = "answered"
    """Its receipt is stored; a verifier may still have to speak."""
    UNSENT = "unsent"
    REFUTED = "refuted"
    ABANDONED = "abandoned"


UNSETTLED = frozenset({AttemptState.OPEN, AttemptState.SUSPENDED, AttemptState.UNKNOWN})
"""States in which the effect may have happened or may yet happen."""


class Intent(NamedTuple):
    """What of an `IntentRecorded` is still read once it is recorded: all but what the checks saw.

    It stays in memory for as long as its run goes on; the findings alone would take ten times as much.
    """

    tool: str
    upstream: str | None
    transition: str | None
    arguments: Digest
    definition: Digest | None
    policy: Digest
    phase: str
    key: Key | None
    """The one that the client sent; None for one that was made for this attempt alone."""
    effect: Effect
    charge: Charge
    timeout_s: float
    settles_at: datetime
    repeat: Literal["hold", "replay", "new"]
    hold: Digest | None
    target: str | None
    verifier: str | None
    edges: Mapping[str, str]
    waived: tuple[str, ...]
    accounts: tuple[Reservation, ...]
    warnings: tuple[str, ...]
    undo: Undo | None = None
    compensates: str | None = None
    merges: tuple[str, ...] = ()
    alike: Digest | None = None

    @property
    def equals_key(self) -> str:
        """`tool` and argument digest, joined, as all equal attempts have them."""
        return f"{self.tool}\0{self.alike or self.arguments}"


class Attempt(NamedTuple):
    """One proposal's life from intent to its end."""

    id: str
    seq: int
    """Place of its intent in the run."""
    at: datetime
    intent: Intent
    state: AttemptState = AttemptState.OPEN
    result: Digest | None = None
    answer: str | None = None
    is_error: bool = False
    schema_valid: bool | None = None
    receipt: int | None = None
    """Place of its receipt in the run."""
    evidence: int | None = None
    """Place of its verifier's verdict."""
    verdict: str | None = None
    delivered: bool = False
    suspended_until: datetime | None = None
    awaits: str | None = None
    """While suspended: `input` or `task`."""
    asked: Digest | None = None
    """While suspended: what the upstream asked, or its task as it began."""
    resumed: bool = False
    """Whether it went on to a next round: that one may not be sent, but the first was."""
    duration_s: float | None = None
    source: str = "upstream"
    """Who said that it happened: the upstream in its answer, a `probe` or a `person`."""
    says: str = ""
    """How they know, where it was not the upstream."""
    sent: int = 1
    """How often it was sent, each time under its one key."""
    sent_at: datetime | None = None
    """When its last round was sent, or it was sent again; None while it was sent once."""
    acts_until: datetime | None = None
    """As `settles_at`, where that is later than its intent says."""
    queried: tuple[str, str] | None = None
    """While unknown: what the upstream last said when it was asked whether it happened, and in one sentence."""

    @property
    def moves(self) -> bool:
        """Whether its end can move the phase, so that other mutations must wait for it."""
        return self.intent.target is not None or self.intent.verifier is not None

    @property
    def settles_at(self) -> datetime:
        """From here on the upstream can no longer act on anything that was sent of it."""
        return self.acts_until or self.intent.settles_at

    @property
    def grace(self) -> timedelta:
        """How long the upstream may act after it was given up."""
        return max(self.intent.settles_at - self.at - timedelta(seconds=self.intent.timeout_s), timedelta())

    @property
    def _asks(self) -> bool:
        return self.intent.verifier is not None and not self.is_error

    @property
    def unverified(self) -> bool:
        """Answered, but its verifier has not spoken."""
        return self.state is AttemptState.ANSWERED and self._asks and self.evidence is None

    @property
    def settled(self) -> bool:
        """Nothing more will come of it."""
        return self.state not in UNSETTLED and not self.unverified


@dataclass(frozen=True, slots=True)
class Evidence:
    """The last word of one verifier, with its place."""

    seq: int
    event: EvidenceRecorded
    fresh: bool = True
    """No covered mutation was intended after, or open at, the start of its probe."""


@dataclass(frozen=True, slots=True)
class Undoing:
    """How it stands with the call that undoes an attempt, or would."""

    state: Literal["set_aside", "owed", "running", "undone", "failed"]
    """`running`: its intent is recorded, and what came of it is not known for certain yet."""
    reason: str = ""
    """Why it is owed; once it has failed, why."""
    owed_at: datetime | None = None
    by: str | None = None
    """The attempt that undoes it, or was to."""
    waits: tuple[Outcome, str] | None = None
    """While owed: what the latest verdict said against sending it now."""
    approval: str | None = None
    """While owed: the request that a person must answer first."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A request to a person and what became of it."""

    id: str
    action: Digest
    tool: str
    rule: str
    """The transition that asked; empty where a case imagines a yes to whichever asks."""
    role: str | None
    quorum: int
    self_review: bool
    requested_at: datetime
    expires_at: datetime
    seq: int
    decision: str | None = None
    """`approved`, `rejected` or None."""
    agreed: tuple[tuple[str, str], ...] = ()
    """Tenant and id of those who said yes, which may be fewer than the quorum."""
    by: str | None = None
    """Who said the last word."""
    reason: str = ""
    used_by: str | None = None
    """The attempt that used it up."""
    merges: tuple[str, ...] = ()
    """Transitions whose effects are undone if the answer is no."""


class Run(NamedTuple):
    """The state from which every decision about the run is made."""

    id: str
    version: int = 0
    """`seq` of the last record; 0 before the first."""
    head: str = GENESIS
    """`link` of the last record."""
    state: RunState = RunState.UNOPENED
    principal: Principal | None = None
    policy: Digest | None = None
    workflow: str = ""
    phase: str = ""
    goal: str = ""
    origin: str = "process"
    opened_at: datetime | None = None
    expires_at: datetime | None = None
    parent: str | None = None
    """The run that this one was opened from."""
    delegated: frozenset[str] | None = None
    """All the authority that it may have; None: no such ceiling."""
    last_at: datetime | None = None
    """When the run last went on; a stopped run's clock stands still."""
    spent: Charge = Charge()
    """Charges of attempts that ended or are unsettled; what was proven not to have happened is taken off."""
    reported_tokens: int = 0
    """Of the model, as the client says."""
    data: frozenset[str] = frozenset()
    """Classes of data that it has asked for."""
    attempts: HashTrieMap[str, Attempt] = HashTrieMap()
    """By attempt id."""
    unsettled: HashTrieMap[str, Attempt] = HashTrieMap()
    """The few that are open, suspended, unknown or await their verifier; also in `attempts`."""
    moving: HashTrieMap[str, Attempt] = HashTrieMap()
    """Those of them whose end can move the phase."""
    keys: HashTrieMap[str, str] = HashTrieMap()
    """`tool`, source and value of a key that the client sent, joined, to attempt id."""
    equals: HashTrieMap[str, tuple[str, int]] = HashTrieMap()
    """`tool` and argument digest, joined, to the latest equal attempt and the count of equal attempts."""
    unmade: HashTrieMap[str, int] = HashTrieMap()
    """By the same, how many of them are known not to have happened."""
    evidence: HashTrieMap[str, Evidence] = HashTrieMap()
    """By verifier name."""
    approvals: HashTrieMap[str, Approval] = HashTrieMap()
    actions: HashTrieMap[str, str] = HashTrieMap()
    """Action digest to the latest approval for it."""
    failures: HashTrieMap[str, int] = HashTrieMap()
    """Failure signature to how often it was seen since the last new evidence."""
    wrote: HashTrieMap[str, tuple[int, int]] = HashTrieMap()
    """By tool that is no read: places of its last intent and of the last end of an attempt."""
    undo: HashTrieMap[str, Undoing] = HashTrieMap()
    """By attempt, of those for which a compensation is set aside or was ever owed. `kernel/owing.py` moves it."""
    set_aside: HashTrieMap[str, Undo] = HashTrieMap()
    """By attempt, what is still held back to undo it with; it counts as spent."""
    owed: HashTrieMap[str, int] = HashTrieMap()
    """Attempts that are to be undone and are not yet, each with its own place in the run."""
    rejected: HashTrieMap[str, int] = HashTrieMap()
    """By transition, the place at which a merge of its effects was rejected last."""
    final: Denied | None = None
    """A denial that ends the run."""
    final_seq: int | None = None
    """Its place."""
    stopped: RunStopped | None = None
    stopped_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Tracked:
    """An attempt that is not settled yet, beside the events, so that it is found without reading them all."""

    attempt: str
    run: str
    state: str
    """`open`, `unknown`, `unverified`, `owed` (to be undone) or `undelivered`."""
    hold: Digest | None
    """Unique over the ledger while set."""
    owner: str
    """The gateway process that waits for it."""
    lease_until: float
    """Seconds since the epoch; until then only the owner may settle it."""


N = TypeVar("N", bound=Attempt | Run)


def changed(before: N, /, **changes: Any) -> N:
    """As `_replace`, at half its CPU: a run has many fields, and every event changes some."""
    places, values = _PLACES[type(before)], [*before]
    for name, value in changes.items():
        values[places[name]] = value
    return tuple.__new__(type(before), values)


_PLACES: Mapping[type, Mapping[str, int]] = {
    kind: {name: place for place, name in enumerate(kind._fields)} for kind in (Attempt, Run)
}
