"""How trace context is written and read: as OTEL_PROPAGATORS says, but for baggage, which is the caller's."""

import logging

from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_LOG = logging.getLogger("counterfoil.telemetry")

_FOUND: list[TextMapPropagator] = []


def propagator() -> TextMapPropagator:
    """The one of this process. Where the variable names one that is not installed, it is W3C's, and that is said."""
    if not _FOUND:
        _FOUND.append(_asked_for())
    return _FOUND[0]


def _asked_for() -> TextMapPropagator:
    try:
        from opentelemetry import propagate  # noqa: PLC0415 - it reads the variable when it is imported, and may raise
    except Exception as error:  # noqa: BLE001 - whatever a propagator that somebody named does
        _LOG.warning("OTEL_PROPAGATORS cannot be followed, trace context is W3C's: %s", error)
        return TraceContextTextMapPropagator()
    told = propagate.get_global_textmap()
    # The composite one names its parts nowhere in public.
    parts = vars(told).get("_propagators", [told]) if isinstance(told, CompositePropagator) else [told]
    kept = [one for one in parts if not isinstance(one, W3CBaggagePropagator)]
    return kept[0] if len(kept) == 1 else CompositePropagator(kept)
