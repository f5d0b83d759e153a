"""Spans, by the MCP and GenAI conventions: one SERVER span for each inbound request, one CLIENT span for each attempt.

A proxy needs no `execute_tool` span of its own: the CLIENT span carries `gen_ai.operation.name`
[semantic-conventions-genai: mcp.client is compatible with execute_tool]. Without an SDK configured every
span here is a no-op. Spans are lossy; the ledger is the record, and spans carry its ids.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from gateway.kernel.standing import standing
from gateway.model.answer import Shown
from gateway.model.record import TraceContext
from gateway.model.run import Run
from gateway.model.tool import Answer, NotSent, ProtocolError, Silence, ToolResult

_TRACER = trace.get_tracer("counterfoil", schema_url="https://opentelemetry.io/schemas/1.45.0")

CALLER_ERRORS = frozenset({-32700, -32600, -32601, -32602, -32002})
"""JSON-RPC codes that are the caller's fault: no error of the server [semantic-conventions-genai, PR 404]."""


@dataclass(frozen=True, slots=True)
class Inbound:
    """A request as telemetry sees it."""

    method: str
    target: str | None = None
    """Tool name of a `tools/call`; None otherwise."""
    request_id: str | None = None
    protocol_version: str | None = None
    session: str | None = None
    """Never set for 2026-07-28 and later, which have no sessions."""
    transport: str = "tcp"
    """`tcp` for HTTP, `pipe` for stdio [network.transport]."""
    carrier: Mapping[str, str] = field(default_factory=dict)
    """`traceparent`, `tracestate`, `baggage`, from `_meta` or else from the HTTP headers."""


@contextmanager
def inbound(request: Inbound) -> Iterator[Span]:
    """The SERVER span of one request, current within the block."""
    name = f"{request.method} {request.target}" if request.target else request.method
    attributes: dict[str, Any] = {"mcp.method.name": request.method, "network.transport": request.transport}
    if request.target:
        attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": request.target}
    if request.request_id is not None:
        attributes["jsonrpc.request.id"] = request.request_id
    if request.protocol_version:
        attributes["mcp.protocol.version"] = request.protocol_version
    if request.session:
        attributes["mcp.session.id"] = request.session
    parent = propagate.extract(dict(request.carrier)) if request.carrier else None
    with _TRACER.start_as_current_span(
        name, context=parent, kind=SpanKind.SERVER, attributes=attributes, record_exception=False
    ) as span:
        yield span


def outbound(tool: str, upstream: str, attempt: str) -> AbstractContextManager[Span]:
    """The CLIENT span of one attempt, current within the block; inject with `carrier`."""
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return nullcontext(trace.get_current_span())  # without an SDK no span is made
    return _outbound(tool, upstream, attempt)


@contextmanager
def _outbound(tool: str, upstream: str, attempt: str) -> Iterator[Span]:
    attributes = {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "counterfoil.upstream.name": upstream,
        "counterfoil.intent.id": attempt,
    }
    span = _TRACER.start_span(f"tools/call {tool}", kind=SpanKind.CLIENT, attributes=attributes)
    if span is trace.get_current_span():
        yield span  # an SDK that is turned off makes none: this one is current already, and not ours to end
        return
    with trace.use_span(span, end_on_exit=True, record_exception=False):
        yield span


def carrier() -> dict[str, str]:
    """Trace context of the current span for `_meta` and HTTP headers; no baggage. Empty without an SDK."""
    found: dict[str, str] = {}
    propagate.inject(found)
    return {name: value for name, value in found.items() if name != "baggage"}


def context() -> TraceContext | None:
    """The current span, for a record; None without an SDK."""
    current = trace.get_current_span().get_span_context()
    if not current.is_valid:
        return None
    return TraceContext(trace_id=f"{current.trace_id:032x}", span_id=f"{current.span_id:016x}")


def answered(span: Span, answer: Answer) -> None:
    """The attempt's end, on its CLIENT span: every code is an error on this side."""
    match answer:
        case ToolResult(result):
            if result.get("isError") is True:
                _failed(span, "tool_error")
        case ProtocolError(error):
            code = str(error.get("code"))
            span.set_attribute("rpc.response.status_code", code)
            _failed(span, code)
        case NotSent():
            _failed(span, "not_sent")
        case Silence():
            _failed(span, "timeout_unknown")
        case _:
            pass


def _attempted(span: Span, attempt_id: str, run: Run | None) -> None:
    span.set_attribute("counterfoil.intent.id", attempt_id)
    attempt = run.attempts.get(attempt_id) if run is not None else None
    if run is not None and attempt is not None and (stands := standing(run, attempt)) is not None:
        span.set_attribute("counterfoil.effect.standing", stands.value)


def told(shown: Shown, run: Run | None) -> None:
    """The decision, on the current SERVER span."""
    span = trace.get_current_span()
    if not span.is_recording():
        return
    span.set_attribute("counterfoil.task.id", shown.run)
    if run is not None:
        span.set_attribute("counterfoil.task.phase.after", run.phase)
    if shown.attempt is not None:
        _attempted(span, shown.attempt, run)
    if shown.refusal is not None:
        span.set_attribute("counterfoil.decision.outcome", _OUTCOMES.get(shown.refusal.outcome, "deny"))
        span.set_attribute("counterfoil.decision.reason", str(shown.refusal.outcome))
        span.set_attribute("counterfoil.policy.version", shown.refusal.policy.digest)
        if shown.refusal.policy.rule:
            span.set_attribute("counterfoil.policy.rule.id", shown.refusal.policy.rule)
        if shown.refusal.terminal:
            span.set_attribute("counterfoil.stop.reason", str(shown.refusal.outcome))
        _failed(span, "tool_error")
        return
    replayed = bool(shown.record and shown.record.get("replayed"))
    span.set_attribute("counterfoil.decision.outcome", "replay" if replayed else "allow")
    if shown.error is not None:
        span.set_attribute("rpc.response.status_code", str(shown.error.get("code")))
        if shown.error.get("code") not in CALLER_ERRORS:
            _failed(span, str(shown.error.get("code")))
    elif shown.result is not None and shown.result.get("isError") is True:
        _failed(span, "tool_error")


_OUTCOMES = {"needs_approval": "needs_approval", "in_flight": "hold", "held": "hold", "timeout_unknown": "unknown"}


def _failed(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))
