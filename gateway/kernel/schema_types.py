"""JSON Schema -> what is surely known of the values that keep it: their kind, and the names of their fields.

Only certainty counts: where alternatives differ, or a keyword is met that this does not know, the answer is "any",
and nothing is ever refused for its sake. Schemas come from upstreams, so depth and work are bounded; beyond the
bounds everything is "any" too.

An object that lists `properties` is taken to have no others, although JSON Schema would allow them, unless it says so:
by `additionalProperties` or `unevaluatedProperties` that is not `false`, by `patternProperties`, or by what names
fields in another way (`propertyNames`, `dependentSchemas` and the like). Names in `required` count as listed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

Kind: TypeAlias = Literal["any", "null", "string", "integer", "number", "boolean", "array", "object"]

MAX_PARTS = 10_000
"""Subschemas that are read, each as often as it is referred to."""
MAX_LEVELS = 24
"""Levels of subschemas; a condition goes down a handful."""
MAX_FIELDS = 1_000
"""Fields of one object; one that has more is taken to be open."""
MAX_CHOICES = 64
"""Alternatives of one schema; where there are more, nothing is known."""
MAX_VALUES = 1_000
"""Values of an `enum` that are looked at."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is known of a value."""

    kind: Kind = "any"
    """`null` beside another kind is left out: whatever is read may be null."""
    fields: Mapping[str, "Part"] = field(default_factory=dict)
    """If it is an object. All that it may have, if it is not `open` and has any."""
    open: bool = False
    """It may well have other fields."""
    closed: bool = False
    """It has no other fields, by its own word."""
    items: "Part | None" = None
    """If it is a list."""

    @property
    def is_message(self) -> bool:
        """Whether it is an object of which fields are known."""
        return self.kind == "object" and (bool(self.fields) or (self.closed and not self.open))


ANY = Part(open=True)
STRING = Part("string")
INTEGER = Part("integer")
NUMBER = Part("number")
BOOLEAN = Part("boolean")
OBJECT = Part("object", open=True)


def closed(fields: Mapping[str, Part]) -> Part:
    """An object with these fields and no others."""
    return Part("object", fields, closed=True)


def part_of_schema(schema: Any) -> Part:
    """What is known of a value that keeps the schema. Never raises."""
    return _Reader(schema).read(schema, MAX_LEVELS, frozenset())


def part_of_value(value: Any, levels: int = MAX_LEVELS) -> Part:
    """What is known of this very value."""
    if isinstance(value, Mapping) and value and levels:
        named = {name: part_of_value(one, levels - 1) for name, one in value.items() if isinstance(name, str)}
        return closed(named) if len(named) <= MAX_FIELDS else OBJECT
    if isinstance(value, list | tuple) and levels:
        return Part("array", items=_either([part_of_value(one, levels - 1) for one in value[:MAX_VALUES]]))
    return Part(_kind_of(value), open=True)


def _kind_of(value: Any) -> Kind:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case Mapping():
            return "object"
        case _:
            return "any"


# --- both, and either -----------------------------------------------------------------------------------------------


def _both(one: Part, other: Part) -> Part:
    """What is known of a value that is the one and the other."""
    fields = dict(one.fields)
    for name, part in other.fields.items():
        fields[name] = _both(fields[name], part) if name in fields else part
    crowded = len(fields) > MAX_FIELDS
    items = _both(one.items, other.items) if one.items and other.items else one.items or other.items
    kind = _both_kinds(one.kind, other.kind)
    return Part(kind, {} if crowded else fields, crowded or one.open or other.open, one.closed or other.closed, items)


def _both_kinds(one: Kind, other: Kind) -> Kind:
    if other in {"any", one}:
        return one
    if one == "any":
        return other
    return "integer" if {one, other} == {"integer", "number"} else "any"


def _either(parts: Iterable[Part]) -> Part:
    """What is known of a value that is one of these."""
    listed = list(parts)
    some = [part for part in listed if part.kind != "null"]
    if not some:
        return Part("null", open=True) if listed else ANY
    names = dict.fromkeys(name for part in some for name in part.fields)
    crowded = len(names) > MAX_FIELDS
    fields = {} if crowded else {name: _either_field(some, name) for name in names}
    items = [part.items for part in some if part.items is not None]
    return Part(
        reduce(_either_kind, (part.kind for part in some)),
        fields,
        crowded or any(part.open or (part.kind == "object" and not part.fields and not part.closed) for part in some),
        all(part.closed for part in some),
        _either(items) if len(items) == len(some) else None,
    )


def _either_kind(one: Kind, other: Kind) -> Kind:
    if one == other:
        return one
    return "number" if {one, other} == {"integer", "number"} else "any"


def _either_field(parts: list[Part], name: str) -> Part:
    """A field that one alternative does not mention may be anything there, unless it is closed."""
    told = [part.fields[name] for part in parts if name in part.fields]
    silent = any(name not in part.fields and not part.closed for part in parts)
    return ANY if silent else _either(told)


# --- reading --------------------------------------------------------------------------------------------------------

_OTHERWISE = ("propertyNames", "dependentSchemas", "dependentRequired", "dependencies")
"""Keywords that may tell of further fields."""
_ELSEWHERE = ("$dynamicRef", "$recursiveRef")
_OLD = ("draft-03", "draft-04", "draft-06", "draft-07")
"""Dialects in which nothing beside a `$ref` counts."""


