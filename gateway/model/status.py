"""What an agent needs to choose its next move, and no more. Published as the output schema of the tools that tell it.

What the agent itself said stands under `plan` and `hypotheses`, and nowhere else.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from gateway.model.answer import Cited, Undone
from gateway.model.events import Outcome


class Told(BaseModel):
    """A part of what is told."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Phase(Told):
    """Where the run is."""

    name: str
    description: str = ""


class Over(Told):
    """How the run ended. It is over for ever."""

    outcome: Outcome
    reason: str
    evidence: tuple[Cited, ...] = ()


class Eligible(Told):
    """A transition that is legal in this phase for this principal."""

    transition: str
    tools: tuple[str, ...]
    """Those that are offered and may be used under it."""
    more_tools: int = 0
    """How many more there are."""
    charge: dict[str, float]
    """What each call takes from the budgets."""
    over_budget: tuple[str, ...] = ()
    """Budgets that have too little left for it."""
    authority: tuple[str, ...] = ()
    """What it needs, all of which is held."""
    approval: Literal["no", "perhaps", "always"] = "no"
    """Whether a person must agree first."""
    verifiers: tuple[str, ...] = ()
    """What must pass before it counts."""
    target: str | None = None
    """The phase that it leads to."""
    depends_on: tuple[str, ...] = ()
    """What is judged only when the call is made."""


class Barred(Told):
    """A transition that is legal in this phase, and whose authority is lacking."""

    transition: str
    lacking: tuple[str, ...]


class Held(Told):
    """The last word of a verifier."""

    verifier: str
    verdict: Literal["pass", "fail", "inconclusive"]
    fresh: bool
    """Whether nothing that it is about was changed since."""
    self_reported: bool = False
    """Whether it is the result's own word."""
    opinion: bool = False
    """Whether it is of a checker that may err."""
    says: str
    event: str


class Missing(Told):
    """What success still needs."""

    what: str
    says: str


class Failure(Told):
    """A verifier whose last word is a failure."""

    verifier: str
    signature: str | None = None
    """The same for equal failures."""
    says: str
    event: str


class Unsettled(Told):
    """An attempt of which it is not known yet what came of it."""

    attempt: str
    tool: str
    state: Literal["open", "suspended", "unknown", "unverified"]
    since: str
    settle_at: str | None = None
    """The command with which a person settles it, if a person must."""
    page: str | None = None
    """Where the console shows it then."""


class Asked(Told):
    """A question that waits for a person."""

    approval: str
    tool: str
    approve_at: str
    """The command with which a person decides."""
    page: str | None = None
    """Where the console shows it to a reviewer who comes in there by themselves."""
    expires_at: str


class Wrong(Told):
    """An assumption of the plan that is not so."""

    assumption: int
    """Its place in the plan, from 0."""
    assumed: str | None = None
    """As the plan says it."""
    says: str
    event: str
    because: tuple[str, ...]


class PlanTold(Told):
    """The plan that you recorded last. It grants nothing, and nothing is judged by it."""

    event: str
    revision: int
    age_s: float
    invalidated: tuple[Wrong, ...] = ()
    """Revise the plan where there are any."""
    plan: dict[str, Any] | None = None
    """As you said it; absent where it was erased."""


class Hypothesis(Told):
    """What you noted, and what has not expired. A belief, not a fact."""

    event: str
    says: str | None = None
    """Absent where it was erased."""
    about: str = ""
    sources: tuple[str, ...]
    confidence: float
    age_s: float
    expires_at: str
    until: str | None = None
    """The verifier that ends it when it speaks anew."""


class News(Told):
    """Something that happened."""

    event: str
    about: Literal["failure", "evidence", "phase", "approval", "stop", "hold"]
    says: str


class Since(Told):
    """What happened since that cursor, the most relevant first."""

    events: tuple[News, ...]
    more: int = 0
    """How many events of these kinds are not listed."""
    routine: dict[str, int] = {}
    """All others, counted."""


class Status(Told):
    """Where the run stands."""

    run: str | None = None
    """Absent where no run is open yet: then it is what the first call would find."""
    workflow: str
    state: Literal["unopened", "running", "stopped"]
    phase: Phase
    over: Over | None = None
    closed: str | None = None
    """Why nothing may be called any more though the run has not ended, where it is so."""
    eligible: tuple[Eligible, ...] = ()
    barred: tuple[Barred, ...] = ()
    evidence: tuple[Held, ...] = ()
    missing: tuple[Missing, ...] = ()
    """For success, where policy says what that is."""
    budget_left: dict[str, float] = {}
    failures: tuple[Failure, ...] = ()
    unsettled: tuple[Unsettled, ...] = ()
    approvals: tuple[Asked, ...] = ()
    undoing: tuple[Undone, ...] = ()
    """Effects that must not stay and are not undone yet."""
    plan: PlanTold | None = None
    hypotheses: tuple[Hypothesis, ...] = ()
    cursor: str | None = None
    """Give it as `since` next time."""
    since: Since | None = None


class PlanAnswer(Told):
    """The plan is recorded."""

    run: str
    event: str
    revision: int
    assumptions: int
    """How many are looked after."""
    invalidated: tuple[Wrong, ...] = ()
    """Those that what is known already contradicts."""


class NoteAnswer(Told):
    """The note is recorded."""

    run: str
    event: str
    expires_at: str
