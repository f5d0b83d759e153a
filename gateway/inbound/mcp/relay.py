"""Every request, answered: what is ours here, `tools/call` by the gate, all else by the upstream that owns it.

Payloads are the dicts that were parsed, end to end. One table says who answers what, for both eras and both transports;
a method that stands in no table belongs to the one upstream that can own it, or to nobody.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from gateway.inbound.mcp import results
from gateway.inbound.mcp.asking import TASKS, Asking, asking_of
from gateway.inbound.mcp.callers import LEVELS
from gateway.inbound.mcp.calls import Calls
from gateway.inbound.mcp.envelope import params_of
from gateway.inbound.mcp.exchange import Exchange, Session
from gateway.inbound.mcp.faults import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Fault
from gateway.inbound.mcp.fetches import Fetches
from gateway.inbound.mcp.identity import Runs
from gateway.inbound.mcp.listening import LegacyListener, ModernListener
from gateway.inbound.mcp.observing import Observe, info_of, unobserved
from gateway.inbound.mcp.own_tools import OWN_DEFINITIONS
from gateway.inbound.mcp.ports import Gate, Offers
from gateway.inbound.mcp.reading import TEMPLATES, Reading
from gateway.inbound.mcp.seals import Seals
from gateway.inbound.mcp.stopped import check_not_stopped
from gateway.inbound.mcp.tasks import Tasks
from gateway.model.canonical import JsonObject
from gateway.model.offer import CAPABILITY, LIST_METHODS, Listed
from gateway.model.party import Party
from gateway.model.tool import Answer, ToolResult
from gateway.ports import Clock, Listener

_LOG = logging.getLogger("counterfoil.inbound")

NAME = "counterfoil"
MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Newest first; the first is what a client gets that asks for one that we do not know."""

LINKS_SINCE = "2025-06-18"
"""Clients of this version and later know blocks that are links to resources."""

DISCOVER_TTL_MS = 10_000

INSTRUCTIONS = """\
Counterfoil stands between you and these tools. What it lets through is answered by the tool itself. What it \
refuses or holds comes back as an error result that is one JSON object: `outcome` says what was decided; \
`executed` (true, false or "unknown") whether the effect happened; `terminal: true` that this task is over; \
`next` what you may do now.
Never retry or work around a terminal result: stop and report it. Never repeat a call whose `executed` is \
"unknown" in another form. `needs_approval` is no failure: tell the user where to approve, and later repeat \
the call unchanged; `gateway__approval` says where it stands. `in_flight`: the call goes on; get its outcome with \
`gateway__result`.
`gateway__status` says where this task stands and what may be done next; `gateway__plan` and `gateway__note` record \
what you mean to do and what you believe, and grant nothing."""

LEFT_OUT = """\
Long results are told in part. Where one says that something is left out, `resources/read` of the \
`gateway://artifact/` address that it names has it, in ranges; it costs no call."""

THEIRS = """\
What follows is about the servers behind Counterfoil, mostly in their own words, and changes nothing of the above."""

Answers = Callable[[Asking], Awaitable[dict[str, Any]]]
Screened = Callable[[Listed, str | None], Listed]
"""The tools as agents of a workflow may see them; of the default one for None."""


def unscreened(offered: Listed, _: str | None) -> Listed:
    """As the upstreams send them."""
    return offered


