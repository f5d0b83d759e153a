"""How much a gateway takes from agents and servers: `limits:` of `gateway.yaml`. Safe as they are."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What goes beyond is refused, cut or dropped, and counted; it never takes the process with it."""

    connections: int = 10_000
    """Of agents at one time. Beyond, the one that has waited longest with half a request makes room."""
    request_bytes: int = 4 * 1024 * 1024
    """Of one message of an agent's over HTTP; as the SDK's own limit."""
    request_s: float = 30.0
    """In which such a message must have come."""
    sessions: int = 10_000
    """Of agents of the older era; beyond, the idlest ends."""
    answer_bytes: int = 64 * 1024 * 1024
    """Of one message of a server's. server-filesystem answers a read of 8 MB with one line of 16 MB."""
    listed: int = 10_000
    """Tools, prompts, resources or templates of one server; the rest is not offered, and that is said."""


DEFAULT = Limits()
