"""A client of raw JSON-RPC over HTTP, of both eras: nothing of an SDK may smooth what a server says."""

import base64
import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

Json: TypeAlias = dict[str, Any]

MODERN = "2026-07-28"
INFO = {"name": "conformance-agent", "version": "1"}
CAPABILITIES: Json = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that `Mcp-Name` repeats [MCP 2026-07-28, standard headers]."""
PLAIN = re.compile(r"[!-~](?:[ -~]*[!-~])?|")
"""What goes into a header as it is."""
ENCODED = re.compile(r"=\?base64\?.*\?=")
UNSUPPORTED = -32022
LIMIT_S = 10
MAX_TURNS = 5
"""How often one request is asked again, be it for a version or for a broken-off stream."""


class Refused(Exception):
    """The answer is a JSON-RPC error, or none at all."""


@dataclass(frozen=True)
class Event:
    """One event of a stream."""

    data: str
    number: str | None
    retry_ms: int | None


class Agent:
    """One client of one server."""

    def __init__(self, url: str, version: str) -> None:
        self._url = urlsplit(url)
        self._version = version
        self._modern = version == MODERN
        self._session: dict[str, str] = {}
        self._last_id = 0
        self._schemas: dict[str, Json] = {}
        self._open: list[tuple[http.client.HTTPConnection, http.client.HTTPResponse]] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def start(self) -> None:
        """The server can be asked; an older one has been greeted, and is listened to."""
        if self._modern:
            self.request("server/discover")
            return
        params = {"protocolVersion": self._version, "capabilities": CAPABILITIES, "clientInfo": INFO}
        self._version = self.request("initialize", params)["protocolVersion"]
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, {}).read()
        self._listener.start()

    def end(self) -> None:
        """The session is over, and nothing is open."""
        if self._session:
            self._send("DELETE", None, self._session).read()
        for connection, _ in self._open:
            if connection.sock is not None:
                connection.sock.shutdown(socket.SHUT_RDWR)  # whoever reads there is at its end
        if self._listener.ident is not None:
            self._listener.join(LIMIT_S)
        for connection, response in self._open:
            response.close()
            connection.close()

    def tools(self) -> list[Json]:
        """What the server lists."""
        listed: list[Json] = self.request("tools/list")["tools"]
        self._schemas = {tool["name"]: tool["inputSchema"] for tool in listed}
        return listed

    def call(self, tool: str, arguments: Json | None = None, **more: Any) -> Json:
        """The result of one call, be it only another question."""
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}, **more})

    def request(self, method: str, params: Json | None = None) -> Json:
        """The result of one request.

        Raises: Refused.
        """
        for _ in range(MAX_TURNS):
            self._last_id += 1
            answer = self._ask(self._last_id, method, params or {})
            if "result" in answer:
                result: Json = answer["result"]
                return result
            error = answer.get("error") or {}
            supported = (error.get("data") or {}).get("supported", [])
            if error.get("code") != UNSUPPORTED or self._version not in supported:
                raise Refused(json.dumps(error))
        raise Refused("the server will not take the version that it says it takes")

    def _ask(self, request_id: int, method: str, params: Json) -> Json:
        headers = {**self._session, "MCP-Protocol-Version": self._version}
        if self._modern:
            params = {**params, "_meta": self._meta()}
            headers |= self._routing(method, params)
        elif method == "initialize":
            headers = {}
        response = self._post({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}, headers)
        if session := response.getheader("Mcp-Session-Id"):
            self._session = {} if self._modern else {"Mcp-Session-Id": session}
        return self._answer(response, request_id)

    def _meta(self) -> Json:
        prefix = "io.modelcontextprotocol/"
        return {
            f"{prefix}protocolVersion": self._version,
            f"{prefix}clientInfo": INFO,
            f"{prefix}clientCapabilities": CAPABILITIES,
        }

    def _routing(self, method: str, params: Json) -> dict[str, str]:
        headers = {"Mcp-Method": method}
        if method in NAMED:
            headers["Mcp-Name"] = encoded(params[NAMED[method]])
        properties = self._schemas.get(params.get("name", ""), {}).get("properties", {})
        for name, value in params.get("arguments", {}).items() if method == "tools/call" else ():
            mirror = properties.get(name, {}).get("x-mcp-header")
            if mirror is not None and value is not None:
                headers[f"Mcp-Param-{mirror}"] = encoded(value if isinstance(value, str) else json.dumps(value))
        return headers

    def _answer(self, response: http.client.HTTPResponse, request_id: int) -> Json:
        if "text/event-stream" not in (response.getheader("Content-Type") or ""):
            body = response.read()
            answer: Json = json.loads(body) if body else {}
            return answer
        last: str | None = None
        wait_ms = 100
        for _ in range(MAX_TURNS):
            for event in events(response):
                last, wait_ms = event.number or last, wait_ms if event.retry_ms is None else event.retry_ms
                message: Json = json.loads(event.data) if event.data.strip() else {}
                if message.get("id") == request_id and "method" not in message:
                    return message
                self._hear(message)
            if last is None:
                break
            time.sleep(wait_ms / 1000)  # the stream broke off: we come back for the rest [SEP-1699]
            response = self._get({"Last-Event-ID": last})
        raise Refused("the stream ended without an answer")

    def _listen(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # it was cut off in the middle: we have ended
            response = self._get({})
            if response.status != http.HTTPStatus.OK:  # a server need not have such a stream
                return
            for event in events(response):
                if event.data.strip():
                    self._hear(json.loads(event.data))

    def _hear(self, message: Json) -> None:
        """A question of the server has its answer: forms are sent off with their defaults."""
        if "method" not in message or "id" not in message:
            return
        answer: Json = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "elicitation/create":
            answer["result"] = filled_in(message["params"])
        elif message["method"] == "ping":
            answer["result"] = {}
        else:
            answer["error"] = {"code": -32601, "message": "not expected here"}
        self._post(answer, self._session).read()

    def _get(self, more: dict[str, str]) -> http.client.HTTPResponse:
        headers = {"Accept": "text/event-stream", "MCP-Protocol-Version": self._version, **self._session, **more}
        return self._send("GET", None, headers)

    def _post(self, message: Json, headers: dict[str, str]) -> http.client.HTTPResponse:
        fixed = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        return self._send("POST", json.dumps(message).encode(), {**fixed, **headers})

    def _send(self, method: str, body: bytes | None, headers: dict[str, str]) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self._url.hostname or "", self._url.port, timeout=LIMIT_S)
        connection.request(method, self._url.path or "/", body, headers)
        response = connection.getresponse()
        self._open.append((connection, response))
        return response


def filled_in(params: Json) -> Json:
    """The answer of a person who changes nothing in a form."""
    properties = params.get("requestedSchema", {}).get("properties", {})
    content = {name: said["default"] for name, said in properties.items() if "default" in said}
    return {"action": "accept", "content": content or dict.fromkeys(properties, True)}


def encoded(value: str) -> str:
    """The value of a header [MCP 2026-07-28, value encoding]."""
    if PLAIN.fullmatch(value) and not ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def events(response: http.client.HTTPResponse) -> Iterator[Event]:
    """The events of a stream, until it ends."""
    data: list[str] = []
    number: str | None = None
    retry_ms: int | None = None
    while line := response.readline():
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                data.append(value)
            case "id":
                number = value
            case "retry" if value.isdecimal():
                retry_ms = int(value)
            case "" if not value and (data or number is not None or retry_ms is not None):
                yield Event("\n".join(data), number, retry_ms)
                data, number, retry_ms = [], None, None
