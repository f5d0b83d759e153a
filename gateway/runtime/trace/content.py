"""Arguments, results and free text of an event, where somebody asked for them: redacted first, then cut."""

from collections.abc import Mapping

from gateway.model.canonical import Digest
from gateway.model.events import Event, EvidenceRecorded, ReceiptRecorded, Verdict
from gateway.model.telemetry.names import Attr
from gateway.runtime.trace.facts import Attributes
from gateway.runtime.trace.options import Options


def content(event: Event, payloads: Mapping[Digest, bytes], options: Options) -> Attributes:
    """What of it is content. `payloads` are those that are stored with the event."""
    made: Attributes = {}
    if isinstance(event, Verdict) and (body := payloads.get(event.arguments)) is not None:
        made[Attr.GEN_AI_TOOL_CALL_ARGUMENTS] = options.payload(body)
    if isinstance(event, ReceiptRecorded) and event.result is not None and (body := payloads.get(event.result)):
        key = Attr.CONTENT_ERROR if event.answer == "error" else Attr.GEN_AI_TOOL_CALL_RESULT
        made[key] = options.payload(body)
    if isinstance(event, EvidenceRecorded):
        made[Attr.GEN_AI_EVALUATION_EXPLANATION] = options.shown(event.says)
    elif (reason := getattr(event, "reason", None)) and event.kind not in _UNTOLD:
        made[Attr.CONTENT_REASON] = options.shown(reason)
    return made


_UNTOLD = frozenset({"finish.refused"})
"""Kinds of event whose reason is made of names of policy's, which are told already."""
