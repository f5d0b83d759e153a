"""The least MCP server that still is one: a tool `echo`, MCP 2026-07-28 only, raw JSON-RPC, no SDK.

    python tests/bench/echo_upstream.py               over stdin and stdout
    python tests/bench/echo_upstream.py HOST:PORT     over streamable HTTP at /mcp

It does almost nothing, so that what a benchmark shows is what stands in front of it.
"""

import json
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

VERSION = "2026-07-28"
CACHE = {"ttlMs": 3_600_000, "cacheScope": "public"}
ECHO = {
    "name": "echo",
    "description": "Give the text back.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": False, "destructiveHint": False},
}

Message = MutableMapping[str, Any]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The JSON-RPC response to one request."""
    result: dict[str, Any]
    match request["method"]:
        case "tools/call":
            text = request["params"]["arguments"]["text"]
            result = {"content": [{"type": "text", "text": text}]}
        case "tools/list":
            result = {"tools": [ECHO], **CACHE}
        case "server/discover":
            result = {"supportedVersions": [VERSION], "capabilities": {"tools": {}}, **CACHE}
            result["_meta"] = {"io.modelcontextprotocol/serverInfo": {"name": "echo", "version": "1"}}
        case other:
            error = {"code": -32601, "message": f"no method `{other}`"}
            return {"jsonrpc": "2.0", "id": request["id"], "error": error}
    return {"jsonrpc": "2.0", "id": request["id"], "result": {"resultType": "complete", **result}}


def encode(message: dict[str, Any]) -> bytes:
    """One line of JSON, without its end."""
    return json.dumps(message, separators=(",", ":")).encode()


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """The server as an ASGI application."""
    if scope["type"] != "http":
        return
    body = b""
    while True:
        part = await receive()
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    response = answer(json.loads(body))
    payload = encode(response)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(payload)).encode())]
    await send({"type": "http.response.start", "status": 404 if "error" in response else 200, "headers": headers})
    await send({"type": "http.response.body", "body": payload})


def serve_stdio() -> None:
    """Answer each line of stdin until it ends."""
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" in request:
            sys.stdout.buffer.write(encode(answer(request)) + b"\n")
            sys.stdout.buffer.flush()


def main() -> None:
    """Serve over HTTP at the address given, or else over stdio."""
    match sys.argv[1:]:
        case []:
            serve_stdio()
        case [address]:
            host, port = address.rsplit(":", 1)
            uvicorn.run(app, host=host, port=int(port), log_level="error", lifespan="off")
        case _:
            sys.exit("usage: echo_upstream.py [HOST:PORT]")


if __name__ == "__main__":
    main()
