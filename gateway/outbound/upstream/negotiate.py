"""(connection) -> Agreement. Which era, which version, and who is there; the same for stdio and HTTP.

`server/discover` is tried first; anything but a good answer to it means the older era, never one code in particular:
servers of mcp 1.x answer -32602, others -32601, some exit [MCP 2026-07-28, version negotiation]. Where nobody was there
to be asked, nothing is known of the era.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from gateway.model.tool import Answer, NotSent, ProtocolError, Silence, ToolResult
from gateway.outbound.upstream.wire import UNSUPPORTED_VERSION, Ask, legible
from gateway.ports import Caller

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Newest first. The first is asked for; any of them may be answered."""

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_LEVEL_KEY = "io.modelcontextprotocol/logLevel"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
_ENVELOPE = {_VERSION_KEY, _CLIENT_KEY, _CAPABILITIES_KEY, _LEVEL_KEY}

_TASKS = "io.modelcontextprotocol/tasks"
_NOT_RELAYED = {"tasks", "extensions"}
"""Of what a client declares: the tasks of 2025-11-25, and extensions, of which some are relayed."""


class Unreachable(Exception):
    """There is no agreement with the upstream; the message says why, in one line."""

    def __init__(self, reason: str, answer: Answer | None = None) -> None:
        """`answer` is what it comes from, if it comes from one."""
        super().__init__(reason)
        self.needs_account = isinstance(answer, NotSent) and answer.needs_account
        """Whether somebody must connect an account there first."""


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
    federates: bool = False
    """Whether several servers come through us, so that what one asks a user must say which it is."""

    @property
    def info(self) -> Mapping[str, Any]:
        """As `clientInfo`."""
        return {"name": self.name, "version": self.version}


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

    def params(
        self, params: Mapping[str, Any], meta: Mapping[str, Any], caller: Caller | None = None
    ) -> dict[str, Any]:
        """The params with `meta` as their `_meta`, in the way of this era; in the name of `caller`, if there is one."""
        plain = {key: value for key, value in meta.items() if key not in _ENVELOPE}
        if self.modern:
            return {**params, "_meta": {**plain, **_envelope(self.client, caller)}}
        return {**params, "_meta": plain} if plain else dict(params)


def _envelope(client: Client, caller: Caller | None = None) -> dict[str, Any]:
    if caller is None:
        # No capability is declared: what we cannot answer, an upstream must not ask for.
        return {_VERSION_KEY: MODERN, _CLIENT_KEY: client.info, _CAPABILITIES_KEY: {}}
    party = caller.party
    capabilities = party.capabilities if caller.modern else relayed(party.capabilities)
    level = {} if caller.log_level is None else {_LEVEL_KEY: caller.log_level}
    info = party.client or client.info
    return {_VERSION_KEY: MODERN, _CLIENT_KEY: info, _CAPABILITIES_KEY: capabilities, **level}


def relayed(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """Of what a client declared, what an upstream may rely on when one of the two is of the older era.

    Everything as it was sent, but the tasks of both eras: neither has a bridge to the other.
    """
    kept = {name: value for name, value in capabilities.items() if name not in _NOT_RELAYED}
    extensions = _object(capabilities.get("extensions"))
    known = {name: value for name, value in extensions.items() if name != _TASKS}
    return {**kept, "extensions": known} if known else kept


@dataclass(frozen=True, slots=True)
class Introduction:
    """In whose name a connection of the older era is made."""

    info: Mapping[str, Any]
    """`clientInfo`."""
    capabilities: Mapping[str, Any] = field(default_factory=dict)


Introduce: TypeAlias = Callable[[], Awaitable[Introduction]]
"""Asked for just before `initialize`; may wait until it is known who the client is."""


async def negotiate(
    channel: Channel,
    client: Client,
    *,
    probe_s: float | None,
    timeout_s: float,
    introduce: Introduce | None = None,
) -> Agreement:
    """An agreement in the newest era that the upstream speaks. With `probe_s` None only the older one is tried.

    Without `introduce` an upstream of the older era meets us, and nobody behind us.

    Raises: Unreachable.
    """
    if probe_s is not None:
        answer = await _discover(channel, client, probe_s)
        if _says_modern(answer):  # it refused the version that it says it speaks: asked once more, it may see that
            answer = await _discover(channel, client, probe_s)
        if (found := _discovered(answer, client)) is not None:
            return found
        if isinstance(answer, NotSent) and not answer.refused:
            raise Unreachable(answer.reason, answer)  # and no client is waited for in whose name it could be met
    introduction = await introduce() if introduce is not None else Introduction(client.info)
    answer = await _initialize(channel, introduction, timeout_s)
    if _says_modern(answer) or (probe_s is None and isinstance(answer, ProtocolError)):
        # A slow server answered our probe after we gave it up, or is of the newer era alone. To that one `initialize`
        # may be a method that it does not know, rather than a version that it does not support.
        found = _discovered(await _discover(channel, client, timeout_s), client)
        if found is not None:
            return found
    agreement = _initialized(answer, client)
    await channel.notify("notifications/initialized", {}, agreement.version)
    return agreement


async def _discover(channel: Channel, client: Client, timeout_s: float) -> Answer:
    return await channel.ask(Ask("server/discover", {"_meta": _envelope(client)}, timeout_s, MODERN))


def _discovered(answer: Answer, client: Client) -> Agreement | None:
    if not isinstance(answer, ToolResult):
        return None
    result = answer.result
    versions = result.get("supportedVersions")
    if not isinstance(versions, list) or MODERN not in versions:
        return None
    server = _object(_object(result.get("_meta")).get(_SERVER_KEY))
    return Agreement(client, MODERN, server, _object(result.get("capabilities")), _text(result.get("instructions")))


async def _initialize(channel: Channel, introduction: Introduction, timeout_s: float) -> Answer:
    params = {
        "protocolVersion": LEGACY[0],
        "capabilities": introduction.capabilities,
        "clientInfo": introduction.info,
    }
    return await channel.ask(Ask("initialize", params, timeout_s))


def _says_modern(answer: Answer) -> bool:
    if not isinstance(answer, ProtocolError) or answer.error["code"] != UNSUPPORTED_VERSION:
        return False
    versions = _object(answer.error.get("data")).get("supported")
    return isinstance(versions, list) and MODERN in versions


def _initialized(answer: Answer, client: Client) -> Agreement:
    if not isinstance(answer, ToolResult):
        about_caller = isinstance(answer, NotSent) and answer.needs_account  # and nothing failed at the server
        raise Unreachable(why(answer) if about_caller else f"initialize failed: {why(answer)}", answer)
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
