"""A model endpoint that follows a script: Anthropic's messages, OpenAI's responses, Gemini's generateContent.

For the n-th answer it looks how many tool results the conversation holds already, and asks for the next call; after
the last it says that it is done. What the agent handed it as the result of each call is kept: that is what a model
would have seen.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = dict[str, Any]
Call = tuple[str, Json]
"""A tool's own name, and its arguments."""

NOISE = re.compile(r"\n*<system-reminder>.*?</system-reminder>|^Wall time: .* seconds\nOutput:\n?", re.DOTALL)
"""What Claude Code and Codex add to a result of their own."""

MAX_BODY = 64 * 2**20


@dataclass
class Model:
    """The script, and what came of it."""

    script: Sequence[Call]
    offered: list[str] = field(default_factory=list)
    """The tools of the server under test, as the agent names them to the model."""
    told: list[Any] = field(default_factory=list)
    """The results, in the order of the script."""
    asked: list[str] = field(default_factory=list)
    """The paths of all requests, to see what else an agent wants."""

    def next(self, offered: Sequence[str], told: Sequence[Any]) -> tuple[str, Json] | None:
        """The next call under the agent's name for the tool; None when the script is over, or nothing is offered."""
        if not offered:
            return None  # a side errand, such as a title for the conversation
        self.offered = list(offered)
        if len(told) >= len(self.told):
            self.told = [_without_noise(one) for one in told]
        if len(told) >= len(self.script):
            return None
        tool, arguments = self.script[len(told)]
        return next((name for name in offered if name.endswith(tool)), tool), arguments


def _without_noise(told: Any) -> Any:
    match told:
        case str():
            return NOISE.sub("", told)
        case list():
            return [one for one in map(_without_noise, told) if one.get("text") != ""]
        case dict():
            return {key: _without_noise(value) if key in {"content", "text"} else value for key, value in told.items()}
        case other:
            return other


@asynccontextmanager
async def serving(model: Model) -> AsyncIterator[str]:
    """The address of the endpoint, for all three."""
    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_post("/v1/messages", _handler(model, _anthropic))
    app.router.add_post("/v1/responses", _handler(model, _openai))
    app.router.add_post("/v1beta/models/{call}", _handler(model, _gemini))
    app.router.add_route("*", "/{rest:.*}", _otherwise(model))
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


Events = Iterator[tuple[str, Json]]


def _handler(model: Model, answer: Callable[[Model, web.Request, Json], Events | Json]) -> Callable[[web.Request], Any]:
    async def handle(request: web.Request) -> web.StreamResponse:
        model.asked.append(request.path_qs)
        answered = answer(model, request, await request.json())
        if isinstance(answered, dict):
            return web.json_response(answered)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for kind, data in answered:
            name = f"event: {kind}\n" if kind else ""
            await response.write(f"{name}data: {json.dumps(data)}\n\n".encode())
        await response.write_eof()
        return response

    return handle


def _otherwise(model: Model) -> Callable[[web.Request], Any]:
    async def handle(request: web.Request) -> web.Response:
        model.asked.append(f"{request.method} {request.path_qs}")
        return web.json_response({}, status=404)

    return handle


# ── Anthropic ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _anthropic(model: Model, _: web.Request, body: Json) -> Events | Json:
    offered = [tool["name"] for tool in body.get("tools", []) if tool.get("name", "").startswith("mcp__")]
    blocks = [block for message in body["messages"] for block in _list(message["content"])]
    told = [
        {key: block[key] for key in ("content", "is_error") if key in block}
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    wanted = model.next(offered, told)
    message: Json = {
        "id": f"msg_{len(told)}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "stop_reason": "tool_use" if wanted else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    block: Json = {"type": "text", "text": "done"}
    if wanted:
        block = {"type": "tool_use", "id": f"toolu_{len(told):024}", "name": wanted[0], "input": wanted[1]}
    if not body.get("stream"):
        return {**message, "content": [block]}
    return _anthropic_events(message, block)


def _anthropic_events(message: Json, block: Json) -> Events:
    yield "message_start", {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    if block["type"] == "text":
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": empty}
    yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}}
    yield "message_stop", {"type": "message_stop"}


def _list(content: Any) -> list[Json]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


# ── OpenAI ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _openai(model: Model, _: web.Request, body: Json) -> Events | Json:
    spaces = [
        tool for tool in body.get("tools", []) if tool["type"] == "namespace" and tool["name"].startswith("mcp__")
    ]
    names = {tool["name"]: space["name"] for space in spaces for tool in space["tools"]}
    outputs = [item for item in body["input"] if item.get("type") == "function_call_output"]
    told = [item["output"] for item in outputs]
    wanted = model.next(list(names), told)
    item: Json = {
        "type": "message",
        "role": "assistant",
        "id": f"msg_{len(told)}",
        "content": [{"type": "output_text", "text": "done", "annotations": []}],
    }
    if wanted:
        item = {
            "type": "function_call",
            "id": f"fc_{len(told)}",
            "call_id": f"call_{len(told)}",
            "name": wanted[0],
            "namespace": names.get(wanted[0]),
            "arguments": json.dumps(wanted[1]),
        }
    return _openai_events({"id": f"resp_{len(told)}", "object": "response", "model": body["model"]}, item)


def _openai_events(response: Json, item: Json) -> Events:
    yield "response.created", {"type": "response.created", "response": {**response, "output": []}}
    yield "response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    whole = {**response, "status": "completed", "output": [item], "usage": usage}
    yield "response.completed", {"type": "response.completed", "response": whole}


# ── Gemini ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _gemini(model: Model, request: web.Request, body: Json) -> Events | Json:
    declared = [one["name"] for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
    parts = [part for content in body.get("contents", []) for part in content.get("parts", [])]
    told = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    wanted = model.next([name for name in declared if name.startswith("mcp_")], told)
    part: Json = {"functionCall": {"name": wanted[0], "args": wanted[1]}} if wanted else {"text": "done"}
    answer: Json = {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": "scripted",
    }
    return iter([("", answer)]) if "streamGenerateContent" in request.path else answer
