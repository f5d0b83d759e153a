"""The reference server for the MCP conformance suite: both eras, on either transport, with all that the suite asks for.

    python tests/servers/conformance_server.py --port 0     streamable HTTP on 127.0.0.1 at /mcp; says on stdout where
    python tests/servers/conformance_server.py --stdio

What passes against it directly is in `tests/conformance/expected.json`; a proxy in front of it must lose nothing.
"""

import argparse
import asyncio
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.stdio import stdio_server

if TYPE_CHECKING:
    from tests.servers.conformance.server import Conformance

RETRY_MS = 100
"""How soon a client whose stream broke off is asked to come back."""


async def over_stdio(what: "Conformance") -> None:
    server = what.server()
    changes = NotificationOptions(prompts_changed=True, tools_changed=True)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(changes))


def over_http(what: "Conformance", port: int) -> None:
    from tests.servers.conformance.server import Events  # noqa: PLC0415 - found only now

    app: Any = what.server().streamable_http_app(event_store=Events(), retry_interval=RETRY_MS)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio: only then without delay
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    # An open subscription must not keep us alive: the suite leaves them open.
    config = uvicorn.Config(app, http="h11", log_level="error", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.servers.conformance.server import Conformance  # noqa: PLC0415 - found only now

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--port", type=int, metavar="N", help="streamable HTTP on 127.0.0.1:N; 0 for a free one")
    way.add_argument("--stdio", action="store_true")
    chosen = parser.parse_args()
    if chosen.stdio:
        asyncio.run(over_stdio(Conformance()))
    else:
        over_http(Conformance(), chosen.port)


if __name__ == "__main__":
    main()
