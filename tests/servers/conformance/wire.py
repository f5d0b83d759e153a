"""The few words that all parts of the conformance server share: what a handler is given, and what it answers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import MISSING_REQUIRED_CLIENT_CAPABILITY

MODERN = "2026-07-28"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"

Json: TypeAlias = dict[str, Any]
Asked: TypeAlias = ServerRequestContext[Any]


@dataclass(frozen=True)
class Tool:
    """What is listed, and what happens on a call."""

    description: str
    run: Callable[[Asked, Json], Awaitable[Json]]
    schema: Json


def schema(**properties: Json) -> Json:
    """The schema of an object; all of its properties that have no default are required."""
    required = [name for name, said in properties.items() if "default" not in said]
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def said(text: str) -> Json:
    """A block of text."""
    return {"type": "text", "text": text}


def result(*content: Json, **more: Any) -> Json:
    """A tool's result."""
    return {"content": list(content), **more}


def declared(asked: Asked) -> Json:
    """The capabilities of the client, of this request (2026-07-28) or of its session (before)."""
    capabilities = asked.session.client_capabilities
    return {} if capabilities is None else capabilities.model_dump(by_alias=True, exclude_none=True)


def require(asked: Asked, capabilities: Json) -> None:
    """The client can do all of it.

    Raises: MCPError, as the specification wants it [MCP 2026-07-28, MissingRequiredClientCapability].
    """
    there = declared(asked)
    missing = {
        name: inner
        for name, inner in capabilities.items()
        if name not in there or any(part not in there[name] for part in inner)
    }
    if missing:
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY, "the client lacks a capability", {"requiredCapabilities": missing}
        )


async def log(asked: Asked, text: str) -> None:
    """The line has gone to the client, if it wants such lines: in the newer era each request says so."""
    meta = (asked.params or {}).get("_meta") or {}
    if asked.protocol_version == MODERN and LOG_LEVEL not in meta:
        return
    line = types.LoggingMessageNotification(params=types.LoggingMessageNotificationParams(level="info", data=text))
    await asked.session.send_notification(line, related_request_id=asked.request_id)
