"""Events of what the model says, and of what is found to contradict it. No decision reads what it says.

What it said stands in a payload, which can be erased; so what it assumed is kept as salted digests.
"""

from typing import Literal, TypeAlias

from pydantic import AwareDatetime, Field

from gateway.model.added import added
from gateway.model.canonical import Digest
from gateway.model.event_parts import Frozen, Lack


class Assumed(Frozen):
    """An assumption of a plan, as far as it is looked after."""

    evidence: str | None = None
    """The verifier whose evidence has the field; else it is about a tool."""
    tool: str | None = None
    arguments: Digest | None = None
    """Only calls with these arguments, as `model/alike.py` spells them; None: any."""
    field: str
    equals: Digest
    """Of the value, as `model/alike.py` spells it."""


class PlanRecorded(Frozen):
    """The agent says what it means to do. It replaces the plan before it."""

    kind: Literal["plan.recorded"] = "plan.recorded"
    plan: Digest
    revision: int = Field(ge=1)
    """From 1 without gaps."""
    assumptions: tuple[Assumed, ...] = ()


class PlanInvalidated(Frozen):
    """What was seen contradicts an assumption of the plan."""

    kind: Literal["plan.invalidated"] = "plan.invalidated"
    plan: int
    """Its revision."""
    assumption: int
    """Its place in the plan, from 0."""
    says: str
    """One sentence, without the values."""
    because: tuple[int, ...]
    """The records, by their place in this run, that show it."""


class NoteRecorded(Frozen):
    """The agent says what it believes: a hypothesis, until it expires."""

    kind: Literal["note.recorded"] = "note.recorded"
    note: Digest
    sources: tuple[int, ...]
    """The records, by their place in this run, that it rests on."""
    confidence: float = Field(ge=0, le=1)
    expires_at: AwareDatetime
    until: str | None = None
    """A verifier with whose next word it ends as well."""


class FinishClaimed(Frozen):
    """The agent says that its task is done, or cannot be. Evidence decides: what could still be asked is asked next."""

    kind: Literal["finish.claimed"] = "finish.claimed"
    outcome: Literal["verified_success", "infeasible"]
    claim: Digest
    """What it said."""
    lacks: tuple[Lack, ...] = ()
    """Of what it calls infeasible: what the run would need and cannot have. If there is anything, the run ends."""


class FinishRefused(Frozen):
    """It is not so, or nothing shows it: the run goes on."""

    kind: Literal["finish.refused"] = "finish.refused"
    claim: int
    """Its place in the run."""
    lacking: tuple[str, ...]
    """The verifiers, the phase and the attempts that success waits for."""
    rested: bool = added(default=False)
    """Nobody was asked, as a verifier had spoken a moment before: it is no step, and may be said again."""


Claim: TypeAlias = PlanRecorded | PlanInvalidated | NoteRecorded
