"""(ask) -> HTTP headers. What is said beside the body, in both eras; never a credential of whoever called us."""

from collections.abc import Mapping
from typing import Any

from gateway.outbound.upstream.negotiate import MODERN
from gateway.outbound.upstream.sdk import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from gateway.outbound.upstream.wire import Ask

SESSION = "mcp-session-id"

_NEVER = frozenset({
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "cookie",
    "expect",
    "host",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
})  # fmt: skip
"""Of the headers of one call: another's credentials [MCP, no token passthrough], and what frames a message."""


_BODY = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "accept-encoding": "identity",  # nothing small can unfold into something huge
}

_STREAM = {"accept": "text/event-stream", "accept-encoding": "identity", "cache-control": "no-store"}


def headers_of(ask: Ask, configured: Mapping[str, str], session: str | None) -> dict[str, str]:
    """The call's own, then the configured (by lower-case name), then those of the protocol: the later win."""
    ours = {**configured, **_BODY, **_protocol(ask, session)}
    if not ask.headers:
        return ours
    theirs = {name.lower(): value for name, value in ask.headers.items() if name.lower() not in _NEVER}
    return {**theirs, **ours}


def stream_headers(
    version: str | None, configured: Mapping[str, str], session: str | None, last_event: str | None
) -> dict[str, str]:
    """Those of a GET for a stream, from after `last_event` on."""
    resumed = {"last-event-id": last_event} if last_event is not None else {}
    return merged(configured, _STREAM, _protocol(Ask("", {}, 0.0, version), session), resumed)


def merged(*all_headers: Mapping[str, str]) -> dict[str, str]:
    """All of them under lower-case names, each once; the later win."""
    return {name.lower(): value for headers in all_headers for name, value in headers.items()}


def _protocol(ask: Ask, session: str | None) -> dict[str, str]:
    if ask.version == MODERN:
        named = {MCP_NAME_HEADER: encode_header_value(ask.name)} if ask.name is not None else {}
        return {MCP_PROTOCOL_VERSION_HEADER: MODERN, MCP_METHOD_HEADER: ask.method, **named, **_mirrored(ask)}
    version = {MCP_PROTOCOL_VERSION_HEADER: ask.version} if ask.version is not None else {}
    return {**version, SESSION: session} if session is not None else version


def _mirrored(ask: Ask) -> dict[str, str]:
    # Always from the body that is sent, never from what a client said in its own headers [SEP-2243].
    arguments = ask.params.get("arguments")
    if ask.schema is None or not isinstance(arguments, Mapping):
        return {}
    named = _named(ask.schema)
    return merged(mcp_param_headers(named, arguments)) if named else {}


def _named(schema: Mapping[str, Any]) -> Mapping[tuple[str, ...], str]:
    """The arguments that the schema wants in headers: found once, for it may be large and is the same at every call."""
    known = _NAMED.get(id(schema))
    if known is None or known[0] is not schema:
        if len(_NAMED) >= _MAX_NAMED:
            _NAMED.clear()
        known = _NAMED[id(schema)] = (schema, x_mcp_header_map(schema))
    return known[1]


_MAX_NAMED = 4096
_NAMED: dict[int, tuple[Mapping[str, Any], Mapping[tuple[str, ...], str]]] = {}


def unfit(definition: Mapping[str, Any]) -> str | None:
    """Why a modern client must leave this tool out; None if it need not [SEP-2243]."""
    return find_invalid_x_mcp_header(definition.get("inputSchema"))
