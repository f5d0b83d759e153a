"""What a postmortem is made of."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.inbound.told.asked import Asked
from gateway.model.costs import Costs
from gateway.model.policy import Policy
from gateway.runtime.story import Stands, Story


@dataclass(frozen=True, slots=True)
class Case:
    """A run, and what is said about it."""

    story: Story
    asked: Sequence[Asked]
    costs: Costs
    policy: Policy | None
    """None where the ledger has no text of it that this version can read."""
    waits: Sequence[tuple[str, str]]
    """What waits for a person now: its name and its tool."""
    escalated: bool
    """Whether the run itself waits for a person to take it over."""
    gone: int
    """Payloads of arguments and of what the agent said that were erased or changed."""
    where: str
    """What a command must say to find this ledger."""

    @property
    def stands(self) -> Mapping[str, Stands]:
        """How it stands with each effect, by attempt."""
        return {one.attempt: one for one in self.story.stands}

    def command(self, *words: str) -> str:
        """A command that looks further into it."""
        return f"counterfoil {shlex.join(words)}{self.where}"


def at(when: datetime) -> str:
    """A time in UTC, to the second."""
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
