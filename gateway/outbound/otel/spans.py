"""Spans by the API of OpenTelemetry, without its SDK: a span here is what is sent of it and no more.

The SDK's spans take 66 to 98 us each, with locks, bounds and copies for code that nobody knows; ours are opened,
written and ended by one task of one event loop, with attributes from a registry. What decides which are kept, and what
carries them, is the SDK's: samplers and exporters.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from random import Random
from time import time_ns
from typing import Any, NamedTuple

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.trace import (
    INVALID_SPAN_CONTEXT,
    Link,
    NonRecordingSpan,
    NoOpTracer,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TracerProvider,
    get_current_span,
    use_span,
)

from gateway.model.telemetry.names import SCOPE
from gateway.outbound.otel.encoding import Field, Value, attributes_of, sized

_RANDOM = Random()  # noqa: S311 - ids are told to whoever traces, and guard nothing
os.register_at_fork(after_in_child=_RANDOM.seed)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_HERE = False
"""Not remote."""
_KINDS = {
    SpanKind.INTERNAL: 1,
    SpanKind.SERVER: 2,
    SpanKind.CLIENT: 3,
    SpanKind.PRODUCER: 4,
    SpanKind.CONSUMER: 5,
}
_STATUSES = {StatusCode.UNSET: 0, StatusCode.OK: 1, StatusCode.ERROR: 2}
"""[opentelemetry-proto, trace/v1/trace.proto: SpanKind, StatusCode]"""
_REMOTE, _LOCAL = 0x300, 0x100
"""Of `flags`: whether it is known that a parent or link is remote, and that it is [opentelemetry-proto, SpanFlags]."""


class Scope(NamedTuple):
    """What made a span or a log record."""

    name: str
    version: str
    schema_url: str


Take = Callable[[Scope, bytes], None]
"""Gets each span that ended, encoded."""


class LeanSpan(Span):
    """A span that is kept."""

    __slots__ = (
        "_attributes",
        "_context",
        "_kind",
        "_links",
        "_name",
        "_parent",
        "_scope",
        "_start",
        "_status",
        "_take",
    )

    def __init__(
        self, take: Take, scope: Scope, name: str, kind: SpanKind, context: SpanContext, parent: SpanContext
    ) -> None:
        self._take: Take | None = take
        self._scope = scope
        self._name = name
        self._kind = kind
        self._context = context
        self._parent = parent
        self._start = time_ns()
        self._attributes: dict[str, Value] = {}
        self._links: list[Link] = []
        self._status: Status | None = None

    def get_span_context(self) -> SpanContext:
        """Its ids."""
        return self._context

    def is_recording(self) -> bool:
        """Whether it has not ended."""
        return self._take is not None

    def set_attribute(self, key: str, value: Any) -> None:
        """Of a value that OpenTelemetry knows."""
        self._attributes[key] = value

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Several."""
        self._attributes.update(attributes)

    def add_link(self, context: SpanContext, attributes: Mapping[str, Any] | None = None) -> None:
        """To another span, whichever trace it is of."""
        self._links.append(Link(context, attributes))

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        """Nothing: events are log records [semantic-conventions-genai: they move from spans to logs]."""

    def record_exception(
        self, exception: BaseException, attributes: Any = None, timestamp: int | None = None, escaped: bool = False
    ) -> None:
        """Nothing: the text of an error is content."""

    def update_name(self, name: str) -> None:
        """Another name."""
        self._name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """How it ended. A description is content, and not taken."""
        self._status = status if isinstance(status, Status) else Status(status)

    def end(self, end_time: int | None = None) -> None:
        """It is over, and sent. The first time counts."""
        take, self._take = self._take, None
        if take is not None:
            take(self._scope, self._encoded(time_ns() if end_time is None else end_time))

    def _encoded(self, end: int) -> bytes:
        own, parent, status = self._context, self._parent, self._status
        return b"".join(
            (
                TRACE_ID.body(own.trace_id.to_bytes(16, "big")),
                SPAN_ID.body(own.span_id.to_bytes(8, "big")),
                STATE.text(own.trace_state.to_header()) if own.trace_state else b"",
                PARENT.body(parent.span_id.to_bytes(8, "big")) if parent.span_id else b"",
                NAME.text(self._name),
                KIND.number(_KINDS[self._kind]),
                START.fixed64(self._start),
                END.fixed64(max(end, self._start)),
                ATTRIBUTES.all_sized(attributes_of(self._attributes)),
                LINKS.all_sized(map(_link, self._links)) if self._links else b"",
                STATUS.body(CODE.number(_STATUSES[status.status_code])) if status is not None else b"",
                FLAGS.fixed32(own.trace_flags | (_REMOTE if parent.is_remote else _LOCAL)),
            )
        )


