"""A client of raw JSON-RPC, of any version, over any wire: what it hears and is asked it keeps, as it came."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio

Json = dict[str, Any]

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
TASKS = f"{PREFIX}tasks"
INFO = {"name": "matrix-agent", "version": "7", "x-odd": None}
BOUND_S = 10.0
"""No wait of these tests is longer."""

ROOTS = {"roots": [{"uri": "file:///r", "name": "r", "x-odd": None}]}
SAMPLE = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m", "x-odd": 1.0}
NO_METHOD = {"code": -32601, "message": "Method not found"}

CAN: Mapping[str, Json] = {
    "2025-03-26": {"sampling": {}, "roots": {"listChanged": True}},
    "2025-06-18": {"sampling": {}, "roots": {"listChanged": True}, "elicitation": {}},
    "2025-11-25": {
        "sampling": {},
        "roots": {"listChanged": True},
        "elicitation": {"form": {}, "url": {}},
        "tasks": {"list": {}},
    },
    MODERN: {
        "sampling": {},
        "roots": {},
        "elicitation": {"form": {}, "url": {}},
        "extensions": {TASKS: {}, f"{PREFIX}ui": {"mimeTypes": ["text/html;profile=mcp-app"]}},
    },
}
"""What a client of that version can be asked."""


class Wire(Protocol):
    """The way to the gateway; what comes back is given to `Agent.take`."""

    async def post(self, message: Json | list[Json]) -> None:
        """The message is sent, and over HTTP its response heard to the end."""
        ...

    async def cancel(self, agent: "Agent", request_id: int) -> None:
        """The request is cancelled, as its era and transport would have it."""
        ...


@dataclass
class Agent:
    """A client of one version, which declares `can`."""

    version: str
    can: Json
    wire: Wire
    heard: list[Json] = field(default_factory=list)
    """Notifications, in order."""
    asked: list[Json] = field(default_factory=list)
    """What it was asked: requests, or inputs of a round."""
    strays: list[Json] = field(default_factory=list)
    """Answers to nothing that has an id."""
    opened: Json = field(default_factory=dict)
    """The answer to its first word."""
    think_s: float = 0.0
    """Before it answers a question."""
    mute: bool = False
    """It answers no question."""
    last: int = 0
    """The id of its last request."""
    _open: "dict[int, asyncio.Future[Json]]" = field(default_factory=dict)
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set)

    @property
    def modern(self) -> bool:
        return self.version == MODERN

    async def open(self) -> None:
        """It has introduced itself, as its era does."""
        if self.modern:
            self.opened = await self.request("server/discover")
            return
        hello = {"protocolVersion": self.version, "capabilities": self.can, "clientInfo": INFO}
        self.opened = await self.request("initialize", hello)
        await self.notify("notifications/initialized")

    # --- out ----------------------------------------------------------------------------------------------------------

    async def notify(self, method: str, params: Json | None = None) -> None:
        await self.wire.post({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    def begin(self, method: str, params: Json | None = None, meta: Json | None = None) -> "Flight":
        """One request, without its further rounds."""
        number = self.last = self.last + 1
        told = dict(meta or {})
        if self.modern:
            envelope = {"protocolVersion": MODERN, "clientCapabilities": self.can, "clientInfo": INFO}
            told = {**{f"{PREFIX}{key}": value for key, value in envelope.items()}, **told}
        body = {**(params or {}), **({"_meta": told} if told else {})}
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": body}
        answered = self._open[number] = asyncio.get_running_loop().create_future()
        task = self._spawn(self.wire.post(message))
        return Flight(self, number, answered, task)

    async def once(self, method: str, params: Json | None = None, meta: Json | None = None) -> Json:
        """The whole answer to one request; in the newer era perhaps a round."""
        with anyio.fail_after(BOUND_S):
            return await self.begin(method, params, meta).answered

    async def request(self, method: str, params: Json | None = None, meta: Json | None = None) -> Json:
        """The whole answer, after all rounds."""
        answer = await self.once(method, params, meta)
        for _ in range(10):
            result = answer.get("result", {})
            if result.get("resultType") != "input_required":
                break
            more = await self.brought(result)
            answer = await self.once(method, {**(params or {}), **more}, meta)
        return answer

    async def brought(self, result: Json) -> Json:
        """What goes with the next round."""
        more: Json = {"requestState": result["requestState"]} if "requestState" in result else {}
        if "inputRequests" in result:
            self.asked += result["inputRequests"].values()
            await asyncio.sleep(self.think_s)
            told = {key: self.reply(one) for key, one in result["inputRequests"].items()}
            more["inputResponses"] = {key: one["result"] for key, one in told.items() if "result" in one}
        return more

    async def call(self, tool: str, arguments: Json | None = None, meta: Json | None = None) -> Json:
        """The result of a tool of the upstream's."""
        answer = await self.request("tools/call", {"name": f"up__{tool}", "arguments": arguments or {}}, meta)
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    async def facts(self, tool: str, **arguments: Any) -> Json:
        """What a tool says in `structuredContent`."""
        result = await self.call(tool, arguments)
        assert "isError" not in result, result
        facts: Json = result["structuredContent"]
        return facts

    async def error(self, method: str, params: Json | None = None, meta: Json | None = None) -> Json:
        """The error that a request is answered with."""
        answer = await self.request(method, params, meta)
        assert "error" in answer, answer
        error: Json = answer["error"]
        return error

    # --- in -----------------------------------------------------------------------------------------------------------

    def take(self, message: Json) -> None:
        """What came over the wire."""
        if message.get("id", 0) is None:
            self.strays.append(message)
        elif "method" not in message:
            answered = self._open.pop(message["id"], None) if isinstance(message.get("id"), int) else None
            assert answered is not None, f"an answer that nobody waits for: {message}"
            if not answered.done():
                answered.set_result(message)
        elif "id" in message:
            self.asked.append(message)
            if not self.mute:
                _ = self._spawn(self._answer(message))
        else:
            self.heard.append(message)

    async def _answer(self, question: Json) -> None:
        await asyncio.sleep(self.think_s)
        await self.wire.post({"jsonrpc": "2.0", "id": question["id"], **self.reply(question)})

    def reply(self, question: Json) -> Json:
        """What it answers to what it declared; all else it does not know."""
        params, can = question.get("params") or {}, self.can
        match question["method"]:
            case "elicitation/create" if "elicitation" in can and params.get("mode", "form") == "form":
                return {"result": {"action": "accept", "content": {"name": "Ada"}, "x-odd": None}}
            case "elicitation/create" if "url" in can.get("elicitation", {}):
                return {"result": {"action": "accept"}}
            case "sampling/createMessage" if "sampling" in can:
                return {"result": SAMPLE}
            case "roots/list" if "roots" in can:
                return {"result": ROOTS}
        return {"error": NO_METHOD}

    def said(self, method: str) -> list[Json]:
        """The params of those notifications that it heard."""
        return [one.get("params", {}) for one in self.heard if one["method"] == method]

    async def until(self, true: Callable[[], Any]) -> None:
        """It is true, soon."""
        with anyio.fail_after(BOUND_S):
            while not true():
                await asyncio.sleep(0.002)

    async def until_seen(self, method: str, marker: str) -> Json:
        """The upstream was sent such a message, with that marker in its params."""
        with anyio.fail_after(BOUND_S):
            while True:
                for one in (await self.facts("seen", of=method))["seen"]:
                    if marker in str(one["params"]):
                        found: Json = one
                        return found
                await asyncio.sleep(0.005)

    def _spawn(self, work: Any) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Nothing of it runs on."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Flight:
    """A request under way."""

    agent: Agent
    number: int
    answered: "asyncio.Future[Json]"
    posted: "asyncio.Task[None]"

    async def cancel(self) -> None:
        await self.agent.wire.cancel(self.agent, self.number)
        if self.agent.modern:
            self.posted.cancel()  # over HTTP this closes the stream; on a pipe it was sent long ago
