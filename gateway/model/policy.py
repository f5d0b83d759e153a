"""A workflow policy as its file says it: phases, transitions, authority, budgets, verifiers, stops.

Plain data. `kernel/rules.py` compiles it, `outbound/policy_files.py` reads it, and its JSON Schema
(`counterfoil schema policy`) is what editors complete from; so the docstrings here are what its author sees.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gateway.model.events import Effect
from gateway.model.flaws import UnknownName as UnknownName
from gateway.model.flaws import flaws

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$"
MAX_EXPRESSION = 4000
"""Characters of one expression, which a reviewer must still be able to read."""

Name: TypeAlias = Annotated[str, Field(pattern=NAME_PATTERN)]
"""A letter, then letters, digits, `_`, `.` and `-`; at most 64 characters."""
Glob: TypeAlias = Annotated[str, Field(min_length=1, max_length=128)]
"""A tool or principal name; `*` stands for any run of characters, nothing else is special."""
Authority: TypeAlias = Annotated[str, Field(min_length=1, max_length=128)]
"""A word of the policy's own, such as `repo:write`; grants give it, transitions and tools need it."""
Expression: TypeAlias = Annotated[str, Field(min_length=1, max_length=MAX_EXPRESSION)]
"""A CEL expression of type bool. What it may name stands in `VARIABLES` of `kernel/conditions.py`."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class KeyPlace(_Part):
    """Where the upstream takes our idempotency key. Exactly one of the three."""

    argument: str | None = None
    """An argument of the tool."""
    header: str | None = None
    """A header of the HTTP request."""
    meta: str | None = None
    """A key of the request's `_meta`."""

    @model_validator(mode="after")
    def _one(self) -> "KeyPlace":
        if sum(place is not None for place in (self.argument, self.header, self.meta)) != 1:
            raise ValueError("name exactly one of `argument`, `header` and `meta`")
        return self


class ToolRule(_Part):
    """What the registry says of the tools that the pattern names; silence means the cautious default."""

    effect: Effect | None = None
    """`read`, `write` or `destructive`. Inferred where not said, from the name and the annotations, towards caution."""
    permissions: tuple[Authority, ...] = ()
    """Authority that any use of the tool needs."""
    timeout_s: float = Field(default=60.0, gt=0, le=86_400)
    """How long a call may take; then its outcome is unknown, unless it only reads."""
    grace_s: float = Field(default=30.0, ge=0, le=86_400)
    """How long after the timeout the upstream may still act on the call."""
    repeat: Literal["hold", "replay", "new"] = "hold"
    """`hold`: an equal call waits for the first; `replay`: never twice in a run; `new`: equal calls may overlap."""
    arguments_schema: Literal["enforce", "observe"] = Field(default="enforce", alias="schema")
    """Real servers are laxer than their schemas; `observe` records a violation and lets it pass."""
    idempotency_key: KeyPlace | None = None
    """Where the upstream takes our key, if it honours one."""
    pin: str | None = None
    """Digest of the definition; another definition is withheld."""


class Phase(_Part):
    """A named state of the workflow."""

    description: str = ""
    """What the run is about while it is in this phase."""


class Spend(_Part):
    """What a transition takes from the budgets."""

    calls: int = Field(default=1, ge=0)
    """One where not said."""
    mutations: int | None = Field(default=None, ge=0)
    """One where not said and the tool is no read."""


class ApprovalRule(_Part):
    """A person must agree to this exact action."""

    reason: str = "policy asks for a person"
    """What the reviewer and the agent read, in one sentence."""
    role: str | None = None
    """The role that a reviewer must have; whoever holds the ledger where not said."""
    expires_s: float = Field(default=86_400.0, gt=0, le=30 * 86_400)
    """How long the question stands, and then the answer."""


class Transition(_Part):
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
    """CEL expressions over `args`, `run`, `principal`, `tool`, `evidence` and `now`; all must hold."""
    authority: tuple[Authority, ...] = ()
    """What the principal must hold, by the policy's grants."""
    charge: Spend = Spend()
    """What it takes from the budgets."""
    timeout_s: float | None = Field(default=None, gt=0, le=86_400)
    """In place of the tool's own."""
    verify: Name | None = None
    """The verifier whose pass it needs; only then has the run moved on."""
    target: Name | None = Field(default=None, alias="to")
    """The phase that it leads to, by its receipt or, if it names a verifier, by the evidence."""
    on: dict[Literal["error", "verification_failed", "timeout_unknown"], Name] = {}
    """Failure edges: what went wrong, and the phase that the run is in then."""
    approval: ApprovalRule | None = None
    """Asks a person before anything is sent."""


class Forbid(_Part):
    """What is never allowed, whatever else is said."""

    name: Name
    """What verdicts cite."""
    tools: tuple[Glob, ...] = ("*",)
    """The tools that it is about, by pattern."""
    when: tuple[Expression, ...] = ()
    """All must hold for it to forbid; one that cannot be judged counts as holding."""
    reason: str = "policy forbids this"
    """What the agent reads, in one sentence."""
    final: bool = False
    """The denial ends the run as `policy_denied`."""