TRACE_ID, SPAN_ID, STATE, PARENT, NAME, KIND, START, END, ATTRIBUTES = map(Field, range(1, 10))
LINKS, STATUS, FLAGS = Field(13), Field(15), Field(16)
CODE = Field(3)
"""Of a `Status`."""
LINK_ATTRIBUTES, LINK_FLAGS = Field(4), Field(6)
"""Of a `Link`; its ids have the numbers of a span's."""


def _link(link: Link) -> bytes:
    told = link.context
    return sized(
        TRACE_ID.body(told.trace_id.to_bytes(16, "big"))
        + SPAN_ID.body(told.span_id.to_bytes(8, "big"))
        + LINK_ATTRIBUTES.all_sized(attributes_of(link.attributes or {}))
        + LINK_FLAGS.fixed32(told.trace_flags | (_REMOTE if told.is_remote else _LOCAL))
    )


class LeanTracer(Tracer):
    """Opens the spans of one scope."""

    def __init__(self, take: Take, sampler: Sampler | None, scope: Scope) -> None:
        self._take = take
        self._sampler = sampler
        self._scope = scope

    def start_span(
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Any = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
    ) -> Span:
        """A span, under the current one or that of the context."""
        parent = get_current_span(context).get_span_context()
        parent = parent if parent.is_valid else INVALID_SPAN_CONTEXT
        trace_id = parent.trace_id or _RANDOM.getrandbits(128) or 1
        own = SpanContext(trace_id, _RANDOM.getrandbits(64) or 1, _HERE, _SAMPLED, parent.trace_state)
        more: Mapping[str, Any] = {}
        if self._sampler is not None:
            found = self._sampler.should_sample(context, trace_id, name, kind, attributes, links)
            kept, more = found.decision is Decision.RECORD_AND_SAMPLE, found.attributes or {}
        else:  # as the default sampler decides, `parentbased_always_on`
            kept = not parent.is_valid or bool(parent.trace_flags & TraceFlags.SAMPLED)
        if not kept:
            flags = TraceFlags(TraceFlags.DEFAULT)
            return NonRecordingSpan(SpanContext(trace_id, own.span_id, _HERE, flags, parent.trace_state))
        span = LeanSpan(self._take, self._scope, name, kind, own, parent)
        if attributes or more:
            span.set_attributes({**(attributes or {}), **more})
        for one in links or ():
            span.add_link(one.context, one.attributes)
        return span

    def start_as_current_span(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """As `start_span`, current within the block, ended after it."""
        end_on_exit = kwargs.pop("end_on_exit", True)
        span = self.start_span(name, *args, **kwargs)
        return use_span(span, end_on_exit=end_on_exit, record_exception=False, set_status_on_exception=False)


class LeanTracerProvider(TracerProvider):
    """Gives tracers whose ended spans go to `take`; without a sampler, as `parentbased_always_on`."""

    def __init__(self, take: Take, sampler: Sampler | None) -> None:
        self._take = take
        self._sampler = sampler

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: Any = None,
    ) -> Tracer:
        """Ours, and for all others one that tells nothing: MCP's SDK would tell the console's requests again."""
        if instrumenting_module_name != SCOPE:
            return NoOpTracer()
        scope = Scope(instrumenting_module_name, instrumenting_library_version or "", schema_url or "")
        return LeanTracer(self._take, self._sampler, scope)
