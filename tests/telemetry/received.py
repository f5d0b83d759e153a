"""What a receiver of OTLP got, in a form that tests read: spans, metrics and log records as plain values."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Signal: TypeAlias = Literal["traces", "metrics", "logs"]
Attributes: TypeAlias = Mapping[str, Any]

KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
STATUSES = ("unset", "ok", "error")


@dataclass(frozen=True, slots=True)
class Scope:
    """Who made it."""

    name: str
    version: str
    schema_url: str


@dataclass(frozen=True, slots=True)
class Link:
    trace_id: str
    span_id: str
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Span:
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    """Empty for a root."""
    attributes: Attributes
    status: str = "unset"
    description: str = ""
    links: tuple[Link, ...] = ()
    events: tuple[tuple[str, Attributes], ...] = ()
    start_ns: int = 0
    end_ns: int = 0
    trace_state: str = ""
    scope: Scope = Scope("", "", "")
    resource: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Point:
    """One series at one time."""

    attributes: Attributes
    value: float
    """Of a histogram its sum."""
    count: int = 1
    bounds: tuple[float, ...] = ()
    buckets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    instrument: str
    unit: str
    description: str
    points: tuple[Point, ...]
    scope: Scope = Scope("", "", "")
    resource: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Log:
    event: str
    """The event's name; empty for a line of a log."""
    severity: int
    attributes: Attributes
    body: Any = None
    trace_id: str = ""
    span_id: str = ""
    time_ns: int = 0
    scope: Scope = Scope("", "", "")
    resource: Attributes = field(default_factory=dict)


@dataclass(slots=True)
class Received:
    """All that came, in the order in which it came."""

    spans: list[Span] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    logs: list[Log] = field(default_factory=list)

    def span(self, name: str, kind: str | None = None) -> Span:
        """The one span of that name."""
        (found,) = [span for span in self.spans if span.name == name and kind in {None, span.kind}]
        return found

    def metric(self, name: str) -> Metric:
        """That metric as it was told last."""
        return [metric for metric in self.metrics if metric.name == name][-1]

    def events(self, name: str) -> list[Log]:
        return [log for log in self.logs if log.event == name]

    def take(self, signal: Signal, request: Any) -> None:
        """What one export request says."""
        match signal:
            case "traces":
                self.spans.extend(_spans(request.resource_spans))
            case "metrics":
                self.metrics.extend(_metrics(request.resource_metrics))
            case "logs":
                self.logs.extend(_logs(request.resource_logs))


def _spans(resources: Iterable[Any]) -> Iterator[Span]:
    for resource, scope, listed in _scoped(resources, "scope_spans"):
        for span in listed.spans:
            yield Span(
                span.name,
                KINDS[span.kind],
                span.trace_id.hex(),
                span.span_id.hex(),
                span.parent_span_id.hex(),
                _attributes(span.attributes),
                STATUSES[span.status.code],
                span.status.message,
                tuple(Link(one.trace_id.hex(), one.span_id.hex(), _attributes(one.attributes)) for one in span.links),
                tuple((one.name, _attributes(one.attributes)) for one in span.events),
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                span.trace_state,
                scope,
                resource,
            )


def _metrics(resources: Iterable[Any]) -> Iterator[Metric]:
    for resource, scope, listed in _scoped(resources, "scope_metrics"):
        for metric in listed.metrics:
            form = metric.WhichOneof("data")
            data = getattr(metric, form)
            instrument = form
            if form == "sum":
                instrument = "counter" if data.is_monotonic else "updowncounter"
            points = tuple(_point(one) for one in data.data_points)
            yield Metric(metric.name, instrument, metric.unit, metric.description, points, scope, resource)


def _point(one: Any) -> Point:
    attributes = _attributes(one.attributes)
    if hasattr(one, "bucket_counts"):
        return Point(attributes, one.sum, one.count, tuple(one.explicit_bounds), tuple(one.bucket_counts))
    return Point(attributes, one.as_int if one.WhichOneof("value") == "as_int" else one.as_double)


def _logs(resources: Iterable[Any]) -> Iterator[Log]:
    for resource, scope, listed in _scoped(resources, "scope_logs"):
        for log in listed.log_records:
            yield Log(
                log.event_name,
                log.severity_number,
                _attributes(log.attributes),
                _value(log.body),
                log.trace_id.hex(),
                log.span_id.hex(),
                log.time_unix_nano,
                scope,
                resource,
            )


def _scoped(resources: Iterable[Any], within: str) -> Iterator[tuple[Attributes, Scope, Any]]:
    for resource in resources:
        attributes = _attributes(resource.resource.attributes)
        for listed in getattr(resource, within):
            yield attributes, Scope(listed.scope.name, listed.scope.version, listed.schema_url), listed


def _attributes(listed: Iterable[Any]) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in listed}


def _value(said: Any) -> Any:
    match said.WhichOneof("value"):
        case None:
            return None
        case "array_value":
            return [_value(one) for one in said.array_value.values]
        case "kvlist_value":
            return _attributes(said.kvlist_value.values)
        case form:
            return getattr(said, form)
