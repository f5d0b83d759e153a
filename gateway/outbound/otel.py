"""OTLP export by the standard environment variables. Without them nothing is imported and nothing is sent.

Export is batched and off the call's path; a dead backend costs a shutdown at most `FLUSH_S`.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

_LOG = logging.getLogger("counterfoil.otel")

FLUSH_S = 1.5
"""Within the 5 s that a stopping gateway has; a hung OTLP endpoint would take the SDK 20 s."""

_SWITCHES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def configured() -> bool:
    """Whether the environment asks for traces [OpenTelemetry environment variable specification]."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(os.environ.get(name) for name in _SWITCHES)


def measured() -> bool:
    """Whether the environment asks for metrics too. Many a backend takes traces alone, so it must say so itself."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_METRICS_EXPORTER") == "none":
        return False
    wanted = os.environ.get("OTEL_METRICS_EXPORTER") == "otlp" and bool(os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"))
    return wanted or bool(os.environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"))


def start() -> Callable[[], None] | None:
    """Spans and metrics go out from now on; the returned function ends that. None where nothing is configured."""
    ends = [made() for wanted, made in ((configured(), _spans), (measured(), _metrics)) if wanted]
    if not ends:
        return None

    def shutdown() -> None:
        for end in ends:
            end()

    return shutdown


def _spans() -> Callable[[], None]:
    from opentelemetry import trace  # noqa: PLC0415 - the SDK costs 0.3 s to import, and most runs export nothing
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter  # noqa: PLC0415

    exporter: SpanExporter
    if _protocol("TRACES") == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter as GrpcExporter,
        )

        exporter = GrpcExporter()
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter as HttpExporter,
        )

        exporter = HttpExporter()
    provider = TracerProvider(resource=_resource())
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def _metrics() -> Callable[[], None]:
    from opentelemetry import metrics  # noqa: PLC0415 - as above
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader  # noqa: PLC0415

    exporter: MetricExporter
    if _protocol("METRICS") == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (  # noqa: PLC0415
            OTLPMetricExporter as GrpcExporter,
        )

        exporter = GrpcExporter()
    else:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415
            OTLPMetricExporter as HttpExporter,
        )

        exporter = HttpExporter()
    provider = MeterProvider(metric_readers=[PeriodicExportingMetricReader(exporter)], resource=_resource())
    metrics.set_meter_provider(provider)
    return provider.shutdown


def _resource() -> "Resource":
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above

    name = os.environ.get("OTEL_SERVICE_NAME", "counterfoil")
    return Resource.create({"service.name": name, "service.version": version("counterfoil")})


async def stop(shutdown: Callable[[], None]) -> None:
    """What was batched is sent or given up within `FLUSH_S`; which of the two is said."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def flush() -> None:
        shutdown()
        loop.call_soon_threadsafe(done.set)

    threading.Thread(target=flush, daemon=True).start()  # a daemon: a hung backend must not hold the process
    try:
        await asyncio.wait_for(done.wait(), FLUSH_S)
    except TimeoutError:
        _LOG.warning(
            "the telemetry backend did not take the last spans or figures within %.1f s; they are dropped", FLUSH_S
        )


def _protocol(signal: str) -> str:
    specific = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL")
    return specific or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
