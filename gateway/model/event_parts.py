"""What several kinds of event say: who, what it costs, what a check found."""

from typing import Any, Literal

from pydantic import AwareDatetime, ConfigDict, Field

from gateway.model.added import Grown, added
from gateway.model.principal import Principal
from gateway.model.proposal import KeySource


class Frozen(Grown):
    """Never changed, and nothing in it that is not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Charge(Frozen):
    """What one transition takes from the run's budgets."""

    calls: int = Field(default=0, ge=0)
    mutations: int = Field(default=0, ge=0)
    tokens: int = added(0, ge=0)
    """Of results: reserved at first, measured when the result is there."""
    cost: int = added(0, ge=0)
    """In millionths."""
    reviews: int = added(0, ge=0)
    """How often a person was asked."""


class Reservation(Frozen):
    """What is taken from an account that many runs share, in the transaction of the event that says so."""

    rule: str
    """The account, as verdicts cite it."""
    account: str
    """Which of its accounts: whose, and of which window."""
    unit: str
    amount: int
    """Of `cost` in millionths."""
    limit: int | None = None
    """Beyond which nothing is reserved; None where it only counts."""
    until: AwareDatetime | None = None
    """The end of its window."""


class Undo(Frozen):
    """What is set aside with an intent for the call that would undo it."""

    tool: str
    """The call's tool, as policy named it then."""
    charge: Charge
    accounts: tuple[Reservation, ...] = ()
    merged: bool = False
    """Kept beyond the attempt's own verification, until a merge takes its effect over or the run ends."""


class Finding(Frozen):
    """One check of a verdict: what it looked at and what it found."""

    check: str
    passed: bool
    inputs: dict[str, Any] = {}
    """Every value that the check read beside the run's own state; enough to judge it again."""
    rule: str | None = None
    """The transition, forbid rule, budget or approval of the policy that decided."""
    reason: str | None = None
    """One sentence, for the agent and the on-call engineer. None when passed."""


class Lack(Frozen):
    """One thing that a run would need for its success and cannot have."""

    kind: Literal["tool", "withheld", "authority", "forbidden", "condition", "budget", "time", "path", "undone"]
    """`withheld`: it is offered, and not as policy pins it, or under a name that looks like another. `undone`: that an
    effect, which must not stay, is undone."""
    what: str
    """The tool, authority, rule, budget, limit of time, phase or attempt."""
    rule: str | None = None
    """The transition or verifier that needs it."""
    says: str
    """One sentence."""


class UsedKey(Frozen):
    """The idempotency key under which a proposal was judged."""

    source: KeySource
    value: str


class Who(Frozen):
    """A principal as recorded."""

    tenant: str
    id: str
    roles: tuple[str, ...] = ()
    scopes: tuple[str, ...] = added(())

    @classmethod
    def of(cls, principal: Principal) -> "Who":
        """That principal."""
        roles, scopes = tuple(sorted(principal.roles)), tuple(sorted(principal.scopes))
        return cls(tenant=principal.tenant, id=principal.id, roles=roles, scopes=scopes)
