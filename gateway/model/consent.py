"""What a principal lets the gateway do in their name at the provider of one server, as it is kept."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Holder(NamedTuple):
    """Whose it is, and for which server: never for another principal, and never for another server."""

    tenant: str
    principal: str
    upstream: str


@dataclass(frozen=True, slots=True)
class Consent:
    """One consent as a store has it, which cannot open what is sealed."""

    holder: Holder
    name: str
    """Drawn anew each time that somebody consents, so that an older one is never taken for it."""
    version: int
    """Counts its renewals, from 1."""
    sealed: bytes = field(repr=False)
    """The tokens and what is known of them, which only the holder's own keys open."""
    owner: str = ""
    """The gateway that renews it now; empty for none."""
    lease_until: float = 0.0
    """Until when it may take, in seconds since the epoch."""
