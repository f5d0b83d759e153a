"""The section `telemetry` of gateway.yaml. Where to send it is said by the standard environment variables alone."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from gateway.outbound.file_models import FilePart

KEY_PATTERN = r"^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}$"
"""Of a key of baggage [W3C Baggage, 3.2.1]."""

Token = Annotated[str, Field(pattern=KEY_PATTERN)]


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """How much of what comes in is believed, and how much of it goes out."""

    remote_context: Literal["parent", "link", "ignore"] = "parent"
    """What becomes of a caller's trace: ours go on in it, ours are linked to it, or nothing."""
    baggage: frozenset[str] = frozenset()
    """Keys of a caller's baggage that upstreams get."""
    content: Literal["none", "spans", "events", "both"] | None = None
    """Where arguments, results and free text are told, redacted and cut; None: as the environment says."""
    content_bytes: int = 8_192
    """Of each value, at most."""
    prometheus: bool = False
    """Whether `/metrics` is served."""


class TelemetryEntry(FilePart):
    """As the file says it."""

    remote_context: Literal["parent", "link", "ignore"] = "parent"
    baggage: tuple[Token, ...] = ()
    content: Literal["none", "spans", "events", "both"] | None = None
    content_bytes: int = Field(default=8_192, ge=64, le=65_536)
    prometheus: bool = False

    def settings(self) -> TelemetrySettings:
        """As values."""
        return TelemetrySettings(
            self.remote_context, frozenset(self.baggage), self.content, self.content_bytes, self.prometheus
        )
