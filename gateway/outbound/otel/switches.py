"""What the environment asks for, by the standard variables [OpenTelemetry environment variable specification]."""

import logging
import os
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

_LOG = logging.getLogger("counterfoil.otel")

Signal: TypeAlias = Literal["traces", "metrics", "logs"]
Protocol: TypeAlias = Literal["grpc", "http/protobuf"]

SIGNALS: tuple[Signal, ...] = ("traces", "metrics", "logs")

_KNOWN: Mapping[Signal, frozenset[str]] = {
    "traces": frozenset({"otlp"}),
    "metrics": frozenset({"otlp", "prometheus"}),
    "logs": frozenset({"otlp"}),
}
"""Exporters by signal. There is none for the console: over stdio, stdout belongs to MCP."""


def exporters(signal: Signal, environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The exporters of a signal. Where none is named, it is `otlp` if there is an endpoint to send to."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return frozenset()
    told = environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip()
    if not told:
        return frozenset({"otlp"}) if _endpoint(signal, environ) else frozenset()
    named = {name.strip().lower() for name in told.split(",")} - {"", "none"}
    for name in sorted(named - _KNOWN[signal]):
        known = ", ".join([*sorted(_KNOWN[signal]), "none"])
        _LOG.warning("OTEL_%s_EXPORTER names `%s`, which is not known here (%s)", signal.upper(), name[:64], known)
    return frozenset(named & _KNOWN[signal])


def _endpoint(signal: Signal, environ: Mapping[str, str]) -> str:
    return environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT") or environ.get(
        "OTEL_EXPORTER_OTLP_ENDPOINT", ""
    )


def protocol(signal: Signal, environ: Mapping[str, str] = os.environ) -> Protocol:
    """How a signal is sent."""
    told = environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if told == "grpc":
        return "grpc"
    if told not in {None, "", "http/protobuf"}:
        _LOG.warning("the OTLP protocol `%s` is not known here (grpc, http/protobuf): http/protobuf it is", told[:64])
    return "http/protobuf"


def compression(signal: Signal, environ: Mapping[str, str] = os.environ) -> Literal["none", "gzip"]:
    """How what is sent over gRPC is compressed."""
    told = environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_COMPRESSION") or environ.get(
        "OTEL_EXPORTER_OTLP_COMPRESSION", ""
    )
    if told.strip().lower() == "gzip":
        return "gzip"
    if told.strip().lower() not in {"", "none"}:
        _LOG.warning("OTEL_EXPORTER_OTLP_COMPRESSION is `%s`, which gRPC has not (none, gzip): none it is", told[:64])
    return "none"


class Bounds(NamedTuple):
    """How much waits to be sent, and for how long."""

    queue: int
    """What comes when so many wait is dropped, and counted; so is what comes when `MAX_BYTES` wait."""
    batch: int
    pause_s: float


MAX_BYTES = 64 * 1024 * 1024
"""Of all that waits of one signal."""

_BOUNDS = {"traces": ("OTEL_BSP", 5_000), "logs": ("OTEL_BLRP", 1_000)}


def bounds(signal: Literal["traces", "logs"], environ: Mapping[str, str] = os.environ) -> Bounds:
    """By the variables of the batch processors of the SDK, with room for more: 2,048 are two seconds of one core."""
    prefix, pause_ms = _BOUNDS[signal]
    queue = _number(environ, f"{prefix}_MAX_QUEUE_SIZE", 16_384)
    batch = _number(environ, f"{prefix}_MAX_EXPORT_BATCH_SIZE", 512)
    return Bounds(queue, min(batch, queue), _number(environ, f"{prefix}_SCHEDULE_DELAY", pause_ms) / 1_000)


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    told = environ.get(name, "").strip()
    if told.isdecimal() and 0 < int(told) <= 1_000_000:  # noqa: PLR2004 - beyond it is no bound
        return int(told)
    if told:
        _LOG.warning("%s must be a whole number from 1 to 1,000,000; %d it is", name, default)
    return default
