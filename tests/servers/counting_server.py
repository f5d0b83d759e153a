"""A server on stdio that counts what it does: `python tests/servers/counting_server.py FILE`.

Each call, effect and answer is one JSON line in FILE, on disk before the answer goes out; a call with a key that it has
seen is answered as the first was, and nothing is done again. Only the standard library, so that it starts at once.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

VERSION = "2025-11-25"
TOOLS = ("pay", "pay_by_key", "look")


def said(path: Path) -> list[dict[str, Any]]:
    """What was written so far, by whichever process."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(path: Path, **line: Any) -> None:
    """It is on disk; lines of several processes never mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def call(path: Path, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of one call, and what it did."""
    ref = arguments.get("ref")
    if tool == "look":
        count = sum(one["kind"] == "effect" and one["ref"] == ref for one in said(path))
        return {"content": [], "structuredContent": {"n": count}}
    key = arguments.get("key")
    write(path, kind="call", tool=tool, ref=ref, key=key)
    if key is None or not any(one["kind"] == "effect" and one["key"] == key for one in said(path)):
        write(path, kind="effect", tool=tool, ref=ref, key=key)
    return {"content": [], "structuredContent": {"ref": ref}}


def answer(path: Path, message: dict[str, Any]) -> dict[str, Any] | None:
    """What is said to the message; None to a notification."""
    match message.get("method"):
        case "initialize":
            about = {"protocolVersion": VERSION, "capabilities": {"tools": {}}}
            result: dict[str, Any] = {**about, "serverInfo": {"name": "counting", "version": "1"}}
        case "tools/list":
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
        case "tools/call":
            params = message["params"]
            arguments = params.get("arguments", {})
            result = call(path, params["name"], arguments)
            write(
                path,
                kind="answer",
                tool=params["name"],
                ref=arguments.get("ref"),
                key=arguments.get("key"),
                result=result,
            )
        case "ping":
            result = {}
        case _ if "id" not in message:
            return None
        case _:
            return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result} if "id" in message else None


def main() -> None:
    """Serve on stdin and stdout until stdin ends."""
    path = Path(sys.argv[1])
    for line in sys.stdin:
        told = answer(path, json.loads(line))
        if told is not None:
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
