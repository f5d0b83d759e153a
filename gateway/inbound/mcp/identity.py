"""Who is asking, and in which run. What a client says of itself is attribution and never grants anything.

A run is found by the strongest of these that the request has [MCP 2026-07-28: no state may hang on the
connection of a modern client]:

    signed run token    header `Counterfoil-Run`, else the path `/runs/{run}/mcp`
    stdio process       one run for the life of the process
    legacy session      one run for each `Mcp-Session-Id`
    none of them        a default run for each principal and client process, a new one after half an idle hour
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from starlette.datastructures import Headers

from gateway.inbound.mcp.envelope import meta_of
from gateway.inbound.mcp.exchange import Exchange
from gateway.inbound.mcp.ports import Gate
from gateway.inbound.mcp.tokens import REVIEWERS, BadToken, RunToken, type_of, verify
from gateway.model.canonical import dump
from gateway.model.principal import Principal
from gateway.outbound.system_account import system_account
from gateway.ports import Clock

RUN_HEADER = "Counterfoil-Run"
IDLE_S = 30 * 60.0
"""A default run that nobody used for so long is left behind: what comes next is another task."""
MAX_SEATS = 20_000
"""Runs remembered; twice the sessions that the SDK keeps open, so that no living session forgets its run. Beyond it the
oldest goes of whoever has most, so that nobody makes others forget theirs.
"""
MAX_CHARS = 256
"""Of each attribution; it is recorded in every verdict."""

ANONYMOUS = Principal("anonymous")
"""Whoever reaches our loopback port without a token."""

HOW_TO = "open one with `counterfoil run open`"

CONVERSATIONS = (
    "threadId",  # Codex
    "sessionId",  # Codex
    "vscode.conversationId",
    "ai.opencode/sessionID",
    "antigravity.google/conversation_id",
    "openai/session",
)
"""Keys in `_meta` by which clients tell their conversations apart."""
OTHER_HINTS = ("vscode.requestId", "itemId", "windowId")
_HINTS = frozenset({*CONVERSATIONS, *OTHER_HINTS})


class NotLetIn(Exception):
    """The request claims a run for which it shows no valid token. The message says how to get one."""


def local_user() -> Principal:
    """The account that this process runs under."""
    return Principal(f"local:{system_account()}")


def run_token(headers: Headers, segment: str | None, key: bytes | None, now: float) -> RunToken | None:
    """The token by which the request claims a run, verified; None if it claims none.

    `segment` is what stands for `{run}` in the path: a token, or the id of the run whose token the header has.

    Raises: NotLetIn.
    """
    given = headers.getlist(RUN_HEADER)
    if len(given) > 1:
        raise NotLetIn(f"the header `{RUN_HEADER}` stands there twice")
    signed = segment if segment is not None and segment.count(".") == 2 else None  # noqa: PLR2004 - a JWT has two dots
    if segment is not None and signed is None and not given:
        raise NotLetIn(
            f"the path names a run, and no signed run token came with it in the header `{RUN_HEADER}`: {HOW_TO}"
        )
    tokens = [_verified(token, key, now) for token in (*given, signed) if token is not None]
    runs = {token.run for token in tokens}
    if segment is not None and signed is None:
        runs.add(segment)
    if len(runs) > 1:
        raise NotLetIn("the run token speaks for another run than the path names")
    return tokens[0] if tokens else None


def check_no_reviewer(authorization: str) -> None:
    """What comes along lets nobody decide: an agent that has a reviewer's token must not go on as if it had none.

    Raises: NotLetIn.
    """
    if type_of(authorization.rpartition(" ")[2]) in REVIEWERS:
        raise NotLetIn("this is a reviewer's credential: it is for `/console`, and no agent may have it")


def _verified(token: str, key: bytes | None, now: float) -> RunToken:
    if key is None:
        raise NotLetIn("this gateway takes no run tokens: it was started without a key for them")
    try:
        return verify(key, token, now)
    except BadToken as error:
        raise NotLetIn(f"{error}: {HOW_TO}") from None


class Client(NamedTuple):
    """Who the client says it is."""

    attribution: Mapping[str, str]
    process: str
    """Tells client processes, or their conversations, apart as well as the client lets us."""


def client_of(exchange: Exchange, info: Mapping[str, Any]) -> Client:
    """What the client says of itself: `info` is its `clientInfo`, of this request or of its `initialize`."""
    meta = meta_of(exchange.message)
    said = {
        "client_name": info.get("name"),
        "client_version": info.get("version"),
        "user_agent": exchange.headers.get("user-agent"),
        "mcp_session": _recorded(exchange.session.id) if exchange.session and exchange.transport == "http" else None,
        **{key: value for key, value in meta.items() if key in _HINTS},
    }
    attribution = {key: value[:MAX_CHARS] for key, value in said.items() if isinstance(value, str) and value}
    conversation = next((attribution[key] for key in CONVERSATIONS if key in attribution), None)
    named = f"{attribution.get('client_name', '')}/{attribution.get('client_version', '')}"
    return Client(attribution, conversation or named)


def _recorded(session: str) -> str:
    """What stands for the session in the ledger: whoever has the id of an anonymous client's can act in it."""
    return f"sha256:{hashlib.sha256(session.encode()).hexdigest()[:32]}"


