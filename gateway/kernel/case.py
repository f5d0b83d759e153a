"""What a check looks at, and what it may find."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from gateway.kernel.registry import Registered, registered
from gateway.kernel.rules import Rules
from gateway.model.canonical import Digest
from gateway.model.events import Charge, Effect, Outcome
from gateway.model.policy import Transition
from gateway.model.proposal import Proposal
from gateway.model.run import Run, Tracked
from gateway.model.tool import Tool


@dataclass(frozen=True, slots=True)
class Observed:
    """What the run's own events do not hold; all of it is recorded in the verdict."""

    tool: Tool | None
    """The proposed tool as its upstream defines it now; None if no upstream offers it."""
    definition: Digest | None = None
    """Salted digest of that definition."""
    held: Tracked | None = None
    """An attempt, in any run, that holds an equal effect."""


@dataclass(frozen=True)
class Case:
    """What the checks look at. `candidates` narrows as they pass."""

    run: Run
    proposal: Proposal
    rules: Rules
    observed: Observed
    now: datetime
    candidates: tuple[Transition, ...] = ()
    approval: str | None = None

    @cached_property
    def registered(self) -> Registered | None:
        """The tool as this policy sees it; None if there is no such tool."""
        return None if self.observed.tool is None else registered(self.observed.tool, self.rules.policy)

    @property
    def known(self) -> Registered:
        """As `registered`, past the check that there is one."""
        assert self.registered is not None  # noqa: S101 - INVARIANT: the check `tool` has passed
        return self.registered

    @property
    def transition(self) -> Transition | None:
        """The first transition that is left; None only where `observe` let an unnamed tool pass."""
        return self.candidates[0] if self.candidates else None

    @property
    def charge(self) -> Charge:
        """What the chosen transition takes."""
        spend = self.transition.charge if self.transition else None
        default = 0 if self.known.effect is Effect.READ else 1
        if spend is None:
            return Charge(calls=1, mutations=default)
        return Charge(calls=spend.calls, mutations=default if spend.mutations is None else spend.mutations)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run was opened."""
        return (self.now - self.run.opened_at).total_seconds() if self.run.opened_at else 0.0


@dataclass(frozen=True, slots=True)
class Pass:
    """The check has nothing against it."""

    inputs: Mapping[str, Any] = field(default_factory=dict)
    case: Case | None = None
    """What the later checks see; None for no change."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The check refuses."""

    reason: str
    outcome: Outcome = Outcome.DENIED
    rule: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    final: bool = False
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """The attempt under this key has ended: its record is the answer."""

    attempt: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now, and not refused."""

    outcome: Literal[Outcome.HELD, Outcome.IN_FLIGHT, Outcome.NEEDS_APPROVAL]
    reason: str
    attempt: str | None = None
    approval: str | None = None
    retry_after_s: float | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """A person must agree first."""

    transition: Transition
    action: Digest


Step = Pass | Refuse | Replay | Wait | Ask
Check = Callable[[Case], Step]
