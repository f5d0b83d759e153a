"""How people answer what they are asked, as figures: what waits on people costs as much as what waits on machines."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A part of what is told."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Spread(Part):
    """How long something took, in seconds; nothing but the count where it was never seen."""

    count: int = 0
    median_s: float | None = None
    p90_s: float | None = None
    max_s: float | None = None


class Figures(Part):
    """Of some questions. Each of them is in exactly one of `awaiting`, `approved`, `rejected`, `returned`, `revoked`,
    `expired`, `superseded`, `withdrawn` and `void`; one that was approved and then superseded is in `superseded`.
    """

    asked: int = 0
    awaiting: int = 0
    approved: int = 0
    rejected: int = 0
    returned: int = 0
    """The reviewer wanted more evidence."""
    revoked: int = 0
    """A yes was taken back."""
    expired: int = 0
    """Nobody answered in time."""
    superseded: int = 0
    """A newer question took its place."""
    withdrawn: int = 0
    void: int = 0
    """The run was over before anybody answered."""
    used: int = 0
    """Of those that were approved, however it stands with them now: at least one call was made."""
    failed_revalidation: int = 0
    """Likewise: the agent came for the call, and it was refused or had to be asked for anew."""
    quick: int = 0
    """Yeses after less than 3 s of looking: a sign that people are tired of being asked."""
    timed: int = 0
    """Yeses of which it is known how long was looked."""
    first_look: Spread = Spread()
    """From the question to the first look at it."""
    active: Spread = Spread()
    """How long was really looked, for each answer of which that is known."""
    waited: Spread = Spread()
    """From the question to the last word on it."""
    rates: dict[str, float] = {}
    """Shares of the questions that wait no more; of `used` and `failed_revalidation`, of those that were approved; of
    `quick`, of those that were timed."""


class Load(Part):
    """Of one reviewer: what they were asked to decide, and how they did."""

    tenant: str
    reviewer: str
    decisions: int = 0
    approved: int = 0
    rejected: int = 0
    returned: int = 0
    quick: int = 0
    looked_at: int = 0
    """Questions that they looked at."""
    busiest_hour: int = 0
    """Their most decisions within any one hour."""
    active: Spread = Spread()
    waited: Spread = Spread()
    """From the question to their answer."""


class Group(Part):
    """The questions that have something in common."""

    name: str
    figures: Figures


class Reviews(Part):
    """How people answered the questions of some time."""

    since: str | None = None
    """When the oldest of them was asked at the earliest."""
    until: str
    all: Figures
    reviewers: tuple[Load, ...] = ()
    tools: tuple[Group, ...] = ()
    transitions: tuple[Group, ...] = ()
    risks: tuple[Group, ...] = ()
    partial: bool = False
    """The ledger holds more than was looked through: the oldest are missing."""
