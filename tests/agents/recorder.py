"""An MCP server over HTTP that keeps every byte that it is sent."""

import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send


async def list_tools(_: ServerRequestContext[Any], __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    read = types.ToolAnnotations(read_only_hint=True)
    schema = {"type": "object"}
    return types.ListToolsResult(
        tools=[types.Tool(name=name, input_schema=schema, annotations=read) for name in ("say", "time")]
    )


async def call_tool(_: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=f"{params.name} said")])


@dataclass
class Recorder:
    """The server, and what it was sent."""

    heard: bytearray = field(default_factory=bytearray)
    admits: Callable[[str], bool] = lambda _shown: True
    """Whether it serves whoever shows that in `Authorization`."""

    def app(self) -> Any:
        server: Server[Any] = Server("recorder", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
        inner: Any = server.streamable_http_app()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            for name, value in scope.get("headers", ()):
                self.heard += name + b": " + value + b"\n"
            self.heard += scope.get("query_string", b"")
            if scope["type"] == "http" and not self.admits(Headers(scope=scope).get("authorization", "")):
                challenge = {"www-authenticate": 'Bearer error="invalid_token"'}
                await Response(status_code=401, headers=challenge)(scope, receive, send)
                return

            async def hearing() -> Any:
                message = await receive()
                self.heard += message.get("body", b"")
                return message

            await inner(scope, hearing, send)

        return app


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def recorder() -> Iterator[tuple[str, Recorder]]:
    """Its address, while it runs."""
    it = Recorder()
    with warnings.catch_warnings(), socket.create_server(("127.0.0.1", 0)) as listening:
        warnings.simplefilter("ignore")
        server = _Server(uvicorn.Config(it.app(), log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", it
        finally:
            server.should_exit = True
            thread.join(10)
