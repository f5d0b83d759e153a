"""What the registry says of a span, a metric and a log event, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

SpanKind: TypeAlias = Literal["server", "client", "internal"]

Instrument: TypeAlias = Literal["counter", "updowncounter", "histogram", "gauge"]

Severity: TypeAlias = Literal["info", "warn", "error"]

SEVERITY_NUMBERS: Mapping[Severity, int] = {"info": 9, "warn": 13, "error": 17}
"""[OpenTelemetry logs data model, SeverityNumber]"""


@dataclass(frozen=True, slots=True)
class SpanType:
    """A kind of span."""

    type: str
    kind: SpanKind
    name: str
    """With the attributes that it is made of in braces. `{target}` is the tool or the prompt, and falls away where the
    span is about neither."""


@dataclass(frozen=True, slots=True)
class Metric:
    """An instrument, as it is made once."""

    name: str
    instrument: Instrument
    unit: str
    """[UCUM]"""
    description: str
    labels: tuple[str, ...] = ()
    """All keys that a measurement may have."""
    buckets: tuple[float, ...] | None = None
    """Of a histogram: the bounds, as advice to the SDK."""
    observable: bool = False
    """It is asked for its value when somebody collects."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """The log event of one kind of event of the ledger."""

    name: str
    severity: Severity
    severities: tuple[tuple[str, tuple[str, ...], Severity], ...] = ()
    """Attribute, values, severity: asked in turn before `severity`."""

    def severity_of(self, attributes: Mapping[str, object]) -> Severity:
        """How bad it is, with these attributes."""
        for key, values, severity in self.severities:
            if attributes.get(key) in values:
                return severity
        return self.severity
