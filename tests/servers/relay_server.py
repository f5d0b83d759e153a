"""A server on the SDK's low level that offers, asks and tells all that MCP knows, in both eras.

    python tests/servers/relay_server.py [--stdio | --http | --sse] [--legacy | --modern]

Over HTTP it serves on a free port of 127.0.0.1 and says on stdout which: streamable HTTP at /mcp, with resumable
streams, or the older HTTP+SSE at /sse. With --legacy it refuses the newer era, with --modern the older.
"""

# The roots, logs and samples of the older era are deprecated; they must be relayed all the same.
# mypy: disable-error-code="deprecated"

import argparse
import asyncio
import socket
import sys
import warnings
from functools import partial
from typing import Any

import anyio
import uvicorn
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.message import SessionMessage
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

Ctx = ServerRequestContext[Any, Any]

MODERN = "2026-07-28"
FORM: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}

bus = InMemorySubscriptionBus()
tools = ["who", "steps", "say", "ask", "ask_aside", "roots", "change", "touch", "poll", "slow"]
watched: list[str] = []
level: list[str] = []


def said(**facts: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text="ok")], structured_content=facts)


async def list_tools(_: Ctx, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in tools])


async def list_prompts(_: Ctx, __: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[types.Prompt(name="greet")])


async def list_resources(_: Ctx, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[types.Resource(name="one", uri="mem://one")])


async def list_templates(_: Ctx, __: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(name="any", uri_template="mem://{name}")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def get_prompt(_: Ctx, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    text = types.TextContent(type="text", text=f"hello {(params.arguments or {}).get('name')}")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])


async def read_resource(_: Ctx, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text="one")])


async def complete(_: Ctx, __: types.CompleteRequestParams) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=["a", "b"]))


