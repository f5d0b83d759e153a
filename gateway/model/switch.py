"""A kill switch: a person's word that nothing new goes out for somebody, to something, or at all."""

from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import Field

from gateway.model.event_parts import Frozen, Who

SWITCHES = "switches"
"""The id of the one run of a ledger that is no agent's: its events are these, and nothing else."""

NAMES = ("tenant", "principal", "upstream", "tool")
"""What a switch may name."""

NAMED_MAX = 512
"""Characters of each name that a switch may have."""


class SwitchThrown(Frozen):
    """From here on nothing that it names is sent. What it does not name may be any: one without names stops all."""

    kind: Literal["switch.thrown"] = "switch.thrown"
    tenant: str | None = Field(default=None, max_length=NAMED_MAX)
    """Whose calls."""
    principal: str | None = Field(default=None, max_length=NAMED_MAX)
    """By its id, in whichever tenant unless that is named too."""
    upstream: str | None = Field(default=None, max_length=NAMED_MAX)
    """To which."""
    tool: str | None = Field(default=None, max_length=NAMED_MAX)
    """By the name that agents call it by."""
    by: Who
    via: str = ""
    """The door that the person came by."""
    reason: str


class SwitchLifted(Frozen):
    """A person says that it may go on. What was refused meanwhile stays refused."""

    kind: Literal["switch.lifted"] = "switch.lifted"
    switch: int
    """The place at which it was thrown."""
    by: Who
    via: str = ""
    reason: str


class Switch(NamedTuple):
    """One that is thrown."""

    number: int
    """Its place among the switches of this ledger: by it it is lifted."""
    at: datetime
    event: SwitchThrown

    @property
    def what(self) -> str:
        """What it stops, for a sentence."""
        return what(self.event)


def what(event: SwitchThrown) -> str:
    """What it stops, for a sentence."""
    parts = [
        *([f"the tool `{event.tool}`"] if event.tool is not None else []),
        *([f"the upstream `{event.upstream}`"] if event.upstream is not None else []),
        *([f"the principal `{event.principal}`"] if event.principal is not None else []),
        *([f"the tenant `{event.tenant}`"] if event.tenant is not None else []),
    ]
    return " for ".join(parts) or "everything"
