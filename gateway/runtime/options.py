"""How a gateway process behaves towards its clients and its ledger."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.model.answering import Answering
from gateway.runtime.lanes import Limits

PATIENCE_S: Mapping[str, float] = {
    "claude-code": 280.0,
    "codex-mcp-client": 280.0,
    "gemini-cli-mcp-client": 280.0,
}
"""Clients known to wait longer: 300 s of silence in Claude Code and Codex, 600 s in Gemini CLI."""


@dataclass(frozen=True, slots=True)
class Options:
    """How this gateway process behaves."""

    owner: str
    """Unique name of this process, for leases."""
    lease_s: float = 15.0
    """How long an attempt stays ours after our last sign of life."""
    patience_s: float = 55.0
    """When a call that is not finished is answered with `in_flight`; most clients give up at 60 s."""
    patience_by_client: Mapping[str, float] = field(default_factory=lambda: PATIENCE_S)
    """By the name that a client introduces itself with, where that is another."""
    where: Answering = field(default_factory=Answering)
    """Where people answer."""
    drain_s: float = 1.0
    """How long a shutdown waits for calls under way."""
    hold_s: float = 20.0
    """How long a call that waits for a person is kept with its client, where policy does not say; 0: not at all."""
    limits: Limits = field(default_factory=Limits)
    """How many calls are under way at once."""
    reading_s: float = 1.0
    """What is answered sooner after it was asked, no person has read."""

    def patience_of(self, client: str) -> float:
        """How long a client of that name is kept waiting, in seconds."""
        return self.patience_by_client.get(client, self.patience_s)
