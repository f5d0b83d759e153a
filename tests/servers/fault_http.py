"""The HTTP side of `fault_server.py`: a bare server on threads, so that it can break the protocol anywhere."""

import json
import secrets
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.servers.fault_server import Server

MODERN = "2026-07-28"


class Here(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, faults: "Server", port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.faults = faults
        self.sessions: set[str] = set()

    def handle_error(self, *_: Any) -> None:  # a client that hung up
        pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Here  # type: ignore[mutable-override]

    def log_message(self, *_: Any) -> None:
        pass

    def do_DELETE(self) -> None:
        self.server.faults.log.append(deleted=self.headers.get("Mcp-Session-Id") in self.server.sessions)
        self.reply(200, b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        message = json.loads(body)
        self.server.faults.log.append(
            method=message.get("method"), headers={k.lower(): v for k, v in self.headers.items()}
        )
        tool = message.get("params", {}).get("name")
        if self.refuse_session(message):
            return
        special = getattr(self, f"http_{tool}", None) if message.get("method") == "tools/call" else None
        if special is not None:
            self.server.faults.log.append(tool=tool)
            special(message["id"], message["params"].get("arguments") or {})
            return
        answers = list(self.server.faults.answers(message))
        if not answers:
            self.reply(202, b"") if "id" not in message or "method" not in message else self.hang()
        elif len(answers) == 1:
            self.answer(message, answers[0])
        else:
            self.stream([b"data: %s\n\n" % answer for answer in answers])

    def refuse_session(self, message: dict[str, Any]) -> bool:
        modern = self.headers.get("MCP-Protocol-Version") == MODERN
        if modern and self.server.faults.era == "legacy":
            self.reply(400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No session"}}')
            return True
        if modern or message.get("method") == "initialize":
            return False
        if self.headers.get("Mcp-Session-Id") in self.server.sessions:
            return False
        self.reply(404, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}')
        return True

    def answer(self, message: dict[str, Any], answer: bytes) -> None:
        headers = {}
        if message["method"] == "initialize":
            session = secrets.token_hex(8)
            self.server.sessions.add(session)
            headers = {"Mcp-Session-Id": session}
        self.reply(200, answer, headers)

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        promised = (headers or {}).get("X-Length")
        self.send_header("Content-Length", promised or str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.close_connection or promised is not None

    def stream(self, parts: list[bytes], then: Callable[[], object] = lambda: None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for part in parts:
            self.wfile.write(part)
            self.wfile.flush()
        then()
        self.close_connection = True

    def hang(self) -> None:
        threading.Event().wait(20)
        self.close_connection = True

    # --- faults of this transport -------------------------------------------------------------------------------

    def http_half_event(self, call_id: int, _: dict[str, Any]) -> None:
        self.stream([b'data: {"jsonrpc":"2.0","id":%d,' % call_id])

    def http_big_event(self, call_id: int, _: dict[str, Any]) -> None:
        body = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"big":"%s"}}' % (call_id, b"x" * 1_200_000)
        self.stream([b"event: message\ndata: " + body[:600_000], body[600_000:] + b"\n\n"])

    def http_events(self, call_id: int, _: dict[str, Any]) -> None:
        self.stream([
            b"\xef\xbb\xbf: a comment\r\nid: 1\r\nretry: 5\r\ndata:\r\n\r\n",
            b"event: other\ndata: not for us\n\n",
            b'data: {"jsonrpc":"2.0","method":"notifications/progress",\r',
            b'\ndata: "params":{"progress":1}}\r\n\r\n',
            b'data: {"jsonrpc":"2.0","id":"q","method":"ping"}\n\n',
            b'data: {"jsonrpc":"2.0","id":9999,"result":{}}\n\n',
            b"data: garbage\n\n",
            b'data: {"jsonrpc":"2.0",\ndata: "id":%d,"result":\ndata: {"content":[]}}\n\n' % call_id,
            b'data: {"jsonrpc":"2.0","id":%d,"result":{"content":["again"]}}\n\n' % call_id,
        ])  # fmt: skip

    def http_status(self, call_id: int, arguments: dict[str, Any]) -> None:
        error = {"code": arguments.get("code", -32602), "message": "bad session id"}
        ids = {"ours": call_id, "null": None, "text": "server-error", "other": call_id + 1}
        body = {"jsonrpc": "2.0", "id": ids.get(arguments.get("id", "")), "error": error}
        self.reply(arguments["status"], json.dumps(body).encode() if "id" in arguments else b"{}")

    def http_open_end(self, call_id: int, _: dict[str, Any]) -> None:
        answer = b'data: {"jsonrpc":"2.0","id":%d,"result":{}}\n\n' % call_id
        self.stream([answer], then=lambda: threading.Event().wait(20))

    def http_nan_event(self, call_id: int, _: dict[str, Any]) -> None:
        self.stream([b'data: {"jsonrpc":"2.0","id":%d,"result":{"a":NaN}}\n\n' % call_id])

    def http_pings(self, call_id: int, arguments: dict[str, Any]) -> None:
        ping = b'data: {"jsonrpc":"2.0","id":"q","method":"ping"}\n\n'
        self.stream([ping * arguments["count"], b'data: {"jsonrpc":"2.0","id":%d,"result":{}}\n\n' % call_id])

    def http_question(self, _: int, __: dict[str, Any]) -> None:
        self.reply(200, b'{"jsonrpc":"2.0","id":"q","method":"ping"}')

    def http_cut_off(self, _: int, __: dict[str, Any]) -> None:
        self.reply(200, b'{"jsonrpc"', {"X-Length": "100"})

    def http_huge(self, _: int, __: dict[str, Any]) -> None:
        self.reply(200, b"x" * (64 * 1024 * 1024 + 1))

    def http_hang_up(self, _: int, __: dict[str, Any]) -> None:
        self.close_connection = True

    def http_wrong_type(self, call_id: int, _: dict[str, Any]) -> None:
        self.reply(200, b'{"jsonrpc":"2.0","id":%d,"result":{}}' % call_id, {"Content-Type": "text/html"})

    def http_gzip(self, _: int, __: dict[str, Any]) -> None:
        self.reply(200, b"\x1f\x8b", {"Content-Encoding": "gzip"})

    def http_redirect(self, _: int, __: dict[str, Any]) -> None:
        self.reply(307, b"", {"Location": "http://127.0.0.1:9/elsewhere"})

    def http_accepted(self, _: int, __: dict[str, Any]) -> None:
        self.reply(202, b"", {"Content-Type": "text/plain"})

    def http_forget(self, call_id: int, arguments: dict[str, Any]) -> None:
        self.server.sessions.clear()
        self.server.faults.initialized.update(arguments)
        self.reply(200, b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}' % call_id)

    def http_session_404(self, _: int, __: dict[str, Any]) -> None:
        self.reply(404, b"")

    def http_our_404(self, call_id: int, _: dict[str, Any]) -> None:
        error = b'{"code":-32001,"message":"Session not found"}'
        self.reply(404, b'{"jsonrpc":"2.0","id":%d,"error":%s}' % (call_id, error))


def serve_http(faults: "Server", port: int) -> None:
    with Here(faults, port) as http:
        print(http.server_address[1], flush=True)
        http.serve_forever()
