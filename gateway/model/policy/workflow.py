"""A workflow policy as its file says it: phases, transitions, authority, budgets, verifiers, stops.

Plain data. `kernel/rules.py` compiles it, `outbound/policy_files.py` reads it, and its JSON Schema
(`counterfoil schema policy`) is what editors complete from; so the docstrings here are what its author sees.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from gateway.model.events import Effect, Outcome
from gateway.model.flaws import flaws
from gateway.model.policy.cases import Case
from gateway.model.policy.parts import (
    Accept,
    Authority,
    Cost,
    Expression,
    Formula,
    Glob,
    Limits,
    Mode,
    Name,
    Names,
    Part,
)
from gateway.model.policy.people import ApprovalRule
from gateway.model.policy.registry import Compensation, Pin, ResultRule, ToolRule, Window
from gateway.model.policy.stops import Stops, Success
from gateway.model.policy.verifiers import Verifier

Edge: TypeAlias = Literal["error", "conflict", "invalid", "denied", "verification_failed", "timeout_unknown"]
"""What may go wrong with a call that was sent."""


class Phase(Part):
    """A named state of the workflow."""

    description: str = ""
    """What the run is about while it is in this phase."""
    verify: Names = ()
    """Verifiers that must pass before a transition leads here, after the transition's own."""
    accept: Accept = "self_reported"
    """Which evidence may lead here; all where not said."""
    ends: Literal["infeasible", "policy_denied", "human_escalation"] | None = None
    """A run that comes here is over, as this. Success is no phase: it is proven, by `success`."""

    @property
    def outcome(self) -> Outcome | None:
        """As what a run ends here; None where it goes on."""
        return None if self.ends is None else Outcome(self.ends)


class Spend(Part):
    """What a transition takes from the budgets and accounts."""

    calls: int = Field(default=1, ge=0)
    """One where not said."""
    mutations: int | None = Field(default=None, ge=0)
    """One where not said and the tool is no read."""
    tokens: int | None = Field(default=None, ge=0)
    """The most that the result has; the tool's `result_tokens` where not said. What is not used is given back."""
    cost: Cost | None = None
    """The tool's own where not said."""
    cost_from: Formula | None = None
    """In its place, a CEL expression over `args` and `values` that gives the cost: `double(args.amount) / 100.0`. A
    call whose cost cannot be told, or is below 0, is refused."""


class Transition(Part):
    """The contract under which a tool may be used."""

    name: Name
    """What verdicts cite."""
    tools: tuple[Glob, ...] = Field(min_length=1)
    """The tools that it is about, by pattern."""
    effect: tuple[Effect, ...] = ()
    """Only tools of these effects; any where not said."""
    sources: tuple[Name, ...] = Field(default=(), alias="from")
    """Phases in which it is legal; any where not said."""
    when: tuple[Expression, ...] = ()
    """CEL expressions over `args`, `run`, `principal`, `tool`, `evidence`, `accounts`, `values` and `now`; all must
    hold."""
    preconditions: tuple[Name, ...] = ()
    """Verifiers that are asked afresh before the call is sent, and must pass. What happens between their answer and the
    call is not seen."""
    authority: tuple[Authority, ...] = ()
    """What the principal must hold, by the policy's grants. Who lacks it comes to a later transition only if that one
    asks for as much."""
    charge: Spend = Spend()
    """What it takes from the budgets."""
    timeout_s: float | None = Field(default=None, gt=0, le=86_400)
    """In place of the tool's own."""
    takes_s: float | None = Field(default=None, ge=0, le=86_400)
    """In place of the tool's own."""
    retry: Literal["any", "unsent", "never"] = "any"
    """Whether a run may make an equal call again: whatever came of the first; only if the first is known not to have
    happened; or not at all. The gateway itself never sends a call twice, and makes a compensation that was not sent."""
    max_attempts: int | None = Field(default=None, ge=1)
    """How often a run may send equal calls, those not counted that are known not to have happened; no limit where not
    said."""
    verify: Names = ()
    """The verifier whose pass it needs, or several, asked in this order; only then has the run moved on."""
    sample: float = Field(default=1, gt=0, le=1)
    """The part of its calls that are verified; for reads alone that move no phase. Which ones, nobody can tell
    beforehand."""
    target: Name | None = Field(default=None, alias="to")
    """The phase that it leads to, by its receipt or, if it names a verifier, by the evidence."""
    on: dict[Edge, Name] = {}
    """Failure edges: what went wrong, and the phase that the run is in then."""
    compensation: Compensation | None = None
    """The call that undoes it, in place of the tool's own. The gateway makes it when the postcondition (`verify`) fails
    or a merge of its effects is rejected; its charge is set aside with the call that it would undo."""
    merges: tuple[Name, ...] = ()
    """Transitions whose effects this one takes over for good. If a person rejects it, or its own postcondition fails,
    what the run did under them is undone, the newest first."""
    approval: ApprovalRule | None = None
    """Asks a person before anything is sent."""
    mode: Mode | None = None
    """`observe`: what it would refuse is recorded and passes. The policy's own mode where not said."""


