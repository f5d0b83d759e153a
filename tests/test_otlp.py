"""The receiver of the other tests is one: the SDK's own exporters reach it, over both protocols, with all signals."""

import asyncio
import logging
import time
from contextlib import ExitStack
from typing import Any

import grpc
import pytest
from opentelemetry import _logs as logs_api
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.metrics import Observation
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode

from tests.otlp import PROTOCOLS, Faults, Protocol, Receiver, receiver
from tests.telemetry.received import Scope

pytestmark = pytest.mark.anyio

RESOURCE = Resource({"service.name": "one"})


def exporters(made: Receiver, timeout_s: float = 5, **options: Any) -> tuple[Any, Any, Any]:
    """Of spans, metrics and logs."""
    if made.protocol == "grpc":
        asked: dict[str, Any] = {"endpoint": made.endpoint, "insecure": True, "timeout": timeout_s, **options}
        return GrpcSpans(**asked), GrpcMetrics(**asked), GrpcLogs(**asked)
    over = {"timeout": timeout_s, **options}
    return (
        HttpSpans(f"{made.endpoint}/v1/traces", **over),
        HttpMetrics(f"{made.endpoint}/v1/metrics", **over),
        HttpLogs(f"{made.endpoint}/v1/logs", **over),
    )


def emit(made: Receiver, **options: Any) -> None:
    """A span with all that a span can have, three figures and an event within it."""
    spans, figures, logs = exporters(made, **options)
    tracers, loggers = TracerProvider(resource=RESOURCE), LoggerProvider(resource=RESOURCE)
    reader = PeriodicExportingMetricReader(figures, export_interval_millis=60_000)
    meters = MeterProvider([reader], resource=RESOURCE)
    with ExitStack() as ends:
        ends.callback(tracers.shutdown)
        ends.callback(loggers.shutdown)
        ends.callback(meters.shutdown)
        tracers.add_span_processor(SimpleSpanProcessor(spans))
        loggers.add_log_record_processor(SimpleLogRecordProcessor(logs))
        tracer = tracers.get_tracer("s", "1", "https://schema")
        elsewhere = SpanContext(0xA, 0xB, is_remote=True)
        with tracer.start_as_current_span("outer", kind=SpanKind.SERVER, links=[Link(elsewhere, {"why": "x"})]) as span:
            span.set_attributes({"a": "x", "b": 1, "c": 2.0, "d": True, "e": ["x", "y"]})
            span.add_event("told", {"n": 1})
            span.set_status(Status(StatusCode.ERROR, "no"))
            with tracer.start_as_current_span("inner", kind=SpanKind.CLIENT):
                loggers.get_logger("s").emit(
                    event_name="e", severity_number=logs_api.SeverityNumber.WARN, attributes={"a": 1}, body="b"
                )
        meter = meters.get_meter("s")
        meter.create_counter("sum", "{x}", "Sum").add(2, {"a": "x"})
        meter.create_up_down_counter("now").add(-1)
        meter.create_histogram("hist", "s", explicit_bucket_boundaries_advisory=[1.0, 2.0]).record(1.5)
        meter.create_observable_gauge("seen", [lambda _: [Observation(7)]])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("zipped", [False, True])
async def test_all_that_an_sdk_sends_is_read(protocol: Protocol, zipped: bool) -> None:  # noqa: FBT001 - a case
    how = grpc.Compression.Gzip if protocol == "grpc" else Compression.Gzip
    async with receiver(protocol) as made:
        await asyncio.to_thread(emit, made, **({"compression": how} if zipped else {}))
        outer, inner = made.span("outer", "server"), made.span("inner")
        assert outer.attributes == {"a": "x", "b": 1, "c": 2.0, "d": True, "e": ["x", "y"]}
        assert (outer.status, outer.description, outer.parent_id) == ("error", "no", "")
        assert [(link.trace_id[-1], link.span_id[-1], link.attributes) for link in outer.links] == [
            ("a", "b", {"why": "x"})
        ]
        assert outer.events == (("told", {"n": 1}),)
        assert outer.scope == Scope("s", "1", "https://schema")
        assert outer.resource == {"service.name": "one"}
        assert 0 < outer.start_ns <= inner.start_ns <= inner.end_ns <= outer.end_ns
        assert (inner.kind, inner.parent_id, inner.trace_id, inner.status) == (
            "client",
            outer.span_id,
            outer.trace_id,
            "unset",
        )
        (event,) = made.events("e")
        assert (event.severity, event.attributes, event.body, event.span_id) == (13, {"a": 1}, "b", inner.span_id)
        told = {one.name: (one.instrument, one.unit, one.points[0].value) for one in made.metrics}
        assert told == {
            "sum": ("counter", "{x}", 2),
            "now": ("updowncounter", "", -1),
            "hist": ("histogram", "s", 1.5),
            "seen": ("gauge", "", 7),
        }
        (point,) = made.metric("hist").points
        assert (point.bounds, point.buckets, point.count) == ((1.0, 2.0), (0, 1, 0), 1)
        assert {signal for signal, status in made.asked if status == 200} == {"traces", "metrics", "logs"}
        assert made.encodings == (set() if protocol == "grpc" else {"gzip" if zipped else "identity"})


def export_one(made: Receiver, *, timeout_s: float, which: int = 0) -> Any:
    """What the exporter itself says of one span (0), or one log record (2)."""
    exporter = exporters(made, timeout_s=timeout_s)[which]
    sent: list[Any] = []

    class Keep(SimpleSpanProcessor):
        def on_end(self, span: Any) -> None:
            sent.append(span)

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Keep(exporter))
    provider.get_tracer("s").start_span("x").end()
    try:
        return exporter.export(sent)
    finally:
        exporter.shutdown()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_backend_that_is_unavailable_for_a_while_gets_everything_in_the_end(
    protocol: Protocol, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    async with receiver(protocol, Faults(unavailable=1)) as made:
        assert await asyncio.to_thread(export_one, made, timeout_s=5) is SpanExportResult.SUCCESS
        assert made.asked == [("traces", 503), ("traces", 200)]
        assert [span.name for span in made.spans] == ["x"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("faults", "asked"),
    [
        (Faults(hangs=True), [("traces", 0)]),
        (Faults(refuses=True), []),
        (Faults(without=frozenset({"traces"})), [("traces", 405)]),
    ],
    ids=["hangs", "refuses", "without"],
)
async def test_a_backend_fails_as_it_is_told(protocol: Protocol, faults: Faults, asked: list[Any]) -> None:
    async with receiver(protocol, faults) as made:
        began = time.monotonic()
        assert await asyncio.to_thread(export_one, made, timeout_s=0.3) is SpanExportResult.FAILURE
        assert time.monotonic() - began < 3
        assert made.asked[:1] == asked
        assert made.spans == []


def test_a_receiver_tells_a_gateway_where_it_is() -> None:
    made = Receiver(endpoint="http://127.0.0.1:1", protocol="grpc")
    assert made.env["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://127.0.0.1:1"
    assert {made.env[f"OTEL_{signal}_EXPORTER"] for signal in ("TRACES", "METRICS", "LOGS")} == {"otlp"}
