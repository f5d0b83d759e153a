"""What a client is told that is not let in, so that it finds out by itself how to be [RFC 6750, 3; RFC 9728, 5.1]."""

from collections.abc import Iterable
from dataclasses import dataclass

from mcp_types.jsonrpc import INTERNAL_ERROR

from gateway.inbound.mcp.door import Turned

METADATA = "/.well-known/oauth-protected-resource"
"""Where we say of whom we take tokens [RFC 9728, 3]; of the endpoint at `/mcp`, also with that behind it."""
RETRY_S = 5


@dataclass(frozen=True, slots=True)
class Challenges:
    """The refusals of one gateway."""

    metadata: str | None = None
    """The address of our metadata, where there is an authorization server."""
    scopes: tuple[str, ...] = ()
    """That every token needs."""

    def unknown(self, message: str, *, shown: bool) -> Turned:
        """Nobody is known: nothing was shown, or what was shown lets nobody in."""
        error = ("error", "invalid_token") if shown else None
        return Turned(401, message, headers=(self._header(error, self.scopes),))

    def too_little(self, lacks: Iterable[str], wanted: Iterable[str]) -> Turned:
        """The token is good, and more is needed: a client can ask its user for `wanted` [MCP, step-up]."""
        message = f"the access token lacks a scope that this needs: {', '.join(f'`{one}`' for one in sorted(lacks))}"
        return Turned(403, message, headers=(self._header(("error", "insufficient_scope"), sorted(wanted)),))

    def _header(self, error: tuple[str, str] | None, scopes: Iterable[str]) -> tuple[bytes, bytes]:
        asked = " ".join(scopes) if self.metadata is not None else ""
        said = [
            ("realm", "counterfoil"),
            *([error] if error is not None else []),
            *([("scope", asked)] if asked else []),
            *([("resource_metadata", self.metadata)] if self.metadata is not None else []),
        ]
        parameters = ", ".join(f'{name}="{value}"' for name, value in said)
        return b"www-authenticate", f"Bearer {parameters}".encode("latin-1", "replace")


def unsure(message: str) -> Turned:
    """It cannot be said now whether the client may come in: it is not sent away for good, and not let in."""
    return Turned(503, message, code=INTERNAL_ERROR, headers=((b"retry-after", b"%d" % RETRY_S),))
