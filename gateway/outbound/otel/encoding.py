"""Our values as OTLP's. Shapes: opentelemetry-proto, `common/v1/common.proto`.

The fields are given to protobuf as plain dicts, which it takes in a third of the time of messages; a span of 14
attributes costs some 10 us so, and 50 us by the encoder of the SDK.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Value: TypeAlias = str | bool | int | float | Sequence[str] | Sequence[bool] | Sequence[int] | Sequence[float]

MAX_INT = 2**63 - 1
"""OTLP has no larger integers."""


def key_values(attributes: Mapping[str, Any]) -> Any:
    """Attributes, as what protobuf makes `KeyValue` messages of; the values are of `Value`."""
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Value) -> dict[str, Any]:
    kind = type(value)
    if kind is str:
        return {"string_value": value}
    if kind is bool:
        return {"bool_value": value}
    if kind is int and -MAX_INT <= value <= MAX_INT:  # type: ignore[operator]  # an int
        return {"int_value": value}
    if kind is float:
        return {"double_value": value}
    if isinstance(value, list | tuple):
        return {"array_value": {"values": [_value(one) for one in value]}}
    return {"string_value": str(value)}
