"""Spans and log records as OTLP has them: protobuf, written field by field [opentelemetry-proto; protobuf, Encoding].

By hand, because it is done at every end of a span and for every record: some 8 us for one of 30 attributes, where the
messages of protobuf take 17 to 22 and the SDK 50 to 100. Attributes whose values are few are encoded once.
Tests read what is written here with the messages of opentelemetry-proto.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Any, TypeAlias

Value: TypeAlias = str | bool | int | float | Sequence[str] | Sequence[bool] | Sequence[int] | Sequence[float]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types."""
_DOUBLE, _U64, _U32 = Struct("<d"), Struct("<Q"), Struct("<I")

MAX_MISSES = 512
"""A key with so many values that were not seen before has many, and none of them is kept."""

SHORT, LONGEST = 128, 100_000
"""Characters of a text that is kept encoded, and of one that is told."""

_SHORT = [bytes([number]) for number in range(128)]


def varint(number: int) -> bytes:
    """The number, which is not negative."""
    if number < 128:  # noqa: PLR2004 - seven bits
        return _SHORT[number]
    made = bytearray()
    while number > 127:  # noqa: PLR2004
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)


def _tag(field: int, wire: int) -> bytes:
    return varint(field << 3 | wire)


def sized(body: bytes) -> bytes:
    """A body behind its length."""
    return varint(len(body)) + body


class Field:
    """One field of a message. What is empty or 0 is left out, as proto3 has it."""

    __slots__ = ("_body", "_fixed32", "_fixed64", "_number")

    def __init__(self, number: int) -> None:
        self._number, self._fixed64 = _tag(number, _VARINT), _tag(number, _FIXED64)
        self._body, self._fixed32 = _tag(number, _BYTES), _tag(number, _FIXED32)

    def number(self, value: int) -> bytes:
        """An enum, or a whole number that is not negative."""
        return self._number + varint(value) if value else b""

    def fixed64(self, value: int) -> bytes:
        """A time in nanoseconds."""
        return self._fixed64 + _U64.pack(value) if value else b""

    def fixed32(self, value: int) -> bytes:
        """Flags."""
        return self._fixed32 + _U32.pack(value) if value else b""

    def body(self, value: bytes) -> bytes:
        """Bytes, or a message."""
        return self._body + varint(len(value)) + value if value else b""

    def text(self, value: str) -> bytes:
        """A string. What is not UTF-8, as half of a surrogate pair, is replaced: a backend would refuse the batch."""
        return self.body(value.encode("utf-8", "replace")) if value else b""

    def all_sized(self, values: Iterable[bytes]) -> bytes:
        """Messages that stand behind their length already."""
        made = self._body.join(values)
        return self._body + made if made else b""


# --- attributes: KeyValue and AnyValue, common/v1/common.proto --------------------------------------------------------

_KEY, _VALUE = Field(1), _tag(2, _BYTES)
_STRING, _BOOL, _INT, _FLOAT = _tag(1, _BYTES), _tag(2, _VARINT), _tag(3, _VARINT), _tag(4, _FIXED64)
_ARRAY = _tag(5, _BYTES)
_ITEM = Field(1)

_keys: dict[str, bytes] = {}
_texts: dict[tuple[str, str], bytes] = {}
_misses: Counter[str] = Counter()


def attributes_of(attributes: Mapping[str, Any]) -> list[bytes]:
    """`KeyValue` messages behind their lengths; the values are of `Value`."""
    made: list[bytes] = []
    for pair in attributes.items():
        if type(pair[1]) is not str:
            made.append(_pair(pair[0], _any(pair[1])))
            continue
        made.append(_texts.get(pair) or _text(pair))
    return made


def _text(pair: tuple[str, str]) -> bytes:
    """A pair that was not kept; it is from now on, if its values seem to be few."""
    key, text = pair
    body = text[:LONGEST].encode("utf-8", "replace")
    made = _pair(key, _STRING + varint(len(body)) + body)
    if _misses[key] < MAX_MISSES and len(text) <= SHORT:
        _misses[key] += 1
        _texts[pair] = made
    return made


def _pair(key: str, value: bytes) -> bytes:
    head: bytes | None = _keys.get(key)
    if head is None:
        head = _keys[key] = _KEY.text(key) + _VALUE
    made = head + varint(len(value)) + value
    return varint(len(made)) + made


def _any(value: Any) -> bytes:
    """An `AnyValue`. An empty string, 0 and False are told as such: in a `oneof` they are values."""
    kind = type(value)
    if kind is bool:
        return _BOOL + _SHORT[int(value)]
    if kind is int and -(2**63) <= value < 2**63:
        number: int = value & (2**64 - 1)  # two's complement
        return _INT + varint(number)
    if kind is float:
        return _FLOAT + _DOUBLE.pack(value)
    if isinstance(value, list | tuple):
        return _ARRAY + sized(_ITEM.all_sized(sized(_any(one)) for one in value))
    return _STRING + sized(str(value).encode("utf-8", "replace"))


# --- what carries them: Resource, InstrumentationScope, Export…Request ------------------------------------------------

_ONE, _TWO, _THREE = Field(1), Field(2), Field(3)


def resource_of(attributes: Mapping[str, Any]) -> bytes:
    """A `Resource`."""
    return _ONE.all_sized(attributes_of(attributes))


def scoped(name: str, version: str, schema_url: str, records: Iterable[bytes]) -> bytes:
    """`ScopeSpans` or `ScopeLogs`: their fields have the same numbers."""
    scope = _ONE.text(name) + _TWO.text(version)
    return _ONE.body(scope) + _TWO.all_sized(sized(one) for one in records) + _THREE.text(schema_url)


def request_of(resource: bytes, scopes: Iterable[bytes]) -> bytes:
    """`ExportTraceServiceRequest` or `ExportLogsServiceRequest`, for one resource."""
    return _ONE.body(_ONE.body(resource) + b"".join(map(_TWO.body, scopes)))
