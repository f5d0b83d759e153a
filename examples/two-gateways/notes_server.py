"""An MCP server with one effect that can be counted: a line in a file.

python notes_server.py FILE
"""

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server: MCPServer[object] = MCPServer("notes", log_level="ERROR")


@server.tool()
def note(text: str) -> str:
    """Write a line down."""
    with Path(sys.argv[1]).open("a") as file:
        file.write(f"{text}\n")
    return "noted"


if __name__ == "__main__":
    server.run()
