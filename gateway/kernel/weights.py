"""What went to clients, while it is added up: how often, how large, and how much of it the same again."""

from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.kernel.charges import measured


class Load(NamedTuple):
    """How long a payload is."""

    size_bytes: int
    tokens: int | None
    """By a tokenizer, where one was asked."""


@dataclass(slots=True)
class Weighed:
    """What went to clients, while it grows."""

    times: int = 0
    size_bytes: int = 0
    estimated: int = 0
    counted: int = 0
    uncounted: int = 0

    def add(self, size_bytes: int, tokens: int | None) -> None:
        """One more, so long; `tokens` as they were counted."""
        self.times += 1
        self.size_bytes += size_bytes
        self.estimated += measured(size_bytes)
        self.counted += tokens or 0
        self.uncounted += tokens is None

    def shorten(self, size_bytes: int, tokens: int | None, told_bytes: int) -> None:
        """One that was added went out in so many bytes; how many tokens those are, nobody counted."""
        self.size_bytes -= size_bytes - told_bytes
        self.estimated -= measured(size_bytes) - measured(told_bytes)
        if tokens is not None:
            self.counted -= tokens
            self.uncounted += 1

    def take(self, other: "Weighed") -> None:
        """All of the other is in this one as well."""
        self.times += other.times
        self.size_bytes += other.size_bytes
        self.estimated += other.estimated
        self.counted += other.counted
        self.uncounted += other.uncounted


@dataclass(slots=True)
class Composed:
    """What one tool put before a model, while it grows."""

    results: Weighed = field(default_factory=Weighed)
    again: Weighed = field(default_factory=Weighed)
    definitions: Weighed = field(default_factory=Weighed)
    refusals: int = 0
    unweighed: int = 0

    def take(self, other: "Composed") -> None:
        """All of the other is in this one as well."""
        for mine, theirs in (
            (self.results, other.results),
            (self.again, other.again),
            (self.definitions, other.definitions),
        ):
            mine.take(theirs)
        self.refusals += other.refusals
        self.unweighed += other.unweighed


@dataclass(slots=True)
class Given:
    """One result, as often as its run got it."""

    step: int
    tool: str
    size_bytes: int
    tokens: int | None
    ever: int = 0
    """How often, whether or not in the time that is asked about."""
    times: int = 0
    """How often in that time."""
    again: int = 0
    """Of these, all but the very first."""
    spared: int = 0
    """Bytes that policy kept back, in that time."""
    spared_again: int = 0
    """Of these, those of all but the very first."""
