"""Who answers for people, what waits for them, and what they may say."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from gateway.model.asked import Risk
from gateway.model.events import Who

Via: TypeAlias = Literal["local", "link", "oidc", "token", "cli", "operator", "caller"]
"""The door that a reviewer came by."""

Check: TypeAlias = Literal[
    "unknown",
    "action",
    "decided",
    "expired",
    "run_over",
    "tenant",
    "twice",
    "self_review",
    "role",
    "reason",
    "reuse",
    "link",
    "load",
    "state",
    "settles",
    "compensation",
    "damaged",
    "unseen",
]
"""What stood against an answer."""

Settlement: TypeAlias = Literal["happened", "did_not_happen", "retry", "compensate", "stop_run"]
"""What a person may say of an attempt whose outcome is unknown."""


NO_QUESTION = ""
"""As the one question that somebody may see, the name of none: they see only what is their own, and review nothing."""


class Refused(Exception):
    """A person's answer that cannot be taken; nothing was recorded."""

    def __init__(self, check: Check, reason: str, retry_at: datetime | None = None) -> None:
        super().__init__(reason)
        self.check = check
        self.reason = reason
        """One sentence."""
        self.retry_at = retry_at
        """When it may be said again, where that is only a question of time."""


@dataclass(frozen=True, slots=True)
class Reviewer:
    """A person, as one of the doors found out."""

    tenant: str
    id: str
    roles: frozenset[str] = frozenset()
    via: Via = "cli"
    everywhere: bool = False
    """Sees the questions of all tenants; else those of its own."""
    approval: str | None = None
    """The one question that they may see and answer, where they came by a link for it."""

    @property
    def who(self) -> Who:
        """As recorded."""
        return Who(tenant=self.tenant, id=self.id, roles=tuple(sorted(self.roles)))

    @property
    def reviews(self) -> bool:
        """Whether there may be anything that they see and that is not their own."""
        return self.approval != NO_QUESTION

    def sees(self, tenant: str, approval: str | None = None) -> bool:
        """Whether something of that tenant, or about that question, is theirs to see."""
        if self.approval is not None and self.approval != approval:
            return False
        return self.everywhere or self.tenant == tenant


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reviewer says to one question."""

    approval: str
    action: str
    """The digest of the action that they were shown."""
    decision: Literal["approved", "rejected", "returned", "revoked"]
    """`returned`: more evidence is wanted, as the reason says. `revoked`: a yes that may still be used is void."""
    reason: str = ""
    times: int | None = 1
    """For how many calls, where policy lets a yes go further than one; None: as many as it lets."""
    for_s: float | None = None
    """For how long, likewise."""
    active_s: float | None = None
    """How long they looked at it, where their page knows."""
    link: str | None = None
    """The signed link that they came by."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thing that waits for a person."""

    about: Literal["approval", "attempt", "run"]
    name: str
    """Of the approval, the attempt or the run."""
    run: str
    workflow: str
    tenant: str
    principal: str
    tool: str | None
    transition: str | None
    reason: str
    risk: Risk
    consequence: str
    asked_at: datetime
    expires_at: datetime | None = None
    roles: tuple[str, ...] = ()
    """Of the answer that is wanted next; nothing for whoever may answer at all."""
    agreed: int = 0
    """How many have said yes to what is wanted next."""
    needed: int = 1
    people: int = 1
    """How many must say yes in all, whatever is wanted next."""
    because: str = ""
    """Why it is asked anew."""
    group: str = ""
    """The same for questions that may be answered together."""
    action: str | None = None
    """The digest that an approval binds."""
    reasons: Literal["never", "rejection", "always"] = "never"


@dataclass(frozen=True, slots=True)
class Page:
    """A part of what waits, by consequence and then by age."""

    rows: tuple[Waiting, ...]
    total: int
    next: str | None = None
    """Where the next part begins."""
