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
    target: str | None
    """The tool or prompt that it names."""
    era: Literal["legacy", "modern"]
    protocol_version: str
    transport: Literal["http", "stdio"]
    request_id: str | int
    session: str | None
    """`Mcp-Session-Id`; never set for a modern client."""
    trace: Mapping[str, str]
    """`traceparent`, `tracestate`, `baggage`: from `_meta`, else from the HTTP headers; empty if neither has any."""


Tell = Callable[[Mapping[str, Any]], None]
Observe = Callable[[RequestInfo], AbstractContextManager[Tell | None]]
"""Entered around each request; what it yields, if anything, is told the result. An error leaves as `Fault`."""


def unobserved(_info: RequestInfo) -> AbstractContextManager[Tell | None]:
    """Nobody looks."""
    return nullcontext()


def info_of(asking: Asking, version: str) -> RequestInfo:
    """What observers are told of a request."""
    exchange = asking.exchange
    target = asking.params.get("name") if asking.method in {"tools/call", "prompts/get"} else None
    carrier: Mapping[str, Any] = asking.meta if isinstance(asking.meta.get("traceparent"), str) else exchange.headers
    found = {name: carrier.get(name) for name in ("traceparent", "tracestate", "baggage")}
    session = exchange.session if exchange.transport == "http" else None
    return RequestInfo(
        method=asking.method,
        target=target if isinstance(target, str) else None,
        era="modern" if asking.modern else "legacy",
        protocol_version=version,
        transport=exchange.transport,
        request_id=exchange.message["id"],
        session=session.id if session is not None else None,
        trace={name: value for name, value in found.items() if isinstance(value, str)},
    )
