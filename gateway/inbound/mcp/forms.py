"""A question to a person as a form of the asking client's, and what the client's answer says [MCP, elicitation].

Only where policy lets the caller's own user answer. What comes back is the client's word: a client without a person
declines, cancels or accepts by itself, at once, and that is nobody's answer.
"""

from collections.abc import Mapping
from json import dumps
from typing import Any

from gateway.inbound.mcp.asking import Asking
from gateway.model.canonical import digest
from gateway.model.question import Question
from gateway.model.unseen import spelled_out

METHOD = "elicitation/create"
MAX_ARGUMENTS = 4_000
"""Characters of arguments that are shown; a dialog is no place to read more."""

FIELD = "decision"
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        FIELD: {
            "type": "string",
            "title": "Decision",
            "description": "approve: the call is made once, exactly as shown; reject: it is not made",
            "enum": ["approve", "reject"],
        }
    },
    "required": [FIELD],
}


def can_ask(asking: Asking, question: Question) -> bool:
    """Whether policy takes an answer of the client's own user, who gave none yet and can be asked by a form."""
    declared = asking.capabilities.get("elicitation")
    if not question.caller or asking.exchange.principal.id in question.told.agreed:
        return False
    # An empty object has meant forms since before there were others [MCP 2025-11-25, elicitation].
    return isinstance(declared, Mapping) and (not declared or "form" in declared)


def form(asking: Asking, question: Question) -> dict[str, Any]:
    """The params of the request."""
    asked: dict[str, Any] = {"message": _message(asking, question), "requestedSchema": dict(_SCHEMA)}
    return {"mode": "form", **asked} if "form" in asking.capabilities.get("elicitation", {}) else asked


def _message(asking: Asking, question: Question) -> str:
    arguments = asking.params.get("arguments") or {}
    told = spelled_out(dumps(arguments, ensure_ascii=False, indent=2), keep="\n")
    if len(told) > MAX_ARGUMENTS:
        whole = f"\n… cut; all {len(told)} characters: {question.told.page or question.told.approve_at}"
        told = f"{told[:MAX_ARGUMENTS]}{whole}\ndigest of all: {digest(arguments, b'')}"
    lines = (
        f"May this call be made? Tool: {spelled_out(question.told.tool)}",
        f"Why you are asked: {spelled_out(question.told.asks)}",
        f"What it would do: {spelled_out(question.consequence) or 'policy does not say'}",
        f"Arguments, exactly:\n{told}",
    )
    return "\n".join(lines)


def said(result: Any, after_s: float, reading_s: float) -> tuple[bool, str] | None:
    """Whether the client's user agrees, and in which words; None where nobody has answered.

    `after_s`: how long after the question the answer came.
    """
    if not isinstance(result, Mapping) or after_s < reading_s:
        return None
    content = result.get("content")
    decision = content.get(FIELD) if isinstance(content, Mapping) else None
    match (result.get("action"), decision):
        case ("accept", "approve"):
            return True, "approved in the asking client"
        case ("accept", "reject"):
            return False, "rejected in the asking client"
        case ("decline", _):
            return False, "declined in the asking client"
        case _:
            return None
