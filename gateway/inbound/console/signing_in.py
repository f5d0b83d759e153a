"""Signing in at an OpenID provider: away, and back. What the browser carries meanwhile is sealed, and good for once."""

from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gateway.inbound.console.access import Access
from gateway.inbound.console.cookies import Cookie, cookie
from gateway.inbound.console.letting_in import let_in
from gateway.inbound.console.paths import ROOT
from gateway.inbound.console.refusals import Refusal
from gateway.inbound.console.sessions import BrokenCookie, Sealed
from gateway.model.review import Reviewer
from gateway.outbound.oidc import Away, Flow, NotLetIn, Person, Unreachable, person_of

AWAY_S = 10 * 60.0
"""How long somebody may take to sign in there."""

_AGAIN = "sign in again"


class _Gone(NamedTuple):
    """Somebody who went to sign in."""

    away: Away
    until: float
    to: str
    """The page that they wanted."""


async def gone(access: Access, flow: Flow, request: Request) -> Response:
    """The browser goes to the provider."""
    away = Away.new()
    try:
        there = await flow.start(away)
    except Unreachable as error:
        raise Refusal(502, str(error), "try again in a moment") from None
    answer = RedirectResponse(there, 303)
    kept = [away.state, away.nonce, away.verifier, access.now() + AWAY_S, _own_page(request.query_params.get("to", ""))]
    answer.headers.append("set-cookie", _cookie(access).written(_sealed(access).seal("sign-in", kept), AWAY_S))
    return answer


async def back(access: Access, flow: Flow, request: Request) -> Response:
    """The browser comes back, with what the provider says of its owner."""
    went = _went(access, request)
    person = await _person(access, flow, went, request)
    answer = let_in(
        access, Reviewer(tenant=person.tenant, id=person.id, roles=person.roles, via="oidc"), went.to, link=None
    )
    answer.headers.append("set-cookie", _cookie(access).cleared())
    return answer


async def _person(access: Access, flow: Flow, went: _Gone, request: Request) -> Person:
    said = dict(request.query_params)
    try:
        flow.check(went.away, said)
        await _use_up(access, went)
        return person_of(await flow.claims(went.away, said, access.now()), flow.provider.told)
    except NotLetIn as error:
        raise Refusal(401, str(error), _AGAIN) from None
    except Unreachable as error:
        raise Refusal(502, str(error), _AGAIN) from None


async def _use_up(access: Access, went: _Gone) -> None:
    """The state, and with it the nonce, is good for nothing from here on.

    Raises: NotLetIn.
    """
    if not await access.once(f"console:state:{went.away.state}", went.until):
        raise NotLetIn("this sign-in is over")


def _went(access: Access, request: Request) -> _Gone:
    text = _cookie(access).read(request.headers.getlist("cookie"))
    try:
        state, nonce, verifier, until, to = _sealed(access).open("sign-in", text or "")
    except BrokenCookie:
        raise Refusal(401, "this sign-in was not begun in this browser", _AGAIN) from None
    if access.now() >= until:
        raise Refusal(401, "this sign-in took too long", _AGAIN)
    return _Gone(Away(state, nonce, verifier), until, to)


def _own_page(to: str) -> str:
    """A page of the console, and nothing that a browser could take for another site's."""
    parsed = urlsplit(to)
    plain = to.isascii() and to.isprintable() and "\\" not in to and len(to) <= 1024  # noqa: PLR2004 - of our paths
    own = not parsed.scheme and not parsed.netloc and parsed.path.startswith(f"{ROOT}/")
    return to if plain and own and ".." not in to else f"{ROOT}/"


def _sealed(access: Access) -> Sealed:
    return Sealed(access.keys.sessions)


def _cookie(access: Access) -> Cookie:
    return cookie(access, "sign-in")
