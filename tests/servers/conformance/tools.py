"""The plain tools: each kind of content, progress, logs, headers, a stream that breaks off, lists that change."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp import types
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from tests.servers.conformance.library import IMAGE, WATCHED
from tests.servers.conformance.wire import MODERN, Asked, Json, Tool, log, require, result, said, schema

STEP_S = 0.05
"""Between two signs of life, as the suite wants it."""
AWAY_S = 0.2
"""How long a client that was cut off has to come back."""

AUDIO = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
"""A WAV file of one sample."""

FULL_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""Each keyword of JSON Schema 2020-12 that servers and proxies were seen to drop [suite: json-schema-2020-12]."""


def _constant(description: str, *content: Json, **more: Any) -> Tool:
    async def run(_: Asked, __: Json) -> Json:
        return result(*content, **more)

    return Tool(description, run, schema())


def _resource(uri: str, mime_type: str, text: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


PICTURE = {"type": "image", "data": IMAGE, "mimeType": "image/png"}


async def with_logging(asked: Asked, _: Json) -> Json:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(asked, line)
        await anyio.sleep(STEP_S)
    return result(said("Tool with logging executed"))


async def with_progress(asked: Asked, _: Json) -> Json:
    token = ((asked.params or {}).get("_meta") or {}).get("progressToken")
    for progress in (0, 50, 100):
        if token is not None:
            at = types.ProgressNotificationParams(
                progress_token=token, progress=progress, total=100, message=f"at {progress} of 100"
            )
            sign = types.ProgressNotification(params=at)
            await asked.session.send_notification(sign, related_request_id=asked.request_id)
        await anyio.sleep(STEP_S)
    return result(said(f"Tool with progress executed for {token}"))


async def one_line(asked: Asked, _: Json) -> Json:
    await log(asked, "a line for who asked for it")
    return result(said("Logging evaluated"))


async def missing_capability(asked: Asked, _: Json) -> Json:
    require(asked, {"sampling": {}})
    return result(said("You can sample"))


async def mirrored(_: Asked, arguments: Json) -> Json:
    return result(said(f"region={arguments.get('region', '<none>')}"))


async def reconnection(asked: Asked, _: Json) -> Json:
    """Breaks its own stream off, where it has one (legacy HTTP), and answers whoever comes back for the rest."""
    await log(asked, "Before the stream breaks off")
    if asked.close_sse_stream is not None:
        await asked.close_sse_stream()
    await anyio.sleep(AWAY_S)
    await log(asked, "After the stream broke off")
    return result(said("Reconnection test completed"))


def changing(bus: InMemorySubscriptionBus, subscribed: Callable[[Asked], set[str]]) -> dict[str, Tool]:
    """The tools that make a change which whoever listens is told of."""

    async def older(asked: Asked, event: ServerEvent) -> None:
        match event:
            case ToolsListChanged():
                await asked.session.send_notification(types.ToolListChangedNotification())
            case PromptsListChanged():
                await asked.session.send_notification(types.PromptListChangedNotification())
            case ResourceUpdated(uri=uri) if uri in subscribed(asked):
                await asked.session.send_resource_updated(uri)

    def tool(description: str, event: ServerEvent) -> Tool:
        def run(asked: Asked, _: Json) -> Awaitable[Json]:
            return announced(asked, event)

        return Tool(description, run, schema())

    async def announced(asked: Asked, event: ServerEvent) -> Json:
        await bus.publish(event)
        if asked.protocol_version != MODERN:
            await older(asked, event)
        return result(said("Change announced"))

    return {
        "test_trigger_tool_change": tool("Changes the list of tools", ToolsListChanged()),
        "test_trigger_prompt_change": tool("Changes the list of prompts", PromptsListChanged()),
        "test_trigger_resource_change": tool("Changes the watched resource", ResourceUpdated(uri=WATCHED)),
    }


TOOLS = {
    "test_simple_text": _constant("Answers with text", said("This is a simple text response for testing.")),
    "test_image_content": _constant("Answers with an image", PICTURE),
    "test_audio_content": _constant("Answers with audio", {"type": "audio", "data": AUDIO, "mimeType": "audio/wav"}),
    "test_embedded_resource": _constant(
        "Answers with a resource", _resource("test://embedded-resource", "text/plain", "An embedded resource.")
    ),
    "test_multiple_content_types": _constant(
        "Answers with text, image and resource",
        said("Multiple content types test:"),
        PICTURE,
        _resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ),
    "test_error_handling": _constant(
        "Always fails", said("This tool intentionally returns an error for testing"), isError=True
    ),
    "test_tool_with_logging": Tool("Logs while it runs", with_logging, schema()),
    "test_tool_with_progress": Tool("Tells how far it is", with_progress, schema()),
    "test_logging_tool": Tool("Logs one line, if asked to", one_line, schema()),
    "test_missing_capability": Tool("Needs a client that samples", missing_capability, schema()),
    "test_x_mcp_header": Tool(
        "Takes an argument that is mirrored in a header",
        mirrored,
        schema(region={"type": "string", "default": "<none>", "x-mcp-header": "Region"}),
    ),
    "json_schema_2020_12_tool": Tool("Has a schema with every keyword", mirrored, FULL_SCHEMA),
    "test_reconnection": Tool("Breaks off its stream half-way", reconnection, schema()),
}
