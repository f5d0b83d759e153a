"""What is written by hand is what the messages of opentelemetry-proto read."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry._logs import SeverityNumber
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.trace import Link, SpanContext, SpanKind, StatusCode, TraceFlags, TraceState

from gateway.model.telemetry.names import SCOPE
from gateway.outbound.otel import encoding
from gateway.outbound.otel.encoding import MAX_MISSES, attributes_of, resource_of, varint
from gateway.outbound.otel.logs import LeanLoggerProvider
from gateway.outbound.otel.senders import Said, encoded
from gateway.outbound.otel.spans import LeanTracerProvider
from tests.telemetry.received import Received

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
VALUES = st.one_of(
    TEXT,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.lists(TEXT, max_size=3),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
)
ATTRIBUTES = st.dictionaries(TEXT.filter(bool), VALUES, max_size=8)


def received(said: list[Said], resource: dict[str, Any] | None = None) -> Received:
    """What a backend makes of them."""
    made, body = Received(), encoded(resource_of(resource or {}), said)
    made.take("traces", ExportTraceServiceRequest.FromString(body))
    return made


@given(ATTRIBUTES, ATTRIBUTES, TEXT, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1))
@settings(max_examples=60, deadline=None)
def test_a_span_is_read_as_it_was_told(
    attributes: dict[str, Any], linked: dict[str, Any], name: str, trace_id: int, span_id: int
) -> None:
    said: list[Said] = []
    tracer = LeanTracerProvider(lambda scope, span: said.append((scope, span)), None).get_tracer(SCOPE, "1", "u")
    other = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState())
    span = tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes, links=[Link(other, linked)])
    span.set_status(StatusCode.ERROR, "which is content")
    span.end(2**62)
    span.end()
    span.set_attribute("late", 1)
    (read,) = received(said, {"service.name": name}).spans
    assert dict(read.attributes) == attributes
    assert (read.name, read.kind, read.status, read.description) == (name, "client", "error", "")
    assert (read.end_ns, dict(read.resource)) == (2**62, {"service.name": name})
    assert (read.scope.name, read.scope.version, read.scope.schema_url) == (SCOPE, "1", "u")
    (link,) = read.links
    assert (int(link.trace_id, 16), int(link.span_id, 16), dict(link.attributes)) == (trace_id, span_id, linked)


@given(ATTRIBUTES, st.integers(1, 2**62))
@settings(max_examples=40, deadline=None)
def test_a_log_event_is_read_as_it_was_told(attributes: dict[str, Any], at: int) -> None:
    said: list[Said] = []
    logger = LeanLoggerProvider(lambda scope, log: said.append((scope, log))).get_logger("s", schema_url="u")
    logger.emit(
        timestamp=at, severity_number=SeverityNumber.WARN, severity_text="WARN", event_name="e", attributes=attributes
    )
    made = Received()
    made.take("logs", ExportLogsServiceRequest.FromString(encoded(resource_of({}), said)))
    (read,) = made.logs
    assert (read.event, read.severity, read.time_ns, dict(read.attributes)) == ("e", 13, at, attributes)
    assert (read.trace_id, read.span_id, read.body) == ("", "", None)


def test_what_no_backend_could_read_is_told_in_another_way() -> None:
    said: list[Said] = []
    tracer = LeanTracerProvider(lambda scope, span: said.append((scope, span)), None).get_tracer(SCOPE)
    tracer.start_span("half \ud800", attributes={"huge": 2**64, "half": "\udfff", "none": None}).end()
    (read,) = received(said).spans
    assert (read.name, dict(read.attributes)) == ("half ?", {"huge": str(2**64), "half": "?", "none": "None"})


def test_what_libraries_would_tell_of_themselves_is_not_told() -> None:
    said: list[Said] = []
    provider = LeanTracerProvider(lambda scope, span: said.append((scope, span)), None)
    with provider.get_tracer("mcp-python-sdk").start_as_current_span("tools/call x"):
        provider.get_tracer(SCOPE).start_span("ours").end()
    assert [(span.name, span.parent_id) for span in received(said).spans] == [("ours", "")]


def test_a_key_with_many_values_keeps_none_of_them_for_ever() -> None:
    before = len(encoding._texts)
    for number in range(3 * MAX_MISSES):
        attributes_of({"test.many": f"value {number}"})
    assert len(encoding._texts) - before <= MAX_MISSES


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 16_383, 16_384, 2**32, 2**63, 2**64 - 1])
def test_a_number_is_written_in_groups_of_seven_bits(number: int) -> None:
    groups = varint(number)
    assert sum((byte & 127) << 7 * place for place, byte in enumerate(groups)) == number
    assert [byte >> 7 for byte in groups] == [1] * (len(groups) - 1) + [0]
