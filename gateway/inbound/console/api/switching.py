"""Kill switches over the JSON API."""

from typing import Any, Protocol

from gateway.inbound.console.api import told
from gateway.inbound.console.api.operations import Asked, Lead, Operation
from gateway.inbound.console.api.telling import switch_out
from gateway.model.switch import SwitchThrown
from gateway.runtime.desk import Desk


class _WithDesk(Protocol):
    @property
    def desk(self) -> Desk: ...


async def switches(at: _WithDesk, asked: Asked) -> told.SwitchesOut:
    """What is stopped."""
    return told.SwitchesOut(rows=tuple(map(switch_out, await at.desk.switches(asked.by))))


async def throw(at: _WithDesk, asked: Asked) -> told.SwitchOut:
    """It is stopped."""
    said: told.SwitchIn = asked.body
    stops = {} if said.stops == "everything" else said.stops
    names: dict[str, Any] = {str(name): value for name, value in stops.items()}
    wanted = SwitchThrown(**names, by=asked.by.who, via=asked.by.via, reason=said.reason)
    return switch_out(await at.desk.throw(wanted, asked.by))


async def lift(at: _WithDesk, asked: Asked) -> told.DoneOut:
    """It goes on."""
    said: told.LiftIn = asked.body
    number = int(asked.id) if asked.id.isascii() and asked.id.isdigit() and len(asked.id) < 16 else 0  # noqa: PLR2004
    await at.desk.lift(number, asked.by, said.reason)
    return told.DoneOut(name=asked.id, state="lifted")


SWITCHING: tuple[Operation[_WithDesk], ...] = (
    Operation(
        "GET",
        "/switches",
        "listSwitches",
        "What people have stopped, and not lifted",
        switches,
        told.SwitchesOut,
        leads=(Lead("liftSwitch", "/rows/0/switch"),),
    ),
    Operation(
        "POST",
        "/switches",
        "throwSwitch",
        "Stop a principal, a tool, an upstream, a tenant, or everything, on every gateway at once",
        throw,
        told.SwitchOut,
        body=told.SwitchIn,
        leads=(Lead("liftSwitch", "/switch"),),
        says="What is under way is recorded to its end; nothing new is sent. Who does not see all tenants stops what is"
        " of their own, and must name it. A run is stopped by `actOnRun`, for good.",
    ),
    Operation(
        "POST",
        "/switches/{id}",
        "liftSwitch",
        "Let what was stopped go on",
        lift,
        told.DoneOut,
        body=told.LiftIn,
    ),
)
