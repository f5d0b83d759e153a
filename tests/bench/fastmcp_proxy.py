"""fastmcp's proxy as fast as it goes: one client, connected once, shared by all; JSON answers, no sessions.

    python tests/bench/fastmcp_proxy.py PORT UPSTREAM_PORT

Run by an environment that has fastmcp; this project's has not.
"""

import asyncio
import sys

import fastmcp  # type: ignore[import-not-found]  # see above
from fastmcp.server import create_proxy  # type: ignore[import-not-found]  # see above


async def main(port: int, upstream: int) -> None:
    """Serve until the process is ended."""
    async with fastmcp.Client(f"http://127.0.0.1:{upstream}/mcp") as client:
        proxy = create_proxy(client)
        options = {"show_banner": False, "log_level": "error", "json_response": True, "stateless_http": True}
        await proxy.run_http_async(host="127.0.0.1", port=port, path="/mcp", **options)


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
