"""What the conformance server has to read: resources, a template, prompts, and completions for their arguments."""

import json
import re
from collections.abc import Callable

from mcp import types
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS

from tests.servers.conformance.asking import context_prompt, talked
from tests.servers.conformance.wire import Asked, Json, said

IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
"""A PNG of one red pixel."""
WATCHED = "test://watched-resource"

RESOURCES = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": IMAGE},
    WATCHED: {"mimeType": "text/plain", "text": "Watched resource content"},
}
TEMPLATE = "test://template/{id}/data"
TEMPLATE_MATCH = re.compile(r"test://template/([^/]+)/data")

WORDS = ["paris", "park", "party", "testing"]
"""What every argument can be completed to."""


async def list_resources(_: Asked, __: types.PaginatedRequestParams) -> Json:
    listed = [
        {"uri": uri, "name": uri.removeprefix("test://"), "mimeType": body["mimeType"]}
        for uri, body in RESOURCES.items()
    ]
    return {"resources": listed}


async def list_templates(_: Asked, __: types.PaginatedRequestParams) -> Json:
    return {"resourceTemplates": [{"uriTemplate": TEMPLATE, "name": "template", "mimeType": "application/json"}]}


async def read_resource(_: Asked, params: types.ReadResourceRequestParams) -> Json:
    uri = str(params.uri)
    if uri in RESOURCES:
        return {"contents": [{"uri": uri, **RESOURCES[uri]}]}
    if (match := TEMPLATE_MATCH.fullmatch(uri)) is None:
        raise MCPError(INVALID_PARAMS, "Resource not found", {"uri": uri})
    text = json.dumps({"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"})
    return {"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}


def _user(*content: Json) -> Json:
    return {"messages": [{"role": "user", "content": block} for block in content]}


def _with_resource(arguments: dict[str, str]) -> Json:
    inner = {"uri": arguments["resourceUri"], "mimeType": "text/plain", "text": "Embedded resource content."}
    return _user({"type": "resource", "resource": inner}, said("Please process the embedded resource above."))


PROMPTS: dict[str, tuple[list[str], Callable[[dict[str, str]], Json]]] = {
    "test_simple_prompt": ([], lambda _: _user(said("This is a simple prompt for testing."))),
    "test_prompt_with_arguments": (
        ["arg1", "arg2"],
        lambda given: _user(said(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")),
    ),
    "test_prompt_with_embedded_resource": (["resourceUri"], _with_resource),
    "test_prompt_with_image": (
        [],
        lambda _: _user({"type": "image", "data": IMAGE, "mimeType": "image/png"}, said("Please look at it.")),
    ),
    "test_input_required_result_prompt": ([], lambda _: {}),
}
"""The names of the arguments, all of which are required, and the messages for them."""


async def list_prompts(_: Asked, __: types.PaginatedRequestParams) -> Json:
    listed = [
        {
            "name": name,
            "description": name.replace("_", " "),
            "arguments": [{"name": argument, "required": True} for argument in arguments],
        }
        for name, (arguments, _) in PROMPTS.items()
    ]
    return {"prompts": listed}


async def get_prompt(asked: Asked, params: types.GetPromptRequestParams) -> Json:
    if params.name == "test_input_required_result_prompt":
        return await talked(asked, {}, context_prompt)
    required, messages = PROMPTS.get(params.name, ([], None))
    given = params.arguments or {}
    if messages is None or not set(required) <= given.keys():
        raise MCPError(INVALID_PARAMS, f"no prompt `{params.name}` for these arguments")
    return messages(given)


async def complete(_: Asked, params: types.CompleteRequestParams) -> Json:
    values = [word for word in WORDS if word.startswith(params.argument.value)]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}
