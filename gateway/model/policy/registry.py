"""What the registry says of tools: effect, permissions, idempotency, time, rate, cost, data, reversibility, pin."""

from typing import Any, Literal, TypeAlias

from pydantic import Field, model_validator

from gateway.model.events import Effect
from gateway.model.policy.parts import Authority, Cost, Expression, Formula, Name, Noise, Part, ProbeCall

Failure: TypeAlias = Literal["conflict", "invalid", "denied"]
"""Kinds of error answers that a policy may tell apart; any other is `error`."""

Window: TypeAlias = Literal["minute", "hour", "day", "month", "ever"]
"""Of the calendar, in UTC."""


class KeyPlace(Part):
    """Where the upstream takes our idempotency key. Exactly one of the three."""

    argument: str | None = None
    """An argument of the tool."""
    header: str | None = None
    """A header of the HTTP request. A server over stdio never gets it, so nothing is sent to it again."""
    meta: str | None = None
    """A key of the request's `_meta`."""

    @model_validator(mode="after")
    def _one(self) -> "KeyPlace":
        if sum(place is not None for place in (self.argument, self.header, self.meta)) != 1:
            raise ValueError("name exactly one of `argument`, `header` and `meta`")
        return self


class StatusQuery(Part):
    """How it is found out whether a call happened."""

    probe: ProbeCall
    """A read, by the arguments of the call and, where the upstream takes our key, by `key`."""
    happened: tuple[Expression, ...] = Field(min_length=1)
    """CEL over `result`, `args` and `key`: all hold if it happened, and the answer speaks of this very call."""
    absent: tuple[Expression, ...] = ()
    """All hold if it has not happened. Where not said, nothing proves that. Believed only once the upstream can no
    longer act on the call: its timeout and the tool's `grace_s` later."""
    timeout_s: float = Field(default=30.0, gt=0, le=3_600)


class Idempotency(Part):
    """What happens if the same call comes twice, and how that is known."""

    kind: Literal["natural", "key", "query", "none"]
    """`natural`: twice is as once; `key`: the upstream honours ours; `query`: it can be asked; `none`: neither."""
    key: KeyPlace | None = None
    """Where the key goes, for `key`."""
    valid_s: float | None = Field(default=None, gt=0)
    """How long the upstream remembers a key, for `key`. An unknown call is sent again under its key only within this
    time; where it is not said, never."""
    query: StatusQuery | None = None
    """How to ask, for `query`; with `key`, it is asked before anything is sent again."""

    @model_validator(mode="after")
    def _fits(self) -> "Idempotency":
        if (self.kind == "key") != (self.key is not None):
            raise ValueError("`kind: key` and the key `key` go together")
        if self.query is None and self.kind == "query":
            raise ValueError("`kind: query` and the key `query` go together")
        if self.query is not None and self.kind not in {"query", "key"}:
            raise ValueError("`query` goes with `kind: query` or `kind: key`")
        if self.valid_s is not None and self.kind != "key":
            raise ValueError("`valid_s` goes with `kind: key`")
        return self


class Rate(Part):
    """How often a tool may be called in a window."""

    calls: int = Field(ge=0)
    per: Window = "minute"
    by: tuple[Literal["tenant", "principal"], ...] = ("tenant", "principal")
    """Whose calls are counted together; nothing for everybody's."""


class Compensation(Part):
    """A call that undoes another one."""

    tool: str
    """Its name as agents would call it."""
    arguments: dict[str, Any] = {}
    arguments_from: dict[str, Formula] = {}
    """Further arguments, each as a CEL expression over `args` and `result` of the call that is to be undone; `now` is
    when that became necessary."""


class ResultRule(Part):
    """How much of an answer reaches the agent. It is recorded whole, whatever is said here."""

    max_bytes: int | None = Field(default=None, ge=2_048, le=1 << 30)
    """The most of a result, as JSON; no bound where not said. Of one that is larger the agent gets head and tail of its
    long texts, and the address at which all of it can be read in ranges."""
    repeat: Literal["whole", "reference"] = "whole"
    """`reference`: a result that the agent has got before in this run, byte for byte, is named and not told again."""


