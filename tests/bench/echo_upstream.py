"""The least MCP server that still is one: raw JSON-RPC on raw sockets, no SDK, so that what a benchmark shows is what
stands in front of it. MCP 2026-07-28, and `initialize` for those who still ask.

    python tests/bench/echo_upstream.py [--core N]                 over stdin and stdout
    python tests/bench/echo_upstream.py [--core N] HOST:PORT       over streamable HTTP

Tools: `echo` gives its text back, `blob` a text of 64 KiB.
"""

import argparse
import json
import os
import select
import socket
import sys
from dataclasses import dataclass, field
from typing import Any

VERSIONS = ("2026-07-28", "2025-11-25")
CACHE = {"ttlMs": 3_600_000, "cacheScope": "public"}
BLOB = "0123456789abcdef" * 4096
END_OF_HEAD = b"\r\n\r\n"


def _tool(name: str, description: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    annotations = {"readOnlyHint": False, "destructiveHint": False}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": annotations}


TOOLS = [_tool("echo", "Give the text back."), _tool("blob", "Give 64 KiB.")]
WHO = {"name": "echo", "version": "1"}
BLOB_RESULT = json.dumps({"content": [{"type": "text", "text": BLOB}], "resultType": "complete"})
PAGES: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": TOOLS, **CACHE},
    "server/discover": {
        "supportedVersions": list(VERSIONS),
        "capabilities": {"tools": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": WHO},
        **CACHE,
    },
    "initialize": {"protocolVersion": VERSIONS[1], "capabilities": {"tools": {}}, "serverInfo": WHO},
    "ping": {},
}


def answer(request: dict[str, Any]) -> bytes | None:
    """The JSON-RPC response to one request, None to a notification."""
    if "id" not in request:
        return None
    number, method = json.dumps(request["id"]), request["method"]
    if method == "tools/call" and request["params"]["name"] == "echo":
        text = json.dumps(request["params"]["arguments"]["text"])
        result = f'{{"content":[{{"type":"text","text":{text}}}],"resultType":"complete"}}'
    elif method == "tools/call":
        result = BLOB_RESULT
    elif method in PAGES:
        result = json.dumps({"resultType": "complete", **PAGES[method]})
    else:
        error = json.dumps({"code": -32601, "message": f"no method `{method}`"})
        return f'{{"jsonrpc":"2.0","id":{number},"error":{error}}}'.encode()
    return f'{{"jsonrpc":"2.0","id":{number},"result":{result}}}'.encode()


@dataclass
class Peer:
    """One connection: what came and is not answered, what is answered and not sent."""

    socket: socket.socket
    came: bytearray = field(default_factory=bytearray)
    left: bytearray = field(default_factory=bytearray)
    waits: bool = False
    """For room to send what is left."""

    def read(self) -> bool:
        """Whether the peer is still there; whole requests were answered."""
        try:
            data = self.socket.recv(262_144)
        except ConnectionError:
            return False
        self.came += data
        while (request := self._request()) is not None:
            method, body = request
            self.left += _response(method, body)
        return bool(data)

    def write(self) -> bool:
        """Whether all that was left is sent."""
        try:
            while self.left:
                del self.left[: self.socket.send(self.left)]
        except BlockingIOError:
            return False
        except ConnectionError:
            self.left.clear()
        return True

    def _request(self) -> tuple[bytes, bytes] | None:
        end = self.came.find(END_OF_HEAD)
        if end < 0:
            return None
        head = bytes(self.came[:end]).lower()
        _, found, rest = head.partition(b"\r\ncontent-length:")
        start = end + len(END_OF_HEAD)
        stop = start + (int(rest.partition(b"\r\n")[0]) if found else 0)
        if len(self.came) < stop:
            return None
        body = bytes(self.came[start:stop])
        del self.came[:stop]
        return head.partition(b" ")[0], body


def _response(method: bytes, body: bytes) -> bytes:
    if method != b"post":
        return b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"
    said = answer(json.loads(body))
    if said is None:
        return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said)


def serve_http(host: str, port: int) -> None:
    """Answer on that address until the process is ended."""
    with select.epoll() as ready, socket.create_server((host, port), backlog=256) as front:
        ready.register(front, select.EPOLLIN)
        peers: dict[int, Peer] = {}
        while True:
            for file, _ in ready.poll():
                if file == front.fileno():
                    connection, _ = front.accept()
                    connection.setblocking(False)
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    peers[connection.fileno()] = Peer(connection)
                    ready.register(connection, select.EPOLLIN)
                else:
                    _serve_peer(ready, file, peers)


def _serve_peer(ready: select.epoll, file: int, peers: dict[int, Peer]) -> None:
    peer = peers[file]
    if not peer.left and not peer.read():
        ready.unregister(file)
        del peers[file]
        peer.socket.close()
        return
    if (not peer.write()) is not peer.waits:
        peer.waits = not peer.waits
        ready.modify(file, select.EPOLLOUT if peer.waits else select.EPOLLIN)


def serve_stdio() -> None:
    """Answer each line of stdin until it ends."""
    for line in sys.stdin.buffer:
        said = answer(json.loads(line))
        if said is not None:
            sys.stdout.buffer.write(said + b"\n")
            sys.stdout.buffer.flush()


def main() -> None:
    """Serve over HTTP at the address given, or else over stdio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address", nargs="?", metavar="HOST:PORT")
    parser.add_argument("--core", type=int, help="run on this core, wherever whoever starts it runs")
    options = parser.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    if options.address is None:
        serve_stdio()
    else:
        host, _, port = options.address.rpartition(":")
        serve_http(host, int(port))


if __name__ == "__main__":
    main()
