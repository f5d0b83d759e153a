"""What a policy says of a verifier: how it looks, what it must find, and what its evidence is about."""

from typing import Any, Literal

from pydantic import Field

from gateway.model.policy.parts import Expression, Formula, Glob, Name, Part, ProbeCall


class Verifier(Part):
    """A named check of a state of the world."""

    probe: ProbeCall
    """How it looks."""
    passes: tuple[Expression, ...] = Field(alias="pass", min_length=1)
    """CEL expressions over `result` (the probe's whole answer), `args` (the attempt's arguments) and `evidence` (what
    the run has proven before); all must hold."""
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
    """Fields of the probe's `structuredContent` that tell one failure from another; no durations and the like."""
