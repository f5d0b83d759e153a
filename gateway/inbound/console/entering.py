"""The door's own pages: coming in by a link, and leaving."""

from collections.abc import Callable, Coroutine
from functools import partial
from html import escape
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from gateway.inbound.console.access import Access
from gateway.inbound.console.cookies import cookie
from gateway.inbound.console.credentials import BadCredential, Credential
from gateway.inbound.console.door import ended
from gateway.inbound.console.letting_in import let_in
from gateway.inbound.console.pace import Pace
from gateway.inbound.console.paths import CALLBACK, ENTER, LEAVE, LOGIN, ROOT, STYLE, question
from gateway.inbound.console.refusals import Refusal, Words, ledger_gone, page
from gateway.inbound.console.revoking import check
from gateway.inbound.console.signing_in import AT_ONCE, PER_S, back, gone
from gateway.inbound.console.visitor import visitor_of
from gateway.model.review import NO_QUESTION
from gateway.ports import LedgerUnavailable

ANOTHER = "ask for another link: `counterfoil console` on the gateway's machine prints one"


_Answering: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


def door_routes(access: Access, words: Words, style: str) -> list[Route]:
    """What the door serves itself."""

    async def offer(request: Request) -> Response:
        """The link is looked at, and nothing else: mail scanners and previews of chats follow links too."""
        return await _offered(access, request.query_params.get("ticket", ""))

    async def enter(request: Request) -> Response:
        """The link is used up."""
        return await _entered(access, await _ticket_of(request))

    async def leave(request: Request) -> Response:
        """The session has ended, at every gateway."""
        return await _left(access, request)

    async def styled(_: Request) -> Response:
        return Response(style, media_type="text/css")

    routes = [("GET", ENTER, offer), ("POST", ENTER, enter), ("POST", LEAVE, leave), ("GET", STYLE, styled)]
    if access.oidc is not None:
        routes += [
            ("GET", LOGIN, partial(gone, access, access.oidc)),
            ("GET", CALLBACK, partial(back, access, access.oidc, Pace(access.now, at_once=AT_ONCE, per_s=PER_S))),
        ]
    return [Route(path, _answered(making, words), methods=[method]) for method, path, making in routes]


def _answered(making: _Answering, words: Words) -> _Answering:
    """With a page for each refusal."""

    async def answering(request: Request) -> Response:
        try:
            return await making(request)
        except Refusal as refusal:
            return words.response(refusal, request.headers)
        except LedgerUnavailable:
            return words.response(ledger_gone(), request.headers)

    return answering


async def _ticket_of(request: Request) -> str:
    return parse_qs((await request.body()).decode(errors="replace")).get("ticket", [""])[0]


async def _valid(access: Access, ticket: str) -> Credential:
    try:
        found = access.ticket(ticket)
        await check(access.said, found.reviewer, found.id)
    except BadCredential as error:
        raise Refusal(401, f"this link lets nobody in: {error}", ANOTHER) from None
    return found


def _name(credential: Credential) -> str:
    return f"console:link:{credential.id}"


async def _offered(access: Access, ticket: str) -> Response:
    found = await _valid(access, ticket)
    if await access.said(_name(found)):
        raise _used()
    by = found.reviewer
    facts = [("Tenant", "all" if by.everywhere else by.tenant), ("Roles", ", ".join(sorted(by.roles)) or "none")]
    facts += [("For", _meant(by.approval))] if by.approval is not None else []
    listed = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return HTMLResponse(
        page(
            f"Continue as {by.id}",
            f"<h1>Counterfoil: {'review what agents want to do' if by.reviews else 'connect accounts of your own'}</h1>"
            f"<dl>{listed}</dl>"
            f'<form method="post" action="{ROOT}{ENTER}">'
            f'<input type="hidden" name="ticket" value="{escape(ticket)}">'
            f"<button autofocus>Continue as {escape(by.id)}</button></form>"
            "<p>This link works once. If you did not ask for it, close this page.</p>",
        )
    )


async def _entered(access: Access, ticket: str) -> Response:
    found = await _valid(access, ticket)
    if not await access.once(_name(found), found.expires_at):
        raise _used()
    asked = found.reviewer.approval
    return let_in(access, found.reviewer, question(asked) if asked else f"{ROOT}/", link=found.id)


def _meant(approval: str) -> str:
    return "accounts of your own, and nothing else" if approval == NO_QUESTION else f"one question, {approval}"


async def _left(access: Access, request: Request) -> Response:
    session = visitor_of(request).session
    if session is None:
        raise Refusal(
            400, "a token is no session and ends by being revoked", "`counterfoil reviewer revoke` with its id"
        )
    await access.once(ended(session), access.sessions.ends_at(session))
    answer = RedirectResponse(f"{ROOT}/", 303)
    answer.headers.append("set-cookie", cookie(access, "session").cleared())
    return answer


def _used() -> Refusal:
    return Refusal(410, "this link has been used", ANOTHER)
