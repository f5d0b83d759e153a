"""What a question to a person says beside the action itself: who must answer, until when, and how far a yes goes."""

from typing import Literal, TypeAlias

from pydantic import Field

from gateway.model.event_parts import Frozen

Risk: TypeAlias = Literal["low", "medium", "high", "critical"]
"""How much hangs on an answer; the order is that of the inbox, from its end."""

RISKS: tuple[Risk, ...] = ("low", "medium", "high", "critical")


MAX_S = 30 * 86_400
"""No question and no answer stands for longer."""


class Stage(Frozen):
    """One of several answers that are needed, in order."""

    role: str | None = None
    """The role that a reviewer must have; None for whoever may answer at all."""
    quorum: int = Field(default=1, ge=1)
    """How many different people must say yes."""


class Offer(Frozen):
    """How far beyond one call a reviewer may let a yes go."""

    times: int | None = 1
    """How many calls at most; None: as many as there are while it lasts."""
    for_s: float | None = None
    """For how long at most, since the answer; None: as long as any answer."""
    varies: tuple[str, ...] = ()
    """Arguments that may be others in these calls."""
    within: tuple[str, ...] = ()
    """What must hold of each of these calls, as policy spells it."""


class Load(Frozen):
    """How many decisions one reviewer may make."""

    decisions: int
    window: Literal["minute", "hour", "day", "month", "ever"]


class Terms(Frozen):
    """What policy said of the question when it was asked."""

    risk: Risk = "medium"
    consequence: str = ""
    """What the call would do, as far as policy says."""
    stages: tuple[Stage, ...] = ()
    """Nothing for one stage, as the question's own `role` and `quorum` say."""
    reasons: Literal["never", "rejection", "always"] = "never"
    """When a reviewer must say why."""
    valid_s: float | None = None
    """How long a yes stands once it was given; None: as long as the question would have."""
    reuse: Offer | None = None
    caller: bool = False
    """Whether the asking client's own user may answer."""
    hold_s: float | None = None
    """How long a client that shows progress is kept waiting for the answer; None: as the gateway does."""
    load: Load | None = None


class Granted(Frozen):
    """How far a yes goes, where that is beyond one call."""

    times: int | None = None
    """How many calls; None: as many as there are while it stands."""
    for_s: float | None = None
    """For how long, since the last yes that was needed; None: as long as any answer."""
