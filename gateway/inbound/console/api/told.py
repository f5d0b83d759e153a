"""What the JSON API says and is told, beside what the house's own models say. Fields are added, never renamed."""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from gateway.inbound.console.api.problems import Problem
from gateway.model.asked import MAX_S, Granted, Offer, Risk, Stage
from gateway.model.packet import Packet
from gateway.model.review import Settlement
from gateway.model.switch import NAMED_MAX

MAX_REASON = 4_000
"""Characters: a page of text. What is longer belongs into a ticket that the reason names."""
MAX_BATCH = 100


def whole(value: Any) -> Any:
    """A number without a fraction is an integer, however it is written [JSON Schema, 6.1.1]."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Reason = Annotated[str, Field(max_length=MAX_REASON)]
SwitchPart = Literal["tenant", "principal", "upstream", "tool"]
SaidReason = Annotated[str, Field(min_length=1, max_length=MAX_REASON, pattern=r"\w")]
"""In words."""
SwitchName = Annotated[str, Field(min_length=1, max_length=NAMED_MAX)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
DigestText = Annotated[str, Field(pattern=r"^[a-z0-9]{1,8}:[0-9a-f]{64}$")]
"""As `show` gives it."""


class Shape(BaseModel):
    """Nothing in it that is not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


# --- what is asked ----------------------------------------------------------------------------------------------------


class InboxQuery(Shape):
    """Which of what waits."""

    limit: int = Field(default=50, ge=1, le=200)
    """How many at most."""
    after: str | None = Field(default=None, min_length=1, max_length=500)
    """`next` of the page before."""
    about: Literal["approval", "attempt", "run"] | None = None
    risk: Risk | None = None
    """Exactly this one."""
    workflow: str | None = Field(default=None, max_length=200)
    tool: str | None = Field(default=None, max_length=200)
    group: str | None = Field(default=None, max_length=500)
    """Questions that may be answered together."""


class RunsQuery(Shape):
    """Which runs."""

    limit: int = Field(default=50, ge=1, le=200)
    after: str | None = Field(default=None, min_length=1, max_length=500)
    """`next` of the page before."""
    workflow: str | None = Field(default=None, max_length=200)
    principal: str | None = Field(default=None, max_length=200)
    """A part of its tenant and name."""
    state: str | None = Field(default=None, max_length=50)
    """`open`, `unsettled`, or how it ended."""


class TimelineQuery(Shape):
    """Which part of a run's timeline."""

    limit: int = Field(default=200, ge=1, le=1_000)
    after: int = Field(default=0, ge=0, le=2**53)
    """Records beyond this place."""


class ReviewsQuery(Shape):
    """Of which time."""

    since_s: int = Field(default=7 * 86_400, ge=1, le=10 * 366 * 86_400)
    """How far back, in seconds."""


class EventsQuery(Shape):
    """From where on."""

    since: int | None = Field(default=None, ge=0, le=2**53)
    """The number that was seen last; without it, what it is now is said first."""


class DecisionIn(Shape):
    """What a reviewer says about the action that was shown to them."""

    action: DigestText
    """The packet's `action`, from the question in full: a decision about any other is refused."""
    decision: Literal["approved", "rejected", "returned", "revoked"]
    reason: Reason = ""
    """Kept for ever, and told to the agent. Of `returned`: which evidence is wanted."""
    times: Annotated[int, Field(ge=1, le=10_000), BeforeValidator(whole)] | None = 1
    """For how many calls the yes is, within what policy offers; null: as many as it offers."""
    for_s: Annotated[float, Field(gt=0, le=MAX_S)] | None = None
    """For how long, likewise."""
    active_s: Annotated[float, Field(ge=0, le=86_400)] | None = None
    """How long it was really looked at, where you know it."""


class AnswerIn(DecisionIn):
    """One of several."""

    approval: Name


class AnswersIn(Shape):
    """Several decisions; each stands for itself."""

    answers: tuple[AnswerIn, ...] = Field(min_length=1, max_length=MAX_BATCH)


class SettleIn(Shape):
    """What is known of an attempt whose outcome was unknown."""

    what: Settlement
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON)]
    """How it is known. Kept for ever."""


class RunActIn(Shape):
    """What is to become of a run."""

    what: Literal["stop", "acknowledge"]
    """`acknowledge`: of one that ended with a question to a person: it was seen, and waits no more."""
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON)]
    """Why. Kept for ever."""


class SwitchIn(Shape):
    """What is stopped."""

    stops: Annotated[dict[SwitchPart, SwitchName], Field(min_length=1)] | Literal["everything"]
    """Names, of which all must apply to a call: its `tool` as agents call it, its `upstream`, the id of its
    `principal`, its `tenant`."""
    reason: SaidReason
    """Why. Kept for ever, and told to whoever is refused."""


