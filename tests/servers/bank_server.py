"""An MCP server that knows a call from a second one by its key, and can be asked what became of it.

    python tests/servers/bank_server.py LOG

Each effect is one JSON line in LOG, on disk before the answer goes out. `to` says what goes wrong the first time that a
key is seen: `lost` is paid and never answered, `dropped` is neither paid nor answered.
"""

import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import BaseModel

from tests.servers.log import Log


class Payment(BaseModel):
    """What was paid."""

    key: str
    amount: int
    to: str


class Status(BaseModel):
    """What is known of a payment."""

    key: str
    state: str
    """`paid` or `none`."""


def bank_server(log: Log, seen: Log) -> MCPServer[object]:
    """The server, with `log` as its world and `seen` as the keys that it was ever asked for."""
    server: MCPServer[object] = MCPServer("bank", version="1", log_level="ERROR")

    def paid(key: str) -> bool:
        return any(one["key"] == key for one in log.lines())

    @server.tool()
    async def pay(amount: int, to: str, key: str = "") -> Payment:
        """Pay once for each key."""
        first = all(one["key"] != key for one in seen.lines())
        seen.append("seen", key=key)
        if not paid(key) and not (first and to == "dropped"):
            log.append("pay", key=key, amount=amount, to=to)
        if first and to in {"lost", "dropped"}:
            await anyio.sleep_forever()
        return Payment(key=key, amount=amount, to=to)

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def status(key: str) -> Status:
        """Tell whether the payment of that key was made."""
        return Status(key=key, state="paid" if paid(key) else "none")

    return server


def main() -> None:
    """Serve on stdin and stdout until stdin ends."""
    if len(sys.argv) != 2:
        sys.exit("usage: bank_server.py LOG")
    path = Path(sys.argv[1])
    bank_server(Log(path), Log(path.with_suffix(".seen"))).run()


if __name__ == "__main__":
    main()
