"""OTLP's exporters of the SDK, given spans and log records that are encoded already.

They know the standard variables, both protocols, TLS, compression and when to try again; what they would do first,
encode what the SDK's own spans are, is left out. For that each is told here where its encoding ends: whoever moves to
another release of them has `tests/cli/test_telemetry.py` to say whether that is still there.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Literal, Protocol

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.outbound.otel.encoding import Value, request_of, resource_of, scoped
from gateway.outbound.otel.spans import Scope
from gateway.outbound.otel.switches import compression, protocol

_LOG = logging.getLogger("counterfoil.otel")

Said = tuple[Scope, bytes]
"""A span or a log record, encoded, and who made it."""


class Sender(Protocol):
    """Where the batches of one signal go. It may block."""

    def export(self, batch: Sequence[Any]) -> Any:
        """Whether the backend has it, as the SDK says that."""
        ...

    def shutdown(self) -> None:
        """It waits for nothing any more."""
        ...


def encoded(resource: bytes, batch: Sequence[Said]) -> bytes:
    """The export request that carries them: one resource, and a scope for each run of records of the same."""
    scopes = [
        scoped(scope.name, scope.version, scope.schema_url, [one for _, one in some])
        for scope, some in groupby(batch, key=lambda one: one[0])
    ]
    return request_of(resource, scopes)


def sender(signal: Literal["traces", "logs"], resource: Mapping[str, Value]) -> tuple[Sender, Callable[[Any], bool]]:
    """Where that signal goes by the environment, and what hands a batch on to it."""
    encode = partial(encoded, resource_of(resource))
    exporter = _grpc(signal, encode) if protocol(signal) == "grpc" else _http(signal, encode)
    return exporter, exporter.export


def _http(signal: Literal["traces", "logs"], encode: Callable[[Sequence[Said]], bytes]) -> Any:
    # Imported where they are wanted: they cost 0.3 s, and most gateways export nothing.
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

    class Spans(OTLPSpanExporter):
        def export(self, batch: Any) -> Any:
            return _taken(self._client.export(encode(batch)))

    class Logs(OTLPLogExporter):
        def export(self, batch: Any) -> Any:
            return _taken(self._client.export(encode(batch)))

    return Spans() if signal == "traces" else Logs()


def _taken(answer: Any) -> bool:
    """The SDK counts a redirection as success; whoever answers so, as the page of a login, has taken nothing."""
    if answer.success and (answer.status_code or 200) >= 300:  # noqa: PLR2004
        _LOG.warning("the telemetry backend answers with HTTP %d and takes nothing", answer.status_code)
        return False
    return bool(answer.success)


def _grpc(signal: Literal["traces", "logs"], encode: Callable[[Sequence[Said]], bytes]) -> Any:
    from grpc import Compression  # noqa: PLC0415 - as above
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk._logs.export import LogRecordExportResult  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415

    class Spans(OTLPSpanExporter):
        def _translate_data(self, data: Any) -> Any:
            return ExportTraceServiceRequest.FromString(encode(data))

        def export(self, batch: Any) -> Any:
            return super().export(batch) is SpanExportResult.SUCCESS

    class Logs(OTLPLogExporter):
        def _translate_data(self, data: Any) -> Any:
            return ExportLogsServiceRequest.FromString(encode(data))

        def export(self, batch: Any) -> Any:
            return super().export(batch) is LogRecordExportResult.SUCCESS

    told = compression(signal)
    made = Compression.Gzip if told == "gzip" else Compression.NoCompression
    return Spans(compression=made) if signal == "traces" else Logs(compression=made)
