"""How trace context is written and read: as OTEL_PROPAGATORS says, but for baggage, which is the caller's."""

from opentelemetry import propagate
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import TextMapPropagator

_FOUND: list[TextMapPropagator] = []


def propagator() -> TextMapPropagator:
    """The one of this process."""
    if not _FOUND:
        told = propagate.get_global_textmap()
        # The composite one names its parts nowhere in public.
        parts = vars(told).get("_propagators", [told]) if isinstance(told, CompositePropagator) else [told]
        kept = [one for one in parts if not isinstance(one, W3CBaggagePropagator)]
        _FOUND.append(kept[0] if len(kept) == 1 else CompositePropagator(kept))
    return _FOUND[0]
