"""One request, for whoever observes it."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

from gateway.inbound.mcp.asking import Asking


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """What can be said of a request before it is answered."""

    method: str
    tool: str | None
    prompt: str | None
    resource: str | None
    """The tool, the prompt or the resource that it names."""
    era: Literal["legacy", "modern"]
    protocol_version: str
    transport: Literal["http", "stdio"]
    request_id: str | int
    session: str | None
    """`Mcp-Session-Id`; never set for a modern client."""
    meta: Mapping[str, str]
    headers: Mapping[str, str]
    """`traceparent` and `tracestate` of `_meta` and of the HTTP headers, as far as they are there. Claude Cowork sends
    headers alone [claude-code#76391], AWS ADOT `_meta` alone [aws-otel-python-instrumentation#826]."""


Tell = Callable[[Mapping[str, Any]], None]
Observe = Callable[[RequestInfo], AbstractContextManager[Tell | None]]
"""Entered around each request; what it yields, if anything, is told the result. An error leaves as `Fault`."""


def unobserved(_info: RequestInfo) -> AbstractContextManager[Tell | None]:
    """Nobody looks."""
    return nullcontext()


def info_of(asking: Asking, version: str) -> RequestInfo:
    """What observers are told of a request."""
    exchange = asking.exchange
    session = exchange.session if exchange.transport == "http" else None
    return RequestInfo(
        method=asking.method,
        tool=_named(asking, "tools/call", "name"),
        prompt=_named(asking, "prompts/get", "name"),
        resource=_named(asking, "resources/read", "uri"),
        era="modern" if asking.modern else "legacy",
        protocol_version=version,
        transport=exchange.transport,
        request_id=exchange.message["id"],
        session=session.id if session is not None else None,
        meta=_carried(asking.meta),
        headers=_carried(exchange.headers),
    )


def _named(asking: Asking, method: str, param: str) -> str | None:
    found = asking.params.get(param) if asking.method == method else None
    return found if isinstance(found, str) else None


def _carried(carrier: Mapping[str, Any]) -> Mapping[str, str]:
    found = {name: carrier.get(name) for name in ("traceparent", "tracestate")}
    return {name: value for name, value in found.items() if isinstance(value, str)}
