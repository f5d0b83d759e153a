"""The console as one ASGI application, for all paths from `/console` on."""

from collections.abc import Sequence
from importlib.resources import files

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from gateway.inbound.console.access import Access
from gateway.inbound.console.door import Door
from gateway.inbound.console.entering import door_routes
from gateway.inbound.console.paths import ROOT
from gateway.inbound.console.refusals import Words
from gateway.inbound.mcp.revoked import Revoked
from gateway.runtime.desk import Desk


def console_app(desk: Desk, access: Access, *, pages: Sequence[BaseRoute], api: Sequence[BaseRoute]) -> ASGIApp:
    """Pages and API behind the door; their paths begin after `/console`: `/`, `/runs/{run}`.

    Each of their requests has a reviewer (`reviewer_of`), and reaches the desk by `desk_of`.
    """
    words = Words(oidc=access.oidc is not None)
    style = files("gateway.inbound.console").joinpath("door.css").read_text()
    revoked = Revoked(access.said, access.now)  # the ledger's clock, which never goes back
    app = Starlette(routes=[*door_routes(access, words, style), *api, *pages])
    app.state.desk = desk
    return Door(app, access, words, revoked)


def is_console(path: str) -> bool:
    """Whether that path is the console's."""
    return path == ROOT or path.startswith(f"{ROOT}/")
