"""Who hears what changes: a legacy client on its own connection, a modern one on the stream that it opened for it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gateway.inbound.mcp.asking import Asking
from gateway.inbound.mcp.callers import Told, as_severe
from gateway.inbound.mcp.exchange import Session
from gateway.inbound.mcp.faults import INVALID_PARAMS, METHOD_NOT_FOUND, Fault
from gateway.inbound.mcp.ports import Offers
from gateway.model.offer import CAPABILITY, Kind
from gateway.model.party import Party
from gateway.model.tool import Answer, ProtocolError, ToolResult

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
"""In `_meta` of all that a stream carries."""
MAX_URIS = 1_000
"""That one stream may name."""

_CHANGED: Mapping[Kind, str] = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
    "resourceTemplates": "notifications/resources/list_changed",
}
_FILTERS: Mapping[Kind, str] = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
    "resourceTemplates": "resourcesListChanged",
}


class LegacyListener:
    """A legacy client hears everything, outside any request too."""

    def __init__(self, session: Session, party: Party, run: str | None = None) -> None:
        self.party = party
        self._session = session
        self._run = run
        """That its client's authorization is for; None also once it is over."""

    def changed(self, kind: Kind) -> None:
        """A list is another one."""
        self._session.line.send({"jsonrpc": "2.0", "method": _CHANGED[kind]})

    def over(self, run: str) -> None:
        """That run is over: if it is its client's, the list of tools is another one. Said once."""
        if self._run == run:
            self._run = None
            self.changed("tools")

    def told(self, upstream: str, method: str, params: Mapping[str, Any]) -> None:  # noqa: ARG002 - all are one to it
        """What an upstream says."""
        least = self._session.log_level
        if method == "notifications/message" and least is not None and not as_severe(params.get("level"), least):
            return
        self._session.line.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, method: str, params: Mapping[str, Any], told: Told | None = None) -> Answer:
        """What an upstream asks outside any request."""
        return await self._session.asks.ask(self._session.line, method, params, told)


Watch = Callable[["ModernListener", str], Awaitable[Answer]]


class ModernListener:
    """One `subscriptions/listen`, and the stream that it opened."""

    def __init__(self, asking: Asking, wanted: Mapping[str, Any]) -> None:
        self.party = asking.party
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asking = asking
        self._wanted = wanted
        self._id = asking.exchange.message["id"]
        self._uris: frozenset[str] = frozenset()
        self._agreed: Mapping[str, Any] = {}
        token = asking.exchange.token
        self._run = token.run if token is not None else None

    def say(self, method: str, params: Mapping[str, Any]) -> None:
        """A notification on the stream, marked as this subscription's."""
        meta = params.get("_meta")
        marked = {**(meta if isinstance(meta, Mapping) else {}), SUBSCRIPTION: self._id}
        message = {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": marked}}
        self._asking.exchange.line.send(message)

    def changed(self, kind: Kind) -> None:
        """A list is another one, if that was asked for."""
        if self._agreed.get(_FILTERS[kind]) is True:
            self.say(_CHANGED[kind], {})

    def over(self, run: str) -> None:
        """As for a legacy client."""
        if self._run == run:
            self._run = None
            self.changed("tools")

    def told(self, upstream: str, method: str, params: Mapping[str, Any]) -> None:  # noqa: ARG002 - all are one to it
        """A resource has changed, if that was asked for; nothing else has a place on this stream."""
        if method == "notifications/resources/updated" and params.get("uri") in self._uris:
            self.say(method, params)

    async def ask(self, method: str, params: Mapping[str, Any], told: Told | None = None) -> Answer:  # noqa: ARG002
        """Nothing can be asked of a modern client but in answer to a request of its own."""
        return ProtocolError({"code": METHOD_NOT_FOUND, "message": f"nobody answers `{method[:64]}` now"})

    async def listen(self, offers: Offers, watch: Watch) -> dict[str, Any]:
        """The stream's result, once it has ended from our side; until the client closes it, if it does so first.

        `watch` as `Offers.subscribe`, for what this client may watch.
        """
        withdrawal = self._asking.exchange.withdrawal
        withdrawal.then = self.end
        if withdrawal.gone:
            self.end()
        offers.attach(self)
        try:
            agreed = await self._agree(offers, watch)
            self.say("notifications/subscriptions/acknowledged", {"notifications": agreed})
            self._agreed, self._uris = agreed, frozenset(agreed.get("resourceSubscriptions", ()))
            await self.ended
        finally:
            offers.detach(self)
        return {"resultType": "complete", "_meta": {SUBSCRIPTION: self._id}}

    async def _agree(self, offers: Offers, watch: Watch) -> dict[str, Any]:
        """What of the filter we can honour."""
        can = {"tools": {}, **offers.capabilities(self.party)}
        agreed: dict[str, Any] = {}
        for kind, name in _FILTERS.items():
            if self._wanted.get(name) is True and CAPABILITY[kind] in can:
                agreed[name] = True
        uris = self._wanted.get("resourceSubscriptions")
        if isinstance(uris, list) and uris:
            if len(uris) > MAX_URIS:
                raise Fault(INVALID_PARAMS, f"a stream can be about {MAX_URIS} resources at most")
            named = [uri for uri in uris if isinstance(uri, str)]
            answers = await asyncio.gather(*(watch(self, uri) for uri in named))
            honoured = [uri for uri, answer in zip(named, answers, strict=True) if isinstance(answer, ToolResult)]
            agreed["resourceSubscriptions"] = honoured
        return agreed

    def end(self) -> None:
        """The stream ends."""
        if not self.ended.done():
            self.ended.set_result(None)
