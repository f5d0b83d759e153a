"""The section `limits` of gateway.yaml: how much is taken from agents and servers, and how many calls are under way."""

from typing import Any

from pydantic import Field

from gateway.model.limits import DEFAULT, Limits
from gateway.outbound.file_models import FilePart

DENIED = 600
"""Calls of one principal that are denied in a minute: ten a second are none of an agent that gets anywhere."""


class ConcurrentEntry(FilePart):
    """Calls under way at once in this process."""

    in_all: int | None = Field(default=1_000, ge=1, le=100_000)
    per_principal: int | None = Field(default=250, ge=1, le=100_000)
    per_upstream: int | None = Field(default=500, ge=1, le=100_000)


class LimitsEntry(FilePart):
    """As the file says it."""

    connections: int = Field(default=DEFAULT.connections, ge=16, le=1_000_000)
    request_bytes: int = Field(default=DEFAULT.request_bytes, ge=64 * 1024, le=64 * 1024 * 1024)
    request_s: float = Field(default=DEFAULT.request_s, gt=0, le=600)
    sessions: int = Field(default=DEFAULT.sessions, ge=1, le=1_000_000)
    answer_bytes: int = Field(default=DEFAULT.answer_bytes, ge=64 * 1024, le=1024 * 1024 * 1024)
    listed: int = Field(default=DEFAULT.listed, ge=1, le=100_000)
    concurrent: ConcurrentEntry = ConcurrentEntry()
    waiting: int = Field(default=1_000, ge=0, le=100_000)
    wait_s: float = Field(default=10.0, ge=0, le=600)
    denied_per_minute: int | None = Field(default=DENIED, ge=1, le=1_000_000)

    def limits(self) -> Limits:
        """How much is taken."""
        return Limits(**self.model_dump(exclude={"concurrent", "waiting", "wait_s", "denied_per_minute"}))

    def at_once(self) -> dict[str, Any]:
        """How many are under way, how many wait for how long, and how many are denied."""
        waiting = {"waiting": self.waiting, "wait_s": self.wait_s}
        return {**self.concurrent.model_dump(), **waiting, "denied": self.denied_per_minute}
