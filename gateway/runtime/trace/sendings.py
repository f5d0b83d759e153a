"""One CLIENT span and one measurement for each request to an upstream [semantic-conventions-genai, mcp.client].

A proxy needs no `execute_tool` span of its own: the CLIENT span carries `gen_ai.operation.name`, and two spans for one
call must not be [ibid.: mcp.client is compatible with execute_tool].
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from time import perf_counter
from typing import NamedTuple

from opentelemetry.trace import Span, SpanKind

from gateway.model.run import Attempt
from gateway.model.telemetry.names import METHODS, OTHER, Attr, Metrics
from gateway.model.tool import Answer, NotSent, ProtocolError, Silence, ToolResult
from gateway.ports import Sending
from gateway.runtime.trace.facts import Attributes
from gateway.runtime.trace.figures import instrument, label_of
from gateway.runtime.trace.inner import failed, tracer, within
from gateway.runtime.trace.options import Options
from gateway.runtime.trace.propagators import propagator
from gateway.runtime.trace.providers import METER
from gateway.runtime.trace.requests import bounded

_DURATION = instrument(METER.create_histogram, Metrics.MCP_CLIENT_OPERATION_DURATION)


class _Attempted(NamedTuple):
    run: str
    attempt: Attempt


_ATTEMPT: ContextVar[_Attempted | None] = ContextVar("counterfoil.attempt", default=None)


@contextmanager
def attempting(run: str, attempt: Attempt) -> Iterator[None]:
    """What is sent within the block is sent of this attempt."""
    token = _ATTEMPT.set(_Attempted(run, attempt))
    try:
        yield
    finally:
        _ATTEMPT.reset(token)


_KNOWN: Mapping[type, str] = {
    ToolResult: "confirmed",
    ProtocolError: "confirmed",
    NotSent: "unsent",
    Silence: "unknown",
}
"""What is known of an attempt by its answer; nothing yet where the upstream asks for something."""


class Outbound:
    """A request to an upstream while it is under way."""

    __slots__ = ("_options", "_span", "carrier", "code", "error")

    def __init__(self, span: Span, options: Options) -> None:
        self._span = span
        self._options = options
        self.carrier: Mapping[str, str] = carrier()
        self.code: str | None = None
        self.error: str | None = None

    def answered(self, answer: Answer) -> None:
        """How it ended: every code is an error on this side."""
        match answer:
            case ToolResult(result):
                self.error = "tool_error" if result.get("isError") is True else None
            case ProtocolError(error):
                self.code = self.error = str(error.get("code"))
                self._span.set_attributes(dict.fromkeys(self._options.codes, self.code))
                if self._options.on_spans:
                    self._span.set_attribute(Attr.CONTENT_ERROR, self._options.shown(error.get("message") or ""))
            case NotSent():
                self.error = "not_sent"
            case Silence():
                self.error = "timeout_unknown"
            case _:
                self.error = None
        if self.error is not None:
            self.fail(self.error)
        if _ATTEMPT.get() is not None and (state := _KNOWN.get(type(answer))) is not None:
            self._span.set_attribute(Attr.RECEIPT_STATE, "failed" if self.error and state == "confirmed" else state)

    def fail(self, kind: str) -> None:
        """It is an error of that kind."""
        self.error = kind
        failed(self._span, kind)


def carrier() -> dict[str, str]:
    """Trace context of the current span for `_meta` and HTTP headers; no baggage, which is the caller's."""
    found: dict[str, str] = {}
    propagator().inject(found)
    return found


@contextmanager
def outbound(sending: Sending, options: Options) -> Iterator[Outbound]:
    """The CLIENT span of one request, current within the block."""
    name, shared = _shared(sending.method, sending.target, sending.upstream, sending.version, sending.address)
    attributes = dict(shared)
    span = tracer().start_span(
        name,
        kind=SpanKind.CLIENT,
        attributes={**attributes, Attr.JSONRPC_REQUEST_ID: str(sending.request_id), **_of_attempt()},
    )
    begun = perf_counter()
    with within(span):
        told = Outbound(span, options)
        try:
            yield told
        except BaseException:  # it was cancelled, most often because the gateway ends or its client left
            told.fail("cancelled")
            raise
        finally:
            if told.error is not None:
                attributes[Attr.ERROR_TYPE] = bounded(told.error)
            if told.code is not None:
                attributes |= dict.fromkeys(options.codes, bounded(told.code))
            if Attr.GEN_AI_TOOL_NAME in attributes:
                attributes[Attr.GEN_AI_TOOL_NAME] = label_of(attributes[Attr.GEN_AI_TOOL_NAME])
            _DURATION.record(perf_counter() - begun, attributes)


@lru_cache(maxsize=1_000)
def _shared(
    method: str, target: str | None, upstream: str, version: str, address: tuple[str, int] | None
) -> tuple[str, Attributes]:
    """The span's name, and the attributes of all requests of one kind. Nobody changes them."""
    method = method if method in METHODS else OTHER
    made: Attributes = {
        Attr.MCP_METHOD_NAME: method,
        Attr.MCP_PROTOCOL_VERSION: version,
        Attr.UPSTREAM_NAME: upstream,
        Attr.NETWORK_TRANSPORT: "pipe" if address is None else "tcp",
    }
    if address is not None:
        made[Attr.SERVER_ADDRESS], made[Attr.SERVER_PORT] = address
        made |= {Attr.NETWORK_PROTOCOL_NAME: "http", Attr.NETWORK_PROTOCOL_VERSION: "1.1"}
    if method == "tools/call" and target:
        made |= {Attr.GEN_AI_OPERATION_NAME: "execute_tool", Attr.GEN_AI_TOOL_NAME: target}
    elif target:
        made[Attr.GEN_AI_PROMPT_NAME] = target
    return f"{method} {target}" if target else method, made


def _of_attempt() -> Attributes:
    found = _ATTEMPT.get()
    if found is None:
        return {}
    made: Attributes = {
        Attr.RUN_ID: found.run,
        Attr.INTENT_ID: found.attempt.id,
        Attr.TOOL_EFFECT: found.attempt.intent.effect.value,
    }
    if found.attempt.sent > 1:
        made |= {Attr.RETRY_ATTEMPT: found.attempt.sent, Attr.RETRY_CLASS: "resend"}
    elif found.attempt.resumed:
        made[Attr.RETRY_CLASS] = "round"
    return made
