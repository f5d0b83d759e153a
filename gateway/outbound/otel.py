"""OTLP export by the standard environment variables. Without them nothing is imported and nothing is sent.

Export is batched and off the call's path; a dead backend costs a shutdown at most `FLUSH_S`.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from importlib.metadata import version

_LOG = logging.getLogger("counterfoil.otel")

FLUSH_S = 1.5
"""Within the 5 s that a stopping gateway has; a hung OTLP endpoint would take the SDK 20 s."""

_SWITCHES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def configured() -> bool:
    """Whether the environment asks for traces [OpenTelemetry environment variable specification]."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(os.environ.get(name) for name in _SWITCHES)


def start() -> Callable[[], None] | None:
    """Spans go out from now on; the returned function ends that. None where nothing is configured."""
    if not configured():
        return None
    from opentelemetry import trace  # noqa: PLC0415 - the SDK costs 0.3 s to import, and most runs export nothing
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter  # noqa: PLC0415

    exporter: SpanExporter
    if _protocol() == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter as GrpcExporter,
        )

        exporter = GrpcExporter()
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter as HttpExporter,
        )

        exporter = HttpExporter()
    resource = Resource.create(
        {"service.name": os.environ.get("OTEL_SERVICE_NAME", "counterfoil"), "service.version": version("counterfoil")}
    )
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider.shutdown


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
        _LOG.warning("the telemetry backend did not take the last spans within %.1f s; they are dropped", FLUSH_S)


def _protocol() -> str:
    specific = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
    return specific or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
