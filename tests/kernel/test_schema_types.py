"""Of a schema only what is certain is known."""

from typing import Any

import pytest

from gateway.kernel.schema_types import (
    ANY,
    MAX_CHOICES,
    MAX_FIELDS,
    MAX_VALUES,
    Part,
    part_of_schema,
    part_of_value,
)

S: dict[str, Any] = {"type": "string"}
INT: dict[str, Any] = {"type": "integer"}
A: dict[str, Any] = {"type": "object", "properties": {"a": S}}
B: dict[str, Any] = {"type": "object", "properties": {"b": INT}}


def told(part: Part | None) -> Any:
    """What a part says, as short as can be: `?` for fields that are not listed."""
    if part is None:
        return "any"
    if part.kind == "array":
        return [told(part.items)]
    if part.kind != "object":
        return part.kind
    more = {"?": "any"} if part.open or not (part.fields or part.closed) else {}
    return {name: told(one) for name, one in part.fields.items()} | more


@pytest.mark.parametrize(
    ("schema", "known"),
    [
        (S, "string"),
        ({"type": "number"}, "number"),
        ({"type": ["string", "null"]}, "string"),
        ({"type": ["integer", "number"]}, "number"),
        ({"type": ["string", "integer"]}, "any"),
        ({"type": ["string", 3]}, "any"),
        ({"type": "text"}, "any"),
        ({"type": "null"}, "null"),
        ({}, "any"),
        (True, "any"),
        (False, "any"),
        (None, "any"),
        ([S], "any"),
        ({"enum": ["a", None]}, "string"),
        ({"enum": [1, 2.5]}, "number"),
        ({"enum": ["a", 1]}, "any"),
        ({"enum": []}, "any"),
        ({"enum": ["a"] * (MAX_VALUES + 1)}, "any"),
        ({"const": True}, "boolean"),
        ({"const": [1]}, ["any"]),
        ({"type": "integer", "const": 1.0}, "integer"),
        ({"type": "string", "const": 1}, "any"),
        ({"type": "array", "items": S}, ["string"]),
        ({"type": "array"}, ["any"]),
        ({"type": "array", "items": [S]}, ["any"]),
        ({"type": "array", "items": S, "prefixItems": [INT]}, ["any"]),
        ({"items": S}, "any"),
        (A, {"a": "string"}),
        ({"properties": {"a": S}}, "any"),
        ({"type": "object"}, {"?": "any"}),
        ({"type": "object", "additionalProperties": False}, {}),
        ({**A, "additionalProperties": S}, {"a": "string", "?": "any"}),
        ({**A, "additionalProperties": True}, {"a": "string", "?": "any"}),
        ({**A, "additionalProperties": False}, {"a": "string"}),
        ({**A, "unevaluatedProperties": {}}, {"a": "string", "?": "any"}),
        ({**A, "patternProperties": {"x": S}, "additionalProperties": False}, {"a": "string", "?": "any"}),
        ({**A, "propertyNames": {}}, {"a": "string", "?": "any"}),
        ({**A, "dependentSchemas": {"a": B}}, {"a": "string", "?": "any"}),
        ({**A, "required": ["c", 3]}, {"a": "string", "c": "any"}),
        (
            {**A, "if": {"properties": {"a": INT, "k": S}}, "then": B, "else": {}},
            {"a": "string", "k": "any", "b": "any"},
        ),
        ({**A, "not": B}, {"a": "string"}),
        ({"type": "object", "properties": {str(i): S for i in range(MAX_FIELDS + 1)}}, {"?": "any"}),
    ],
)
def test_a_schema_says_what_it_says(schema: Any, known: Any) -> None:
    assert told(part_of_schema(schema)) == known


