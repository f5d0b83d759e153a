"""What calls take: from the budgets of their run, from accounts that runs share, and to be undone with."""

from pydantic import AwareDatetime, ConfigDict, Field

from gateway.model.added import Grown, added


class Frozen(Grown):
    """What is stored and never changed."""

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
