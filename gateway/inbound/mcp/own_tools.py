"""The gateway's own tools. They change nothing in the world, so no policy is asked about them."""

from collections.abc import Mapping
from typing import Any

RESULT = "gateway__result"

OWN_TOOLS: list[Mapping[str, Any]] = [
    {
        "name": RESULT,
        "title": "Outcome of a call",
        "description": "The outcome of an earlier call that was answered with `in_flight`: what its tool answered, or "
        "`in_flight` again. Never makes the call again.",
        "inputSchema": {
            "type": "object",
            "properties": {"attempt": {"type": "string", "description": "`attempt` of that answer"}},
            "required": ["attempt"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
    }
]