@pytest.mark.parametrize(
    ("schema", "known"),
    [
        ({"anyOf": [S, S]}, "string"),
        ({"anyOf": [S, {"type": "null"}]}, "string"),
        ({"oneOf": [S, INT]}, "any"),
        ({"anyOf": [S, {}]}, "any"),
        ({"anyOf": [{"type": "null"}, {"const": None}]}, "null"),
        ({"allOf": [S, {}]}, "string"),
        ({"allOf": [{"type": "number"}, INT]}, "integer"),
        ({"allOf": [S, INT]}, "any"),
        ({"type": "string", "anyOf": [{"minLength": 1}, {"maxLength": 9}]}, "string"),
        ({"allOf": [A, B]}, {"a": "string", "b": "integer"}),
        ({"anyOf": [A, B]}, {"a": "any", "b": "any"}),  # either may have a field of any kind that only the other lists
        ({"anyOf": [A, {**B, "additionalProperties": False}]}, {"a": "string", "b": "any"}),
        ({"anyOf": [A, A]}, {"a": "string"}),
        ({"anyOf": [A, {"type": "object"}]}, {"a": "any", "?": "any"}),
        ({**A, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": "string"}),
        ({**A, "oneOf": [B, {"type": "object", "properties": {"c": S}}]}, {"a": "string", "b": "any", "c": "any"}),
        ({"anyOf": [A, {"type": "array", "items": S}]}, "any"),
        ({"anyOf": [{"type": "array", "items": S}, {"type": "array", "items": S}]}, ["string"]),
        ({"anyOf": [{"type": "array", "items": S}, {"type": "array"}]}, ["any"]),
        ({"allOf": [{"type": "array", "items": S}, {"type": "array"}]}, ["string"]),
        ({**A, "anyOf": [A] * (MAX_CHOICES + 1)}, {"a": "string", "?": "any"}),
    ],
)
def test_alternatives_say_what_they_agree_on(schema: Any, known: Any) -> None:
    assert told(part_of_schema(schema)) == known


@pytest.mark.parametrize(
    ("schema", "known"),
    [
        ({"$ref": "#/$defs/x", "$defs": {"x": S}}, "string"),
        ({"$ref": "#/$defs/a~1b%25/0", "$defs": {"a/b%": [S]}}, "string"),
        ({"$ref": "#/$defs/x", "type": "integer", "$defs": {"x": {}}}, "integer"),
        ({"$ref": "#/$defs/x", "type": "integer", "$schema": "http://json-schema.org/draft-07/schema#"}, "any"),
        ({"$ref": "#/$defs/x", "$defs": {}}, "any"),
        ({"$ref": "#/$defs/9", "$defs": [S]}, "any"),
        ({"$ref": "#x", "$defs": {"x": {"$anchor": "x", **S}}}, "any"),
        ({"$ref": "other.json"}, "any"),
        ({"$ref": 3}, "any"),
        ({"$ref": "#"}, "any"),
        ({"$dynamicRef": "#x", "type": "string"}, "any"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"$id": "http://x/", **S}}}, "any"),
        ({"$id": "http://x/", "$ref": "#/$defs/x", "$defs": {"x": S}}, "string"),
        (
            {"type": "object", "properties": {"n": S, "next": {"type": "object", "$ref": "#"}}},
            {"n": "string", "next": {"n": "string", "next": "any"}},
        ),
    ],
)
def test_a_reference_is_followed_within_the_schema_and_once(schema: Any, known: Any) -> None:
    assert told(part_of_schema(schema)) == known


@pytest.mark.parametrize(
    ("value", "known"),
    [
        ("x", "string"),
        (True, "boolean"),
        (1, "integer"),
        (1.0, "number"),
        (None, "null"),
        (["a", None], ["string"]),
        (["a", 1], ["any"]),
        ([], ["any"]),
        ({"a": 1, 2: 3}, {"a": "integer"}),
        ({}, {"?": "any"}),
        ({str(i): 1 for i in range(MAX_FIELDS + 1)}, {"?": "any"}),
        (object(), "any"),
    ],
)
def test_a_constant_is_what_it_is(value: Any, known: Any) -> None:
    assert told(part_of_value(value)) == known


def test_levels_beyond_the_last_are_anything() -> None:
    deep: Any = S
    value: Any = "x"
    for _ in range(40):
        deep, value = {"type": "array", "items": deep}, [value]
    for part in (part_of_schema(deep), part_of_value(value)):
        levels, at = 0, part
        while at.items is not None:
            levels, at = levels + 1, at.items
        assert (levels, at.kind) in {(24, "any"), (24, "array")}
    assert ANY.kind == "any"
