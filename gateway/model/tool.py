"""A tool as its upstream defines it, and what may come of calling it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A `CallToolResult`, as sent."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProtocolError:
    """A JSON-RPC error, as sent (`code`, `message`, perhaps `data`). It does not prove that nothing happened."""

    error: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InputRequired:
    """The upstream wants input from the client before it goes on [MCP 2026-07-28, multi round-trip requests]."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """The upstream made a task of the call [MCP extension io.modelcontextprotocol/tasks]."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NotSent:
    """No byte of the call reached the upstream."""

    reason: str
    refused: bool = False
    """The upstream itself turned it away at the door, so it is there."""
    needs_account: bool = False
    """Whoever is behind the call has connected no account there, or that is over."""


@dataclass(frozen=True, slots=True)
class Silence:
    """The call went out, perhaps only in part, and no valid answer came."""

    reason: str


Answer: TypeAlias = ToolResult | ProtocolError | InputRequired | TaskStarted | NotSent | Silence


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as its upstream defines it."""

    name: str
    """As agents call it: the upstream's own name, or `server__tool` when federated."""
    upstream: str
    own_name: str
    """As the upstream calls it."""
    definition: Mapping[str, Any]
    """As the upstream sent it, untouched, under its own name."""
    healthy: bool = True
    """Whether it can be called now; never while it is withheld."""
    trouble: str | None = None
    """Why not."""
    withheld: bool = False
    """Whether it is listed by its upstream and not offered by us, because of its name."""
    needs_account: bool = False
    """Whether whoever is behind the call must first connect an account at its upstream."""
    headers: bool = True
    """Whether a call of it has HTTP headers; over stdio it has none."""
