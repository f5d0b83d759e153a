"""A policy's own tests."""

from typing import Any, Literal, TypeAlias

from pydantic import AwareDatetime, Field

from gateway.model.policy.parts import Authority, Limits, Name, Part

Check: TypeAlias = Literal[
    "key", "run", "tool", "schema", "phase", "authority", "conditions", "holds", "budget", "preconditions", "approval"
]
"""In the order in which they are asked."""


class GivenTool(Part):
    """A tool as a case imagines it."""

    input_schema: dict[str, Any] = Field(default={"type": "object"}, alias="inputSchema")
    annotations: dict[str, Any] = {}
    """As the server would send them: `readOnlyHint`, `destructiveHint`."""


class Given(Part):
    """The state in which a case asks; what is left out is as in a run just opened."""

    phase: Name | None = None
    principal: str = "local:user"
    tenant: str = "local"
    roles: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    delegated: tuple[Authority, ...] | None = None
    """What a parent run passed on, at most; no such ceiling where not said."""
    calls: int = Field(default=0, ge=0)
    """Spent so far."""
    mutations: int = Field(default=0, ge=0)
    """Spent so far."""
    tokens: int = Field(default=0, ge=0)
    """Spent so far."""
    cost: float = Field(default=0.0, ge=0)
    """Spent so far."""
    reviews: int = Field(default=0, ge=0)
    """Spent so far."""
    elapsed_s: float = Field(default=0.0, ge=0)
    """Since the run was opened."""
    now: AwareDatetime | None = None
    """When the call is made; some day in 2027 where not said."""
    evidence: dict[Name, Literal["pass", "fail", "inconclusive"]] = {}
    """The last verdict of each verifier, fresh where it is not in `stale`."""
    scope: dict[Name, dict[str, Any]] = {}
    """What each verifier said its evidence is about."""
    stale: tuple[Name, ...] = ()
    """Verifiers whose evidence a later mutation has overtaken."""
    probes: dict[Name, Literal["pass", "fail", "inconclusive"]] = {}
    """What a precondition finds when it is asked; it passes where not said."""
    accounts: dict[Name, Limits] = {}
    """How much stands on each account that the call falls under; nothing where not said."""
    data: tuple[Name, ...] = ()
    """Classes of data that the run has seen."""
    approved: bool = False
    """A person has said yes to this very call."""
    tool: GivenTool = GivenTool()


class CaseCall(Part):
    """What the agent asks in a case."""

    tool: str
    arguments: dict[str, Any] = {}


class Expect(Part):
    """What must come of it; each field that is given is compared."""

    outcome: Literal[
        "allowed",
        "denied",
        "invalid_arguments",
        "needs_approval",
        "rate_limited",
        "tool_withheld",
        "policy_denied",
        "budget_exhausted",
        "deadline_missed",
        "infeasible",
    ]
    """`policy_denied`: the denial is final and ends the run."""
    check: Check | None = None
    """The check that refused."""
    rule: str | None = None
    """The transition, forbid rule, account or budget that decided."""
    would_refuse: tuple[Check, ...] | None = None
    """Checks that would have refused, had the mode not been `observe`. A case that says this is judged in the policy's
    own mode, and any other as if it enforced."""


class Case(Part):
    """A test of the policy, in the policy: state and call, and the verdict that is expected."""

    name: str
    given: Given = Given()
    call: CaseCall
    expect: Expect
