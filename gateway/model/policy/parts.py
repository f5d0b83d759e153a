"""The words that all parts of a policy share."""

from decimal import ROUND_CEILING, Decimal
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

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
"""A CEL expression of type bool. What it may name stands in `VARIABLES` of `kernel/variables.py`."""
Formula: TypeAlias = Annotated[str, Field(min_length=1, max_length=MAX_EXPRESSION)]
"""A CEL expression of any type."""
Noise: TypeAlias = Annotated[str, Field(min_length=1, max_length=256)]
"""A field that tells nothing, at any depth: its name, or names joined by dots for one within another."""
MAX_COST = 1_000_000_000
Cost: TypeAlias = Annotated[float, Field(ge=0, le=MAX_COST)]
"""An amount in the currency that the policy's author has in mind; counted in millionths."""
Mode: TypeAlias = Literal["enforce", "observe"]


def _listed(told: Any) -> Any:
    if isinstance(told, list):
        return tuple(told)
    return () if told is None else (told,) if isinstance(told, str) else told


Names: TypeAlias = Annotated[tuple[Name, ...], BeforeValidator(_listed, json_schema_input_type=Name | tuple[Name, ...])]
"""One name or a list of them."""
Accept: TypeAlias = Literal["independent", "opinion", "self_reported"]
"""Which evidence counts: of a look of the gateway's own that does not err; also of a checker that may, such as a model;
also of what the call itself has answered."""


class Part(BaseModel):
    """A part of a policy: frozen, and nothing in it that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ProbeCall(Part):
    """A read of the world by a tool of an upstream; it is no proposal and charges nothing."""

    tool: str
    """Its name as agents would call it."""
    arguments: dict[str, Any] = {}
    """As they are."""
    arguments_from: dict[str, Formula] = {}
    """Further arguments, each as a CEL expression over `args`, the arguments of the call that is looked into."""


class Limits(Part):
    """What may be spent; no limit where not said."""

    calls: int | None = Field(default=None, ge=0)
    mutations: int | None = Field(default=None, ge=0)
    """Calls of tools that are no reads."""
    tokens: int | None = Field(default=None, ge=0)
    """Of results, measured as a quarter of their bytes. Soft for tools that declare no `result_tokens`."""
    cost: Cost | None = None
    """By what tools or transitions declare."""
    reviews: int | None = Field(default=None, ge=0)
    """How often a person may be asked."""


UNITS = ("calls", "mutations", "tokens", "cost", "reviews")
"""What is counted, in the order in which it is checked."""


def micro(cost: float) -> int:
    """The cost in millionths, exactly as it is written; a part of one counts as one, so that no cost is none."""
    return int((Decimal(repr(cost)) * 1_000_000).to_integral_value(ROUND_CEILING))
