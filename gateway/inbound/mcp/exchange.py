"""One message on its way in, and what becomes of its answer.

The transport makes the exchange from the bytes, the middleware reads from it what was parsed once and leaves
in it what was shown, and the transport then knows whether that reached a live client. JSON-RPC ids cannot
do this: clients reuse them [CVE-2026-25536].
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.requests import HTTPConnection

from gateway.inbound.mcp.tokens import RunToken
from gateway.model.answer import Shown
from gateway.model.canonical import JsonObject
from gateway.model.principal import Principal

SCOPE_KEY = "counterfoil.exchange"
"""Where an ASGI scope holds its exchange."""


@dataclass(slots=True, eq=False)
class Exchange:
    """One message, who sent it, and its answer."""

    message: JsonObject
    """As `envelope.read` parsed it: what is hashed, approved and sent comes from here and from nowhere else."""
    principal: Principal
    transport: Literal["http", "stdio"]
    headers: Mapping[str, str] = field(default_factory=dict)
    """HTTP headers by lower-case name; empty on stdio."""
    session: str | None = None
    """`Mcp-Session-Id` of a legacy HTTP client."""
    token: RunToken | None = None
    """The run token that came along, already verified."""
    shown: Shown | None = None
    """What the gate answered, once it has."""
    cancelled: bool = False
    """The client has asked to cancel the request: whatever is still written counts as unread."""
    settled: Callable[[], None] | None = None
    """Called when neither transport nor middleware work on the exchange any more."""
    _holders: int = 1

    @contextmanager
    def held(self) -> Iterator[None]:
        """The exchange is not settled while the block runs."""
        self._holders += 1
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """One holder less; the transport, which made the exchange, counts as the first."""
        self._holders -= 1
        if self._holders == 0 and self.settled is not None:
            self.settled()


def exchange_of(request: object) -> Exchange | None:
    """The exchange behind what the SDK calls the request; None if the message did not come through our doors."""
    if isinstance(request, Exchange):
        return request
    found = request.scope.get(SCOPE_KEY) if isinstance(request, HTTPConnection) else None
    return found if isinstance(found, Exchange) else None


class Flights:
    """The requests on connections where ids count: so that a cancel finds its request and no id is in use twice.

    The SDK routes answers by `str(id)`, so 1 and "1" are one id here too.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[Principal, str | None, str], Exchange] = {}

    def board(self, exchange: Exchange) -> bool:
        """Whether the request's id was free; if so it is taken until the exchange is settled."""
        key = (exchange.principal, exchange.session, str(exchange.message["id"]))
        if key in self._open:
            return False
        self._open[key] = exchange

        def settled() -> None:
            del self._open[key]

        exchange.settled = settled
        return True

    def find(self, principal: Principal, session: str | None, request_id: Any) -> Exchange | None:
        """The request under way by that id."""
        return self._open.get((principal, session, str(request_id)))

    def note(self, exchange: Exchange) -> None:
        """If the message cancels a request of its own connection, that request is marked so."""
        if exchange.message.get("method") != "notifications/cancelled":
            return
        wanted = (exchange.message.get("params") or {}).get("requestId")
        found = self.find(exchange.principal, exchange.session, wanted)
        if found is not None:
            found.cancelled = True
