"""One request as the relay sees it: who asks, in which era, what it may be asked back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, LOG_LEVEL_META_KEY

from gateway.inbound.mcp.envelope import is_modern, meta_of, params_of
from gateway.inbound.mcp.exchange import Exchange
from gateway.inbound.mcp.identity import Client, client_of, party_key
from gateway.model.canonical import digest
from gateway.model.party import Party

TASKS = "io.modelcontextprotocol/tasks"
ROUND_PARAMS = frozenset({"inputResponses", "requestState"})
"""Params of a next round; all others must be as they were."""

FEATURES = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
"""What a client can be asked, and the capability by which it says so."""


@dataclass(slots=True, eq=False)
class Asking:
    """A request, read once."""

    exchange: Exchange
    method: str
    params: Mapping[str, Any]
    meta: Mapping[str, Any]
    modern: bool
    party: Party
    client: Client

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client declared."""
        return self.party.capabilities

    def can(self, method: str) -> bool:
        """Whether the client can be asked this; what we do not know, it can be asked."""
        return method not in FEATURES or FEATURES[method] in self.capabilities

    @property
    def has_tasks(self) -> bool:
        """Whether the client declared the tasks extension on this very request."""
        extensions = self.capabilities.get("extensions")
        return self.modern and isinstance(extensions, Mapping) and TASKS in extensions

    @property
    def log_level(self) -> str | None:
        """The least severe level that the client wants to hear of."""
        if self.modern:
            level = self.meta.get(LOG_LEVEL_META_KEY)
            return level if isinstance(level, str) else None
        session = self.exchange.session
        # Until it says otherwise, a legacy client hears what the server sends [MCP 2025-11-25, logging].
        return (session.log_level if session is not None else None) or "debug"

    def about(self) -> str:
        """A digest of what is asked, the same in each of its rounds."""
        kept = {key: value for key, value in self.params.items() if key not in ROUND_PARAMS and key != "_meta"}
        return digest([self.method, kept], b"")


def asking_of(exchange: Exchange) -> Asking:
    """The request in this exchange, whose envelope was found good."""
    message = exchange.message
    modern, meta, session = is_modern(message), meta_of(message), exchange.session
    if modern:
        capabilities, info = meta.get(CLIENT_CAPABILITIES_META_KEY), meta.get(CLIENT_INFO_META_KEY)
    else:
        capabilities, info = (session.capabilities, session.client) if session is not None else ({}, {})
    declared: Mapping[str, Any] = capabilities if isinstance(capabilities, Mapping) else {}
    introduced: Mapping[str, Any] = info if isinstance(info, Mapping) else {}
    client = client_of(exchange, introduced)
    whose, behalf = exchange.principal.whose, exchange.behalf
    party = Party(party_key(exchange, client), declared, introduced, modern=modern, whose=whose, behalf=behalf)
    return Asking(exchange, message["method"], params_of(message), meta, modern, party, client)
