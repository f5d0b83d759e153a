"""Whether a person has stopped what goes to an upstream without being judged."""

from collections.abc import Sequence

from gateway.inbound.mcp.faults import INTERNAL_ERROR, INVALID_REQUEST, Fault
from gateway.inbound.mcp.ports import Gate
from gateway.model.principal import Principal
from gateway.ports import LedgerUnavailable


async def check_allowed(gate: Gate, principal: Principal, upstreams: Sequence[str]) -> None:
    """No person has stopped it. Where nobody can say, it is not passed on.

    Raises: Fault.
    """
    try:
        barred = await gate.barred(principal, upstreams)
    except LedgerUnavailable as error:
        raise Fault(INTERNAL_ERROR, f"whether this is stopped cannot be told: {error}") from None
    if barred is not None:
        raise Fault(INVALID_REQUEST, barred)
