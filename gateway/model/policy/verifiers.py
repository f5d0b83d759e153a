"""What a policy says of a verifier: how it looks, what it must find, and what its evidence is about."""

from typing import Any, Literal, TypeAlias

from pydantic import Field

from gateway.model.policy.parts import Cost, Expression, Formula, Glob, Name, Part, ProbeCall
from gateway.model.policy.ways import CommandLook, FileLook, HttpLook, ResultLook, SqlLook, Way

Source: TypeAlias = Literal["tool", "command", "http", "sql", "file", "result"]
"""How it was looked, as evidence says it."""


class Verifier(Part):
    """A named check of a state of the world. It looks in exactly one way."""

    probe: ProbeCall | None = None
    """By a read tool of an upstream."""
    command: CommandLook | None = None
    """By a command in a private copy of a folder."""
    http: HttpLook | None = None
    """By an HTTP request."""
    sql: SqlLook | None = None
    """By a query of a database."""
    file: FileLook | None = None
    """At a file."""
    result: ResultLook | None = None
    """At the call's own result, as `result: {}`: it proves no more than what the upstream says of itself."""
    passes: tuple[Expression, ...] = Field(default=(), alias="pass")
    """CEL expressions over `result` (what it saw), `args` (the attempt's arguments) and `evidence` (what the run has
    proven before); all must hold. Only a `command` and an `http` request can do without."""
    opinion: bool = False
    """Its evidence is that of a checker which may err, such as a model."""
    cost: Cost = 0.0
    """Of one look; said along with the evidence."""
    timeout_s: float = Field(default=60.0, gt=0, le=3_600)
    takes_s: float = Field(default=0.0, ge=0, le=3_600)
    """The least seconds until it passes."""
    covers: tuple[Glob, ...] = ("*",)
    """Tools whose mutations make its evidence stale."""
    about: tuple[Formula, ...] = ()
    """Objects that its evidence is about, as CEL expressions over `result` and `args`, each a text or a list of texts;
    a write of others (`objects` in the registry) leaves it fresh. All that it covers where not said or not to be
    told."""
    tell: Literal["artifact", "verdict"] = "artifact"
    """What the agent is told of a failure: what was found, cut short, or only that it failed."""
    scope: dict[str, Any] = {}
    """Said along with each verdict: which tests, which environment."""
    scope_from: dict[Name, Formula] = {}
    """The same, each as a CEL expression over `result` and `args`: the revision that was tested, say."""
    signature: tuple[str, ...] = ()
    """Fields that tell one failure from another, no durations and the like: of `result.structuredContent` where a tool
    answered, else of `result`. Where nothing is said: with `junit` the names of the tests that failed, else what was
    seen, without noise."""

    @property
    def source(self) -> Source:
        """How it looks."""
        ways: tuple[tuple[Source, object], ...] = (
            ("command", self.command),
            ("http", self.http),
            ("sql", self.sql),
            ("file", self.file),
            ("result", self.result),
        )
        return next((name for name, way in ways if way is not None), "tool")

    @property
    def way(self) -> Way | None:
        """How it looks at a place; None if it asks a tool, or looks at the call's own result."""
        return self.command or self.http or self.sql or self.file
