"""Who is on the other side of the relay: one client, and what upstreams may ask of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class Behalf:
    """For whom an upstream is called that asks on whose behalf. In memory alone: the token is never written, and said
    to nobody but the token endpoint that such an upstream's configuration names.
    """

    tenant: str
    principal: str
    token: SecretStr | None = field(default=None, repr=False)
    """The access token that they came in with; None where only it matters whose connection is meant."""
    by_token: bool = True
    """Whether it was by one that they came in; else there is none of theirs to show to anybody."""


@dataclass(frozen=True, slots=True)
class Party:
    """One client, as well as it lets itself be told apart. Nothing in it grants anything here.

    A server of the older era keeps state for each of its connections, so each party has connections of its own.
    """

    key: str
    """The legacy session, the stdio process, or what tells modern clients apart (principal, run, conversation)."""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    """As the client declared them: for its session, or on this very request."""
    client: Mapping[str, Any] = field(default_factory=dict)
    """Its `clientInfo`; empty if it gave none."""
    modern: bool = False
    """Whether it speaks MCP 2026-07-28. A server of both eras is spoken to in the client's."""
    whose: tuple[str, str] = field(default=("", ""), compare=False)
    """Tenant and principal: who has most connections makes room for others."""
    behalf: Behalf | None = field(default=None, compare=False)
    """Who it is to upstreams that are called on behalf of principals; None where none is, and for who is nobody in
    particular.
    """
