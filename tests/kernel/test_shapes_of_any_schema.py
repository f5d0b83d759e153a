"""No schema, and no value that keeps it, gets the better of checking types."""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gateway.kernel.conditions import BadCondition, compile_condition
from gateway.kernel.schema import Unenforceable, violations
from gateway.kernel.shapes import Shape, check_types
from tests.kernel.test_shapes import refusal
from tests.policy.test_conditions import ANYTHING

NAMES = ("a", "b", "in", "x-y", "aB", "a_b")
KEYWORDS = (
    *("type", "properties", "required", "additionalProperties", "items", "anyOf", "allOf", "oneOf", "$ref", "$defs"),
    *("enum", "const", "if", "then", "patternProperties", "prefixItems", "$id", "not", "unevaluatedProperties"),
)
GARBAGE = st.recursive(
    ANYTHING | st.sampled_from(["string", "object", "integer", "#", "#/$defs/a", "#/properties/a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4)
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=20,
)
READS = (
    *("args.a == 1", "args.a.b == 'x'", 'args["x-y"].a[0] == 1', "args.a.exists(x, x.b == 1)", "has(args.a.b)"),
    *("args.a + args.b == 3", "args.aB in args.a_b", "args == args.a", "values.a.b > 1", "evidence.a.verdict == ''"),
)


@given(st.dictionaries(st.sampled_from(KEYWORDS), GARBAGE, max_size=6), GARBAGE, st.sampled_from(READS))
def test_any_schema_at_all_gives_a_bad_condition_or_nothing(schema: Any, values: Any, expression: str) -> None:
    shape = Shape("t", schema, evidence=("a",), values=values if isinstance(values, dict) else None)
    with contextlib.suppress(BadCondition):
        check_types(expression, "transition", shape)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    more = st.sampled_from([{}, {"additionalProperties": False}, {"additionalProperties": True}])
    typed = st.sampled_from([{}, {"type": "object"}, {"type": ["object", "null"]}])
    fields = st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    return st.builds(lambda said, extra, named: {**said, **extra, "properties": named}, typed, more, fields)


def _combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    words = st.sampled_from(["anyOf", "allOf", "oneOf"])
    combined = st.builds(lambda word, some: {word: some}, words, st.lists(inner, min_size=1, max_size=3))
    both = st.builds(lambda own, more: {**own, **more}, _objects(inner), combined)
    lists = inner.map(lambda items: {"type": "array", "items": items})
    conditional = st.builds(lambda test, then: {"if": test, "then": then}, inner, inner)
    return _objects(inner) | combined | both | lists | conditional


_KINDS = ["string", "integer", "number", "boolean", "null", "array", "object"]
SIMPLE: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(_KINDS).map(lambda kind: {"type": kind}),
    st.lists(st.sampled_from(_KINDS), min_size=1, max_size=2, unique=True).map(lambda kinds: {"type": kinds}),
    st.sampled_from([{}, True, {"enum": ["x", 1]}, {"enum": ["x", None]}, {"const": 2}, {"$ref": "#/$defs/d"}]),
    st.just({"$ref": "#"}),
)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(SIMPLE, _combined, max_leaves=10)
SCALARS = st.sampled_from([None, True, 1, 2, 1.0, 1.5, "x", "y"])


def _applied(schema: Any, root: Any, levels: int = 12) -> list[dict[str, Any]]:
    """All the schemas that say something about one place."""
    if not isinstance(schema, dict) or levels == 0:
        return []
    inner = [one for word in ("anyOf", "allOf", "oneOf") for one in schema.get(word, [])]
    inner += [schema[word] for word in ("if", "then") if word in schema]
    if "$ref" in schema:
        inner.append(root if schema["$ref"] == "#" else root["$defs"]["d"])
    return [schema, *(found for one in inner for found in _applied(one, root, levels - 1))]


@st.composite
def _values(draw: st.DrawFn, schemas: list[Any], root: Any, levels: int = 5) -> Any:
    """A value that may well keep all of these schemas."""
    said = [one for some in schemas for one in _applied(some, root)]
    fixed = [value for one in said for value in [*one.get("enum", []), *([one["const"]] if "const" in one else [])]]
    if fixed:
        return draw(st.sampled_from(fixed))
    kinds = [one["type"] for one in said if "type" in one]
    kind = draw(st.sampled_from([name for one in kinds for name in ([one] if isinstance(one, str) else one)] or _KINDS))
    if kind == "object" and levels:
        listed = [name for one in said for name in one.get("properties", {})]
        names = draw(st.lists(st.sampled_from(listed or NAMES), max_size=4, unique=True))
        fields = {
            name: [one["properties"][name] for one in said if name in one.get("properties", {})] for name in names
        }
        return {name: draw(_values(some, root, levels - 1)) for name, some in fields.items()}
    if kind == "array" and levels:
        items = [one["items"] for one in said if "items" in one]
        return [draw(_values(items, root, levels - 1)) for _ in range(draw(st.integers(0, 2)))]
    return draw(st.sampled_from(_OF[kind]))


_OF: Mapping[str, list[Any]] = {
    "null": [None],
    "boolean": [True, False],
    "integer": [1, 2, -3, 2.0],
    "number": [1, 1.5, 2.0],
    "string": ["x", "y", "é"],
    "array": [[]],
    "object": [{}],
}


def _lists(schema: dict[str, Any], path: tuple[str | int, ...]) -> bool:
    """Whether each name of the path is listed where it stands, by any schema that says something about that place."""
    here: list[Any] = [schema]
    for step in path:
        said = [one for some in here for one in _applied(some, schema)]
        if isinstance(step, int):
            here = [one["items"] for one in said if "items" in one]
        else:
            here = [one["properties"][step] for one in said if step in one.get("properties", {})]
            if not here and any("properties" in one or "additionalProperties" in one for one in said):
                return False
    return True


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(path, value), *(found for step, one in items for found in _paths(one, (*path, step)))]


