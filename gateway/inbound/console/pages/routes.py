"""Which page is where, behind `/console`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.inbound.console.connecting import Connecting
from gateway.inbound.console.pages import answering, connections, looking, switching
from gateway.inbound.console.pages.inbox import inbox
from gateway.inbound.console.pages.live import Live
from gateway.inbound.console.pages.packets import packet, value
from gateway.inbound.console.pages.site import Site, warm
from gateway.inbound.console.pages.statics import static
from gateway.inbound.console.paths import CONNECTIONS
from gateway.ports import Redactor, Upstreams
from gateway.runtime.book import Book
from gateway.runtime.desk import Desk

Page = Callable[[Site, Request], Awaitable[Response]]

_LOOKS: Sequence[tuple[str, Page]] = (
    ("/", inbox),
    ("/approvals/{name}", packet),
    ("/attempts/{name}", packet),
    ("/escalations/{name}", packet),
    ("/values/{name}", value),
    ("/together", answering.together),
    ("/results", answering.results),
    ("/runs", looking.runs),
    ("/runs/{run}", looking.run),
    ("/runs/{run}/steps/{step:int}", looking.arguments),
    ("/search", looking.search),
    ("/registry", looking.registry),
    ("/policies", looking.policies),
    ("/policies/{digest}", looking.policy),
    ("/policies/{digest}/diagram.svg", looking.diagram),
    ("/accounts", looking.accounts),
    ("/switches", switching.switches),
    ("/health", looking.health),
    (CONNECTIONS, connections.connections),
    (f"{CONNECTIONS}/{{upstream}}/callback", connections.back),
)
_ANSWERS: Sequence[tuple[str, Page]] = (
    ("/approvals/{name}", answering.decide),
    ("/attempts/{name}", answering.settle),
    ("/escalations/{name}", answering.take_over),
    ("/together", answering.decide_together),
    ("/runs/{name}/stop", answering.stop),
    ("/switches", switching.throw),
    ("/switches/{number:int}/lift", switching.lift),
    (f"{CONNECTIONS}/{{upstream}}/connect", connections.connect),
    (f"{CONNECTIONS}/{{upstream}}/disconnect", connections.disconnect),
)


def pages(
    desk: Desk,
    book: Book,
    upstreams: Upstreams,
    ready: Callable[[], tuple[bool, Mapping[str, Any]]],
    live: Live,
    masks: Redactor,
    connecting: Connecting | None = None,
) -> Sequence[BaseRoute]:
    """All pages, for `console_app`; `ready` as `/readyz` tells it. Whoever stops the server closes `live` first."""
    warm()
    site = Site(desk, book, upstreams, ready, masks, connecting)
    return [
        *(_route(site, path, page, "GET") for path, page in _LOOKS),
        *(_route(site, path, page, "POST") for path, page in _ANSWERS),
        Route("/events", site.guarded(live.events), methods=["GET"]),
        Route("/static/{name}", static, methods=["GET"]),
    ]


def _route(site: Site, path: str, page: Page, method: str) -> BaseRoute:
    async def handler(request: Request) -> Response:
        return await page(site, request)

    return Route(path, site.guarded(handler), methods=[method])
