"""What no verdict is asked about is stopped all the same: a person's switch counts for whatever goes to a server."""

from collections.abc import Sequence

from gateway.inbound.mcp.faults import INTERNAL_ERROR, INVALID_REQUEST, Fault
from gateway.inbound.mcp.ports import Gate
from gateway.model.principal import Principal
from gateway.ports import LedgerUnavailable


async def check_not_stopped(
    gate: Gate, principal: Principal, upstreams: Sequence[str], *, tool: str | None = None
) -> None:
    """No person has stopped it; `tool` is that of whose call it is a part. Where nobody can say, it is not passed on.

    Raises: Fault.
    """
    try:
        barred = await gate.barred(principal, upstreams, tool)
    except LedgerUnavailable as error:
        raise Fault(INTERNAL_ERROR, f"whether this is stopped cannot be told: {error}") from None
    if barred is not None:
        raise Fault(INVALID_REQUEST, barred)