class LiftIn(Shape):
    """What is to become of a switch."""

    what: Literal["lift"]
    reason: SaidReason
    """Why. Kept for ever."""


# --- what is said -----------------------------------------------------------------------------------------------------


class WaitingOut(Shape):
    """One question that waits."""

    about: Literal["approval", "attempt", "run"]
    name: str
    """Of what it is about; its packet is found under it."""
    run: str
    workflow: str
    tenant: str
    principal: str
    """Who asks."""
    tool: str | None
    transition: str | None
    reason: str
    risk: Risk
    consequence: str
    asked_at: AwareDatetime
    expires_at: AwareDatetime | None
    roles: tuple[str, ...]
    """Of which one is needed now; none: anybody's."""
    agreed: int
    needed: int
    group: str
    """Equal for questions that may be answered together."""
    reasons: Literal["never", "rejection", "always"]
    """When a reason must be given."""


class InboxOut(Shape):
    """What waits, by consequence and then by age."""

    rows: tuple[WaitingOut, ...]
    total: int
    """All of these that wait for this reviewer."""
    next: str | None
    """Give it as `after` for what comes after these; null: there is no more."""


class ApprovalOut(Shape):
    """Where a question to people stands."""

    approval: str
    action: str
    """The digest of what is asked about. A decision names it."""
    decision: str | None
    """`approved`, `rejected`, `returned`, `expired`, `superseded`, `withdrawn`; null while it waits."""
    risk: Risk
    stages: tuple[Stage, ...]
    """The answers that are needed, in this order, each by other people."""
    agreed: int
    """How many have said yes, in all stages together."""
    reasons: Literal["never", "rejection", "always"]
    """When a reason must be given; to return it always says which evidence is wanted."""
    reuse: Offer | None
    """How far beyond one call a yes may go, if it may."""
    granted: Granted | None
    """How far it does go; null: for one call."""
    by: str | None
    """Who said the last word; of `superseded` the question that took its place."""
    reason: str
    decided_at: AwareDatetime | None
    until: AwareDatetime
    """When the question, or the yes to it, is void."""
    uses: tuple[str, ...]
    """The attempts that were made by it."""


class QuestionOut(Shape):
    """A question in full."""

    packet: Packet
    approval: ApprovalOut


class DecidedOut(Shape):
    """A decision that was recorded."""

    complete: bool
    """Whether the question is answered with it; not while others must agree as well."""
    approval: ApprovalOut


class OneOut(Shape):
    """What came of one decision of several."""

    approval: str
    done: DecidedOut | None = None
    problem: Problem | None = None


class AnswersOut(Shape):
    """What came of each, in the order in which they were sent."""

    results: tuple[OneOut, ...]


class AttemptOut(Shape):
    """An attempt in full."""

    packet: Packet


class RunOut(Shape):
    """A run as a person is told of it."""

    packet: Packet


class RunRow(Shape):
    """One run, briefly."""

    run: str
    workflow: str
    tenant: str
    principal: str
    phase: str
    state: str
    """`open`, how it ended, or that it cannot be read."""
    goal: str
    opened_at: AwareDatetime
    calls: int
    mutations: int
    unsettled: int
    """Attempts of which it is not known what came of them."""
    owed: int
    """Effects that are to be undone."""
    failed: int
    """Effects that a person must undo."""


class RunsOut(Shape):
    """Runs, newest first."""

    rows: tuple[RunRow, ...]
    next: str | None


class RecordOut(Shape):
    """One thing that happened."""

    seq: int
    at: AwareDatetime
    kind: str
    event: dict[str, Any]
    """As it is recorded; payloads are cited by their digest."""


class TimelineOut(Shape):
    """What happened in a run, in order."""

    run: str
    records: tuple[RecordOut, ...]
    next: int | None
    """Give it as `after`; null: there is no more yet."""


class DoneOut(Shape):
    """It is recorded."""

    name: str
    state: str
    """Of what it is about, as it is now."""


class SwitchOut(Shape):
    """Something that a person has stopped: nothing to which all of its names apply is sent by any gateway."""

    switch: int
    """Its number, by which it is lifted."""
    at: AwareDatetime
    tenant: str | None
    """Null: any. The same of the next three; where all are null, everything is stopped."""
    principal: str | None
    upstream: str | None
    tool: str | None
    by: str
    reason: str


class SwitchesOut(Shape):
    """What is stopped, oldest first."""

    rows: tuple[SwitchOut, ...]


class WhoOut(Shape):
    """Who this gateway takes you for."""

    tenant: str
    id: str
    roles: tuple[str, ...]
    via: str
    """By which door you came."""
    everywhere: bool
    """Whether you see every tenant's questions."""
    approval: str | None
    """The one question that your link was for."""
