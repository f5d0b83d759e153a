"""The conformance server, put together: one low-level server of the SDK for both eras."""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, JSONRPCMessage

from tests.servers.conformance import asking, library, tools
from tests.servers.conformance.tasks import Tasks
from tests.servers.conformance.wire import MODERN, Asked, Json, Tool

NAME = "conformance"
KEY = b"what seals the state of a test server need not be secret"
CACHED: tuple[CacheableMethod, ...] = (
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)
MAX_EVENTS = 1000
"""Events of broken-off streams that are kept for whoever comes back."""


class Events(EventStore):
    """The last events of all streams, for a client that comes back for those it missed."""

    def __init__(self) -> None:
        self._events: deque[tuple[int, StreamId, JSONRPCMessage | None]] = deque(maxlen=MAX_EVENTS)
        self._count = 0

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        self._count += 1
        self._events.append((self._count, stream_id, message))
        return str(self._count)

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        kept = list(self._events)
        stream = next((stream for number, stream, _ in kept if str(number) == last_event_id), None)
        for number, of, message in kept:
            if of == stream and number > int(last_event_id) and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class Conformance:
    """What the server offers, and what it remembers of its clients."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.tasks = Tasks()
        self._subscribed: dict[str, set[str]] = {}
        self.tools: dict[str, Tool] = {
            **tools.TOOLS,
            **asking.TOOLS,
            **self.tasks.tools(),
            **tools.changing(self.bus, self.subscribed),
        }

    def subscribed(self, asked: Asked) -> set[str]:
        """The resources that this session of the older era wants to hear of."""
        session = "" if asked.request is None else asked.request.headers.get("mcp-session-id", "")
        return self._subscribed.setdefault(session, set())

    def schema_of(self, tool: str) -> Json | None:
        found = self.tools.get(tool)
        return None if found is None else found.schema

    async def list_tools(self, _: Asked, __: types.PaginatedRequestParams) -> Json:
        listed = [
            {"name": name, "description": tool.description, "inputSchema": tool.schema}
            for name, tool in self.tools.items()
        ]
        return {"tools": listed}

    async def call_tool(self, asked: Asked, params: types.CallToolRequestParams) -> Json:
        if (tool := self.tools.get(params.name)) is None:
            raise MCPError(INVALID_PARAMS, f"no tool `{params.name}`")
        return await tool.run(asked, params.arguments or {})

    async def set_level(self, _: Asked, __: types.SetLevelRequestParams) -> Json:
        """Nothing that we log is beneath anybody's level."""
        return {}

    async def subscribe(self, asked: Asked, params: types.SubscribeRequestParams) -> Json:
        self.subscribed(asked).add(str(params.uri))
        return {}

    async def unsubscribe(self, asked: Asked, params: types.UnsubscribeRequestParams) -> Json:
        self.subscribed(asked).discard(str(params.uri))
        return {}

    def server(self) -> Server[Any]:
        """An SDK server that answers with all of it."""
        server: Server[Any] = Server(
            NAME,
            version="1",
            instructions="Every tool, prompt and resource that the MCP conformance suite asks for.",
            cache_hints=dict.fromkeys(CACHED, CacheHint(ttl_ms=300_000, scope="public")),
            get_tool_input_schema=self.schema_of,
            on_subscriptions_listen=ListenHandler(self.bus),
        )
        page = types.PaginatedRequestParams
        for method, params, handler in (
            ("tools/list", page, self.list_tools),
            ("tools/call", types.CallToolRequestParams, self.call_tool),
            ("resources/list", page, library.list_resources),
            ("resources/templates/list", page, library.list_templates),
            ("resources/read", types.ReadResourceRequestParams, library.read_resource),
            ("resources/subscribe", types.SubscribeRequestParams, self.subscribe),
            ("resources/unsubscribe", types.UnsubscribeRequestParams, self.unsubscribe),
            ("prompts/list", page, library.list_prompts),
            ("prompts/get", types.GetPromptRequestParams, library.get_prompt),
            ("completion/complete", types.CompleteRequestParams, library.complete),
            ("logging/setLevel", types.SetLevelRequestParams, self.set_level),
        ):
            server.add_request_handler(method, params, typed(handler))
        self.tasks.serve(server)
        boundary = RequestStateBoundary(RequestStateSecurity(keys=[KEY]), default_audience=NAME)
        server.middleware += [boundary, declare_changes]
        return server


def typed(handler: Callable[[Asked, Any], Awaitable[Json]]) -> Callable[[Asked, Any], Awaitable[Json]]:
    """The handler, whose result says in the newer era that it is complete where it does not say something else."""

    async def run(asked: Asked, params: Any) -> Json:
        answer = await handler(asked, params)
        return {"resultType": "complete", **answer} if asked.protocol_version == MODERN else answer

    return run


async def declare_changes(ctx: Asked, call_next: CallNext) -> HandlerResult:
    """An older client has been told that lists change here; over HTTP the SDK cannot say so by itself."""
    answer = await call_next(ctx)
    if ctx.method == "initialize" and isinstance(answer, dict):
        for kind in ("tools", "prompts"):
            answer["capabilities"][kind]["listChanged"] = True
    return answer