class Grant(_Part):
    """Who may do what."""

    principal: Glob = "*"
    tenant: Glob = "*"
    roles: tuple[str, ...] = ()
    """All of these roles are needed; empty for none."""
    authority: tuple[Authority, ...]
    """What whoever fits the lines above may do."""


class ProbeCall(_Part):
    """A read of the world by a tool of an upstream; it is no proposal and charges nothing."""

    tool: str
    """Its name as agents would call it."""
    arguments: dict[str, Any] = {}


class Verifier(_Part):
    """A named check of a postcondition."""

    probe: ProbeCall
    """How it looks."""
    passes: tuple[Expression, ...] = Field(alias="pass", min_length=1)
    """CEL expressions over `result` (the probe's whole answer) and `args` (the attempt's arguments); all must hold."""
    timeout_s: float = Field(default=60.0, gt=0, le=3_600)
    covers: tuple[Glob, ...] = ("*",)
    """Tools whose mutations make its evidence stale."""
    scope: dict[str, Any] = {}
    """Said along with each verdict: which tests, which environment."""
    signature: tuple[str, ...] = ()
    """Fields of the probe's `structuredContent` that tell one failure from another; no durations and the like."""


class Budgets(_Part):
    """Hard limits of one run; no limit where not said."""

    calls: int | None = Field(default=None, ge=0)
    mutations: int | None = Field(default=None, ge=0)
    elapsed_s: float | None = Field(default=None, gt=0, le=366 * 86_400)
    """Since the run was opened."""


class RepeatedState(_Part):
    """The same failure so often, without new evidence between, ends the run."""

    after: int = Field(default=3, ge=2)


class Stops(_Part):
    """When a run is over, beside success and exhausted budgets."""

    deadline_s: float | None = Field(default=None, gt=0, le=366 * 86_400)
    """Since the run was opened."""
    repeated_state: RepeatedState | None = None
    """Ends a run that goes round in circles."""
    final_denials: tuple[Literal["phase", "authority", "conditions", "tool"], ...] = ()
    """Checks whose refusal ends the run as `policy_denied`."""


class Success(_Part):
    """The run's goal is reached when all of this holds."""

    evidence: tuple[Name, ...] = Field(min_length=1)
    """Verifiers whose last verdict is a pass and fresh."""
    phase: Name | None = None


class GivenTool(_Part):
    """A tool as a case imagines it."""

    input_schema: dict[str, Any] = Field(default={"type": "object"}, alias="inputSchema")
    annotations: dict[str, Any] = {}
    """As the server would send them: `readOnlyHint`, `destructiveHint`."""


class Given(_Part):
    """The state in which a case asks; what is left out is as in a run just opened."""

    phase: Name | None = None
    principal: str = "local:user"
    tenant: str = "local"
    roles: tuple[str, ...] = ()
    calls: int = Field(default=0, ge=0)
    """Spent so far."""
    mutations: int = Field(default=0, ge=0)
    """Spent so far."""
    elapsed_s: float = Field(default=0.0, ge=0)
    """Since the run was opened."""
    evidence: dict[Name, Literal["pass", "fail", "inconclusive"]] = {}
    """The last verdict of each verifier, fresh where it is not in `stale`."""
    stale: tuple[Name, ...] = ()
    """Verifiers whose evidence a later mutation has overtaken."""
    tool: GivenTool = GivenTool()


class CaseCall(_Part):
    """What the agent asks in a case."""

    tool: str
    arguments: dict[str, Any] = {}


class Expect(_Part):
    """What must come of it; each field that is given is compared."""

    outcome: Literal[
        "allowed",
        "denied",
        "invalid_arguments",
        "needs_approval",
        "tool_withheld",
        "policy_denied",
        "budget_exhausted",
        "deadline_missed",
    ]
    """`policy_denied`: the denial is final and ends the run."""
    check: str | None = None
    """The check that refused."""
    rule: str | None = None
    """The transition, forbid rule or budget that decided."""


class Case(_Part):
    """A test of the policy, in the policy: state and call, and the verdict that is expected."""

    name: str
    given: Given = Given()
    call: CaseCall
    expect: Expect


class Policy(_Part):
    """One workflow."""

    workflow: Name
    """What a run names to be judged by this policy."""
    description: str = ""
    mode: Literal["enforce", "observe"] = "enforce"
    """`observe` records what would have been refused and lets it pass; repeats and holds always bind."""
    annotations: Literal["tighten", "trust"] = "tighten"
    """Whether `readOnlyHint` may make a tool a read. `tighten`: hints of a server only ever add caution."""
    grants: tuple[Grant, ...] = ()
    """Who may do what; nobody holds any authority that no grant gives."""
    tools: dict[Glob, ToolRule] = {}
    """The registry, by pattern; the first that names the tool counts."""
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
