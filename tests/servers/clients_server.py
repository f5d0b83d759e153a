"""A server of both eras with one tool for each thing that a client may show differently.

    python tests/servers/clients_server.py --stdio
    python tests/servers/clients_server.py --port N      over streamable HTTP at 127.0.0.1:N/mcp; 0 is any free port

Over HTTP it says its port on stdout, once it listens. What it answers depends on nothing but what it was asked, so
that two ways to it can be compared.
"""

import argparse
import asyncio
import socket
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import uvicorn
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

MODERN = "2026-07-28"
OWN_CODE = 4321
"""Of the JSON-RPC error: outside of what JSON-RPC and MCP reserve."""

Context = ServerRequestContext[Any]
Answer = types.CallToolResult | types.InputRequiredResult

NAME_FORM: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
QUESTION = "What is your name?"
STATE = "asked once"


def _schema(**properties: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }


READ = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
TOOLS = [
    types.Tool(name="echo", description="Say it again.", input_schema=_schema(text="string"), annotations=READ),
    types.Tool(
        name="add",
        title="Add two numbers",
        description="Their sum, typed.",
        input_schema=_schema(a="number", b="number"),
        output_schema=_schema(sum="number"),
        annotations=READ,
        _meta={"example.org/colour": "blue"},
    ),
    types.Tool(name="fail", description="An error result.", input_schema=_schema(reason="string"), annotations=READ),
    types.Tool(name="rpc_error", description="A JSON-RPC error.", input_schema=_schema(), annotations=READ),
    types.Tool(
        name="long",
        description="Take a while, and tell how far it is.",
        input_schema=_schema(seconds="number", steps="integer"),
        annotations=READ,
    ),
    types.Tool(name="ask", description="Ask the user for a name.", input_schema=_schema(), annotations=READ),
    types.Tool(
        name="log", description="Log a line, then answer.", input_schema=_schema(line="string"), annotations=READ
    ),
    types.Tool(
        name="wipe",
        description="Claim to destroy everything. Nothing happens.",
        input_schema=_schema(),
        annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True),
    ),
]


def _text(text: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], **more)


async def _echo(_: Context, params: types.CallToolRequestParams) -> Answer:
    return _text(_arguments(params)["text"])


async def _add(_: Context, params: types.CallToolRequestParams) -> Answer:
    given = _arguments(params)
    total = given["a"] + given["b"]
    return _text(f"{total:g}", structured_content={"sum": total})


async def _fail(_: Context, params: types.CallToolRequestParams) -> Answer:
    return _text(_arguments(params)["reason"], is_error=True)


async def _rpc_error(_: Context, __: types.CallToolRequestParams) -> Answer:
    raise MCPError(OWN_CODE, "refused as JSON-RPC", {"why": "asked to"})


async def _long(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    given = _arguments(params)
    for step in range(given["steps"]):
        await ctx.session.report_progress(step, given["steps"], f"step {step}")
        await anyio.sleep(given["seconds"] / given["steps"])  # after: a client may drop what comes with the answer
    return _text("done")


async def _ask(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    """Over `elicitation/create` where there is a way back to the client, else over a second round."""
    if ctx.protocol_version != MODERN:
        told: Any = await ctx.session.elicit_form(QUESTION, NAME_FORM, related_request_id=ctx.request_id)
    elif params.input_responses is None:
        form = types.ElicitRequest(params=types.ElicitRequestFormParams(message=QUESTION, requested_schema=NAME_FORM))
        return types.InputRequiredResult(input_requests={"who": form}, request_state=STATE)
    elif params.request_state != STATE:
        raise MCPError(types.INVALID_PARAMS, "that is not the state that was given")
    else:
        told = params.input_responses["who"]
    return _text(f"{told.action}: {(told.content or {}).get('name')}")


async def _log(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # logging is deprecated by the newer era, and still relayed
        await ctx.session.send_log_message(  # type: ignore[deprecated]
            "warning", _arguments(params)["line"], "clients", ctx.request_id
        )
    return _text("logged")


async def _wipe(_: Context, __: types.CallToolRequestParams) -> Answer:
    return _text("wiped")


CALLS: Mapping[str, Callable[[Context, types.CallToolRequestParams], Awaitable[Answer]]] = {
    "echo": _echo,
    "add": _add,
    "fail": _fail,
    "rpc_error": _rpc_error,
    "long": _long,
    "ask": _ask,
    "log": _log,
    "wipe": _wipe,
}


def _arguments(params: types.CallToolRequestParams) -> dict[str, Any]:
    return params.arguments or {}


async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    """All of them, in the order of the table."""
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    """What the tool of that name answers."""
    if params.name not in CALLS:
        raise MCPError(types.INVALID_PARAMS, f"no tool `{params.name}`")
    return await CALLS[params.name](ctx, params)


async def list_resources(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    """One note."""
    return types.ListResourcesResult(resources=[types.Resource(uri="note://one", name="one", mime_type="text/plain")])


async def read_resource(_: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    """The note, whichever was asked for."""
    note = types.TextResourceContents(uri=params.uri, mime_type="text/plain", text="a note")
    return types.ReadResourceResult(contents=[note])


async def list_prompts(_: Context, __: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    """One greeting."""
    return types.ListPromptsResult(prompts=[types.Prompt(name="greet", description="Say hello.")])


async def get_prompt(_: Context, __: types.GetPromptRequestParams) -> types.GetPromptResult:
    """The greeting."""
    hello = types.PromptMessage(role="user", content=types.TextContent(type="text", text="hello"))
    return types.GetPromptResult(messages=[hello])


async def set_level(_: Context, __: types.SetLevelRequestParams) -> types.EmptyResult:
    """Accepted and not obeyed: the one line that is ever logged is asked for."""
    return types.EmptyResult()


def clients_server() -> Server[Any]:
    """The server itself, for either transport."""
    return Server(  # type: ignore[deprecated]  # clients of the older era set a log level
        "clients",
        version="1.2.3",
        instructions="Answer as you are asked.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_set_logging_level=set_level,
    )


async def _serve_stdio() -> None:
    server = clients_server()
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _serve_http(port: int) -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio: only then without delay
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(clients_server().streamable_http_app(), log_level="error", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


def main() -> None:
    """Serve until stdin ends, or until a signal."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--stdio", action="store_true")
    way.add_argument("--port", type=int)
    chosen = parser.parse_args()
    if chosen.stdio:
        asyncio.run(_serve_stdio())
    else:
        _serve_http(chosen.port)


if __name__ == "__main__":
    main()
