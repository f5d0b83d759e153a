"""One connection and its requests, in the words of either era. Only the standard library: nothing of an SDK."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Send = Callable[[Json], None]

MODERN, LEGACY = "2026-07-28", "2025-11-25"
PREFIX = "io.modelcontextprotocol/"
TASKS = f"{PREFIX}tasks"
INFO = {"name": "matrix", "version": "1"}
SEEN = 400
"""Messages that are remembered."""


class Refusal(Exception):
    """The request is answered with this error."""

    def __init__(self, code: int, message: str, **data: Any) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message, **({"data": data} if data else {})}


class Wanted(Exception):
    """The request is answered by a round: what the server wants to know, and what it wants back."""

    def __init__(self, requests: Mapping[str, Any], known: Mapping[str, Any]) -> None:
        super().__init__("input is required")
        state = {"requestState": json.dumps(known)}
        asked = {"inputRequests": dict(requests)} if requests else {}
        self.result: Json = {"resultType": "input_required", **asked, **state}


@dataclass
class World:
    """What one process knows, whatever connections it has."""

    handlers: Mapping[str, "Handler"]
    seen: list[Json] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    listens: "list[Request]" = field(default_factory=list)
    tasks: dict[str, Json] = field(default_factory=dict)
    visited: set[str] = field(default_factory=set)

    def saw(self, method: str, params: Mapping[str, Any], **more: Any) -> None:
        self.seen.append({"method": method, "params": dict(params), **more})
        del self.seen[:-SEEN]


class Peer:
    """Whoever is at the other end of one connection."""

    def __init__(self, world: World, era: str, general: Send) -> None:
        self.world = world
        self.modern = era == MODERN
        self.general = general
        self.level: str | None = None if self.modern else "warning"
        self.watched: set[str] = set()
        self.introduced: Json = {}
        self.flights: dict[Any, asyncio.Task[None]] = {}
        self._asks: dict[str, asyncio.Future[Json]] = {}
        self._ids = itertools.count(1)

    def take(self, message: Json, send: Send | None = None, headers: Mapping[str, str] | None = None) -> None:
        """The message is handled; what it leads to goes out by `send`."""
        say = send or self.general
        if "method" not in message:
            answered = self._asks.pop(str(message.get("id")), None)
            if answered is not None and not answered.done():
                answered.set_result(message)
            return
        method, params = message["method"], message.get("params") or {}
        self.world.saw(method, params, headers=dict(headers or {}))
        if "id" not in message:
            if method == "notifications/cancelled" and (flight := self.flights.get(params.get("requestId"))):
                flight.cancel()
            return
        request = Request(self, message["id"], method, params, say)
        self.flights[message["id"]] = asyncio.ensure_future(self._answer(request))

    async def _answer(self, request: "Request") -> None:
        answer: Json = {"jsonrpc": "2.0", "id": request.id}
        try:
            answer["result"] = stamped(await request.handled(), modern=self.modern)
        except Refusal as refusal:
            answer["error"] = refusal.error
        except Wanted as wanted:
            answer["result"] = wanted.result
        finally:
            self.flights.pop(request.id, None)
        request.say(answer)

    async def ask(self, say: Send, method: str, params: Mapping[str, Any], *, give_up: bool = False) -> Json:
        """The client's answer to a request of ours, whole; with `give_up` the request is withdrawn at once."""
        ask_id = f"s{next(self._ids)}"
        answered: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asks[ask_id] = answered
        say({"jsonrpc": "2.0", "id": ask_id, "method": method, "params": dict(params)})
        if give_up:
            await asyncio.sleep(0.05)
            said = {"requestId": ask_id, "reason": "never mind"}
            say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": said})
            return {}
        return await answered


@dataclass(eq=False)
class Request:
    """One request under way."""

    peer: Peer
    id: Any
    method: str
    params: Json
    say: Send

    @property
    def world(self) -> World:
        return self.peer.world

    @property
    def modern(self) -> bool:
        return self.peer.modern

    @property
    def meta(self) -> Json:
        return self.params.get("_meta") or {}

    @property
    def args(self) -> Json:
        return self.params.get("arguments") or {}

    @property
    def capabilities(self) -> Json:
        """What the client declared: with this request, or when it introduced itself."""
        if self.modern:
            return dict(self.meta.get(f"{PREFIX}clientCapabilities") or {})
        return dict(self.peer.introduced.get("capabilities") or {})

    @property
    def level(self) -> str | None:
        """The least severe that is wanted; None for all, and `none`."""
        return str(self.meta.get(f"{PREFIX}logLevel", "none")) if self.modern else self.peer.level

    async def handled(self) -> Json:
        eras = self.world.handlers.get(self.method)
        if eras is None or self.peer.modern not in eras[1]:
            if self.method == "initialize":
                raise Refusal(-32022, "Unsupported protocol version", supported=[MODERN])
            raise Refusal(-32601, "Method not found")
        return await eras[0](self)

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        self.say({"jsonrpc": "2.0", "method": method, "params": dict(params)})

    async def want(self, key: str, method: str, params: Mapping[str, Any]) -> Json:
        """The client's answer, `{"result": …}` or `{"error": …}`; in the newer era after another round."""
        if not self.modern:
            answer = await self.peer.ask(self.say, method, params)
            return {name: answer[name] for name in ("result", "error") if name in answer}
        known = json.loads(self.params.get("requestState") or "{}") | (self.params.get("inputResponses") or {})
        if key not in known:
            raise Wanted({key: {"method": method, "params": dict(params)}}, known)
        return {"result": known[key]}


Handler = tuple[Callable[[Request], Awaitable[Json]], set[bool]]
"""What answers a method, and in which eras: of the newer one True."""


def stamped(result: Json, *, modern: bool) -> Json:
    """The result in the words of the era."""
    if not modern:
        return result
    meta = {f"{PREFIX}serverInfo": INFO, **(result.get("_meta") or {})}
    return {"resultType": "complete", **result, "_meta": meta}
