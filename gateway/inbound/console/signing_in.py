"""Signing in at an OpenID provider: away, and back. What the browser carries meanwhile is sealed, and good for once."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gateway.inbound.console.access import Access
from gateway.inbound.console.cookies import Cookie, cookie
from gateway.inbound.console.letting_in import let_in
from gateway.inbound.console.pace import Pace
from gateway.inbound.console.paths import ROOT
from gateway.inbound.console.refusals import Refusal
from gateway.inbound.console.sessions import BrokenCookie, Sealed
from gateway.model.review import NO_QUESTION, Reviewer
from gateway.outbound.oidc.asking import Unreachable
from gateway.outbound.oidc.claims import NotLetIn
from gateway.outbound.oidc.flow import Away, Flow
from gateway.outbound.oidc.people import Person, person_of

AWAY_S = 10 * 60.0
"""How long somebody may take to sign in there."""
AT_ONCE, PER_S = 30, 5.0
"""How many who come back the provider is asked about: who is nobody yet does not have us ask it without end."""

_AGAIN = "sign in again"
_OVER = "this sign-in is over"
_LATER = {"retry-after": "5"}


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


async def back(access: Access, flow: Flow, pace: Pace, request: Request) -> Response:
    """The browser comes back, with what the provider says of its owner."""
    went = _went(access, request)
    person = await _person(access, flow, pace, went, request)
    only = None if person.reviews else NO_QUESTION
    by = Reviewer(tenant=person.tenant, id=person.id, roles=person.roles, via="oidc", approval=only)
    answer = let_in(access, by, went.to, link=None)
    answer.headers.append("set-cookie", _cookie(access).cleared())
    return answer


async def _person(access: Access, flow: Flow, pace: Pace, went: _Gone, request: Request) -> Person:
    try:
        return await _vouched_for(access, flow, pace, went, dict(request.query_params))
    except NotLetIn as error:
        raise Refusal(401, str(error), _AGAIN) from None
    except Unreachable as error:
        raise Refusal(502, str(error), _AGAIN) from None


async def _vouched_for(access: Access, flow: Flow, pace: Pace, went: _Gone, said: Mapping[str, str]) -> Person:
    """Nothing is kept of anybody before the provider has vouched for them; then, once, that they came back.

    Raises: NotLetIn, Unreachable, Refusal.
    """
    flow.check(went.away, said)
    if await access.said(_name(went)):
        raise NotLetIn(_OVER)
    if not pace.lets():
        raise Refusal(429, "too many people sign in here at once", "try again in a moment", headers=_LATER)
    person = person_of(await flow.claims(went.away, said, access.now()), flow.provider.told)
    if not await access.once(_name(went), went.until):
        raise NotLetIn(_OVER)
    return person


def _name(went: _Gone) -> str:
    """Said once, when somebody is let in: the state, and with it the nonce, is then good for nothing."""
    return f"console:state:{went.away.state}"


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
