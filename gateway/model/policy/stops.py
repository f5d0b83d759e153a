"""What a policy says of when a run is over."""

from typing import Literal

from pydantic import Field

from gateway.model.policy.parts import Accept, Name, Noise, Part


class RepeatedState(Part):
    """The same step so often, without new evidence between, ends the run."""

    after: int = Field(default=3, ge=2)
    """How often the same refusal, error or failed verdict, or the same change with the same answer."""
    reads: int | None = Field(default=10, ge=2)
    """How often the same read with the same answer. null: nothing that succeeds counts."""
    noise: tuple[Noise, ...] = ()
    """Fields of arguments and answers, of whichever tool, that tell no step from another: as a tool's `noise`."""


class Stops(Part):
    """When a run is over, beside success and exhausted budgets."""

    deadline_s: float | None = Field(default=None, gt=0, le=366 * 86_400)
    """Since the run was opened. A run is over as soon as no way to success fits into what is left, by `takes_s`."""
    repeated_state: RepeatedState | None = None
    """Ends a run that goes round in circles."""
    infeasible: Literal["declared", "computed", "never"] = "declared"
    """What ends a run as `infeasible`. `declared`: that the agent says so, and it is true; `computed`: also that a call
    is refused and nothing leads to success any more; `never`: neither."""
    final_denials: tuple[Literal["phase", "authority", "conditions", "preconditions", "tool"], ...] = ()
    """Checks whose refusal ends the run as `policy_denied`."""


class Success(Part):
    """The run's goal is reached when all of this holds."""

    evidence: tuple[Name, ...] = Field(min_length=1)
    """Verifiers whose last verdict is a pass and fresh."""
    phase: Name | None = None
    accept: Accept = "independent"
    """Which evidence counts. Nothing else proves a success, whatever it says."""
