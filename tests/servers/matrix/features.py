"""What the server offers beside its tools: all that MCP knows, a few entries on a page."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from tests.servers.matrix.talk import INFO, LEGACY, MODERN, PREFIX, TASKS, Handler, Json, Refusal, Request
from tests.servers.matrix.tools import ACTS, TOOLS

PAGE = 4
APP = "ui://panel/main.html"
FORM: Json = {
    "mode": "form",
    "message": "your name?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}
EXTENSIONS: Json = {f"{PREFIX}ui": {"mimeTypes": ["text/html;profile=mcp-app"]}, "com.example/weather": {"v": 1}}
BOTH, NEW, OLD = {True, False}, {True}, {False}


def capabilities(*, modern: bool) -> Json:
    changes = {"listChanged": True}
    extensions = {**EXTENSIONS, TASKS: {}} if modern else EXTENSIONS
    tasks: Json = {} if modern else {"tasks": {"list": {}, "requests": {"tools": {"call": {}}}}}
    return {
        **tasks,
        "tools": changes,
        "prompts": changes,
        "resources": {**changes, "subscribe": True},
        "completions": {},
        "logging": {},
        "extensions": extensions,
        "experimental": {"com.example/odd": {"on": True}},
    }


async def discover(_: Request) -> Json:
    return {
        "supportedVersions": [MODERN],
        "capabilities": capabilities(modern=True),
        "instructions": "ask me anything",
        "ttlMs": 60_000,
        "cacheScope": "public",
    }


async def initialize(request: Request) -> Json:
    request.peer.introduced = request.params
    told = {"protocolVersion": LEGACY, "capabilities": capabilities(modern=False), "serverInfo": INFO}
    return {**told, "instructions": "ask me anything"}


async def ping(_: Request) -> Json:
    return {}


async def set_level(request: Request) -> Json:
    request.peer.level = request.params["level"]
    return {}


async def subscribe(request: Request) -> Json:
    if request.params["uri"] == "mem://deaf":
        raise Refusal(-32602, "nobody can watch that")
    request.peer.watched.add(request.params["uri"])
    return {}


async def unsubscribe(request: Request) -> Json:
    request.peer.watched.discard(request.params["uri"])
    return {}


async def listen(request: Request) -> Json:
    wanted = dict(request.params["notifications"])
    if "resourceSubscriptions" in wanted:
        wanted["resourceSubscriptions"] = [uri for uri in wanted["resourceSubscriptions"] if uri != "mem://deaf"]
    request.params["notifications"] = wanted
    mark = {"_meta": {f"{PREFIX}subscriptionId": request.id}}
    request.tell("notifications/subscriptions/acknowledged", {"notifications": wanted, **mark})
    request.world.listens.append(request)
    try:
        await asyncio.sleep(3600)
    finally:
        request.world.listens.remove(request)
    return mark


# --- lists --------------------------------------------------------------------------------------------------------


def page(request: Request, kind: str, items: Sequence[Json]) -> Json:
    begin = int(request.params.get("cursor") or 0)
    more = {"nextCursor": str(begin + PAGE)} if begin + PAGE < len(items) else {}
    hints = {"ttlMs": 7_000 + begin, "cacheScope": "public"} if request.modern else {}
    return {kind: [*items[begin : begin + PAGE]], **more, **hints}


async def list_tools(request: Request) -> Json:
    made = [{"name": name, "inputSchema": {"type": "object"}} for name in request.world.extra]
    return page(request, "tools", [*TOOLS.values(), *made])


async def list_prompts(request: Request) -> Json:
    names = ["greet", "asking", *(f"prompt_{number}" for number in range(5)), *request.world.extra]
    return page(request, "prompts", [{"name": name, "arguments": [{"name": "who"}]} for name in names])


async def list_resources(request: Request) -> Json:
    uris = ["mem://one", "mem://deaf", APP, *(f"mem://r{number}" for number in range(5)), *_made(request)]
    return page(request, "resources", [{"uri": uri, "name": uri, "x-odd": None} for uri in uris])


async def list_templates(request: Request) -> Json:
    schemes = ["item", *(f"t{number}" for number in range(5))]
    return page(request, "resourceTemplates", [{"uriTemplate": f"{it}://{{name}}", "name": it} for it in schemes])


def _made(request: Request) -> list[str]:
    return [f"mem://{name}" for name in request.world.extra]


# --- what is fetched ----------------------------------------------------------------------------------------------


async def read_resource(request: Request) -> Json:
    uri = request.params["uri"]
    text: Any = f"text of {uri}"
    if uri == "item://asking":
        text = (await request.want("name", "elicitation/create", FORM))["result"]["content"]["name"]
    elif uri == APP:
        html = {"uri": uri, "mimeType": "text/html;profile=mcp-app", "text": "<p>hello</p>"}
        return {"contents": [{**html, "_meta": {"ui": {"csp": {"connectDomains": ["https://a.example"]}}}}]}
    elif uri == "item://hints" and request.modern:
        return {"contents": [{"uri": uri, "text": "x"}], "ttlMs": 1234, "cacheScope": "public"}
    elif not uri.startswith(("item://", "mem://")):
        raise Refusal(-32602 if request.modern else -32002, "Resource not found", uri=uri)
    return {"contents": [{"uri": uri, "text": text, "x-odd": 1.0}]}


async def get_prompt(request: Request) -> Json:
    who = request.args.get("who")
    if request.params["name"] == "asking":
        who = (await request.want("name", "elicitation/create", FORM))["result"]["content"]["name"]
    return {"messages": [{"role": "user", "content": {"type": "text", "text": f"hello {who}"}}], "x-odd": [None]}


async def complete(request: Request) -> Json:
    about, argument = request.params["ref"], request.params["argument"]
    value = f"{about.get('name') or about.get('uri')}:{argument['value']}"
    return {"completion": {"values": [value], "total": 1, "hasMore": False}, "x-odd": {}}


async def weather(request: Request) -> Json:
    """A method of an extension that is the server's own."""
    asked = {key: value for key, value in request.params.items() if key != "_meta"}
    return {"asked": asked, "degrees": 21.0, "steps": 2**70}


