"""An MCP server whose tools are defined as a file says when it starts: the rug that can be pulled.

    python tests/servers/shifting_server.py [FILE]

FILE, or the file that `SHIFTING_TOOLS` names, is a JSON list of tool definitions. One whose `_meta` says `needs` is
offered only to clients with that capability. Each call is answered with the tool's name and its arguments.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

VERSIONS = ("2025-11-25", "2025-06-18")


def _result(method: str, params: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            wanted = params.get("protocolVersion")
            return {
                "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "shifting", "version": "1"},
            }
        case "tools/list":
            return {"tools": tools}
        case "tools/call":
            said = json.dumps([params["name"], params.get("arguments", {})])
            return {"content": [{"type": "text", "text": said}]}
        case "ping":
            return {}
        case _:
            return None


def main(file: str) -> None:
    """Serve until stdin ends."""
    tools = json.loads(Path(file).read_text(encoding="utf-8"))
    offered = tools
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "initialize":
            able = message["params"]["capabilities"]
            offered = [tool for tool in tools if tool.get("_meta", {}).get("needs", "any") in {"any", *able}]
        result = _result(message["method"], message.get("params", {}), offered)
        unknown = {"code": -32601, "message": "Method not found"}
        answer |= {"result": result} if result is not None else {"error": unknown}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["SHIFTING_TOOLS"])
