"""A question to a person, as whoever asked it is told of it: where it stands, and what may be done now."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from gateway.model.canonical import Digest
from gateway.model.status import Told

QuestionState: TypeAlias = Literal[
    "awaiting", "approved", "used", "rejected", "returned", "revoked", "expired", "superseded", "withdrawn", "closed"
]
"""`closed`: the run ended before anybody answered."""


class ApprovalAnswer(Told):
    """Where a question to a person stands."""

    approval: str
    state: QuestionState
    tool: str
    run: str
    asks: str
    """Why a person must agree."""
    agreed: tuple[str, ...] = ()
    """Who has said yes so far."""
    needed: int
    """How many different people must."""
    by: str | None = None
    """Who said the last word."""
    said: str = ""
    """What they said to it: why not, or which evidence they want."""
    superseded_by: str | None = None
    """The newer question about the same object."""
    attempt: str | None = None
    """The call that was made with it."""
    approve_at: str | None = None
    """The command with which a person decides; only while one may."""
    page: str | None = None
    """Where the console shows it to a reviewer who comes in there by themselves; only while one may decide."""
    asked_at: str
    expires_at: str
    next: str
    """What you may do now."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question, with what decides how its client waits."""

    told: ApprovalAnswer
    action: Digest
    """What an answer is bound to."""
    rule: str
    """The transition that asks."""
    expires_at: datetime
    consequence: str
    """What the call would do, as far as policy says."""
    caller: bool
    """Whether the user of the asking client may answer."""
    hold_s: float | None
    """How long its call is kept waiting at most; None where policy does not say."""

    @property
    def id(self) -> str:
        """Its name."""
        return self.told.approval

    @property
    def awaits(self) -> bool:
        """Whether a person may still answer."""
        return self.told.state == "awaiting"
