"""One message on its way in, what becomes of its answer, and the conversation of a client that has one.

The transport makes the exchange from the bytes; the relay reads from it what was parsed once, sends what comes
before the answer over its line, and leaves in it what was shown; the transport then knows whether that reached
a live client. JSON-RPC ids alone cannot do this: clients reuse them [CVE-2026-25536].
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from gateway.inbound.mcp.asks import Asks
from gateway.inbound.mcp.tokens import RunToken
from gateway.model.answer import Shown
from gateway.model.canonical import JsonObject
from gateway.model.party import Behalf
from gateway.model.principal import Principal
from gateway.ports import Withdrawal


class Line(Protocol):
    """The way to a client beside the answers to its requests. Never waits, never raises; what nobody takes is lost."""

    def send(self, message: JsonObject) -> None:
        """A notification, or a request of ours to a legacy client. In order, and before the answer."""
        ...

    @property
    def there(self) -> bool:
        """Whether, as far as is known, somebody reads it now."""
        ...

    def pause(self, retry_ms: int | None) -> None:
        """The stream may end here: the client can come back for the rest with `Last-Event-ID`. Else nothing happens."""
        ...


class Flights:
    """The requests under way on one conversation: so that a cancel finds its request and no id is in use twice.

    1 and "1" are one id here: some clients cancel by the other.
    """

    def __init__(self) -> None:
        self._open: dict[str, Exchange] = {}

    def board(self, exchange: "Exchange") -> bool:
        """Whether the request's id was free; if so it is taken until `land`."""
        key = str(exchange.message["id"])
        if key in self._open:
            return False
        self._open[key] = exchange
        return True

    def land(self, exchange: "Exchange") -> None:
        """The answer is written, or will never be."""
        key = str(exchange.message["id"])
        if self._open.get(key) is exchange:
            del self._open[key]

    def find(self, request_id: Any) -> "Exchange | None":
        """The request under way by that id."""
        return self._open.get(str(request_id))

    def __iter__(self) -> Iterator["Exchange"]:
        return iter(list(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)


@dataclass(slots=True, eq=False)
class Session:
    """A conversation: a legacy client's, from `initialize` on, or a stdio process of either era."""

    id: str
    """`Mcp-Session-Id`; a name of no meaning on stdio."""
    principal: Principal
    line: Line
    """For what belongs to no request: the GET stream, or stdout."""
    version: str | None = None
    """The negotiated protocol version; None until `initialize` was answered."""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    """The client's."""
    client: Mapping[str, Any] = field(default_factory=dict)
    """Its `clientInfo`."""
    log_level: str | None = None
    """As `logging/setLevel` said."""
    flights: Flights = field(default_factory=Flights)
    """Its requests under way."""
    asks: Asks = field(default_factory=Asks)
    """What we asked the client."""


@dataclass(slots=True, eq=False)
class Exchange:
    """One message, who sent it, and its answer."""

    message: JsonObject
    """As `envelope.read` parsed it: what is hashed, approved and sent comes from here and from nowhere else."""
    principal: Principal
    transport: Literal["http", "stdio"]
    line: Line
    """For what is said about this request before its answer."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """HTTP headers by lower-case name; empty on stdio."""
    session: Session | None = None
    """None for a modern client over HTTP."""
    token: RunToken | None = None
    """The run token that came along, already verified."""
    shown: Shown | None = None
    """What the gate answered, once it has."""
    behalf: Behalf | None = field(default=None, repr=False)
    """For whom upstreams are called that ask; None for who is nobody in particular, or where none asks."""
    withdrawal: Withdrawal = field(default_factory=Withdrawal)
    """Said by the transport for a lost connection, by the relay for a cancel."""
    found_again: Callable[[], Awaitable[Principal | None]] | None = field(default=None, repr=False)
    """Who sends it, as the door finds them now; None on stdio, where nobody else can come to be there."""

    lacks: Callable[[str], frozenset[str]] = lambda _: frozenset()
    """Scopes that the sender's access token lacks for a call of that tool."""

    async def sender(self) -> Principal | None:
        """Who sends it, with what they have now, and None if they would not be let in any more: a request may wait for
        a person for minutes, in which its credential may end, be revoked, or become somebody else's.
        """
        found = self.principal if self.found_again is None else await self.found_again()
        return found if found is not None and found.whose == self.principal.whose else None
