"""A question to a person and what became of it, as a run's events make it."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from gateway.model.asked import Granted, Stage, Terms
from gateway.model.canonical import Digest
from gateway.model.record import TraceContext

Decision: TypeAlias = Literal["approved", "rejected", "returned", "revoked", "superseded", "withdrawn", "expired"]


@dataclass(frozen=True, slots=True)
class Approval:
    """One question about one exact action."""

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
    decision: Decision | None = None
    """None while it is awaited."""
    agreed: tuple[tuple[str, str], ...] = ()
    """Tenant and id of those who said yes, in that order; they may be fewer than are needed."""
    by: str | None = None
    """Who said the last word; the question that took its place, where it is superseded."""
    reason: str = ""
    decided_at: datetime | None = None
    decided_seq: int = 0
    uses: tuple[str, ...] = ()
    """The attempts that it was used for."""
    merges: tuple[str, ...] = ()
    """Transitions whose effects are undone if the answer is no."""
    terms: Terms = field(default_factory=Terms)
    granted: Granted | None = None
    """How far the yes goes; None: for one call."""
    arguments: Digest | None = None
    scope: Digest | None = None
    objects: tuple[str, ...] | None = None
    state: tuple[tuple[str, Digest], ...] = ()
    """By verifier, what must be the same when the call is sent."""
    holding: tuple[str, ...] = ()
    """The verifiers whose evidence must hold then."""
    follows: str | None = None
    undoes: str | None = None
    """The attempt that the call would undo: then the gateway itself asks."""
    policy: Digest | None = None
    """Under which it was asked; None where a case imagines it."""
    alike: Digest | None = None
    """As `action`, with the arguments as equal calls spell them."""
    seen: tuple[tuple[str, str], ...] = ()
    """Tenant and id of those who looked at it."""
    links: tuple[str, ...] = ()
    """The signed links by which answers came."""
    asked_in: TraceContext | None = None
    """Of the request that asked."""

    @property
    def used_by(self) -> str | None:
        """The attempt that used it last."""
        return self.uses[-1] if self.uses else None

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The answers that are needed, in order."""
        return self.terms.stages or (Stage(role=self.role, quorum=self.quorum),)

    @property
    def needed(self) -> int:
        """How many different people must say yes, in all stages together."""
        return sum(one.quorum for one in self.stages)

    @property
    def waits_for(self) -> tuple[Stage, int] | None:
        """The stage that waits for an answer, and how many have agreed in it; None once all have."""
        left = len(self.agreed)
        for stage in self.stages:
            if left < stage.quorum:
                return stage, left
            left -= stage.quorum
        return None

    @property
    def until(self) -> datetime:
        """When the question, or the yes to it, is void."""
        if self.decision != "approved" or self.decided_at is None:
            return self.expires_at
        stands_s = self.terms.valid_s if self.granted is None or self.granted.for_s is None else self.granted.for_s
        return self.expires_at if stands_s is None else self.decided_at + timedelta(seconds=stands_s)

    @property
    def used_up(self) -> bool:
        """Whether no further call may be made by it."""
        times = 1 if self.granted is None else self.granted.times
        return times is not None and len(self.uses) >= times

    def usable(self, now: datetime) -> bool:
        """Whether a call may be made by it now."""
        return self.decision == "approved" and not self.used_up and now < self.until
