"""One SERVER span and one measurement for each request of an agent [semantic-conventions-genai, mcp.server].

A caller's trace is what `_meta` says, else the HTTP headers, else there is none; where both say something else, the
span of `_meta` is the parent and that of the headers is linked.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind

from gateway.model.answer import Shown
from gateway.model.record import TraceContext
from gateway.model.run import Run
from gateway.model.telemetry.names import METHODS, OTHER, Attr, Metrics
from gateway.runtime.trace.facts import Attributes, standing_of
from gateway.runtime.trace.figures import instrument, label_of
from gateway.runtime.trace.inner import failed, linked, tracer, within
from gateway.runtime.trace.options import Options
from gateway.runtime.trace.propagators import propagator
from gateway.runtime.trace.providers import METER

_DURATION = instrument(METER.create_histogram, Metrics.MCP_SERVER_OPERATION_DURATION)

CALLER_ERRORS = frozenset({-32700, -32600, -32601, -32602, -32002})
"""JSON-RPC codes that are the caller's fault: no error of the server [semantic-conventions-genai, PR 404]."""

MAX_NAME = 128
"""Characters of a tool's or prompt's name that are told: a caller makes it up."""

ENDLESS = frozenset({"subscriptions/listen"})
"""Requests that last as long as their client stays: their span ends when they begin, or it would be seen days later."""


@dataclass(frozen=True, slots=True)
class Inbound:
    """A request as telemetry sees it."""

    method: str
    tool: str | None = None
    prompt: str | None = None
    resource: str | None = None
    """The tool, prompt or resource that it names."""
    request_id: str | None = None
    protocol_version: str | None = None
    session: str | None = None
    """As a keyed hash: whoever has the id of an anonymous client's session can act in it. Never set for 2026-07-28 and
    later, which have no sessions."""
    transport: str = "tcp"
    """`tcp` for HTTP, `pipe` for stdio [network.transport]."""
    meta: Mapping[str, str] = field(default_factory=dict)
    """`traceparent` and `tracestate` of `_meta`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The same of the HTTP headers."""


class Request:
    """A request while it is answered."""

    __slots__ = ("_options", "attempt", "code", "error", "method", "span", "target")

    def __init__(self, span: Span, options: Options, method: str, target: tuple[str, str] | None) -> None:
        self.span = span
        self.method = method
        self.target = target
        """The attribute that tells what it names, and its value."""
        self.attempt: str | None = None
        """The attempt that was made for it, once there is one."""
        self.code: int | None = None
        self.error: str | None = None
        self._options = options

    def judged(self, attributes: Attributes) -> None:
        """What was recorded for it."""
        self.span.set_attributes(attributes)

    def names(self, tool: str) -> None:
        """It turns out that there is a tool of that name."""
        if self.target is not None and self.target[1] == OTHER:
            self.target = Attr.GEN_AI_TOOL_NAME, tool
            self.span.set_attribute(*self.target)
            self.span.update_name(f"{self.method} {tool}")

    def result(self, result: Mapping[str, Any]) -> None:
        """The answer."""
        if result.get("isError") is True:
            self.fail("tool_error")

    def refused(self, code: Any, message: str = "") -> None:
        """The answer is a JSON-RPC error."""
        if not isinstance(code, int):
            return
        self.code = code
        self.span.set_attributes(dict.fromkeys(self._options.codes, str(code)))
        if self._options.on_spans and message:
            self.span.set_attribute(Attr.CONTENT_ERROR, self._options.shown(message))
        if code not in CALLER_ERRORS:
            self.fail(str(code))

    def fail(self, kind: str) -> None:
        """It is an error of that kind."""
        self.error = kind
        failed(self.span, kind)


_CURRENT: ContextVar[Request | None] = ContextVar("counterfoil.request", default=None)


def current() -> Request | None:
    """The request for which something is done here; None for what nobody asked for, as recovery."""
    return _CURRENT.get()


@contextmanager
def inbound(request: Inbound, options: Options, *, known: bool) -> Iterator[Request]:
    """The SERVER span of one request, current within the block.

    `known`: whether there is what it names. Else its name is told only with content, for a caller may name anything.
    """
    attributes, target = _attributes(request, options), _target(request, told=known or options.on_spans)
    if target is not None:
        attributes[target[0]] = target[1]
    method = attributes[Attr.MCP_METHOD_NAME]
    parent, links, more = _remote(request, options)
    span = tracer().start_span(
        f"{method} {target[1]}" if target is not None else method,
        context=parent,
        kind=SpanKind.SERVER,
        attributes={**attributes, **more},
        links=links,
    )
    told, begun = (
        Request(span, options, method, target if known or target is None else (target[0], OTHER)),
        perf_counter(),
    )
    token = _CURRENT.set(told)
    if request.method in ENDLESS:
        span.end()
    try:
        with within(span):
            yield told
    finally:
        _CURRENT.reset(token)
        if request.method not in ENDLESS:
            _DURATION.record(perf_counter() - begun, _labels(attributes, told, options))


