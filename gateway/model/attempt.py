"""One proposal's life, as the run's events tell it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, NamedTuple

from gateway.model.canonical import Digest
from gateway.model.events import Charge, Effect, IntentRecorded, Reservation, Undo
from gateway.model.proposal import Key, KeySource
from gateway.model.record import TraceContext


def run_of(attempt_id: str) -> str:
    """The run that an attempt belongs to, by its id."""
    return attempt_id.rpartition(".")[0]


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


_SENT = frozenset({KeySource.CALLER, KeySource.CALL_ID, KeySource.UNDO})
"""Keys that can come again. The others are made for one attempt, and nobody looks for them."""


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
    verifiers: tuple[str, ...] = ()
    """All that must pass, in order; `verifier` is the first."""
    objects: tuple[str, ...] | None = None
    alike: Digest | None = None

    @property
    def equals_key(self) -> str:
        """`tool` and argument digest, joined, as all equal attempts have them."""
        return f"{self.tool}\0{self.alike or self.arguments}"

    @classmethod
    def of(cls, event: IntentRecorded) -> Intent:
        """What is kept of the event."""
        key, first = event.key, (event.verifier,) if event.verifier else ()
        return cls(
            tool=event.tool,
            upstream=event.upstream,
            transition=event.transition,
            arguments=event.arguments,
            definition=event.definition,
            policy=event.policy,
            phase=event.phase,
            key=Key(key.source, key.value) if key is not None and key.source in _SENT else None,
            effect=event.effect,
            charge=event.charge,
            timeout_s=event.timeout_s,
            settles_at=event.settles_at,
            repeat=event.repeat,
            hold=event.hold,
            target=event.target,
            verifier=event.verifier,
            verifiers=(*first, *event.verifiers),
            objects=event.objects,
            alike=event.alike,
            edges=event.edges,
            waived=event.waived,
            accounts=event.accounts,
            warnings=event.warnings,
            undo=event.undo,
            compensates=event.compensates,
            merges=event.merges,
        )


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
    passed: int = 0
    """How many of its verifiers have passed, while others have yet to speak."""
    looked: bool = False
    """Whether one of those that passed looked from outside, and not at what the call itself had answered."""
    evidence: int | None = None
    """Place of the verdict on it: of the first verifier that did not pass, or of the last one."""
    verdict: str | None = None
    delivered: bool = False
    repeats: str | None = None
    """The attempt by which the client had got the same result before, and which is told in its place."""
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
    """How they know, where it was not the upstream; of what was not sent, or has no answer, why."""
    needs_account: bool = False
    """Of what was not sent: whether that is because its principal has connected no account there."""
    sent: int = 1
    """How often it was sent, each time under its one key."""
    sent_at: datetime | None = None
    """When its last round was sent, or it was sent again; None while it was sent once."""
    acts_until: datetime | None = None
    """As `settles_at`, where that is later than its intent says."""
    queried: tuple[str, str] | None = None
    """While unknown: what the upstream last said when it was asked whether it happened, and in one sentence."""
    made_in: TraceContext | None = None
    """The span of the request that it was intended for."""

    @property
    def moves(self) -> bool:
        """Whether its end can move the phase, so that other mutations must wait for it."""
        return self.intent.target is not None or bool(self.intent.verifiers)

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
        return bool(self.intent.verifiers) and not self.is_error

    @property
    def asked_next(self) -> str | None:
        """The verifier that speaks next, of those that it needs."""
        return self.intent.verifiers[self.passed] if self.passed < len(self.intent.verifiers) else None

    @property
    def unverified(self) -> bool:
        """Answered, and a verifier has yet to speak."""
        return self.state is AttemptState.ANSWERED and self._asks and self.evidence is None

    @property
    def settled(self) -> bool:
        """Nothing more will come of it."""
        return self.state not in UNSETTLED and not self.unverified
