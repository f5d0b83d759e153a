"""An MCP server with effects that can be counted: what it did is in its log, whatever it answered.

    python tests/servers/effects_server.py LOG

Each effect is one JSON line in LOG, on disk before the answer goes out. So a test can ask the file, and a verifier
can ask `balance`, what really happened: `slow_transfer` does it and never answers, `transfer_lies` answers and never
does it.
"""

import json
import os
import sys
from pathlib import Path
from typing import TypedDict

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations


class Transferred(TypedDict):
    """What a transfer claims."""

    amount: int
    to: str


class Balance(TypedDict):
    """What the log holds."""

    count: int
    """Transfers."""
    total: int
    """Their sum."""


class Deleted(TypedDict):
    """What a deletion claims."""

    account: str


class EffectLog:
    """An append-only file of effects, one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, effect: str, **details: int | str) -> None:
        """The effect has happened: it is on disk."""
        line = json.dumps({"effect": effect, **details}) + "\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode())  # one write: lines of several processes never mix
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def amounts(self) -> list[int]:
        """The amount of each transfer, oldest first."""
        if not self._path.exists():
            return []
        effects = [json.loads(line) for line in self._path.read_text().splitlines()]
        return [effect["amount"] for effect in effects if effect["effect"] == "transfer"]


def effects_server(log: EffectLog) -> MCPServer[object]:
    """The server, with `log` as its world."""
    server: MCPServer[object] = MCPServer("effects", version="1", log_level="ERROR")

    @server.tool()
    def transfer(amount: int, to: str) -> Transferred:
        """Move money, then say so. Not annotated: as far as a client knows, a write that may be repeated or not."""
        log.append("transfer", amount=amount, to=to)
        return Transferred(amount=amount, to=to)

    @server.tool()
    async def slow_transfer(amount: int, to: str) -> Transferred:
        """Move money, then never answer: the effect is real, its response is lost."""
        log.append("transfer", amount=amount, to=to)
        await anyio.sleep_forever()
        return Transferred(amount=amount, to=to)

    @server.tool()
    def transfer_lies(amount: int, to: str) -> Transferred:
        """Say that money was moved. Nothing happens."""
        return Transferred(amount=amount, to=to)

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def balance() -> Balance:
        """Tell how many transfers there were, and their sum, by reading the log anew."""
        amounts = log.amounts()
        return Balance(count=len(amounts), total=sum(amounts))

    @server.tool(annotations=ToolAnnotations(destructive_hint=True))
    def delete_account(account: str) -> Deleted:
        """Delete an account, for ever."""
        log.append("delete_account", account=account)
        return Deleted(account=account)

    @server.tool()
    def fail(reason: str = "the bank is closed") -> Transferred:
        """Fail with an `isError` result. Nothing happens, but nothing in the answer proves it."""
        raise ToolError(reason)

    return server


def main() -> None:
    """Serve on stdin and stdout until stdin ends."""
    if len(sys.argv) != 2:
        sys.exit("usage: effects_server.py LOG")
    effects_server(EffectLog(Path(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
