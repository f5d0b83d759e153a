"""A server on the SDK's low level over streamable HTTP, as real ones are.

    python tests/upstream/sdk_server.py [--legacy]

It serves on a free port of 127.0.0.1 and says on stdout which. With --legacy it refuses the newer era, as a server
of an older SDK does.
"""

import socket
import sys
import warnings
from typing import Any

import uvicorn
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "where": {"type": "object", "properties": {"floor": {"type": "integer", "x-mcp-header": "Floor"}}},
        "text": {"type": "string"},
    },
}
WRONG = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}


async def list_tools(_: ServerRequestContext[Any], __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[types.Tool(name="écho", input_schema=SCHEMA), types.Tool(name="wrong", input_schema=WRONG)]
    )


async def call_tool(ctx: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
    for step in range(3):
        await ctx.session.report_progress(step)
    text = types.TextContent(type="text", text=ctx.protocol_version)
    return types.CallToolResult(content=[text], structured_content=params.arguments)


class Old:
    """In front of a server, one that does not know the newer era."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if dict(scope.get("headers", [])).get(b"mcp-protocol-version") == b"2026-07-28":
            await PlainTextResponse("Bad Request", 400)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def main() -> None:
    warnings.simplefilter("ignore")
    server: Server[Any] = Server(
        "sdk", version="1", instructions="mind the gap", on_list_tools=list_tools, on_call_tool=call_tool
    )
    app: Any = server.streamable_http_app()
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio: only then without delay
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)  # noqa: T201 - how the test finds it
    config = uvicorn.Config(Old(app) if "--legacy" in sys.argv else app, log_level="error")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
