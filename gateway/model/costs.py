"""What runs cost, each figure under the grade of its source: measured, priced, reported, estimated, counted.

The grades are never added to one another. A gateway sees no call of a model: what it knows exactly is its own traffic.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from pydantic import Field

from gateway.model.figures import Part

By: TypeAlias = Literal["run", "phase", "transition", "tool", "principal"]
GROUPINGS: tuple[By, ...] = ("run", "phase", "transition", "tool", "principal")


class Measured(Part):
    """Exact: the gateway's own count."""

    calls: int = 0
    """Attempts that were sent; one that is sent again under its key counts once."""
    mutations: int = 0
    """Of these, those that are no reads."""
    refusals: int = 0
    """Proposals that were denied, held, or put to a person: nothing was sent for them."""
    replays: int = 0
    """Proposals that were answered from the record."""
    results: int = 0
    """Answers of upstreams."""
    result_bytes: int = 0
    tool_s: float = 0.0
    """How long upstreams took, in seconds; calls that went on side by side are added up."""
    looks: int = 0
    """What verifiers looked at, each look for itself."""
    verifier_s: float = 0.0
    questions: int = 0
    """That a person was asked."""
    waited_s: float = 0.0
    """From each question to its last answer, or to its end by time; nothing of those that still wait."""


class Priced(Part):
    """By the prices that policy names, in its own unit; they are as true as whoever wrote them."""

    calls: float = 0.0
    """Of calls; of one that is known not to have happened, nothing."""
    verifiers: float = 0.0


class Tokens(Part):
    """Of results. Never a model's bill: what a client shows its model, and how often, no gateway sees."""

    estimated: int = 0
    """A quarter of the bytes, as budgets count."""
    counted: int | None = None
    """By a tokenizer; None where nobody asked for that."""
    uncounted: int = 0
    """Payloads that should be counted and are not, because they were erased or changed. `estimated` has them."""


class Figures(Part):
    """Of all that has something in common."""

    measured: Measured = Measured()
    priced: Priced = Priced()
    tokens: Tokens = Tokens()
    reported_tokens: int = 0
    """Of the model, as clients say: a claim."""


class Group(Part):
    """What has a run, phase, transition, tool or principal in common."""

    name: str
    """Empty where there is none: a call that no transition names."""
    figures: Figures


class Weight(Part):
    """How much of something went to clients."""

    times: int = 0
    size_bytes: int = 0
    tokens: Tokens = Tokens()


class Context(Part):
    """What the calls of one tool put before a model, as far as a gateway can know."""

    tool: str
    results: Weight = Weight()
    """All that were given to clients, from the record as well; of the gateway's own calls none."""
    again: Weight = Weight()
    """Of these, those that were equal to one that the same run had got before."""
    refusals: int = 0
    """Answers of our own; how long they were is not recorded."""
    definitions: Weight = Weight()
    """The tool's definition, once for each run that proposed it. Tools that nobody proposed are not known."""
    unweighed: int = 0
    """Definitions and replayed answers of which nobody knows any more how long they were."""


class Repeated(Part):
    """One result, as often as its run got it."""

    run: str
    step: int
    """The place of the receipt in the run."""
    tool: str
    result: str
    """Its digest."""
    times: int
    size_bytes: int
    """Of all times together."""
    again_bytes: int
    """Of all but the first."""


class Costs(Part):
    """What some runs cost."""

    since: str | None = None
    until: str | None = None
    runs: int = 0
    """With anything in that time."""
    unreadable: tuple[str, ...] = ()
    """Runs that are damaged, and not in the figures."""
    unreadable_more: int = 0
    """Such runs beyond those that are named."""
    policies: tuple[str, ...] = ()
    """Digests of those whose prices were taken, some at least."""
    tokenizer: str | None = None
    """By which tokens were counted."""
    all: Figures = Figures()
    groups: Mapping[By, tuple[Group, ...]] = Field(default_factory=dict)
    """The dearest first."""
    more: Mapping[By, int] = Field(default_factory=dict)
    """Groups beyond those, which are in `all` alone."""
    context: tuple[Context, ...] = ()
    """The heaviest first."""
    results: tuple[Repeated, ...] = ()
    """The heaviest, in all their times together."""