class _Reader:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.left = MAX_PARTS
        dialect = root.get("$schema") if isinstance(root, Mapping) else None
        self.old = isinstance(dialect, str) and any(name in dialect for name in _OLD)

    def read(self, schema: Any, levels: int, within: frozenset[str]) -> Part:
        """`within` are the references that are being followed: one that leads back to itself is "any"."""
        self.left -= 1
        if not isinstance(schema, Mapping) or levels == 0 or self.left < 0 or self._is_elsewhere(schema):
            return ANY
        reference = schema.get("$ref")
        if reference is None:
            return self._all(schema, levels - 1, within)
        if not isinstance(reference, str) or reference in within:
            return ANY
        named = self.read(self._at(reference), levels - 1, within | {reference})
        return named if self.old else _both(named, self._all(schema, levels - 1, within))

    def _is_elsewhere(self, schema: Mapping[str, Any]) -> bool:
        """Whether what it refers to cannot be found from the root."""
        if any(word in schema for word in _ELSEWHERE):
            return True
        return schema is not self.root and (isinstance(schema.get("$id"), str) or (self.old and "id" in schema))

    def _at(self, reference: str) -> Any:
        """What a reference within the document leads to; None for all others."""
        if reference == "#":
            return self.root
        if not reference.startswith("#/") or len(reference) > MAX_FIELDS:
            return None
        at: Any = self.root
        for step in unquote(reference[2:]).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(at, list) and name.isascii() and name.isdigit():
                at = at[int(name)] if len(name) < 7 and int(name) < len(at) else None  # noqa: PLR2004 - a million
            else:
                at = at.get(name) if isinstance(at, Mapping) else None
            if isinstance(at, Mapping) and self._is_elsewhere(at):
                return None
        return at

    def _all(self, schema: Mapping[str, Any], levels: int, within: frozenset[str]) -> Part:
        part = self._own(schema, levels, within)
        for word in ("allOf", "anyOf", "oneOf"):
            listed = self._list(schema, word)
            if len(listed) > MAX_CHOICES:
                part = _both(part, ANY)
            elif listed:
                parts = [self.read(one, levels, within) for one in listed]
                part = _both(part, reduce(_both, parts) if word == "allOf" else _either(parts))
        for word in ("if", "then", "else"):
            if word in schema:
                part = _both(part, _names_only(self.read(schema[word], levels, within)))
        return part

    def _list(self, schema: Mapping[str, Any], word: str) -> list[Any]:
        listed = schema.get(word)
        return listed if isinstance(listed, list) else []

    def _own(self, schema: Mapping[str, Any], levels: int, within: frozenset[str]) -> Part:
        """What the schema says itself, without its alternatives."""
        listed = schema.get("properties")
        fields: dict[str, Part] = {}
        if isinstance(listed, Mapping) and len(listed) <= MAX_FIELDS:
            fields = {name: self.read(one, levels, within) for name, one in listed.items() if isinstance(name, str)}
        crowded = isinstance(listed, Mapping) and len(listed) > MAX_FIELDS
        required = self._list(schema, "required")[:MAX_FIELDS]
        self.left -= len(required) // 8
        if fields:
            fields |= {name: ANY for name in required if isinstance(name, str) and name not in fields}
        more = schema.get("additionalProperties")
        return Part(
            self._kind(schema),
            fields,
            open=crowded or _is_open(schema),
            closed=more is False and not crowded and not _is_open(schema),
            items=self._items(schema, levels, within),
        )

    def _items(self, schema: Mapping[str, Any], levels: int, within: frozenset[str]) -> Part | None:
        items = schema.get("items")
        by_place = "prefixItems" in schema
        return self.read(items, levels, within) if isinstance(items, Mapping) and not by_place else None

    def _kind(self, schema: Mapping[str, Any]) -> Kind:
        named = schema.get("type")
        kinds = [_KINDS.get(one, "any") for one in (named if isinstance(named, list) else [named])[:8] if _is_word(one)]
        kind: Kind = "any"
        if kinds and not (isinstance(named, list) and len(named) > len(kinds)):
            kind = _either([Part(one) for one in kinds]).kind
        values = schema.get("enum")
        if isinstance(values, list) and 0 < len(values) <= MAX_VALUES:
            self.left -= len(values) // 8
            kind = _both_kinds(kind, _either([Part(_kind_of(one)) for one in values]).kind)
        if "const" in schema:
            kind = _both_kinds(kind, _kind_of(schema["const"]))
        return kind


_KINDS: Mapping[Any, Kind] = {
    "null": "null",
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
}


def _is_word(value: Any) -> bool:
    return isinstance(value, str)


def _is_open(schema: Mapping[str, Any]) -> bool:
    for word in ("additionalProperties", "unevaluatedProperties"):
        if schema.get(word, False) is not False:
            return True
    return bool(schema.get("patternProperties")) or any(word in schema for word in _OTHERWISE)


def _names_only(part: Part) -> Part:
    """What holds under a condition only: that there may be such fields."""
    return replace(ANY, fields=dict.fromkeys(part.fields, ANY), open=part.open)