class ToolRule(Part):
    """What the registry says of the tools that the pattern names; silence means the cautious default."""

    effect: Effect | None = None
    """`read`, `write` or `destructive`. Inferred where not said, from the name and the annotations, towards caution."""
    permissions: tuple[Authority, ...] = ()
    """Authority that any use of the tool needs."""
    input_schema: dict[str, Any] | None = Field(default=None, alias="input")
    """JSON Schema of its arguments, by which conditions are checked where no server can be asked. The server's own is
    what calls are judged by."""
    output_schema: dict[str, Any] | None = Field(default=None, alias="output")
    """JSON Schema of its `structuredContent`, by which verifiers are checked where no server can be asked."""
    idempotency: Idempotency | None = None
    """Inferred where not said: reads are natural, all else is `none`."""
    objects: tuple[Formula, ...] = ()
    """What a call is about, as CEL expressions over `args`, each a text or a list of texts: `args.path`. A write of
    other objects leaves evidence fresh that says what it is `about`."""
    timeout_s: float = Field(default=60.0, gt=0, le=86_400)
    """How long a call may take; then its outcome is unknown, unless it only reads."""
    grace_s: float = Field(default=30.0, ge=0, le=86_400)
    """How long after the timeout the upstream may still act on the call."""
    takes_s: float = Field(default=0.0, ge=0, le=86_400)
    """The least seconds that a call takes until it succeeds."""
    repeat: Literal["hold", "replay", "new"] = "hold"
    """`hold`: an equal call waits for the first; `replay`: never twice in a run; `new`: equal calls may overlap."""
    arguments_schema: Literal["enforce", "observe"] = Field(default="enforce", alias="schema")
    """Real servers are laxer than their schemas; `observe` records a violation and lets it pass."""
    rate: Rate | None = None
    """No limit where not said."""
    cost: Cost = 0.0
    """Of each call."""
    result_tokens: int | None = Field(default=None, ge=0)
    """The most that a result has, which is what a budget of tokens reserves. Without it that budget is soft."""
    data_class: Name | None = None
    """What its results are, in a word of the policy's own such as `internal`; a run remembers which it has seen."""
    reversible: Literal["yes", "compensate", "no"] | None = None
    """Inferred where not said: a read needs no undoing, `compensation` makes it `compensate`, all else cannot be."""
    compensation: Compensation | None = None
    """The call that undoes it, which the gateway makes when a transition's postcondition (`verify`) fails."""
    trust: Literal["untrusted"] | None = None
    """`untrusted`: whoever reads what it answers is told so, as `trust` under our key in `_meta`."""
    hidden: Literal["pass", "flag", "strip", "refuse"] = "flag"
    """What becomes of characters in its answers that nobody sees and models read: tags, zero width, turned direction,
    terminal codes. `flag`: they are counted under our key in `_meta`; `strip`: and taken out, also of
    `structuredContent`; `refuse`: the answer is recorded and not told. In the ledger it is always as it came."""
    result: ResultRule | None = None
    """How much of its answers reaches the agent. In place of the workflow's `result`, all of it."""
    failures: dict[Failure, tuple[Expression, ...]] = {}
    """Kinds of its error answers, each by CEL over `result` and `args` of which all must hold; the first counts."""
    noise: tuple[Noise, ...] = ()
    """Fields of its arguments and answers that are others each time and mean nothing (times, ids, durations), by name
    or dotted path, at any depth: steps that differ in nothing else are the same to `stops.repeated_state`."""
    poll: bool = False
    """It is asked again and again while one waits: what it answers is no step to `stops.repeated_state`."""
    version: str | None = None
    """For people; of the server or the tool."""


class Pin(Part):
    """A tool as it was when somebody looked at it and found it right. `counterfoil pin` writes it."""

    digest: str
    """Of what is pinned of the definition."""
    definition: dict[str, Any]
    """What is pinned of it: name, title, description, schemas and annotations, for saying what is another now."""