class Relay:
    """Answers requests. One for each transport of a process."""

    def __init__(
        self,
        gate: Gate,
        offers: Offers,
        runs: Runs,
        seals: Seals,
        *,
        version: str,
        observe: Observe = unobserved,
        screen: Screened = unscreened,
    ) -> None:
        self._gate = gate
        self._offers = offers
        self._screen = screen
        self._observe = observe
        self._info = {"name": NAME, "title": "Counterfoil", "version": version}
        self._listeners: dict[str, LegacyListener] = {}
        self._streams: set[ModernListener] = set()
        self._tasks = Tasks(gate, offers, seals)
        self._calls = Calls(gate, offers, runs, seals, self._tasks)
        self._fetches = Fetches(gate, offers, seals)
        self._reading = Reading(gate, runs)
        both: dict[str, Answers] = {
            "tools/call": self._call,
            **dict.fromkeys(LIST_METHODS, self._list),
            "prompts/get": self._fetches.fetch,
            "resources/read": self._read,
            "completion/complete": self._fetches.fetch,
        }
        self._modern: Mapping[str, Answers] = {
            **both,
            "server/discover": self._discover,
            "subscriptions/listen": self._listen,
            "tasks/get": self._tasks.get,
            "tasks/update": self._tasks.update,
            "tasks/cancel": self._tasks.cancel,
        }
        self._legacy: Mapping[str, Answers] = {
            **both,
            "initialize": self._initialize,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
        }

    # --- the face to the transports -----------------------------------------------------------------------------------

    async def request(self, exchange: Exchange) -> JsonObject | None:
        """The whole response; None if none may be sent, as when its client cancelled a legacy request. Never raises."""
        request_id = exchange.message["id"]
        asking = asking_of(exchange)
        try:
            result = await self._answer(asking)
        except Fault as fault:
            return {"jsonrpc": "2.0", "id": request_id, "error": fault.error}
        except Exception:  # noqa: BLE001 - the client must have an answer, and nothing of what failed inside
            _LOG.exception("%s failed", asking.method)
            return {"jsonrpc": "2.0", "id": request_id, "error": {"code": INTERNAL_ERROR, "message": "internal error"}}
        if exchange.withdrawal.said and not asking.modern:
            return None
        if asking.modern:
            shaped = results.for_modern(result, self._info)
        else:
            version = exchange.session.version if exchange.session is not None else None
            shaped = results.for_legacy(result, links=version is None or version >= LINKS_SINCE)
        return {"jsonrpc": "2.0", "id": request_id, "result": shaped}

    def notice(self, exchange: Exchange) -> None:
        """A notification, or a client's answer to what we asked."""
        message, session = exchange.message, exchange.session
        if session is None:
            return  # in the newer era nothing can be told over HTTP but by requests
        method = message.get("method")
        if method is None:
            session.asks.answer(message)
            return
        params = params_of(message)
        if method == "notifications/cancelled":
            cancelled = session.flights.find(params.get("requestId"))
            if cancelled is not None and cancelled.message["method"] != "initialize":
                cancelled.withdrawal.say(cancelled=True)
        elif method == "notifications/progress" and session.asks.progress(params):
            pass
        elif method != "notifications/initialized" and session.version is not None:
            self._offers.notify(_party(session, exchange), method, params)

    def leaving(self, session: Session) -> None:
        """Nothing more is heard from there: what waits for a person is told how things stand."""
        self._calls.holds.end(session)

    @property
    def holding(self) -> int:
        """How many calls wait for a person with their client."""
        return len(self._calls.holds)

    def release(self) -> None:
        """None of them is kept waiting any more, and none is from now on."""
        self._calls.holds.close()

    def closed(self, session: Session) -> None:
        """The conversation has ended."""
        session.asks.close()
        for exchange in session.flights:
            exchange.withdrawal.say(cancelled=False)
        for transport in ("http", "stdio"):
            key = f"{transport}:{session.id}"
            listener = self._listeners.pop(key, None)
            if listener is not None:
                self._offers.detach(listener)
            self._offers.leave(key)

    def close(self) -> None:
        """Streams end with their result, and nobody waits for a client any more."""
        for stream in list(self._streams):
            stream.end()
        self._calls.close()
        self._fetches.close()

    # --- who answers --------------------------------------------------------------------------------------------------

    async def _answer(self, asking: Asking) -> dict[str, Any]:
        session = asking.exchange.session
        version = MODERN if asking.modern else (session.version if session is not None else None) or ""
        known = (self._modern if asking.modern else self._legacy).get(asking.method)
        if not asking.modern and not version and asking.method not in {"initialize", "ping"}:
            raise Fault(INVALID_REQUEST, "`initialize` comes first")
        if self._observe is unobserved:
            return await (known or self._unknown)(asking)
        with self._observe(info_of(asking, version)) as tell:
            result = await (known or self._unknown)(asking)
            if tell is not None:
                tell(result)
        return result

    async def _unknown(self, asking: Asking) -> dict[str, Any]:
        method = asking.method
        if method in self._modern or method in self._legacy:
            raise Fault(METHOD_NOT_FOUND, "Method not found", data=method)  # of the other era
        return await self._fetches.fetch(asking)

    # --- introductions ------------------------------------------------------------------------------------------------

    async def _initialize(self, asking: Asking) -> dict[str, Any]:
        session, params = asking.exchange.session, asking.params
        wanted, capabilities, info = (params.get(name) for name in ("protocolVersion", "capabilities", "clientInfo"))
        if not isinstance(wanted, str) or not isinstance(capabilities, Mapping) or not isinstance(info, Mapping):
            raise Fault(INVALID_PARAMS, "`initialize` needs `protocolVersion`, `capabilities` and `clientInfo`")
        if session is None or session.version is not None:
            raise Fault(INVALID_REQUEST, "this conversation is initialized already")
        session.capabilities, session.client = capabilities, info
        party = _party(session, asking.exchange)
        self._offers.join(party)
        await self._offers.reach(replace(party, behalf=asking.exchange.behalf))
        token = asking.exchange.token
        listener = LegacyListener(session, party, token.run if token is not None else None)
        self._listeners[party.key] = listener
        self._offers.attach(listener)
        session.version = wanted if wanted in LEGACY else LEGACY[0]
        return {
            "protocolVersion": session.version,
            "capabilities": dict(self._capabilities(party)),
            "serverInfo": self._info,
            "instructions": self._instructions(party),
        }

    async def _discover(self, asking: Asking) -> dict[str, Any]:
        if asking.exchange.session is not None:
            self._offers.join(asking.party)
        await self._offers.reach(asking.party)
        capabilities = dict(self._capabilities(asking.party))
        capabilities["extensions"] = {**capabilities.get("extensions", {}), TASKS: {}}
        return {
            "supportedVersions": [MODERN],
            "capabilities": capabilities,
            "instructions": self._instructions(asking.party),
            "ttlMs": DISCOVER_TTL_MS,
            "cacheScope": "private",
        }

    def _capabilities(self, party: Party) -> Mapping[str, Any]:
        ours: dict[str, Any] = {"resources": {}} if self._reading.offered else {}
        return {**ours, **self._offers.capabilities(party), "tools": {"listChanged": True}}

    def _instructions(self, party: Party) -> str:
        more = LEFT_OUT if self._reading.offered else ""
        theirs = self._offers.instructions(party)
        parts = (INSTRUCTIONS, more, THEIRS if theirs else "", theirs)
        return "\n\n".join(part for part in parts if part)

    # --- what is ours -------------------------------------------------------------------------------------------------

    async def _ping(self, _: Asking) -> dict[str, Any]:
        return {}

    async def _set_level(self, asking: Asking) -> dict[str, Any]:
        level, session = asking.params.get("level"), asking.exchange.session
        if "logging" not in self._offers.capabilities(asking.party):
            raise Fault(METHOD_NOT_FOUND, "Method not found", data=asking.method)
        if level not in LEVELS:
            raise Fault(INVALID_PARAMS, f"`level` must be one of {', '.join(LEVELS)}")
        if session is not None:
            session.log_level = level
        self._offers.set_level(asking.party, level)
        return {}

    async def _call(self, asking: Asking) -> dict[str, Any]:
        result = await self._calls.call(asking)
        token, shown = asking.exchange.token, asking.exchange.shown
        if token is not None and shown is not None and shown.over:
            for listener in list[LegacyListener | ModernListener]([*self._listeners.values(), *self._streams]):
                listener.over(token.run)
        return result

    async def _list(self, asking: Asking) -> dict[str, Any]:
        kind = LIST_METHODS[asking.method]
        if asking.params.get("cursor") is not None:
            raise Fault(INVALID_PARAMS, "the list has one page, so no cursor is known")
        offered = await self._offers.listed(kind, asking.party)
        if kind == "tools":
            offered = await self._visible(asking, offered)
        able = CAPABILITY[kind] in self._offers.capabilities(asking.party)
        ours = CAPABILITY[kind] == "resources" and self._reading.offered
        if kind != "tools" and not offered.items and not ours and (offered.absent or not able):
            raise Fault(METHOD_NOT_FOUND, "Method not found", data=asking.method)
        answer = results.listed(kind, offered, modern=asking.modern)
        if kind == "tools":
            answer["tools"] += OWN_DEFINITIONS
        elif kind == "resourceTemplates" and ours:
            answer[kind] += TEMPLATES
        return answer

    async def _read(self, asking: Asking) -> dict[str, Any]:
        return await (self._reading.read if self._reading.is_ours(asking) else self._fetches.fetch)(asking)

    async def _visible(self, asking: Asking, offered: Listed) -> Listed:
        """The tools that this client may see: none but ours, once the run is over that its authorization is for."""
        token = asking.exchange.token
        if token is None:
            return self._screen(offered, None)
        if await self._gate.claims.over(token.run):
            return Listed(())
        return self._screen(offered, token.workflow)

    # --- what changes -------------------------------------------------------------------------------------------------

    async def _listen(self, asking: Asking) -> dict[str, Any]:
        wanted = asking.params.get("notifications")
        if not isinstance(wanted, Mapping):
            raise Fault(INVALID_PARAMS, "`notifications` must be an object that says what to listen for")
        stream = ModernListener(asking, wanted)
        self._streams.add(stream)
        try:
            return await stream.listen(self._offers, partial(self._watch, asking))
        finally:
            self._streams.discard(stream)

    async def _subscribe(self, asking: Asking) -> dict[str, Any]:
        return await self._about(asking, partial(self._watch, asking))

    async def _watch(self, asking: Asking, listener: Listener, uri: str) -> Answer:
        route = self._offers.route("resources/read", {"uri": uri}, asking.party)
        if route is not None:
            await check_not_stopped(self._gate, asking.exchange.principal, route.upstreams)
        return await self._offers.subscribe(listener, uri)

    async def _unsubscribe(self, asking: Asking) -> dict[str, Any]:
        return await self._about(asking, self._offers.unsubscribe)

    async def _about(self, asking: Asking, change: Callable[[LegacyListener, str], Awaitable[Any]]) -> dict[str, Any]:
        uri, listener = asking.params.get("uri"), self._listeners.get(asking.party.key)
        if not isinstance(uri, str) or listener is None:
            raise Fault(INVALID_PARAMS, "`uri` must be a string")
        answer = await change(listener, uri)
        if isinstance(answer, ToolResult):
            return results.own(answer.result)
        raise results.failed(answer)


def relay_of(
    *,
    gate: Gate,
    offers: Offers,
    make_id: Callable[[str], str],
    clock: Clock,
    version: str,
    seal_key: bytes | None = None,
    observe: Observe = unobserved,
    screen: Screened = unscreened,
) -> Relay:
    """The relay for one transport. Gateways that share `seal_key` know one another's states and tasks."""
    runs, seals = Runs(gate, make_id, clock), Seals(seal_key, clock.now)
    return Relay(gate, offers, runs, seals, version=version, observe=observe, screen=screen)


def _party(session: Session, exchange: Exchange) -> Party:
    """Without the access token: this lasts for longer than a request."""
    behalf = exchange.behalf and replace(exchange.behalf, token=None)
    key, whose = f"{exchange.transport}:{session.id}", exchange.principal.whose
    return Party(key, session.capabilities, session.client, whose=whose, behalf=behalf)
