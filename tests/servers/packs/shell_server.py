"""A server that runs commands, with the names and arguments of desktop-commander: whatever it is given, by bash.

python shell_server.py DIRECTORY
"""

import subprocess
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer


def shell_server(directory: Path) -> MCPServer[object]:
    """The server for one directory."""
    server: MCPServer[object] = MCPServer("shell", version="1", log_level="ERROR")

    @server.tool()
    def start_process(command: str, timeout_ms: float, shell: str = "/bin/bash") -> str:
        """Run a command and tell what it printed."""
        done = subprocess.run(
            [shell, "-c", command],
            cwd=directory,
            capture_output=True,
            check=False,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout_ms / 1000,
        )
        return done.stdout + done.stderr

    @server.tool()
    def set_config_value(key: str, value: list[str]) -> str:
        """Change what this server forbids."""
        return f"{key} is {value}"

    return server


if __name__ == "__main__":
    shell_server(Path(sys.argv[1])).run()
