"""Who is behind a request, as the door found out; what pages and the API ask it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from starlette.requests import HTTPConnection

from gateway.inbound.console.sessions import Session
from gateway.model.review import Reviewer
from gateway.runtime.desk import Desk

VISITOR = "counterfoil.visitor"
"""Where the scope holds it."""
STANDS = "counterfoil.stands"
"""Where the scope holds how to ask whether they would still be let in."""

Stands: TypeAlias = Callable[[], Awaitable[bool]]
"""Asked by what goes on after its request was let in. Raises LedgerUnavailable."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """A reviewer, and what they came with: a session in a browser, or a token."""

    reviewer: Reviewer
    session: Session | None = None
    unattended: bool = False
    """Whether their token was made for a program that decides without asking anybody."""


def reviewer_of(request: HTTPConnection) -> Reviewer:
    """Who asks. Every route behind the door has one."""
    return visitor_of(request).reviewer


def csrf_of(request: HTTPConnection) -> str:
    """What each form must send along, as the field `csrf`; a script, as the header `X-CSRF-Token`.

    Empty for whoever shows a token: no browser sends one by itself.
    """
    session = visitor_of(request).session
    return "" if session is None else session.csrf


def link_of(request: HTTPConnection) -> str | None:
    """The id of the signed link by which the reviewer came, if by one."""
    session = visitor_of(request).session
    return None if session is None else session.link


def is_look(request: HTTPConnection) -> bool:
    """Whether somebody is shown what they ask for: not where only its headers are wanted, or a browser asks ahead."""
    ahead = "".join(request.headers.get(name, "") for name in _AHEAD).lower()
    return request.scope["method"] != "HEAD" and "prefetch" not in ahead and "prerender" not in ahead


_AHEAD = ("sec-purpose", "purpose", "x-moz")
"""In which browsers say that nobody has asked for a page yet."""


def desk_of(request: HTTPConnection) -> Desk:
    """The desk at which the reviewer decides."""
    desk: Desk = request.app.state.desk
    return desk


def visitor_of(request: HTTPConnection) -> Visitor:
    """As the door left it."""
    found: Visitor = request.scope[VISITOR]
    return found
