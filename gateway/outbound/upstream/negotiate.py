"""(connection) -> Agreement. Which era, which version, and who is there; the same for stdio and HTTP.

`server/discover` is tried first; anything but a good answer to it means the older era, never one code in particular:
servers of mcp 1.x answer -32602, others -32601, some exit [MCP 2026-07-28, version negotiation].
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.model.tool import Answer, NotSent, ProtocolError, Silence, ToolResult
from gateway.outbound.upstream.wire import UNSUPPORTED_VERSION, Ask, legible

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Newest first. The first is asked for; any of them may be answered."""

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"


class Unreachable(Exception):
    """There is no agreement with the upstream; the message says why, in one line."""


class Channel(Protocol):
    """What negotiation needs of a connection."""

    async def ask(self, ask: Ask) -> Answer:
        """What came of it; `ToolResult` is any complete result. Never raises for what the upstream does."""
        ...

    async def notify(self, method: str, params: Mapping[str, Any], version: str) -> None:
        """The notification was sent, if it could be."""
        ...


@dataclass(frozen=True, slots=True)
class Client:
    """Who we say we are."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """How we talk to one upstream, and what it says of itself."""

    client: Client
    version: str
    server: Mapping[str, Any]
    """Its name and version, self-asserted."""
    capabilities: Mapping[str, Any]
    instructions: str

    @property
    def modern(self) -> bool:
        """Whether requests stand on their own, each with its envelope."""
        return self.version == MODERN

    def params(self, params: Mapping[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
        """The params with `meta` as their `_meta`, in the way of this era."""
        plain = {key: value for key, value in meta.items() if key not in _envelope(self.client)}
        if self.modern:
            return {**params, "_meta": {**plain, **_envelope(self.client)}}
        return {**params, "_meta": plain} if plain else dict(params)


def _envelope(client: Client) -> dict[str, Any]:
    # No capability is declared: what we cannot relay, an upstream must not ask for.
    return {
        _VERSION_KEY: MODERN,
        _CLIENT_KEY: {"name": client.name, "version": client.version},
        _CAPABILITIES_KEY: {},
    }


async def negotiate(channel: Channel, client: Client, *, probe_s: float | None, timeout_s: float) -> Agreement:
    """An agreement in the newest era that the upstream speaks. With `probe_s` None only the older one is tried.

    Raises: Unreachable.
    """
    if probe_s is not None:
        found = await _discover(channel, client, probe_s)
        if found is not None:
            return found
    answer = await _initialize(channel, client, timeout_s)
    if _says_modern(answer):
        # A slow server answered our probe after we gave it up, or is of the newer era alone.
        found = await _discover(channel, client, timeout_s)
        if found is not None:
            return found
    agreement = _initialized(answer, client)
    await channel.notify("notifications/initialized", {}, agreement.version)
    return agreement


async def _discover(channel: Channel, client: Client, timeout_s: float) -> Agreement | None:
    answer = await channel.ask(Ask("server/discover", {"_meta": _envelope(client)}, timeout_s, MODERN))
    if not isinstance(answer, ToolResult):
        return None
    result = answer.result
    versions = result.get("supportedVersions")
    if not isinstance(versions, list) or MODERN not in versions:
        return None
    server = _object(_object(result.get("_meta")).get(_SERVER_KEY))
    return Agreement(client, MODERN, server, _object(result.get("capabilities")), _text(result.get("instructions")))


async def _initialize(channel: Channel, client: Client, timeout_s: float) -> Answer:
    params = {
        "protocolVersion": LEGACY[0],
        "capabilities": {},
        "clientInfo": {"name": client.name, "version": client.version},
    }
    return await channel.ask(Ask("initialize", params, timeout_s))


def _says_modern(answer: Answer) -> bool:
    if not isinstance(answer, ProtocolError) or answer.error["code"] != UNSUPPORTED_VERSION:
        return False
    versions = _object(answer.error.get("data")).get("supported")
    return isinstance(versions, list) and MODERN in versions


def _initialized(answer: Answer, client: Client) -> Agreement:
    if not isinstance(answer, ToolResult):
        raise Unreachable(f"initialize failed: {why(answer)}")
    result = answer.result
    version = result.get("protocolVersion")
    if version not in LEGACY:
        raise Unreachable(f"it speaks the protocol version `{str(version)[:64]}`, which we do not")
    server, capabilities = _object(result.get("serverInfo")), _object(result.get("capabilities"))
    return Agreement(client, version, server, capabilities, _text(result.get("instructions")))


def why(answer: Answer) -> str:
    """What an answer that is no good says, in one line."""
    match answer:
        case NotSent(reason) | Silence(reason):
            return reason
        case ProtocolError(error):
            return f"{error['code']} {legible(error['message'].encode())}"
        case _:
            return "the answer is not a complete result"


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
