"""What is known of values, as protobuf messages: the one form in which the CEL engine takes types with fields.

A list of lists is a list of anything there, and what has no certain type is `dyn`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2

from gateway.kernel.condition_text import field_name
from gateway.kernel.schema_types import Part

PACKAGE = "shape"
MAX_MESSAGES = 2_000
"""Objects with fields; further ones are maps of anything."""

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Mapping[str, int] = {
    "string": _Field.TYPE_STRING,
    "integer": _Field.TYPE_INT64,
    "boolean": _Field.TYPE_BOOL,
    "number": _Field.TYPE_DOUBLE,
}
"""A number may be an integer as well; `shape_words.py` holds nothing against one that is taken for a double."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message, as errors speak of it."""

    path: str
    """Where it stands, as an expression would say it: `args.customer`."""
    part: Part
    names: Mapping[str, str]
    """Its fields' names in the schema by their names in the message."""
    open: bool


@dataclass(slots=True)
class Messages:
    """The messages of one environment."""

    known: dict[str, Message] = field(default_factory=dict)
    """By their full name."""
    _file: Any = field(
        default_factory=lambda: descriptor_pb2.FileDescriptorProto(
            name="shape.proto", package=PACKAGE, syntax="proto2", dependency=["google/protobuf/struct.proto"]
        )
    )

    def add(self, path: str, part: Part) -> str:
        """The full name of a message for this object."""
        full = f"{PACKAGE}.M{len(self.known)}"
        names: dict[str, str] = {}
        self.known[full] = Message(path, part, names, part.open)
        form = self._file.message_type.add(name=full.rpartition(".")[2])
        form.options.deprecated_legacy_json_field_conflicts = True  # `a_b` beside `aB`; nobody spells it as JSON here
        for number, (name, known) in enumerate(part.fields.items(), 1):
            spelled = field_name(name)
            names[spelled] = name
            self._field(form, spelled, number, known, f"{path}.{name[:64]}")
        return full

    def pool(self) -> Any:
        """All of them, for the engine.

        Raises: TypeError if they cannot be had: too many fields, or two of one name.
        """
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
        pool.AddSerializedFile(self._file.SerializeToString())
        return pool

    def _field(self, form: Any, name: str, number: int, part: Part, path: str) -> None:
        made = form.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
        if part.kind == "array":
            made.label = _Field.LABEL_REPEATED
            part, path = part.items or Part(), f"{path}[…]"
        if part.kind in _SCALARS:
            made.type = _SCALARS[part.kind]
            return
        made.type = _Field.TYPE_MESSAGE
        if part.is_message and len(self.known) < MAX_MESSAGES:
            made.type_name = f".{self.add(path, part)}"
        else:
            made.type_name = f".google.protobuf.{'Struct' if part.kind == 'object' else 'Value'}"
