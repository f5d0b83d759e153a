"""A reviewer is let in: their browser gets a session of its own, and goes on to a page."""

from starlette.responses import RedirectResponse

from gateway.inbound.console.access import Access
from gateway.inbound.console.cookies import cookie
from gateway.inbound.console.sessions import begun
from gateway.model.review import Reviewer


def let_in(access: Access, reviewer: Reviewer, to: str, *, link: str | None) -> RedirectResponse:
    """On to that page, in a new session, whatever the browser had before."""
    sessions, now = access.sessions, access.now()
    session = begun(reviewer, now, link)
    answer = RedirectResponse(to, 303)
    written = cookie(access, "session").written(sessions.written(session), sessions.left_s(session, now))
    answer.headers.append("set-cookie", written)
    return answer
