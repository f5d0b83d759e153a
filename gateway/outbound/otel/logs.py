"""Log records by the API of OpenTelemetry, without its SDK, as spans are."""

from collections.abc import Callable
from time import time_ns
from typing import Any

from opentelemetry._logs import Logger, LoggerProvider, LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as Encoded
from opentelemetry.trace import get_current_span

from gateway.outbound.otel.encoding import key_values
from gateway.outbound.otel.spans import Scope

Take = Callable[[Scope, Encoded], None]


class LeanLogger(Logger):
    """Writes the records of one scope."""

    def __init__(self, take: Take, scope: Scope) -> None:
        super().__init__(scope.name, scope.version, scope.schema_url)
        self._take = take
        self._scope = scope

    def enabled(
        self,
        *,
        context: Context | None = None,
        severity_number: SeverityNumber | None = None,
        event_name: str | None = None,
    ) -> bool:
        """Always."""
        return True

    def emit(
        self,
        record: LogRecord | None = None,
        *,
        timestamp: int | None = None,
        observed_timestamp: int | None = None,
        context: Context | None = None,
        severity_number: SeverityNumber | None = None,
        severity_text: str | None = None,
        body: Any = None,
        attributes: Any = None,
        event_name: str | None = None,
        exception: BaseException | None = None,
    ) -> None:
        """A record, in the span that is current or of the context. Bodies and exceptions are content: not taken."""
        if record is not None:
            timestamp, context, attributes = record.timestamp, record.context, record.attributes
            severity_number, severity_text, event_name = record.severity_number, record.severity_text, record.event_name
        span = get_current_span(context).get_span_context()
        now = time_ns()
        self._take(
            self._scope,
            Encoded(
                time_unix_nano=now if timestamp is None else timestamp,
                observed_time_unix_nano=now,
                severity_number=0 if severity_number is None else severity_number.value,  # type: ignore[arg-type]
                severity_text=severity_text or "",
                event_name=event_name or "",
                attributes=key_values(attributes or {}),
                trace_id=span.trace_id.to_bytes(16, "big") if span.is_valid else b"",
                span_id=span.span_id.to_bytes(8, "big") if span.is_valid else b"",
                flags=span.trace_flags if span.is_valid else 0,
            ),
        )


class LeanLoggerProvider(LoggerProvider):
    """Gives loggers whose records go to `take`."""

    def __init__(self, take: Take) -> None:
        self._take = take

    def get_logger(
        self, name: str, version: str | None = None, schema_url: str | None = None, attributes: Any = None
    ) -> Logger:
        """The logger of a scope."""
        return LeanLogger(self._take, Scope(name, version or "", schema_url or ""))