@dataclass(slots=True)
class _Seat:
    """A run that somebody uses."""

    run: str
    used_at: float
    opened: bool = False


class Runs:
    """Finds each request's run, and opens it when it is first used. One for each process."""

    def __init__(self, gate: Gate, make_id: Callable[[str], str], clock: Clock) -> None:
        self._gate = gate
        self._make_id = make_id
        self._clock = clock
        self._seats: dict[tuple[str, str], OrderedDict[tuple[str, str], _Seat]] = {}
        """By whose they are: tenant and principal, then origin and name."""
        self._count = 0

    async def run_of(self, exchange: Exchange, client: Client) -> str:
        """The id of the request's run, which is open now.

        Raises: LedgerUnavailable; the next request then tries the same id again.
        """
        origin, name = _origin(exchange, client)
        seat = self._seat(exchange, origin, name)
        if not seat.opened:
            token = exchange.token
            await self._gate.open_run(
                run=seat.run,
                principal=exchange.principal,
                origin=origin,
                attribution=client.attribution,
                workflow=token.workflow if token is not None else None,
                expires_at=token.expires_at if token is not None else None,
                parent=token.parent if token is not None else None,
            )
            seat.opened = True
        return seat.run

    def known(self, exchange: Exchange, client: Client) -> str | None:
        """The id of the request's run, if there may be one yet. Nothing is opened or kept alive by asking."""
        origin, name = _origin(exchange, client)
        seat = self._seats.get(exchange.principal.whose, _NONE).get((origin, name))
        if exchange.token is not None:
            return exchange.token.run
        left = seat is None or (origin == "default" and self._clock.monotonic() - seat.used_at >= IDLE_S)
        return None if seat is None or left or not seat.opened else seat.run

    def _seat(self, exchange: Exchange, origin: str, name: str) -> _Seat:
        held, key = self._seats.setdefault(exchange.principal.whose, OrderedDict()), (origin, name)
        now, seat = self._clock.monotonic(), held.get(key)
        if seat is None or (origin == "default" and now - seat.used_at >= IDLE_S):
            run = exchange.token.run if exchange.token is not None else self._make_id("run")
            self._count += seat is None
            seat = held[key] = _Seat(run, now)
        seat.used_at = now
        held.move_to_end(key)
        while self._count > MAX_SEATS:
            self._forget()
        return seat

    def _forget(self) -> None:
        owner, held = max(self._seats.items(), key=lambda one: len(one[1]))
        held.popitem(last=False)
        self._count -= 1
        if not held:
            del self._seats[owner]


_NONE: Mapping[tuple[str, str], _Seat] = {}


def _origin(exchange: Exchange, client: Client) -> tuple[str, str]:
    if exchange.token is not None:
        return "token", exchange.token.run
    if exchange.transport == "stdio":
        return "process", ""
    if exchange.session is not None:
        return "session", exchange.session.id
    return "default", client.process


def party_key(exchange: Exchange, client: Client) -> str:
    """What tells this client's connections to servers of the older era from those of others."""
    if exchange.session is not None:
        return f"{exchange.transport}:{exchange.session.id}"
    origin, name = _origin(exchange, client)
    return dump(["http", exchange.principal.tenant, exchange.principal.id, origin, name])
