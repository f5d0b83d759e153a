"""What a link needs of a connection, and which of the transports makes it."""

from collections.abc import Mapping
from typing import Any, Protocol

from gateway.model.party import Behalf
from gateway.model.tool import Answer
from gateway.outbound.upstream.call import Call
from gateway.outbound.upstream.calls import Calls
from gateway.outbound.upstream.negotiate import Agreement, Channel, Client, Introduce
from gateway.outbound.upstream.spec import HttpSpec, Patience, Spec, StdioSpec
from gateway.outbound.upstream.stdio import StdioConnection


class Connection(Channel, Protocol):
    """The way to one upstream, over all the connections that there are one after the other."""

    def expect_legacy(self) -> None:
        """The older era is asked for first, also after a loss: whoever speaks both is spoken to in that one."""
        ...

    async def connect(self) -> Agreement:
        """There is a new connection, and an agreement.

        Raises: Unreachable.
        """
        ...

    async def lost(self) -> str:
        """The connection is lost; how, as the rest of a sentence about the upstream."""
        ...

    async def carry(self, call: Call) -> Answer:
        """What came of the call. Never raises for what the upstream does."""
        ...

    def unfit(self, definition: Mapping[str, Any]) -> str | None:
        """Why a tool cannot be called over this connection; None if it can."""
        ...

    async def drop(self) -> None:
        """What was left of a lost connection is gone."""
        ...

    async def close(self) -> None:
        """Nothing is held open, and nobody waits."""
        ...


def connection_to(
    spec: Spec, client: Client, patience: Patience, calls: Calls, introduce: Introduce, behalf: Behalf | None = None
) -> Connection:
    """The way to that upstream; nothing is started yet. `behalf` as in `Place`."""
    if isinstance(spec, StdioSpec):
        return StdioConnection(spec, client, patience, calls, introduce)
    return _http(spec, client, patience, calls, introduce, behalf)


def _http(
    spec: HttpSpec, client: Client, patience: Patience, calls: Calls, introduce: Introduce, behalf: Behalf | None
) -> Connection:
    # The SDK's header rules cost a second to import; most upstreams are stdio.
    from gateway.outbound.upstream.http import HttpConnection  # noqa: PLC0415
    from gateway.outbound.upstream.http_sse import EitherConnection, SseConnection  # noqa: PLC0415

    if spec.transport == "http":
        return HttpConnection(spec, client, patience, calls, introduce, behalf)
    kind = SseConnection if spec.transport == "sse" else EitherConnection
    return kind(spec, client, patience, calls, introduce, behalf)