class Forbid(Part):
    """What is never allowed, whatever else is said."""

    name: Name
    """What verdicts cite."""
    tools: tuple[Glob, ...] = ("*",)
    """The tools that it is about, by pattern."""
    effect: tuple[Effect, ...] = ()
    """Only tools of these effects; any where not said."""
    when: tuple[Expression, ...] = ()
    """All must hold for it to forbid; one that cannot be judged counts as holding."""
    reason: str = "policy forbids this"
    """What the agent reads, in one sentence."""
    final: bool = False
    """The denial ends the run as `policy_denied`."""
    mode: Mode | None = None
    """`observe`: what it would forbid is recorded and passes. The policy's own mode where not said."""


class Grant(Part):
    """Who may do what."""

    principal: Glob = "*"
    tenant: Glob = "*"
    roles: tuple[str, ...] = ()
    """All of these roles are needed; empty for none."""
    scopes: tuple[str, ...] = ()
    """All of these scopes must be on what the principal came with; empty for none."""
    authority: tuple[Authority, ...]
    """What whoever fits the lines above may do."""


class Budgets(Limits):
    """Limits of one run; no limit where not said."""

    elapsed_s: float | None = Field(default=None, gt=0, le=366 * 86_400)
    """Since the run was opened."""
    reported_tokens: int | None = Field(default=None, ge=0)
    """Of the model, as the client reports them; a claim, so this one is soft."""
    warn_at: float = Field(default=0.8, gt=0, le=1)
    """The part of a budget from which results carry a warning."""


class AccountRule(Part):
    """A budget that many runs share."""

    per: tuple[
        Annotated[str, Field(pattern=r"^(tenant|principal|tool|upstream|workflow|args\.[A-Za-z_][A-Za-z0-9_]{0,63})$")],
        ...,
    ] = ("tenant",)
    """What has an account of its own: `tenant`, `principal`, `tool`, `upstream`, `workflow`, or an argument such as
    `args.to`. Nothing for one account for all."""
    window: Window = "day"
    """When it begins anew, by the calendar in UTC."""
    tools: tuple[Glob, ...] = ("*",)
    """The calls that it is about, by pattern."""
    effect: tuple[Effect, ...] = ()
    """Only tools of these effects; any where not said."""
    limit: Limits = Limits()
    """What may be spent in a window. Without any limit it only counts, for conditions to read."""
    warn_at: float = Field(default=0.8, gt=0, le=1)
    """The part of a limit from which results carry a warning."""
    mode: Mode | None = None
    """`observe`: what it would refuse is recorded and passes. The policy's own mode where not said."""


class Shared(Part):
    """What several workflows have in common; each of them names the file in its `include`."""

    grants: tuple[Grant, ...] = ()
    """Who may do what; after the workflow's own."""
    tools: dict[Glob, ToolRule] = {}
    """The registry, by pattern; after the workflow's own, so that those count first."""
    accounts: dict[Name, AccountRule] = {}
    """Budgets that many runs share. The same name means the same account, in whichever workflow."""
    values: dict[Name, Any] = {}
    """Named constants, which expressions read as `values.NAME`."""
    pins: dict[str, Pin] = {}
    """Tools, by their exact names, as they must be defined; one that is defined otherwise is withheld."""


class Policy(Shared):
    """One workflow."""

    workflow: Name
    """What a run names to be judged by this policy."""
    description: str = ""
    include: tuple[str, ...] = ()
    """Files of a registry, of accounts, grants or values, which this one shares with others; relative to this file."""
    mode: Mode = "enforce"
    """`observe` records what would have been refused and lets it pass; repeats and holds always bind."""
    migrate: bool = False
    """Whether runs that are under way go on under this policy when it is loaded anew; else under the one that they
    began with."""
    annotations: Literal["tighten", "trust"] = "tighten"
    """Whether `readOnlyHint` may make a tool a read. `tighten`: hints of a server only ever add caution."""
    unpinned: Literal["allow", "withhold"] = "allow"
    """What becomes of a tool that `pins` does not name."""
    grants: tuple[Grant, ...] = ()
    """Who may do what; nobody holds any authority that no grant gives."""
    tools: dict[Glob, ToolRule] = {}
    """The registry, by pattern; the first that names the tool counts."""
    result: ResultRule = ResultRule()
    """How much of an answer reaches the agent, of tools whose registry entry does not say it."""
    phases: dict[Name, Phase] = Field(default={"open": Phase()}, min_length=1)
    """The first is where a run starts."""
    transitions: tuple[Transition, ...] = Field(min_length=1)
    """The first that fits counts; a tool that none names is denied."""
    forbid: tuple[Forbid, ...] = ()
    """Judged before the transitions."""
    verifiers: dict[Name, Verifier] = {}
    budgets: Budgets = Budgets()
    stops: Stops = Stops()
    success: Success | None = None
    """What ends the run as `verified_success`; it never succeeds where not said."""
    cases: tuple[Case, ...] = ()
    """Run by `counterfoil check`."""

    def proofs(self, transition: Transition) -> tuple[str, ...]:
        """The verifiers that must pass, in order, before a call under it has done its work: its own, then those of the
        phase that it leads to.
        """
        phase = self.phases.get(transition.target or "")
        return tuple(dict.fromkeys((*transition.verify, *(phase.verify if phase is not None else ()))))

    @property
    def initial(self) -> str:
        """The phase in which a run starts."""
        return next(iter(self.phases))

    @model_validator(mode="after")
    def _consistent(self) -> "Policy":
        flaw = next(flaws(self.model_dump(mode="json", by_alias=True)), None)
        if flaw is not None:
            raise flaw
        return self
