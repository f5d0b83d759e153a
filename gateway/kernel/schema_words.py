"""What the JSON Schema validator says, in plain words, and without a value that it saw."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Kind

Error: TypeAlias = jsonschema_rs.ValidationError

MAX_OPTIONS = 10
"""How many values of an `enum`, or alternatives of an `anyOf`, are listed."""

MAX_SHOWN = 64
"""Characters of a name or value of the schema."""

_TYPES: Mapping[str, str] = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}

_LIMITS: Mapping[str, str] = {
    "minimum": "a number of at least {}",
    "maximum": "a number of at most {}",
    "exclusiveMinimum": "a number above {}",
    "exclusiveMaximum": "a number below {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "additionalItems": "at most {} items",
    "minProperties": "at least {} properties",
    "maxProperties": "at most {} properties",
    "pattern": "text that matches `{}`",
    "format": "text of the format `{}`",
    "contentEncoding": "text in the encoding `{}`",
    "contentMediaType": "text of the type `{}`",
}
"""Keyword to what it wants; the braces stand for the keyword's own value."""

_PLAIN: Mapping[str, str] = {
    "uniqueItems": "a list without two equal items",
    "contains": "a list with an item of the kind that it must contain",
    "unevaluatedItems": "no further items",
    "falseSchema": "nothing, for it must not be given",
    "not": "a value that the schema does not exclude",
}


def wanted(error: Error) -> Iterable[str]:
    """What the schema wants at the place of the error, each as half a sentence."""
    match error.kind:
        case Kind.Type(types=types):
            return [" or ".join(_TYPES.get(one, one) for one in types)]
        case Kind.Required(property=name):
            return [f"the property `{name}` is required"]
        case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
            return [f"no property `{shown(name)}`" for name in names]
        case Kind.Enum(options=options):
            return [_one_of(options)]
        case Kind.Constant(expected_value=value):
            return [f"the value `{shown(value)}`"]
        case Kind.PropertyNames(error=inner):
            return [f"property names that are {one}" for one in wanted(inner)]
        case Kind.AnyOf(context=context) | Kind.OneOfNotValid(context=context):
            return [_alternatives(error, context)]
        case Kind.FalseSchema() if error.schema_path[-1:] == ["additionalProperties"]:
            return ["no property at all"]
        case Kind.OneOfMultipleValid():
            return ["a value that fits exactly one of its alternatives"]
        case kind:
            return [_by_keyword(kind)]


def _by_keyword(kind: jsonschema_rs.ValidationErrorKind) -> str:
    if kind.name in _LIMITS:
        return _LIMITS[kind.name].format(shown(next(iter(kind.as_dict().values()), "")))
    return _PLAIN.get(kind.name, "a value that fits the schema")


def _one_of(options: Sequence[Any]) -> str:
    listed = ", ".join(f"`{shown(option)}`" for option in options[:MAX_OPTIONS])
    return f"one of {listed}" + (f" and {len(options) - MAX_OPTIONS} more" if len(options) > MAX_OPTIONS else "")


def _alternatives(
    error: jsonschema_rs.ValidationError, context: Sequence[Sequence[jsonschema_rs.ValidationError]]
) -> str:
    """The alternatives themselves where each wants one thing of this very value; else how many there are."""
    simple = [one[0] for one in context if len(one) == 1 and one[0].instance_path == error.instance_path]
    words = list(dict.fromkeys(word for one in simple for word in wanted(one)))
    if len(simple) == len(context) and 0 < len(words) <= MAX_OPTIONS:
        return " or ".join(words)
    return f"a value that fits one of {len(context)} alternatives"


def uncompiled(error: Error) -> str:
    """Why the validator does not take a schema, as the end of "it cannot be enforced: ..."."""
    place = pointer(error.instance_path) or "its root"
    match error.kind:
        case Kind.Format(format="regex"):
            return f"the pattern at `{place}` is no linear regular expression"
        case Kind.Referencing() if "meta-schema" in error.message:
            return "its `$schema` names a dialect that is not known"
        case Kind.Referencing():
            return "one of its references leads nowhere"
        case _:
            return f"it is no valid JSON Schema at `{place}`"


def pointer(path: Sequence[str | int]) -> str:
    """The JSON pointer of a path; empty for the root [RFC 6901]."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def shown(value: Any) -> str:
    """A value of the schema, or a property's name, on one line and not too long."""
    text = value if isinstance(value, str) and value.isprintable() else json.dumps(value, ensure_ascii=True)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