# --- the tasks extension ------------------------------------------------------------------------------------------


def _task(request: Request) -> Json:
    task = request.world.tasks.get(request.params["taskId"])
    if task is None:
        raise Refusal(-32602, "no such task")
    return task


async def get_task(request: Request) -> Json:
    task = _task(request)
    if task["status"] == "working" and not task["wants"]:
        task["status"] = "completed"
        task["result"] = {"content": [{"type": "text", "text": "done"}], "structuredContent": task["structured"]}
    elif task["status"] == "working":
        task["status"] = "input_required"
        task["inputRequests"] = {"name": {"method": "elicitation/create", "params": FORM}}
    return {key: value for key, value in task.items() if key not in {"wants", "structured"}}


async def update_task(request: Request) -> Json:
    task = _task(request)
    task["structured"] = {"brought": request.params["inputResponses"]}
    task.pop("inputRequests", None)
    task["status"], task["wants"] = "working", False
    return {}


async def cancel_task(request: Request) -> Json:
    _task(request)["status"] = "cancelled"
    return {}


async def call_tool(request: Request) -> Json:
    name = request.params.get("name")
    tool = TOOLS.get(str(name))
    if tool is None:
        raise Refusal(-32602, f"Unknown tool: {name}")
    return await ACTS[tool["name"]](request)


HANDLERS: Mapping[str, Handler] = {
    "server/discover": (discover, NEW),
    "subscriptions/listen": (listen, NEW),
    "tasks/get": (get_task, NEW),
    "tasks/update": (update_task, NEW),
    "tasks/cancel": (cancel_task, NEW),
    "initialize": (initialize, OLD),
    "ping": (ping, OLD),
    "logging/setLevel": (set_level, OLD),
    "resources/subscribe": (subscribe, OLD),
    "resources/unsubscribe": (unsubscribe, OLD),
    "tools/list": (list_tools, BOTH),
    "tools/call": (call_tool, BOTH),
    "prompts/list": (list_prompts, BOTH),
    "prompts/get": (get_prompt, BOTH),
    "resources/list": (list_resources, BOTH),
    "resources/templates/list": (list_templates, BOTH),
    "resources/read": (read_resource, BOTH),
    "completion/complete": (complete, BOTH),
    "com.example/weather": (weather, BOTH),
}
