"""The page of connections: for which servers somebody lets the gateway act in their name, and the way there and back.

Everybody sees and changes their own alone, whatever else they may see.
"""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gateway.inbound.console.connecting import Connecting
from gateway.inbound.console.pages.site import Missing, Site, inside
from gateway.inbound.console.paths import CONNECTIONS, ROOT
from gateway.inbound.console.refusals import Refusal
from gateway.inbound.console.sessions import Session
from gateway.inbound.console.visitor import reviewer_of, visitor_of
from gateway.model.record import utc
from gateway.outbound.credentials.consented import Consented
from gateway.outbound.credentials.credential import NoToken

SEE_OTHER = 303

_NOBODY = "no server here is called by what people agree to"
_BROWSER = Refusal(403, "a person connects accounts, in a browser", "sign in there")

TOLD: Mapping[str, str] = {
    "connected": "Your account is connected. Agents that act for you can use it from now on.",
    "nothing": "There was nothing to disconnect.",
    "revoked": "Your account is disconnected here, and the provider says that what it gave us is void.",
    "kept": "Your account is disconnected here. The provider was not told: it has no way for that, or nobody has said "
    "which. Take it back there too, where it lists what you agreed to.",
    "unknown": "Your account is disconnected here. The provider did not say that what it gave us is void: take it back "
    "there too, where it lists what you agreed to.",
}
"""What became of it, by the word that is in the address."""


async def connections(site: Site, request: Request) -> Response:
    """What can be connected, and what is."""
    return await _page(site, request, _connecting(site, request))


async def connect(site: Site, request: Request) -> Response:
    """The browser goes to the provider.

    By a page of its own: a form of ours that is answered by a redirect to elsewhere is stopped by browsers, as our
    policy for content says [CSP 3, form-action].
    """
    connecting = _connecting(site, request)
    to, session = _named(connecting, request), visitor_of(request).session
    if session is None:
        return await _page(site, request, connecting, _BROWSER)
    there, remembered = connecting.gone(to, session, request.headers.getlist("cookie"))
    answer = await site.page(request, "leaving.html", there=there, to=to)
    answer.headers.append("set-cookie", remembered)
    return answer


async def back(site: Site, request: Request) -> Response:
    """The browser comes back, with a code or with the reason why there is none."""
    connecting = _connecting(site, request)
    to, session, said = _named(connecting, request), visitor_of(request).session, request.query_params.multi_items()
    cookies = request.headers.getlist("cookie")
    try:
        await connecting.back(to, _in_browser(session), said, cookies)
    except Refusal as refusal:
        answer = await _page(site, request, connecting, refusal)
        for name, value in refusal.headers.items():
            answer.headers[name] = value
    else:
        answer = RedirectResponse(f"{ROOT}{CONNECTIONS}?about={to.upstream}&told=connected", SEE_OTHER)
    answer.headers.append("set-cookie", connecting.forgotten(said, cookies))
    return answer


async def disconnect(site: Site, request: Request) -> Response:
    """It is over, whatever the provider says."""
    connecting = _connecting(site, request)
    to, by = _named(connecting, request), reviewer_of(request)
    try:
        _ = _in_browser(visitor_of(request).session)
        told = await to.disconnect(by.tenant, by.id)
    except Refusal as refusal:
        return await _page(site, request, connecting, refusal)
    except NoToken as error:
        return await _page(site, request, connecting, Refusal(503, str(error), "try again in a moment"))
    return RedirectResponse(f"{ROOT}{CONNECTIONS}?about={to.upstream}&told={told}", SEE_OTHER)


def _in_browser(session: Session | None) -> Session:
    if session is None:
        raise _BROWSER
    return session


def _connecting(site: Site, request: Request) -> Connecting:
    """Whoever came to connect accounts of their own may, though they see nothing else."""
    if reviewer_of(request).reviews:
        _ = inside(request)
    if site.connecting is None:
        raise Missing(_NOBODY)
    return site.connecting


def _named(connecting: Connecting, request: Request) -> Consented:
    found = connecting.consented.get(request.path_params["upstream"])
    if found is None:
        raise Missing(_NOBODY)
    return found


async def _page(site: Site, request: Request, connecting: Connecting, refused: Refusal | None = None) -> Response:
    by, query = reviewer_of(request), request.query_params
    found = [(one, await one.connected(by.tenant, by.id)) for one in connecting.consented.values()]
    rows = [(one, stands, stands.since and utc(stands.since)) for one, stands in found]
    about = query.get("about") if query.get("about") in connecting.consented else None
    told = TOLD.get(query.get("told", "")) if about is not None and refused is None else None
    status = 200 if refused is None else refused.status
    in_browser = visitor_of(request).session is not None
    return await site.page(
        request,
        "connections.html",
        status,
        rows=rows,
        about=about,
        told=told,
        refused=refused,
        in_browser=in_browser,
    )