def _questions(path: tuple[str | int, ...], value: Any, *, dots: bool) -> list[str]:
    """Expressions that are true of this value at this place."""
    spelled = "args"
    for step in path:
        plain = dots and isinstance(step, str) and step not in {"in", "x-y"}
        spelled += f".{step}" if plain else f"[{json.dumps(step)}]"
    match value:
        case dict():
            return [
                f"size({spelled}) == {len(value)}",
                *(f"{json.dumps(name)} in {spelled}" for name in value),
                f"{spelled}.all(k, k != 'other')",
                f"{spelled} == {json.dumps(value)}",
            ]
        case list():
            return [f"{spelled} == {json.dumps(value)}", f"size({spelled}) == {len(value)}"] + [
                f"{spelled}.exists(x, x == {json.dumps(one)}) || {json.dumps(one)} in {spelled}"
                for one in value
                if one is not None
            ]
        case bool() | None:
            return [f"{spelled} == {json.dumps(value)}", f"{spelled} in [{json.dumps(value)}, 'x']"]
        case int() | float():
            return [
                f"{spelled} <= {json.dumps(value)}",
                f"{spelled} + {json.dumps(value)} != {json.dumps(value)}",
                f"{spelled} == {value}",
            ]
        case _:
            return [f"{spelled}.startsWith({json.dumps(value)})", f"{spelled} + 'x' != 'x'", f"{spelled} in ['x', 'y']"]


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], max_examples=150, deadline=None)
@given(st.data())
def test_what_decides_on_a_value_that_keeps_the_schema_is_not_refused(data: st.DataObject) -> None:
    own: dict[str, Any] = data.draw(_objects(SCHEMAS) | SCHEMAS.filter(lambda one: isinstance(one, dict)))
    schema = {**own, "$defs": {"d": data.draw(SCHEMAS)}}
    value = data.draw(_values([schema, {"type": "object"}], schema))
    assume(isinstance(value, dict) and _keeps(schema, value))
    path, found = data.draw(st.sampled_from([one for one in _paths(value) if _lists(schema, one[0])]))
    expression = data.draw(st.sampled_from(_questions(path, found, dots=data.draw(st.booleans()))))
    if isinstance(_decided(expression, value), bool):
        assert refusal(expression, shape=Shape("t", schema)) is None


def _decided(expression: str, args: Any) -> Any:
    try:
        return compile_condition(expression, "transition").decide({"args": args})
    except BadCondition:  # `args[0][0].exists(…)`: see `no_operand`
        return None


def _keeps(schema: dict[str, Any], value: Any) -> bool:
    try:
        return violations(schema, value) == ()
    except Unenforceable:
        return False
