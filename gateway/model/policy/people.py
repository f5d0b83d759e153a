"""What a transition asks people: who must agree, how the question binds, and how far an answer goes."""

from typing import Literal

from pydantic import Field

from gateway.model.asked import MAX_S, Risk
from gateway.model.policy.parts import Expression, Names, Part
from gateway.model.policy.registry import Window


class Stage(Part):
    """One of several answers that are needed, in order."""

    role: str | None = None
    """The role that a reviewer must have; whoever may answer where not said."""
    quorum: int = Field(default=1, ge=1, le=16)
    """How many different people must say yes."""


class Reuse(Part):
    """How far beyond one call a reviewer may let a yes go. Nobody need: a yes is for one call unless they say so."""

    times: int | None = Field(default=None, ge=1, le=10_000)
    """How many calls at most; as many as there are while it lasts where only `for_s` is said."""
    for_s: float | None = Field(default=None, gt=0, le=MAX_S)
    """For how long at most, since the answer; as long as any answer where not said."""
    varies: tuple[str, ...] = ()
    """Arguments that may be others in these calls; all others are as they were when the person was asked."""
    within: tuple[Expression, ...] = ()
    """CEL expressions that must hold of each of these calls, such as `args.amount <= 100`."""


class ReviewLoad(Part):
    """How many decisions about this one reviewer may make, over all runs of the workflow."""

    decisions: int = Field(ge=1)
    """In a window."""
    window: Window = "hour"
    """By the calendar in UTC."""


class ApprovalRule(Part):
    """A person must agree to this exact action."""

    reason: str = "policy asks for a person"
    """What the reviewer and the agent read, in one sentence."""
    when: tuple[Expression, ...] = ()
    """Asks only if all hold; one that cannot be judged asks. Always where nothing is said."""
    role: str | None = None
    """The role that a reviewer must have; whoever holds the ledger where not said."""
    quorum: int = Field(default=1, ge=1, le=16)
    """How many different people must say yes; one no is enough for a no."""
    stages: tuple[Stage, ...] = Field(default=(), max_length=8)
    """Several answers, in this order, each by other people; in place of `role` and `quorum`."""
    self_review: bool = False
    """Whether the principal of the run may answer. For one person on one machine, whose agent acts as that person."""
    caller: bool = False
    """Whether the user of the asking client may answer in it, by elicitation; needs `self_review: true`. For one person
    on one machine: what a client says that its user said is believed."""
    risk: Risk | None = None
    """How much hangs on it: `low`, `medium`, `high` or `critical`. By the tool's effect and whether it can be undone
    where not said."""
    reasons: Literal["never", "rejection", "always"] = "never"
    """When a reviewer must say why. To ask for more evidence always says which."""
    unchanged: Names = ()
    """Verifiers that look when the question is asked and again before the call is sent: what they see must be the same
    (what their `scope_from` tells, if they have one, else the whole answer). If not, the yes is void, and is asked for
    anew."""
    expires_s: float = Field(default=86_400.0, gt=0, le=MAX_S)
    """How long the question stands, and then the answer, if nothing else is said of that."""
    valid_s: float | None = Field(default=None, gt=0, le=MAX_S)
    """How long a yes stands once it was given."""
    reuse: Reuse | None = None
    """What a reviewer may allow beyond one call."""
    hold_s: float | None = Field(default=None, ge=0, le=600)
    """How long a client that shows progress is kept waiting for the answer before it is told `needs_approval`; as the
    gateway does where not said."""
    load: ReviewLoad | None = None
    """How many decisions one reviewer may make."""
