"""What is relayed without a verdict: resources, prompts, completion, and methods that only one upstream can own."""

from typing import Any

from gateway.inbound.mcp import results
from gateway.inbound.mcp.asking import ROUND_PARAMS, Asking
from gateway.inbound.mcp.callers import LegacyCaller, ModernCaller, UnaskedCaller
from gateway.inbound.mcp.faults import INVALID_PARAMS, METHOD_NOT_FOUND, Fault
from gateway.inbound.mcp.methods import is_of_protocol
from gateway.inbound.mcp.ports import Gate, Offers
from gateway.inbound.mcp.proposals import relayed
from gateway.inbound.mcp.rounds import Rounds
from gateway.inbound.mcp.seals import Seals
from gateway.inbound.mcp.stopped import check_not_stopped
from gateway.model.offer import Route
from gateway.model.tool import Answer, InputRequired, TaskStarted, ToolResult

ROUNDS = frozenset({"prompts/get", "resources/read"})
"""That may ask for input [MCP 2026-07-28]; beside `tools/call`, which the gate answers."""

_SPECIFIED = {"prompts/get": "prompts", "resources/read": "resources", "completion/complete": "completions"}
"""Methods of the protocol itself, and the capability that a server of them has."""

Fetched = tuple[str, Answer]


class Fetches:
    """Requests that go to their owner as they are."""

    def __init__(self, gate: Gate, offers: Offers, seals: Seals) -> None:
        self._gate = gate
        self._offers = offers
        self._rounds: Rounds[Fetched] = Rounds(seals)

    def close(self) -> None:
        """Nobody waits for a client any more."""
        self._rounds.close()

    async def fetch(self, asking: Asking) -> dict[str, Any]:
        """The owner's answer."""
        route = self._route(asking)
        await check_not_stopped(self._gate, asking.exchange.principal, route.upstreams)
        if asking.modern and asking.method in ROUNDS:
            fetched = await self._in_rounds(asking, route)
            if isinstance(fetched, dict):
                return fetched
        else:
            caller = UnaskedCaller(asking) if asking.modern else LegacyCaller(asking)
            fetched = await self._ask(asking, route, caller)
        return self._told(asking, *fetched)

    def _route(self, asking: Asking) -> Route:
        if asking.method not in _SPECIFIED and is_of_protocol(asking.method):
            raise Fault(METHOD_NOT_FOUND, "Method not found", data=asking.method)
        route = self._offers.route(asking.method, asking.params, asking.party)
        if route is not None:
            return route
        needed = _SPECIFIED.get(asking.method)
        if needed is None or needed not in self._offers.capabilities(asking.party):
            raise Fault(METHOD_NOT_FOUND, "Method not found", data=asking.method)
        if asking.method == "resources/read":
            raise Fault(*results.not_found(modern=asking.modern), data={"uri": asking.params.get("uri")})
        raise Fault(INVALID_PARAMS, f"nothing of that name is offered by any server: `{asking.method}`")

    async def _in_rounds(self, asking: Asking, route: Route) -> Fetched | dict[str, Any]:
        opened = self._rounds.open(asking)
        kind, state = opened if opened is not None else ("first", {})
        if kind == "parked":
            return await self._rounds.go_on(asking, state["name"])
        more: dict[str, Any] = {}
        if "inputResponses" in asking.params:
            more["inputResponses"] = asking.params["inputResponses"]
        if state.get("inner") is not None:
            more["requestState"] = state["inner"]
        upstream = state.get("upstream")
        kept = {key: value for key, value in route.params.items() if key not in ROUND_PARAMS}
        next_route = Route(route.upstreams, {**kept, **more}, route.name)
        return await self._rounds.first(asking, lambda caller: self._ask(asking, next_route, caller, upstream))

    async def _ask(
        self, asking: Asking, route: Route, caller: LegacyCaller | ModernCaller, upstream: str | None = None
    ) -> Fetched:
        return await self._offers.request(route, asking.method, relayed(asking.meta), caller, upstream=upstream)

    def _told(self, asking: Asking, upstream: str, answer: Answer) -> dict[str, Any]:
        match answer:
            case ToolResult(result):
                told = results.counted(result) if asking.method in ROUNDS else results.own(result)
                return results.for_cache(told) if asking.modern and asking.method == "resources/read" else told
            case InputRequired(result) if asking.modern:
                inner = result.get("requestState")
                return {
                    **results.counted(result),
                    "requestState": self._rounds.seal(asking, "round", {"upstream": upstream, "inner": inner}),
                }
            case TaskStarted() | InputRequired():
                raise Fault(INVALID_PARAMS, "the server answered in a way that this client did not say it can take")
            case _:
                raise results.failed(answer, modern=asking.modern, method=asking.method)