async def subscribe(_: Ctx, params: types.SubscribeRequestParams) -> types.EmptyResult:
    watched.append(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(_: Ctx, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    watched.remove(str(params.uri))
    return types.EmptyResult()


async def set_level(_: Ctx, params: types.SetLevelRequestParams) -> types.EmptyResult:
    level[:] = [params.level]
    return types.EmptyResult()


async def call_tool(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult | types.InputRequiredResult:
    act = globals()[f"do_{params.name}"]
    answer: types.CallToolResult | types.InputRequiredResult = await act(ctx, params)
    return answer


async def do_who(ctx: Ctx, _: Any) -> types.CallToolResult:
    met = ctx.session.client_params
    return said(
        meta=dict((ctx.params or {}).get("_meta") or {}),
        client=met.client_info.model_dump(mode="json", exclude_none=True) if met else None,
        capabilities=met.capabilities.model_dump(mode="json", by_alias=True, exclude_none=True) if met else None,
        watched=watched,
        level=level,
    )


async def do_steps(ctx: Ctx, _: Any) -> types.CallToolResult:
    for step in range(3):
        await ctx.session.report_progress(step, 3, f"step {step}")
    return said()


async def do_say(ctx: Ctx, _: Any) -> types.CallToolResult:
    await ctx.session.send_log_message("info", {"a": 1}, "here", related_request_id=ctx.request_id)
    return said()


async def do_ask(ctx: Ctx, params: Any) -> types.CallToolResult | types.InputRequiredResult:
    if ctx.protocol_version != MODERN:
        answer = await ctx.session.elicit_form("your name?", FORM, related_request_id=ctx.request_id)
        return said(action=answer.action, content=answer.content)
    if params.input_responses is None:
        form = types.ElicitRequestFormParams(message="your name?", requested_schema=FORM)
        return types.InputRequiredResult(
            input_requests={"name": types.ElicitRequest(params=form)}, request_state="state-1"
        )
    answer = params.input_responses["name"]
    return said(action=answer.action, content=answer.content, state=params.request_state)


async def do_ask_aside(ctx: Ctx, _: Any) -> types.CallToolResult:
    answer = await ctx.session.elicit_form("your name?", FORM)
    return said(action=answer.action)


async def do_roots(ctx: Ctx, _: Any) -> types.CallToolResult:
    roots = await ctx.session.list_roots()
    return said(roots=[str(root.uri) for root in roots.roots])


async def do_change(ctx: Ctx, params: Any) -> types.CallToolResult:
    tools.append((params.arguments or {}).get("add", "more"))
    if ctx.protocol_version == MODERN:
        for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
            await bus.publish(event)
    else:
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_prompt_list_changed()
        await ctx.session.send_resource_list_changed()
    return said()


async def do_touch(ctx: Ctx, _: Any) -> types.CallToolResult:
    if ctx.protocol_version == MODERN:
        await bus.publish(ResourceUpdated(uri="mem://one"))
    else:
        await ctx.session.send_resource_updated("mem://one")
    return said()


async def do_poll(ctx: Ctx, _: Any) -> types.CallToolResult:
    await ctx.session.report_progress(1)
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await asyncio.sleep(0.3)
    await ctx.session.report_progress(2)
    return said()


async def do_slow(_: Ctx, __: Any) -> types.CallToolResult:
    try:
        await asyncio.sleep(20)
    except asyncio.CancelledError:
        sys.stderr.write("cancelled\n")
        tools.append("was_cancelled")
        raise
    return said()


class Kept(EventStore):
    """Every event, in memory."""

    def __init__(self) -> None:
        self._events: list[tuple[StreamId, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: StreamId, message: types.JSONRPCMessage | None) -> EventId:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        stream = self._events[int(last_event_id) - 1][0]
        for number, (stream_id, message) in enumerate(self._events[int(last_event_id) :], int(last_event_id) + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


REFUSED: dict[str, Any] = {"code": -32022, "message": "Unsupported", "data": {"supported": [MODERN]}}


class New:
    """In front of a server, one that does not know the older era."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or dict(scope["headers"]).get(b"mcp-protocol-version") == MODERN.encode():
            await self._app(scope, receive, send)
            return
        asked = await Request(scope, receive).json()
        refusal = {"jsonrpc": "2.0", "id": asked["id"], "error": REFUSED}
        await JSONResponse(refusal, 400)(scope, receive, send)


class Old:
    """In front of a server, one that does not know the newer era."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if dict(scope.get("headers", [])).get(b"mcp-protocol-version") == MODERN.encode():
            await PlainTextResponse("Bad Request", 400)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def made() -> Server[Any]:
    return Server(
        "relay",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_completion=complete,
        on_set_logging_level=set_level,
        on_subscriptions_listen=ListenHandler(bus),
    )


CHANGES = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)


def sse_app(server: Server[Any]) -> Starlette:
    transport = SseServerTransport("/messages/")

    async def stream(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options(CHANGES))
        return Response()

    routes = [Route("/sse", stream), Mount("/messages/", app=transport.handle_post_message)]
    return Starlette(routes=routes)


async def over_stdio(server: Server[Any], *, legacy: bool, modern: bool) -> None:
    async with stdio_server() as (read, write), anyio.create_task_group() as tasks:
        send, receive = anyio.create_memory_object_stream[Any]()

        async def refuse_the_other_era() -> None:
            async with send:
                async for message in read:
                    request = getattr(message, "message", None)
                    method = request.method if isinstance(request, types.JSONRPCRequest) else None
                    refused = (legacy and method == "server/discover") or (modern and method == "initialize")
                    if refused and isinstance(request, types.JSONRPCRequest):
                        no = types.ErrorData(**(REFUSED if modern else {"code": -32601, "message": "Method not found"}))
                        await write.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request.id, error=no)))
                    else:
                        await send.send(message)

        tasks.start_soon(refuse_the_other_era)
        await server.run(receive, write, server.create_initialization_options(CHANGES))


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    for option in ("--stdio", "--http", "--sse", "--legacy", "--modern"):
        parser.add_argument(option, action="store_true")
    options = parser.parse_args()
    server = made()
    if options.stdio:
        anyio.run(partial(over_stdio, server, legacy=options.legacy, modern=options.modern))
        return
    app: Any = sse_app(server) if options.sse else server.streamable_http_app(event_store=Kept(), retry_interval=100)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    if options.legacy or options.modern:
        app = Old(app) if options.legacy else New(app)
    config = uvicorn.Config(app, log_level="error")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
