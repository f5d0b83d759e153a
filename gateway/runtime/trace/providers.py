"""What everything here is told through: OpenTelemetry's API, whose providers the composition root sets."""

import os

from opentelemetry import _logs, metrics, trace

from gateway.model.telemetry.names import SCHEMA_URL, SCOPE

_THEIRS = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER", "OTEL_PYTHON_LOGGER_PROVIDER")
"""Name providers that the API would load by itself; one that is not installed would end us when we are imported."""

for _name in _THEIRS:
    os.environ.pop(_name, None)

TRACER = trace.get_tracer(SCOPE, schema_url=SCHEMA_URL)
METER = metrics.get_meter(SCOPE, schema_url=SCHEMA_URL)


def logger() -> _logs.Logger:
    """Through it each record of the ledger is told."""
    return _logs.get_logger(SCOPE, schema_url=SCHEMA_URL)
