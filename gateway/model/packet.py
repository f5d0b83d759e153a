"""All that a person needs to decide one thing, without the transcript. As JSON, in a terminal, in a ticket.

What the model said of its own work stands under `plan` and `hypotheses`, and nowhere else.
"""

from typing import Any, Literal

from gateway.model.asked import Granted, Offer, Risk
from gateway.model.events import Charge
from gateway.model.status import Barred, Eligible, Failure, Held, Hypothesis, Missing, Over, PlanTold, Told


class Tried(Told):
    """Something that was done."""

    event: str
    at: str
    says: str


class Option(Told):
    """What a person may answer, and what follows from it."""

    command: str
    follows: str


class StageTold(Told):
    """One of the answers that are needed, in order."""

    role: str | None = None
    quorum: int
    agreed: int
    """How many have said yes in it."""


class Before(Told):
    """The question about the same tool that was asked before this one."""

    approval: str
    state: str
    by: str | None = None
    said: str = ""
    arguments: dict[str, Any] | None = None
    """None where they were erased."""

    @property
    def again(self) -> bool:
        """Whether it came to nothing, so that the same matter is asked again; else it had a matter of its own."""
        return self.state in _ENDED_WITHOUT


_ENDED_WITHOUT = frozenset({"superseded", "returned", "rejected", "withdrawn", "lapsed", "revoked", "expired"})


class Change(Told):
    """An argument that is another than in the question before."""

    argument: str
    was: Any = None
    now: Any = None
    kind: Literal["other", "new", "gone"]


class Packet(Told):
    """One thing that a person is asked about."""

    about: Literal["run", "attempt", "approval"]
    run: str
    attempt: str | None = None
    approval: str | None = None
    question: str
    """The exact decision that is asked for."""
    options: tuple[Option, ...] = ()
    person: bool = False
    """Whether nothing but a person's word can settle it, as far as is known."""
    state: str
    """Of what it is about."""

    workflow: str
    phase: str
    phase_says: str = ""
    goal: str = ""
    principal: str = ""
    over: Over | None = None

    tool: str | None = None
    """Of the proposed action; None for a run."""
    upstream: str | None = None
    transition: str | None = None
    arguments: dict[str, Any] | None = None
    """None where they were erased, or there is no action."""
    effect: str | None = None
    reversible: str | None = None
    data_class: str | None = None
    consequence: str = ""
    undoes: str | None = None
    """The attempt that the action would undo."""
    charge: Charge = Charge()
    """What it holds until it is settled."""
    reason: str = ""
    """Why a person is asked."""
    sent_at: str | None = None
    settles_at: str | None = None
    """From then on the upstream can no longer act on it."""
    expires_at: str | None = None
    """Until then the question stands."""
    action: str | None = None
    """The digest that an approval binds."""
    risk: Risk | None = None
    because: str = ""
    """Why it is asked anew."""
    objects: tuple[str, ...] = ()
    """What the call is about, where the registry tells."""
    before: Before | None = None
    changes: tuple[Change, ...] = ()
    """Against the question before."""
    stages: tuple[StageTold, ...] = ()
    agreed: tuple[str, ...] = ()
    """Who has said yes."""
    seen: tuple[str, ...] = ()
    """Who has looked at it."""
    reasons: Literal["never", "rejection", "always"] = "never"
    """When a reviewer must say why."""
    offer: Offer | None = None
    """How far a yes may go beyond one call."""
    granted: Granted | None = None
    """How far it goes."""
    valid_s: float | None = None
    """How long a yes stands once it was given."""
    unchanged: tuple[str, ...] = ()
    """Verifiers that must see the same when the call is sent, else the yes is void."""
    holding: tuple[str, ...] = ()
    """Verifiers whose evidence must still hold then."""
    waiting: int = 0
    """How many equal calls of this run were held because of it."""
    goes_on: str = ""
    """What the gateways still do about it by themselves."""

    tried: tuple[Tried, ...] = ()
    """What was done about it since."""
    others: tuple[Tried, ...] = ()
    """Other calls of this run under the same transition or of the same tool, and what came of them; for a run, all that
    changed something or failed."""
    evidence: tuple[Held, ...] = ()
    missing: tuple[Missing, ...] = ()
    """For success, where policy says what that is."""
    failures: tuple[Failure, ...] = ()
    alternatives: tuple[Eligible, ...] = ()
    """What the agent may still do, by the tools that the ledger knows."""
    barred: tuple[Barred, ...] = ()
    spent: dict[str, float]
    budget_left: dict[str, float]

    plan: PlanTold | None = None
    """The agent's own, and perhaps wrong."""
    hypotheses: tuple[Hypothesis, ...] = ()
    """The agent's own, and perhaps wrong."""
