"""What goes out with an intent, and what of an answer is stored."""

from collections.abc import Mapping
from typing import Any

from gateway.kernel.registry import registered
from gateway.kernel.rules import Rules
from gateway.model.events import IntentRecorded
from gateway.model.proposal import Proposal
from gateway.model.tool import Answer, InputRequired, ProtocolError, TaskStarted, Tool, ToolResult

ANY_DEPTH = 512
"""Results are stored as they came; they may be deeper than what a client may send."""


def payload_of(answer: Answer | None) -> Mapping[str, Any] | None:
    """What an answer holds to be stored and shown; None where it holds nothing."""
    match answer:
        case ToolResult(result) | InputRequired(result) | TaskStarted(result):
            return dict(result)
        case ProtocolError(error):
            return dict(error)
        case _:
            return None


def keyed(
    proposal: Proposal, rules: Rules, tool: Tool, intent: IntentRecorded
) -> tuple[Mapping[str, Any], dict[str, Any], dict[str, str]]:
    """Arguments, `_meta` and headers, with our key where the registry says that the upstream honours one."""
    place = registered(tool, rules.policy).rule.idempotency_key
    arguments: Mapping[str, Any] = proposal.arguments
    if place is None:
        return arguments, {}, {}
    key = f"{intent.attempt}"
    if place.argument is not None:
        return {**arguments, place.argument: key}, {}, {}
    return arguments, {place.meta: key} if place.meta else {}, {place.header: key} if place.header else {}
