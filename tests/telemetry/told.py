"""A house whose telemetry is received in this process, as it would be sent: encoded, and read back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest as Logs
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest as Traces
from opentelemetry.sdk.trace.sampling import Sampler

from gateway.model.answer import Shown
from gateway.model.telemetry.names import SCHEMA_URL, SCOPE
from gateway.outbound.otel.encoding import resource_of
from gateway.outbound.otel.logs import LeanLoggerProvider
from gateway.outbound.otel.senders import encoded
from gateway.outbound.otel.spans import LeanTracerProvider
from gateway.runtime import trace
from gateway.runtime.trace import inner
from tests.runtime.house import House, house
from tests.telemetry.received import Received

RESOURCE = {"service.name": "counterfoil", "service.version": "1", "service.instance.id": "here"}


def _take(received: Received, request: bytes) -> None:
    received.take("logs", Logs.FromString(request))


@dataclass
class ToldHouse:
    """A house, and what it told."""

    house: House
    telemetry: trace.Telemetry
    told: Received

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> Shown:
        """One call as the front makes it, in the span of its request."""
        request = trace.Inbound(
            method="tools/call",
            tool=name,
            request_id="7",
            protocol_version="2026-07-28",
            transport="pipe",
            meta=more.pop("meta", {}),
            headers=more.pop("headers", {}),
        )
        with self.telemetry.inbound(request) as told:
            shown = await self.house.call(name, arguments, **more)
            if shown.refusal is not None:
                told.result({"isError": True})
            elif shown.error is not None:
                told.refused(shown.error.get("code"), "")
            else:
                told.result(shown.result or {})
        return shown


@asynccontextmanager
async def told_house(
    monkeypatch: pytest.MonkeyPatch,
    options: trace.Options | None = None,
    sampler: Sampler | None = None,
    **fields: Any,
) -> AsyncIterator[ToldHouse]:
    """Only as long as the block lasts: a provider that is set for good would be that of the whole process."""
    received, ours = Received(), resource_of(RESOURCE)
    provider = LeanTracerProvider(
        lambda scope, span: received.take("traces", Traces.FromString(encoded(ours, [(scope, span)]))), sampler
    )
    loggers = LeanLoggerProvider(lambda scope, log: _take(received, encoded(ours, [(scope, log)])))
    with monkeypatch.context() as patched:
        patched.setattr(otel, "get_tracer_provider", lambda: provider)
        patched.setattr(inner, "_TRACER", provider.get_tracer(SCOPE, schema_url=SCHEMA_URL))
        async with house(**fields) as it:
            telemetry = trace.Telemetry(it.ledger.salt, options or trace.Options())
            telemetry.knows = lambda name: name in it.upstreams.tools
            telemetry._logger = loggers.get_logger(SCOPE, schema_url=SCHEMA_URL)
            it.book.telemetry = telemetry
            it.upstreams.observing = telemetry.outbound
            yield ToldHouse(it, telemetry, received)
