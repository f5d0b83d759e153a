"""What an agent says of its own work: a plan, and notes. It grants nothing, and no decision reads it.

The models are the arguments of the tools that take them, so the docstrings here are what a model reads.
"""

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_SECONDS = 7 * 86_400.0
"""How long a note may count at most."""
DEFAULT_SECONDS = 3_600.0
"""How long it counts where nothing is said."""

Line: TypeAlias = Annotated[str, Field(min_length=1, max_length=500)]
Lines: TypeAlias = Annotated[tuple[Line, ...], Field(max_length=30)]
Named: TypeAlias = Annotated[str, Field(max_length=128)]


class Said(BaseModel):
    """A part of what an agent says: nothing in it that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Cost(Said):
    """What the agent expects to spend."""

    calls: int = Field(default=0, ge=0)
    mutations: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    cost: float = Field(default=0.0, ge=0)
    reviews: int = Field(default=0, ge=0)
    elapsed_s: float = Field(default=0.0, ge=0)


class Assumption(Said):
    """Something that the plan rests on and that the gateway can see to be otherwise."""

    says: Line
    """In one sentence."""
    evidence: Named = ""
    """The verifier whose evidence has the field; or name a `tool`."""
    tool: Named = ""
    """The tool whose result has the field; or name a verifier in `evidence`."""
    arguments: dict[str, Any] | None = None
    """Only calls with exactly these arguments; any call of the tool where not said."""
    field: str = Field(min_length=1, max_length=200)
    """Where it stands, names joined by dots: `verdict` or `scope.revision` of evidence, `structuredContent.revision` of
    a result; a number is a place in a list."""
    equals: str | int | float | bool | None
    """What it is assumed to be."""

    @model_validator(mode="after")
    def _about_one(self) -> "Assumption":
        if bool(self.evidence) == bool(self.tool):
            raise ValueError("name either `evidence` or a `tool`")
        if self.evidence and self.arguments is not None:
            raise ValueError("`arguments` belong to a `tool`")
        return self


class Plan(Said):
    """What the agent means to do. The newest counts."""

    objective: str = Field(min_length=1, max_length=1_000)
    """What is to be true at the end."""
    success_evidence: Lines = ()
    """What will show it: names of verifiers, where there are."""
    steps: Lines = ()
    information_gaps: Lines = ()
    """What is not known yet and has to be found out."""
    expected_cost: Cost = Cost()
    """Of the whole plan."""
    irreversible_steps: Lines = ()
    """Steps that cannot be undone."""
    checkpoints: Lines = ()
    """Where you will look whether it still holds."""
    stop_conditions: Lines = ()
    """When you will give up or ask a person."""
    assumptions: tuple[Assumption, ...] = Field(default=(), max_length=16)
    """What must be so for the plan to make sense. You are told when the gateway sees one that is not."""


class Until(Said):
    """When a note ends early."""

    evidence: str = Field(min_length=1, max_length=128)
    """A verifier: once it speaks anew, the note counts no more."""


class Note(Said):
    """A hypothesis: a diagnosis, a reflection, a rationale."""

    says: str = Field(min_length=1, max_length=1_000)
    """One thing, in a sentence or two."""
    about: str = Field(default="", max_length=200)
    """What it is about: a tool, a file, a failure."""
    sources: tuple[Annotated[str, Field(max_length=200)], ...] = Field(min_length=1, max_length=20)
    """The events of this run that it rests on, each `RUN#SEQ` as `gateway__status` names them."""
    confidence: float = Field(ge=0, le=1)
    """How sure you are, from 0 to 1."""
    expires_s: float = Field(default=DEFAULT_SECONDS, gt=0, le=MAX_SECONDS)
    """For how many seconds it counts; an hour where not said, a week at most."""
    until: Until | None = None
    """What ends it earlier."""
