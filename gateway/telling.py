"""What a gateway tells of itself, put together: exporters, what is told, and whom it is told about."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from gateway.outbound import otel
from gateway.outbound.upstream.sight import Sight
from gateway.ports import Redactor
from gateway.runtime import trace
from gateway.runtime.book import Book
from gateway.runtime.recover import Recovery
from gateway.settings import TelemetrySettings

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""By which OpenTelemetry's own instrumentations are told whether to tell content."""

_CONTENT = {"span_only": "spans", "event_only": "events", "span_and_event": "both"}


class Telling:
    """Of one gateway, from its start to its end. Without a backend it is nothing."""

    def __init__(self, settings: TelemetrySettings, salt: bytes, redactor: Redactor) -> None:
        self._running = otel.start(prometheus=settings.prometheus)
        told = None if self._running is None else options(settings, self._running.signals, redactor)
        self.telemetry = None if told is None else trace.Telemetry(salt, told)
        self.sight = Sight(None if self.telemetry is None else self.telemetry.outbound, settings.baggage)
        """What is seen of requests to upstreams."""

    @property
    def scrape(self) -> Callable[[], tuple[bytes, str]] | None:
        """All figures for Prometheus, and their media type; None where they are not kept."""
        return None if self._running is None else self._running.scrape

    def about(self, book: Book, recovery: Recovery, knows: Callable[[str], bool]) -> None:
        """What is recorded there is told from now on. `knows` as in `Telemetry`."""
        if self.telemetry is not None:
            self.telemetry.knows = knows
            self.telemetry.standing(recovery.unknown_for_s, recovery.questions)
            book.telemetry = self.telemetry

    async def stop(self) -> None:
        """What waits is sent or given up, and what was dropped is said."""
        if self._running is not None:
            await self._running.stop()


def options(
    settings: TelemetrySettings,
    signals: frozenset[Any],
    redactor: Redactor,
    environ: Mapping[str, str] = os.environ,
) -> trace.Options:
    """As the file says it, and where it says nothing, the environment."""
    where = settings.content or _CONTENT.get(environ.get(CONTENT, "").strip().lower(), "none")
    return trace.Options(
        remote=settings.remote_context,
        events="logs" in signals,
        figures="metrics" in signals,
        on_spans=where in {"spans", "both"},
        on_events=where in {"events", "both"},
        max_bytes=settings.content_bytes,
        redact=redactor.redact,
        codes=trace.status_codes(environ.get("OTEL_SEMCONV_STABILITY_OPT_IN", "")),
    )
