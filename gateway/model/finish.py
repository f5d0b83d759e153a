"""What an agent says when it means to be done, and what the runtime makes of that."""

from typing import Literal

from pydantic import Field

from gateway.model.answer import Cited
from gateway.model.events import Outcome
from gateway.model.plan import Said
from gateway.model.status import Missing, Told


class Finish(Said):
    """A claim. It is decided by evidence, not by what it says."""

    outcome: Literal["verified_success", "infeasible"] = "verified_success"
    """`infeasible`: what the task needs cannot be had here; that is checked as well."""
    says: str = Field(default="", max_length=4_000)
    """What was achieved, or what is missing. It is recorded, and proves nothing."""


class FinishAnswer(Told):
    """What came of the claim."""

    run: str
    finished: bool
    """The run is over, and this was the last answer that it needed."""
    outcome: Outcome | None = None
    """As what it is over."""
    reason: str
    evidence: tuple[Cited, ...] = ()
    """By which it is proven."""
    missing: tuple[Missing, ...] = ()
    """What success still needs."""
    budget_left: dict[str, float] = {}
    retry_after_s: float | None = None
    """A verifier is at work, or is not asked again sooner: say it again then."""
    warnings: tuple[str, ...] | None = None
    """That the run goes round in circles, where saying it once more would end it."""
    next: str
    """What you may do now."""
