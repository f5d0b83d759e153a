"""An MCP server that misbehaves on command: raw JSON-RPC, no SDK, so that it can send what no SDK would.

    python tests/servers/fault_server.py LOG [--era legacy|modern|both] [--start HOW] [--http PORT]

Each tool is one fault, named after it. What a tool did, and every response that a client sent, is one JSON line in
LOG, on disk before anything else happens. With --http it serves on that port of 127.0.0.1 (0: on a free one), and says
on stdout which it is.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
MIB = 1024 * 1024

TOOLS = [
    *("echo", "is_error", "rpc_error", "input_required", "task", "odd_type", "big", "deep", "tell", "change", "pids"),
    *("silent", "late", "exit", "deaf", "garbage", "huge_line", "twice", "wrong_id", "text_id", "null_id"),
    *("duplicate_keys", "nan", "no_object"),
    *(
        "half_event",
        "big_event",
        "nan_event",
        "events",
        "pings",
        "status",
        "hang_up",
        "cut_off",
        "huge",
        "question",
        "open_end",
    ),
    *("wrong_type", "gzip", "redirect", "accepted"),
    *("forget", "session_404", "our_404"),
]


class Log:
    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, **entry: Any) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, (json.dumps(entry) + "\n").encode())
        finally:
            os.close(descriptor)


def result(call_id: Any, **fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": call_id, "result": fields}).encode()


def error(call_id: Any, code: int, message: str, data: Any = None) -> bytes:
    said = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return json.dumps({"jsonrpc": "2.0", "id": call_id, "error": said}).encode()


def text(call_id: Any, words: str, **fields: Any) -> bytes:
    return result(call_id, content=[{"type": "text", "text": words}], **fields)


def notify(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


class Server:
    """What both transports have in common: a request in, the messages that answer it out."""

    def __init__(self, log: Log, era: str) -> None:
        self.log = log
        self.era = era
        self.extra: list[str] = []
        self.x = 1.0
        self.broken = False
        self.initialized: dict[str, Any] = {}
        self.capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
        self.descendants: list[int] = []

    def answers(self, message: dict[str, Any]) -> Iterator[bytes]:
        method, call_id, params = message.get("method"), message.get("id"), message.get("params", {})
        if method is not None and call_id is not None:
            self.log.append(asked=method)
        if method is None:
            self.log.append(response=message)
        elif call_id is None:
            self.log.append(notification=method, params=params)
        elif method == "server/discover" and self.era != "legacy":
            server = {"io.modelcontextprotocol/serverInfo": {"name": "faults", "version": "1"}}
            common = {"capabilities": {"tools": {}}, "instructions": "be careful", "_meta": server}
            yield result(call_id, resultType="complete", supportedVersions=[MODERN], ttlMs=0, **common)
        elif method == "initialize" and self.era == "modern":
            yield error(call_id, -32022, "Unsupported protocol version", {"supported": [MODERN]})
        elif method == "initialize":
            self.log.append(introduced=params)
            who = {"name": "faults", "version": "1"}
            common = {"capabilities": self.capabilities, "instructions": "be careful"}
            yield result(call_id, **{"protocolVersion": LEGACY, "serverInfo": who, **common, **self.initialized})
        elif method == "silence":
            return
        elif method == "tools/list":
            yield from self.page(call_id, params)
        elif method == "tools/call":
            self.log.append(
                tool=params["name"], call=call_id, arguments=params.get("arguments"), meta=params.get("_meta")
            )
            yield from self.call(call_id, params["name"], params.get("arguments") or {})
        else:
            yield error(call_id, -32601, "Method not found")

    def page(self, call_id: Any, params: dict[str, Any]) -> Iterator[bytes]:
        if self.broken:
            yield error(call_id, -32603, "fetch failed")
            return
        names = TOOLS + self.extra
        start = int(params.get("cursor", "0"))
        tools = [{"name": name, "inputSchema": {"type": "object"}, "x": self.x} for name in names[start : start + 10]]
        more = {"nextCursor": str(start + 10)} if start + 10 < len(names) else {}
        yield result(call_id, tools=tools, **more)

    def call(self, call_id: Any, tool: str, arguments: dict[str, Any]) -> Iterator[bytes]:
        fault = getattr(self, f"do_{tool}", None)
        if fault is None:
            yield error(call_id, -32602, f"Unknown tool: {tool}")
        else:
            yield from fault(call_id, arguments)

    # --- honest -----------------------------------------------------------------------------------------------------

    def do_echo(self, call_id: Any, arguments: dict[str, Any]) -> Iterator[bytes]:
        yield text(call_id, json.dumps(arguments), structuredContent=arguments, vendor={"kept": None})

    def do_is_error(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield text(call_id, "it did not work", isError=True)

    def do_rpc_error(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield error(call_id, -32000, "no", {"why": ["because"]})

    def do_input_required(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield result(call_id, resultType="input_required", requestState="sealed")

    def do_task(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield result(call_id, resultType="task", taskId="t1", status="working")

    def do_odd_type(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield result(call_id, resultType="riddle", content=[])

    def do_big(self, call_id: Any, arguments: dict[str, Any]) -> Iterator[bytes]:
        yield text(call_id, "x" * int(arguments.get("bytes", 10 * MIB)))

    def do_deep(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield text(call_id, "", structuredContent=json.loads('{"a":' * 100 + "1" + "}" * 100))

    def do_tell(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield notify("notifications/progress", progressToken="p", progress=1)
        yield b'{"jsonrpc":"2.0","id":"s1","method":"ping"}'
        yield b'{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}'
        yield notify("notifications/message", level="info", data="hello")
        yield text(call_id, "told")

    def do_change(self, call_id: Any, arguments: dict[str, Any]) -> Iterator[bytes]:
        self.extra.append(arguments["add"])
        self.x = arguments.get("x", self.x)
        self.broken = arguments.get("broken", False)
        for _ in range(arguments.get("times", 3)):
            yield notify("notifications/tools/list_changed")
        yield text(call_id, "changed")

    def do_pids(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield text(call_id, "", structuredContent={"pids": [os.getpid(), *self.descendants], "env": dict(os.environ)})

    # --- not --------------------------------------------------------------------------------------------------------

    def do_silent(self, _: Any, __: dict[str, Any]) -> Iterator[bytes]:
        yield from ()

    def do_late(self, call_id: Any, arguments: dict[str, Any]) -> Iterator[bytes]:
        time.sleep(arguments["after_s"])  # both transports run it in a thread of its own
        yield text(call_id, "late")

    def do_exit(self, _: Any, arguments: dict[str, Any]) -> Iterator[bytes]:
        yield from ()
        os._exit(arguments.get("status", 3))

    def do_deaf(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield text(call_id, "I read no more")
        signal.pause()

    def do_garbage(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield b"Server listening...\x1b[31m"
        yield b"\xff\xfe\x00"
        yield b'{"jsonrpc":"2.0","id":'
        yield b"[" * 5000
        yield b'[{"jsonrpc":"2.0","id":1,"result":{}}]'
        yield b'{"id":1,"result":{}}'
        yield b""
        yield text(call_id, "after the garbage")

    def do_huge_line(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield text(call_id, "x" * (64 * MIB))
        yield text(call_id, "short")

    def do_twice(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield text(call_id, "first")
        yield text(call_id, "second")

    def do_wrong_id(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield text(call_id + 1000, "for somebody else")

    def do_text_id(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield text(str(call_id), "for a text")

    def do_null_id(self, _: Any, __: dict[str, Any]) -> Iterator[bytes]:
        yield error(None, -32700, "Parse error")

    def do_duplicate_keys(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"isError":true,"isError":false}}' % call_id

    def do_nan(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"a":NaN}}}' % call_id

    def do_no_object(self, call_id: Any, _: dict[str, Any]) -> Iterator[bytes]:
        yield b'{"jsonrpc":"2.0","id":%d,"result":[1]}' % call_id


def serve_stdio(server: Server) -> None:
    lock = threading.Lock()

    def serve(message: dict[str, Any]) -> None:
        for answer in server.answers(message):
            with lock:
                os.write(2, b"answering\n")
                sys.stdout.buffer.write(answer + b"\n")
                sys.stdout.buffer.flush()

    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("params", {}).get("name") == "late":
            threading.Thread(target=serve, args=(message,), daemon=True).start()
        else:
            serve(message)


def start(server: Server, how: str) -> None:
    match how:
        case "exit":
            sys.exit("it cannot start")
        case "hang":
            signal.pause()
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "brood":
            server.descendants.append(subprocess.Popen(["sleep", "600"]).pid)
        case "toolless":
            server.capabilities = {}
        case "listless":
            server.broken = True
        case "shy":  # of a question before `initialize`, as some older SDKs are
            line = sys.stdin.buffer.readline()
            if json.loads(line)["method"] != "initialize":
                sys.exit("expected initialize")
            for answer in server.answers(json.loads(line)):
                print(answer.decode(), flush=True)
        case _:
            pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("--era", choices=["legacy", "modern", "both"], default="legacy")
    parser.add_argument("--start", default="")
    parser.add_argument("--http", type=int, metavar="PORT")
    options = parser.parse_args()
    log = Log(options.log)
    log.append(started=os.getpid(), era=options.era)
    server = Server(log, options.era)
    start(server, options.start)
    if options.http is not None:
        sys.path.insert(0, str(Path(__file__).parents[2]))
        from tests.servers.fault_http import serve_http  # noqa: PLC0415 - found only now

        serve_http(server, options.http)
    else:
        serve_stdio(server)
        if options.start == "stubborn":
            signal.pause()


if __name__ == "__main__":
    main()
