"""The door for reviewers: no request gets in whose sender is not known, and none that somebody else's page sent.

What an agent holds (a run token, a key, an access token, the id of an MCP session) opens nothing here, whatever else
comes with it.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.inbound.console.access import Access
from gateway.inbound.console.api.problems import NOT_THERE
from gateway.inbound.console.bodies import field_of, read_body, replayed
from gateway.inbound.console.cookies import Cookie, cookie
from gateway.inbound.console.credentials import BadCredential, Credential
from gateway.inbound.console.fetched import SAFE, check_host, check_own_page, check_sender
from gateway.inbound.console.headers import guarded
from gateway.inbound.console.paths import ASSISTANTS, OPEN, ROOT
from gateway.inbound.console.refusals import Refusal, Words, is_for_programs, ledger_gone, problem_at
from gateway.inbound.console.revoking import check
from gateway.inbound.console.sessions import Session
from gateway.inbound.console.visitor import STANDS, VISITOR, Visitor
from gateway.inbound.mcp.door import Turned, check_framing, read_head
from gateway.inbound.mcp.identity import RUN_HEADER
from gateway.inbound.mcp.revoked import Revoked
from gateway.inbound.mcp.tokens import TYPE as RUN_TOKEN
from gateway.inbound.mcp.tokens import type_of
from gateway.model.review import Reviewer
from gateway.outbound.agent_keys import PREFIX as AGENT_KEY
from gateway.ports import LedgerUnavailable

CSRF_FIELD = "csrf"
CSRF_HEADER = "x-csrf-token"

AGENTS_TYPES = frozenset({RUN_TOKEN, "at+jwt", "application/at+jwt"})
"""What signed tokens of agents call themselves [RFC 9068, 2.1]."""
AGENTS = "this is an agent's credential"
HOW_IN = (
    "ask for a link: `counterfoil console` on the gateway's machine prints one; "
    "programs show a token from `counterfoil reviewer token`"
)
FOR_PROGRAMS = "this token is for programs, and decides without asking anybody"
FOR_ASSISTANTS = "this token is an assistant's, and good for `/console/mcp` alone"
HOW_ASSISTANTS = "give the assistant one from `counterfoil reviewer token --for-assistant`"
HOW_PROGRAMS = "its person decides in the console, or with a token of their own from `counterfoil reviewer token`"
_BEARER = "bearer "


@dataclass(frozen=True, slots=True)
class Door:
    """An ASGI application before another, which then knows its visitor; for paths from `/console` on."""

    _app: ASGIApp
    _access: Access
    _words: Words
    _revoked: Revoked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request in, or say why not."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        inside = {**scope, "root_path": ROOT, "path": _path(scope["path"])}
        try:
            headers = _head(scope)
            renewed, receive = await self._let_in(inside, headers, receive)
        except Refusal as refusal:
            said = self._said(refusal, inside)
            await said(scope, receive, guarded(send))
            return
        await self._app(inside, receive, guarded(send, renewed))

    def _said(self, refusal: Refusal, scope: Scope) -> Response:
        """A page, or a problem where only programs come."""
        if is_for_programs(scope["path"]):
            return problem_at(refusal)
        wanted = scope["path"] if scope["method"] in SAFE else ROOT
        return self._words.response(refusal, Headers(scope=scope), wanted)

    async def _let_in(self, scope: Scope, headers: Mapping[str, str], receive: Receive) -> tuple[str | None, Receive]:
        """Who comes stands in the scope; the cookie to be written anew, and the body as it can be read again.

        Raises: Refusal.
        """
        check_host(headers, self._access.url)
        check_sender(scope["method"], headers, self._access.url)
        _check_no_agent(headers)
        opens = scope["path"].removeprefix(ROOT) in OPEN
        visitor = None if opens else await self._visitor(scope["path"], headers, Headers(scope=scope))
        if scope["method"] not in SAFE:
            body = await read_body(receive)
            receive = replayed(body, receive)
            self._check_meant(visitor, headers, body)
        if visitor is None:
            return None, receive
        if not scope["path"].isprintable():  # routes do not match a path with line breaks, so none would answer
            raise Refusal(404, NOT_THERE)
        scope[VISITOR] = visitor
        scope[STANDS] = partial(self._stands, scope["path"], headers, Headers(scope=scope))
        return self._renewed(visitor.session, scope["method"], headers), receive

    # --- who is it? -------------------------------------------------------------------------------------------------

    async def _visitor(self, path: str, headers: Mapping[str, str], raw: Headers) -> Visitor:
        shown = headers.get("authorization")
        if shown is not None:
            return await self._by_token(path, _bearer(shown))
        return await self._by_cookie(raw)

    async def _stands(self, path: str, headers: Mapping[str, str], raw: Headers) -> bool:
        """Whether whoever was let in still would be: nobody has signed out, and nothing was revoked or is over."""
        try:
            await self._visitor(path, headers, raw)
        except Refusal:
            return False
        return True

    async def _by_token(self, path: str, text: str) -> Visitor:
        """One is for programs, which decide by themselves; the other for an assistant, whose person is asked."""
        access, asks = self._access, path.removeprefix(ROOT) == ASSISTANTS
        try:
            shown = access.assistant(text) if asks else access.token(text)
            await self._check_not_revoked(shown.reviewer, shown.id)
            return Visitor(shown.reviewer, unattended=shown.unattended)
        except BadCredential as error:
            if asks and _is_valid(access.token, text):
                raise Refusal(403, FOR_PROGRAMS, HOW_ASSISTANTS) from None
            if not asks and _is_valid(access.assistant, text):
                raise Refusal(403, FOR_ASSISTANTS, HOW_PROGRAMS) from None
            raise _unknown(str(error)) from None

    async def _by_cookie(self, raw: Headers) -> Visitor:
        text = self._cookie.read(raw.getlist("cookie"))
        session = None if text is None else self._access.sessions.read(text, self._access.now())
        if session is None:
            raise _unknown("nobody is signed in here" if text is None else "your session is over")
        try:
            await self._check_not_revoked(session.reviewer, session.link)
            if await self._access.said(ended(session)):
                raise _unknown("you have signed out")
        except LedgerUnavailable:
            raise ledger_gone() from None
        except BadCredential as error:
            raise _unknown(str(error)) from None
        return Visitor(session.reviewer, session)

    async def _check_not_revoked(self, reviewer: Reviewer, credential: str | None) -> None:
        try:
            await check(self._revoked.has, reviewer, credential)
        except LedgerUnavailable:
            raise ledger_gone() from None

    # --- is it meant? -----------------------------------------------------------------------------------------------

    def _check_meant(self, visitor: Visitor | None, headers: Mapping[str, str], body: bytes) -> None:
        """What changes something was sent by a page of ours, and by one of this very session."""
        if visitor is not None and visitor.session is None:
            return  # no browser shows a token by itself
        check_own_page(headers, self._access.url)
        if visitor is None or visitor.session is None:
            return
        said = headers.get(CSRF_HEADER) or field_of(body, headers.get("content-type", ""), CSRF_FIELD) or ""
        if not secrets.compare_digest(said.encode(), visitor.session.csrf.encode()):
            raise Refusal(403, "the form was not made for this session", "open the page again and press its button")

    def _renewed(self, session: Session | None, method: str, headers: Mapping[str, str]) -> str | None:
        """What a person does keeps a session alive; what a page does by itself does not."""
        by_hand = method not in SAFE or headers.get("sec-fetch-mode", "navigate") == "navigate"
        if session is None or not by_hand:
            return None
        sessions, now = self._access.sessions, self._access.now()
        renewed = sessions.renewed(session, now)
        return (
            None if renewed is None else self._cookie.written(sessions.written(renewed), sessions.left_s(renewed, now))
        )

    @property
    def _cookie(self) -> Cookie:
        return cookie(self._access, "session")


def ended(session: Session) -> str:
    """What is said, once, when that session ends before its time."""
    return f"console:left:{session.id}"


def _check_no_agent(headers: Mapping[str, str]) -> None:
    """Nothing of an agent's comes along. An MCP client of a reviewer's has a session too, beside its token.

    Raises: Refusal.
    """
    shown = headers.get("authorization")
    session = "mcp-session-id" in headers and shown is None
    bearer = _bearer(shown or "")
    agents = bearer.startswith(AGENT_KEY) or type_of(bearer) in AGENTS_TYPES
    if session or RUN_HEADER.lower() in headers or agents:
        raise Refusal(403, AGENTS, HOW_IN)


def _is_valid(read: Callable[[str], Credential], text: str) -> bool:
    try:
        return bool(read(text))
    except BadCredential:
        return False


def _bearer(shown: str) -> str:
    return shown[len(_BEARER) :].strip() if shown.lower().startswith(_BEARER) else ""


def _unknown(why: str) -> Refusal:
    return Refusal(401, why, HOW_IN, headers={"www-authenticate": 'Bearer realm="counterfoil console"'})


def _head(scope: Scope) -> Mapping[str, str]:
    try:
        headers = read_head(scope["headers"]).headers
        check_framing(headers)
    except Turned as turned:
        raise Refusal(turned.status, str(turned), headers={"connection": "close"}) from None
    return headers


def _path(path: str) -> str:
    return f"{ROOT}/" if path == ROOT else path
