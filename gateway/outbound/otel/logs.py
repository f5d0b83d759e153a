"""Log records by the API of OpenTelemetry, without its SDK, as spans are."""

from collections.abc import Callable
from time import time_ns
from typing import Any

from opentelemetry._logs import Logger, LoggerProvider, LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.trace import get_current_span

from gateway.outbound.otel.encoding import Field, attributes_of
from gateway.outbound.otel.spans import Scope

Take = Callable[[Scope, bytes], None]
"""Gets each record, encoded."""

TIME, SEVERITY, SEVERITY_TEXT, ATTRIBUTES = Field(1), Field(2), Field(3), Field(6)
FLAGS, TRACE_ID, SPAN_ID, OBSERVED, EVENT_NAME = map(Field, range(8, 13))
"""[opentelemetry-proto, logs/v1/logs.proto: LogRecord]"""


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
        span, now = get_current_span(context).get_span_context(), time_ns()
        record_of = (
            TIME.fixed64(now if timestamp is None else timestamp),
            SEVERITY.number(0 if severity_number is None else severity_number.value),
            SEVERITY_TEXT.text(severity_text or ""),
            ATTRIBUTES.all_sized(attributes_of(attributes or {})),
            FLAGS.fixed32(span.trace_flags) if span.is_valid else b"",
            TRACE_ID.body(span.trace_id.to_bytes(16, "big")) if span.is_valid else b"",
            SPAN_ID.body(span.span_id.to_bytes(8, "big")) if span.is_valid else b"",
            OBSERVED.fixed64(now),
            EVENT_NAME.text(event_name or ""),
        )
        self._take(self._scope, b"".join(record_of))


class LeanLoggerProvider(LoggerProvider):
    """Gives loggers whose records go to `take`."""

    def __init__(self, take: Take) -> None:
        self._take = take

    def get_logger(
        self, name: str, version: str | None = None, schema_url: str | None = None, attributes: Any = None
    ) -> Logger:
        """The logger of a scope."""
        return LeanLogger(self._take, Scope(name, version or "", schema_url or ""))
