"""What a check looks at, and what it may find."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from gateway.kernel.accounts import Shared
from gateway.kernel.registry import Registered
from gateway.kernel.rules import Ruled, Rules, held_by
from gateway.kernel.ways import Offered
from gateway.model.canonical import Digest
from gateway.model.event_parts import Lack
from gateway.model.events import Charge, Finding, Outcome, Reservation, Undo
from gateway.model.policy import Mode, Transition
from gateway.model.proposal import Proposal
from gateway.model.run import Run, Tracked
from gateway.model.spelling import kept
from gateway.model.switch import Switch
from gateway.model.tool import Tool
from gateway.model.trusted import trusted


@dataclass(frozen=True, slots=True)
class Observed:
    """What the run's own events do not hold; all of it is recorded in the verdict."""

    tool: Tool | None
    """The proposed tool as its upstream defines it now; None if no upstream offers it."""
    definition: Digest | None = None
    """Salted digest of that definition."""
    held: Tracked | None = None
    """An attempt, in any run, that holds an equal effect."""
    levels: Mapping[tuple[str, str], int] | None = None
    """What stands on the accounts that the call falls under, by account and unit, as `looked_at`; None: nobody has
    looked."""
    probes: Mapping[str, "Probed"] = field(default_factory=dict)
    """What preconditions found, by verifier."""
    parent: Literal["running", "over"] | None = None
    """How the run stands that this one was opened from; None where there is none."""
    offered: Offered | None = None
    """What upstreams offer now; None: nobody has looked."""
    switches: tuple[Switch, ...] = ()
    """Those that people have thrown."""
    salt: bytes = b""
    """The ledger's, under which arguments are cited in the names of accounts."""


@dataclass(frozen=True, slots=True)
class Probed:
    """What a verifier found when it was asked before a call."""

    verdict: Literal["pass", "fail", "inconclusive"]
    says: str
    started_at: datetime
    artifact: Digest | None = None
    """Of the probe's answer."""
    stands: Digest | None = None
    """The same as long as what it looks at is the same; None if it could not look."""
    after: int | None = None
    """The run's version when it began to look; None: nothing has happened since."""


class Case(NamedTuple):
    """What the checks look at. `candidates` narrows as they pass."""

    run: Run
    proposal: Proposal
    rules: Rules
    observed: Observed
    now: datetime
    ruled: Ruled | None
    """The tool as this policy rules it; None if there is no such tool."""
    accounts: tuple[tuple[Shared, str], ...] = ()
    """Those that the call falls under, each with its key."""
    cost: int | None = None
    """Of this very call in millionths, where its transition tells it by a formula."""
    candidates: tuple[Transition, ...] = ()
    approval: str | None = None
    paid: Undo | None = None
    """What was set aside for this call, which undoes another one."""

    @property
    def registered(self) -> Registered | None:
        """The tool as this policy sees it; None if there is no such tool."""
        return None if self.ruled is None else self.ruled.registered

    @property
    def tool(self) -> Ruled:
        """As `ruled`, past the check that there is such a tool."""
        assert self.ruled is not None  # noqa: S101 - INVARIANT: the check `tool` has passed
        return self.ruled

    @property
    def known(self) -> Registered:
        """As `registered`, past the check that there is one."""
        return self.tool.registered

    @property
    def transition(self) -> Transition | None:
        """The first transition that is left; None only where `observe` let an unnamed tool pass."""
        return self.candidates[0] if self.candidates else None

    @property
    def charge(self) -> Charge:
        """What the chosen transition takes; of a compensation, what was set aside for it."""
        if self.paid is not None:
            return self.paid.charge
        charge = self.tool.charge(self.transition)
        return charge if self.cost is None else charge.model_copy(update={"cost": self.cost})

    @property
    def authority(self) -> frozenset[str]:
        """What the principal may do in this run: all that the grants give it, under the ceiling of the run's parent."""
        asked = ("held", self.proposal.principal, self.run.delegated)
        return self.rules.once(asked, lambda: held_by(self.rules.policy, self.proposal.principal, self.run.delegated))

    def mode(self, own: Mode | None) -> Mode:
        """The mode of a rule that has this one of its own, or none."""
        return own or self.rules.policy.mode

    def observes(self, own: Mode | None) -> bool:
        """Whether such a rule only observes."""
        return self.mode(own) == "observe"

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run was opened."""
        return (self.now - self.run.opened_at).total_seconds() if self.run.opened_at else 0.0


class Pass(NamedTuple):
    """The check has nothing against it."""

    finding: Finding
    candidates: tuple[Transition, ...] | None = None
    """The transitions that the later checks see; None for no change."""
    approval: str | None = None
    """The approval that the call would use up."""
    cost: int | None = None
    """As in `Case`."""


def passed(check: str, inputs: Mapping[str, Any] | None = None) -> Pass:
    """The check of that name passed, having looked at these values."""
    return Pass(_finding(check=check, passed=True, inputs=dict(inputs or {}), rule=None, reason=None))


def always(check: str, inputs: Mapping[str, Any] | None = None) -> Pass:
    """As `passed`, of what is the same for many calls: every record that says so has it, and it is spelled once."""
    step = passed(check, inputs)
    kept(step.finding)
    return step


_finding = trusted(Finding)


@dataclass(frozen=True, slots=True)
class Refuse:
    """The check refuses."""

    reason: str
    outcome: Outcome = Outcome.DENIED
    rule: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    final: bool = False
    retry_after_s: float | None = None
    mode: Mode | None = None
    """Of the rule that refuses, if it has one of its own."""
    waived: tuple[Transition, ...] | None = None
    """The transitions that are left if the refusal is only observed; None: as before the check."""
    cost: int | None = None
    """As in `Case`, for a refusal that is only observed."""
    lacking: tuple[Lack, ...] = ()
    """What the run would need for its success and cannot have, where policy wants to know and that ends it."""


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
    accounts: tuple[Reservation, ...] = ()
    """What asking costs."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What was looked at."""
    scope: Digest | None = None
    """This, and all that follows, as in the event."""
    objects: tuple[str, ...] | None = None
    state: Mapping[str, Digest] = field(default_factory=dict)
    holding: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    follows: str | None = None
    because: str = ""
    alike: Digest | None = None


@dataclass(frozen=True, slots=True)
class Gather:
    """Nothing can be said before somebody has looked at the world."""

    accounts: tuple[str, ...] = ()
    """Accounts whose levels are wanted."""
    probes: tuple[str, ...] = ()
    """Verifiers that must be asked."""
    parent: str | None = None
    """A run of which must be known whether it is over."""
    offered: bool = False
    """What upstreams offer must be known."""


Step = Pass | Refuse | Replay | Wait | Ask | Gather
Check = Callable[[Case], Step]