def told(shown: Shown, run: Run | None) -> None:
    """What the client is told, on its SERVER span: which is a refusal too where nothing could be recorded."""
    request = _CURRENT.get()
    if request is None or not request.span.is_recording():
        return
    made: Attributes = {Attr.RUN_ID: shown.run}
    if run is not None and run.phase:
        made[Attr.RUN_PHASE_AFTER] = run.phase
    if shown.attempt is not None:
        made[Attr.INTENT_ID] = shown.attempt
        if run is not None:
            made |= {
                key: value for key, value in standing_of(run, shown.attempt).items() if key == Attr.EFFECT_STANDING
            }
    if shown.refusal is not None:
        made[Attr.DECISION_REASON] = shown.refusal.outcome.value
        made[Attr.POLICY_VERSION] = shown.refusal.policy.digest
        if shown.refusal.terminal:
            made[Attr.STOP_REASON] = shown.refusal.outcome.value
    request.judged(made)


def again(where: TraceContext | None) -> None:
    """The request is answered from what was recorded there: linked to it."""
    request = _CURRENT.get()
    if request is not None and request.span.is_recording():
        for link in linked(where):
            request.span.add_link(link.context)


def _target(request: Inbound, *, told: bool) -> tuple[str, str] | None:
    """What it names, and how that is told."""
    for key, name in ((Attr.GEN_AI_TOOL_NAME, request.tool), (Attr.GEN_AI_PROMPT_NAME, request.prompt)):
        if name is not None:
            return key, name[:MAX_NAME] if told else OTHER
    return None


def _address(uri: str, options: Options) -> str:
    """Of a resource's address what is no secret: credentials, path and query may be."""
    if options.on_spans:
        return options.shown(uri)
    scheme, found, rest = uri.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return f"{scheme}://{host}"[:MAX_NAME] if found and scheme.isalnum() else OTHER


def _attributes(request: Inbound, options: Options) -> Attributes:
    method = request.method if request.method in METHODS else OTHER
    made: Attributes = {Attr.MCP_METHOD_NAME: method, Attr.NETWORK_TRANSPORT: request.transport}
    if request.transport == "tcp":
        made |= {Attr.NETWORK_PROTOCOL_NAME: "http", Attr.NETWORK_PROTOCOL_VERSION: "1.1"}
    if request.tool is not None:
        made[Attr.GEN_AI_OPERATION_NAME] = "execute_tool"
    for key, value in (
        (Attr.MCP_RESOURCE_URI, request.resource and _address(request.resource, options)),
        (Attr.JSONRPC_REQUEST_ID, request.request_id and request.request_id[:MAX_NAME]),
        (Attr.MCP_PROTOCOL_VERSION, request.protocol_version),
        (Attr.MCP_SESSION_ID, request.session),
    ):
        if value:
            made[key] = value
    return made


def _labels(attributes: Attributes, told: Request, options: Options) -> Attributes:
    """Of its measurement: only what is bounded."""
    made = {key: value for key, value in attributes.items() if key in Metrics.MCP_SERVER_OPERATION_DURATION.labels}
    if told.target is not None:
        made[told.target[0]] = label_of(told.target[1])
    if told.error is not None:
        made[Attr.ERROR_TYPE] = bounded(told.error)
    if told.code is not None:
        made |= dict.fromkeys(options.codes, bounded(str(told.code)))
    return made


_RESERVED = range(-32_768, -31_999)
"""Codes of JSON-RPC and MCP themselves [JSON-RPC 2.0, 5.1]; others are whatever a server chooses."""


def bounded(kind: str) -> str:
    """The kind of an error as a label: codes that a server made up are folded."""
    number = kind.removeprefix("-")
    return OTHER if number.isdecimal() and int(kind) not in _RESERVED else kind


_ROOT = trace.set_span_in_context(trace.INVALID_SPAN, Context())


def _remote(request: Inbound, options: Options) -> tuple[Any, list[Link], Attributes]:
    """Under which span ours begins, which spans it is linked to, and what is told of them in plain attributes."""
    carriers = [one for one in (request.meta, request.headers) if one]
    if options.remote == "ignore" or not carriers:
        return _ROOT, [], {}
    found = [propagator().extract(dict(one), _ROOT) for one in carriers]
    spans = [trace.get_current_span(one).get_span_context() for one in found]
    valid = [(one, span) for one, span in zip(found, spans, strict=True) if span.is_valid]
    if not valid:
        return _ROOT, [], {}
    if options.remote == "link":
        first = valid[0][1]
        told = {Attr.CALLER_TRACE_ID: f"{first.trace_id:032x}", Attr.CALLER_SPAN_ID: f"{first.span_id:016x}"}
        return _ROOT, [Link(span) for _, span in valid], told
    (parent, first), others = valid[0], valid[1:]
    return parent, [Link(span) for _, span in others if not _same(span, first)], {}


def _same(one: SpanContext, other: SpanContext) -> bool:
    return (one.trace_id, one.span_id) == (other.trace_id, other.span_id)
