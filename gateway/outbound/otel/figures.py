"""Metrics by the SDK of OpenTelemetry: sent over OTLP, or scraped by Prometheus, or both."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricReader,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource

from gateway.model.telemetry.names import SCHEMA_URL, SCOPE, Attr, Metrics
from gateway.outbound.otel.encoding import Value
from gateway.outbound.otel.switches import compression, protocol

Scrape = Callable[[], tuple[bytes, str]]
"""All figures in Prometheus' text format, and its media type."""


class Figures(NamedTuple):
    """Metrics that are kept."""

    shutdown: Callable[[], None]
    """The last figures are sent. May block."""
    scrape: Scrape | None
    unsent: Callable[[], int]
    """How often they were not taken."""


def keep(wanted: frozenset[str], resource: Mapping[str, Value], dropped: Callable[[], Mapping[str, int]]) -> Figures:
    """Metrics go to these exporters (`otlp`, `prometheus`) from now on; among them how many records were dropped."""

    def told(_: metrics.CallbackOptions) -> Iterator[metrics.Observation]:
        for signal, count in dropped().items():
            yield metrics.Observation(count, {Attr.TELEMETRY_SIGNAL: signal})

    readers: list[MetricReader] = []
    unsent = _Unsent()
    scrape: Scrape | None = None
    if "otlp" in wanted:
        readers.append(PeriodicExportingMetricReader(_exporter(unsent)))
    if "prometheus" in wanted:
        reader, scrape = _scraped()
        readers.append(reader)
    provider = MeterProvider(metric_readers=readers, resource=Resource(dict(resource)), shutdown_on_exit=False)
    metrics.set_meter_provider(provider)
    lost = Metrics.TELEMETRY_DROPPED
    provider.get_meter(SCOPE, schema_url=SCHEMA_URL).create_observable_counter(
        lost.name, [told], lost.unit, lost.description
    )
    return Figures(provider.shutdown, scrape, lambda: unsent.times)


class _Unsent:
    """How often an export came to nothing."""

    def __init__(self) -> None:
        self.times = 0

    def noted(self, result: MetricExportResult) -> MetricExportResult:
        """The same result."""
        self.times += result is not MetricExportResult.SUCCESS
        return result


def _exporter(unsent: _Unsent) -> MetricExporter:
    if protocol("metrics") == "grpc":
        from grpc import Compression  # noqa: PLC0415 - grpc takes a while
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (  # noqa: PLC0415
            OTLPMetricExporter as GrpcExporter,
        )

        class OverGrpc(GrpcExporter):
            def export(self, *args: Any, **more: Any) -> MetricExportResult:
                return unsent.noted(super().export(*args, **more))

        gzip = compression("metrics") == "gzip"
        return OverGrpc(compression=Compression.Gzip if gzip else Compression.NoCompression)
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - only where it is wanted
        OTLPMetricExporter as HttpExporter,
    )

    class OverHttp(HttpExporter):
        def export(self, *args: Any, **more: Any) -> MetricExportResult:
            return unsent.noted(super().export(*args, **more))

    return OverHttp()


def _scraped() -> tuple[MetricReader, Scrape]:
    from opentelemetry.exporter.prometheus import PrometheusMetricReader  # noqa: PLC0415 - as above
    from prometheus_client import CollectorRegistry  # noqa: PLC0415
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest  # noqa: PLC0415

    registry = CollectorRegistry()  # not the one of the process, which has figures of Python's own
    return PrometheusMetricReader(registry=registry, scope_info_enabled=False), lambda: (
        generate_latest(registry),
        CONTENT_TYPE_LATEST,
    )
