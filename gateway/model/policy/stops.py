"""What a policy says of when a run is over."""

from typing import Literal

from pydantic import Field

from gateway.model.policy.parts import Accept, Name, Part


class RepeatedState(Part):
    """The same failure so often, without new evidence between, ends the run."""

    after: int = Field(default=3, ge=2)


class Stops(Part):
    """When a run is over, beside success and exhausted budgets."""

    deadline_s: float | None = Field(default=None, gt=0, le=366 * 86_400)
    """Since the run was opened."""
    repeated_state: RepeatedState | None = None
    """Ends a run that goes round in circles."""
    final_denials: tuple[Literal["phase", "authority", "conditions", "preconditions", "tool"], ...] = ()
    """Checks whose refusal ends the run as `policy_denied`."""


class Success(Part):
    """The run's goal is reached when all of this holds."""

    evidence: tuple[Name, ...] = Field(min_length=1)
    """Verifiers whose last verdict is a pass and fresh."""
    phase: Name | None = None
    accept: Accept = "independent"
    """Which evidence counts. Nothing else proves a success, whatever it says."""
