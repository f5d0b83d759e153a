"""What breaks a schema is told by path, in words, without the value; and no schema or value can hold us up."""

import json
import math
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.schema import Unenforceable, Violation, violations
from tests.policy.test_conditions import ANYTHING, CANARY, nested

ROOT = "(root)"
FITS_NONE = "a value that fits one of 2 alternatives"
TOO_LARGE_TO_LIST = "a value that fits the schema; this one is too large to list what does not"
TOO_LARGE = "a value that is small enough to be checked against this schema"

FILE_TOOL = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "tail": {"type": "number", "description": "only the last lines"},
        "mode": {"enum": ["text", "binary"]},
    },
    "required": ["path"],
    "additionalProperties": False,
}


@contextmanager
def within_s(seconds: float) -> Iterator[None]:
    """Of CPU, whoever else is busy."""
    started = time.process_time()
    yield
    assert time.process_time() - started < seconds


def wants(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    return [(one.path, one.expected) for one in violations(schema, value)]


def test_what_keeps_its_schema_has_no_violations() -> None:
    assert violations(FILE_TOOL, {"path": "a.txt", "tail": 3, "mode": "text"}) == ()


def test_every_violation_is_told_with_its_path() -> None:
    assert violations(FILE_TOOL, {"PATH": "a.txt", "tail": "3", "mode": "txt"}) == (
        Violation(ROOT, "no property `PATH`"),
        Violation(ROOT, "the property `path` is required"),
        Violation("/mode", "one of `text`, `binary`"),
        Violation("/tail", "a number"),
    )


def test_only_so_many_are_told() -> None:
    value = {"path": "x"} | {f"p{place:02}": 1 for place in range(50)}
    assert len(violations(FILE_TOOL, value)) == 20
    assert violations(FILE_TOOL, value, limit=1) == (Violation(ROOT, "no property `p00`"),)


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "string"}, 1, "a string"),
        ({"type": "integer"}, 1.5, "an integer"),
        ({"type": "boolean"}, "true", "true or false"),
        ({"type": "array"}, {}, "a list"),
        ({"type": "object"}, [], "an object"),
        ({"type": ["string", "null"]}, 1, "null or a string"),
        ({"const": 5}, 6, "the value `5`"),
        ({"const": {"a": 1}}, 6, 'the value `{"a": 1}`'),
        ({"enum": list(range(13))}, "x", "one of `0`, `1`, `2`, `3`, `4`, `5`, `6`, `7`, `8`, `9` and 3 more"),
        ({"minimum": 3}, 2, "a number of at least 3"),
        ({"maximum": 3}, 10**400, "a number of at most 3"),
        ({"exclusiveMinimum": 3}, 3, "a number above 3"),
        ({"exclusiveMaximum": 3}, 3, "a number below 3"),
        ({"multipleOf": 2}, 3, "a multiple of 2"),
        ({"minLength": 2}, "a", "at least 2 characters"),
        ({"maxLength": 2}, "abc", "at most 2 characters"),
        ({"pattern": "^a"}, "b", "text that matches `^a`"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "format": "date"}, "b", "text of the format `date`"),
        ({"minItems": 2}, [1], "at least 2 items"),
        ({"maxItems": 1}, [1, 2], "at most 1 items"),
        ({"uniqueItems": True}, [1, 1], "a list without two equal items"),
        ({"contains": {"type": "string"}}, [1], "a list with an item of the kind that it must contain"),
        ({"minProperties": 1}, {}, "at least 1 properties"),
        ({"maxProperties": 0}, {"a": 1}, "at most 0 properties"),
        ({"propertyNames": {"maxLength": 2}}, {"abc": 1}, "property names that are at most 2 characters"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "the property `b` is required"),
        ({"unevaluatedProperties": False}, {"a": 1}, "no property `a`"),
        ({"unevaluatedItems": False}, [1], "no further items"),
        ({"not": {"type": "string"}}, "a", "a value that the schema does not exclude"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "a string or null"),
        ({"oneOf": [{"type": "string"}, {"required": ["a"]}]}, {}, "a string or the property `a` is required"),
        ({"anyOf": [{"properties": {"a": False}}, {"maxProperties": 0}]}, {"a": 1}, FITS_NONE),
        ({"additionalProperties": False}, {"a": 1}, "no property at all"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1, "a value that fits exactly one of its alternatives"),
        ({"required": ["a"], "type": "object"}, {}, "the property `a` is required"),
    ],
)  # fmt: skip
def test_each_keyword_says_in_words_what_it_wants(schema: dict[str, Any], value: Any, expected: str) -> None:
    assert wants(schema, value) == [(ROOT, expected)]


def test_what_must_not_be_given_is_told_at_its_place() -> None:
    assert wants({"properties": {"a": False}}, {"a": 1}) == [("/a", "nothing, for it must not be given")]
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}], "additionalItems": False}
    assert wants(draft_7, [1, 2]) == [(ROOT, "at most 1 items")]


def test_a_path_is_a_json_pointer() -> None:
    schema = {"properties": {"a/b~c": {"items": {"type": "string"}}}}
    assert wants(schema, {"a/b~c": ["x", 1]}) == [("/a~1b~0c/1", "a string")]


def test_a_name_that_would_hide_or_run_on_is_shown_escaped_and_cut() -> None:
    schema = {"properties": {"a": {}}, "additionalProperties": False}
    assert wants(schema, {"a\n\u202eb": 1}) == [(ROOT, 'no property `"a\\n\\u202eb"`')]
    assert wants(schema, {"x" * 100: 1}) == [(ROOT, f"no property `{'x' * 63}…`")]


@pytest.mark.parametrize(
    "reference",
    ["#/$defs/word", "#word", "https://example.invalid/tool#/$defs/word", "word.json", "/word.json", "#/properties/b"],
)
def test_a_reference_within_the_schema_is_followed(reference: str) -> None:
    word = {"$anchor": "word", "type": "string"}
    schema = {
        "$id": "https://example.invalid/tool",
        "$defs": {"word": word, "other": {"$id": "/word.json", "type": "string"}},
        "properties": {"a": {"$ref": reference}, "b": {"type": "string"}},
    }
    assert wants(schema, {"a": 1}) == [("/a", "a string")]


def test_a_reference_of_an_older_draft_is_followed() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"pair": {"items": [{"type": "string"}]}, "named": {"$id": "#named", "type": "string"}},
        "properties": {"a": {"$ref": "#/definitions/pair/items/0"}, "b": {"$ref": "#named"}},
    }
    assert wants(schema, {"a": 1, "b": 2}) == [("/a", "a string"), ("/b", "a string")]


def test_a_recursive_schema_of_a_tree_is_followed_to_any_depth() -> None:
    tree = {
        "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "value": {"type": "integer"}},
        "additionalProperties": False,
    }
    value: dict[str, Any] = {"value": "x"}
    for _ in range(40):
        value = {"left": value, "right": {"value": 1}}
    assert wants(tree, value) == [("/left" * 40 + "/value", "an integer")]


def test_a_dynamic_reference_leads_to_all_that_bear_its_name() -> None:
    schema = {
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"inner": {"$dynamicRef": "#node"}},
        "$defs": {"other": {"$dynamicAnchor": "other"}},
    }
    assert wants(schema, {"inner": {"inner": 1}}) == [("/inner/inner", "an object")]


UNENFORCEABLE = [
    ({"$ref": "file:///etc/hostname"}, "its reference `file:///etc/hostname` leads out of the schema"),
    ({"$ref": "#/nowhere"}, "its reference `#/nowhere` leads out of the schema"),
    ({"$ref": "#/default/a", "default": 5}, "its reference `#/default/a` leads out of the schema"),
    ({"$ref": "#nowhere"}, "its reference `#nowhere` leads out of the schema"),
    ({"$ref": "other.json"}, "its reference `other.json` leads out of the schema"),
    ({"$ref": "#"}, "one of its references leads back to itself"),
    (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        "one of its references leads back to itself",
    ),
    ({"$ref": "x.json", "x-own": {"$id": "x.json"}}, "one of its references leads nowhere"),
    ({"$id": "http://a/b", "$ref": "http://[c"}, "it is no valid JSON Schema"),
    ({"$ref": 5}, "it is no valid JSON Schema at `/$ref`"),
    ({"$schema": "https://example.invalid/custom"}, "its `$schema` names a dialect that is not known"),
    ({"$schema": 5}, "it is no valid JSON Schema at `/$schema`"),
    ({"type": "strnig"}, "it is no valid JSON Schema at `/type`"),
    ({"properties": {"coin": {}, "required": ["coin"]}}, "it is no valid JSON Schema at `/properties/required`"),
    ({"properties": {"a": {"pattern": "("}}}, "the pattern at `/properties/a/pattern` is no linear regular expression"),
    ({"pattern": "(?=a)"}, "the pattern at `/pattern` is no linear regular expression"),
    ({"pattern": "(a{1000}){1000}"}, "the pattern at `/pattern` is no linear regular expression"),
    ({"patternProperties": {"(?!a)": {}}}, "the pattern at `/patternProperties/(?!a)` is no linear regular expression"),
    ({"allOf": [{"pattern": f"{place}"} for place in range(101)]}, "it has more than 100 patterns"),
    ({"description": "x" * 600_000}, "it is larger than 512 kB"),
    ({"default": math.nan}, "it is no plain JSON"),
    ({"default": {1}}, "it is no plain JSON"),
    ({"default": nested(65)}, "nested deeper than 64 levels"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "reason"), UNENFORCEABLE, ids=range(len(UNENFORCEABLE)))
def test_a_schema_that_cannot_be_checked_against_says_why_and_says_it_again(
    schema: dict[str, Any], reason: str
) -> None:
    for _ in range(2):
        with pytest.raises(Unenforceable) as refused:
            violations(schema, {})
        assert str(refused.value) == reason


def test_no_reference_is_ever_fetched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        elsewhere = f"http://127.0.0.1:{port}/s.json"
        file = tmp_path / "s.json"
        file.write_text('{"type": "integer"}')
        for schema in ({"$ref": elsewhere}, {"$ref": file.as_uri()}, {"$schema": elsewhere}, {"$id": elsewhere}):
            try:
                assert violations(schema, "x") == ()
            except Unenforceable:
                continue
        with pytest.raises(BlockingIOError):
            server.accept()


def staircase(steps: int) -> dict[str, Any]:
    """A schema of `steps` lines that asks for 2^steps evaluations of one value."""
    defs: dict[str, Any] = {"d0": {"type": "integer"}}
    for step in range(1, steps + 1):
        below = {"$ref": f"#/$defs/d{step - 1}"}
        defs[f"d{step}"] = {"anyOf": [below, {"title": "again", **below}]}
    return {"$defs": defs, "$ref": f"#/$defs/d{steps}"}


BRANCHING: dict[str, Any] = {
    "$defs": {
        "node": {
            "anyOf": [
                {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}}},
                {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}}, "title": "again"},
            ]
        }
    },
    "$ref": "#/$defs/node",
}
"""A recursion that branches: 2^depth evaluations of a value."""


@pytest.mark.parametrize("steps", [14, 24, 30])
def test_a_staircase_of_references_is_refused_when_it_is_compiled(steps: int) -> None:
    with within_s(1), pytest.raises(Unenforceable, match=r"^its references multiply to more than 10000 checks of one"):
        violations(staircase(steps), "x")


def test_a_chain_of_references_is_refused_before_it_can_overflow() -> None:
    defs = {f"d{step}": {"$ref": f"#/$defs/d{step + 1}"} for step in range(5000)} | {"d5000": {"type": "integer"}}
    with within_s(1), pytest.raises(Unenforceable, match=r"^its references follow each other for more than 64 steps$"):
        violations({"$defs": defs, "$ref": "#/$defs/d0"}, "x")


def test_a_long_chain_of_references_down_the_value_is_followed() -> None:
    defs: dict[str, Any] = {f"d{step}": {"properties": {"a": {"$ref": f"#/$defs/d{step + 1}"}}} for step in range(3000)}
    defs["d3000"] = {"type": "integer"}
    assert wants({"$defs": defs, "$ref": "#/$defs/d0"}, nested(60)) == []


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (6, FITS_NONE),
        (12, TOO_LARGE_TO_LIST),
        (30, TOO_LARGE),
        (64, TOO_LARGE),
    ],
)
def test_a_recursion_that_branches_costs_no_more_than_it_may(levels: int, expected: str) -> None:
    with within_s(1):
        assert wants(BRANCHING, nested(levels)) == [(ROOT, expected)]


def test_a_mild_staircase_judges_and_gives_up_on_the_list_only() -> None:
    with within_s(1):
        assert wants(staircase(11), "x") == [(ROOT, TOO_LARGE_TO_LIST)]
        assert wants(staircase(11), 5) == []
        assert wants(staircase(4), "x") == [(ROOT, "an integer")]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 100_000 + "!"),
        ({"uniqueItems": True}, [{"a": place} for place in range(3_000)]),
        ({"items": {"enum": [{"a": place} for place in range(5_000)]}}, [{"a": 4_999}] * 5_000),
        ({"items": {"anyOf": [{"minProperties": size} for size in range(1, 3_000)]}}, [{}] * 3_000),
        ({"items": {"allOf": [{"pattern": f"x{{9}}{place}"} for place in range(90)]}}, ["x" * 5_000] * 800),
        ({"unevaluatedProperties": False, "allOf": [{"properties": {"a": {}}}] * 50}, {"a": 1}),
    ],
    ids=["regex", "unique", "enum", "any", "patterns", "unevaluated"],
)
def test_a_bomb_of_another_make_goes_off_quietly(schema: dict[str, Any], value: Any) -> None:
    with within_s(3):
        violations(schema, value)


def test_large_values_of_harmless_schemas_are_checked() -> None:
    edits = {"properties": {"edits": {"items": {"$ref": "#/$defs/edit"}}}, "$defs": {"edit": {"required": ["old"]}}}
    with within_s(3):
        assert violations(FILE_TOOL, {"path": "x" * 4_000_000}) == ()
        assert violations({"items": {"type": "number"}}, [1.5] * 100_000) == ()
        assert violations(edits, {"edits": [{"old": "x", "new": "y"}] * 20_000}) == ()


def test_a_list_with_a_schema_for_each_place_is_counted_by_place() -> None:
    schema = {"prefixItems": [BRANCHING["$defs"]["node"], {"type": "integer"}], "items": {"type": "string"}}
    schema["$defs"] = BRANCHING["$defs"]
    assert wants(schema, [{}, "x", "y"]) == [("/1", "an integer")]
    assert wants(schema, [nested(12), "x", "y", *["z"] * 100]) == [(ROOT, TOO_LARGE_TO_LIST)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, "finite numbers"),
        ([math.inf], "finite numbers"),
        (10**5000, "integers of at most 4200 digits"),
        ("\ud800", "text in UTF-8, without half a surrogate pair"),
        ({"a": {"\ud800": 1}}, "property names in UTF-8"),
        ({1: 2}, "property names in UTF-8"),
        ((1,), "a JSON value"),
        ([{"a": {1}}], "a JSON value"),
        (b"x", "a JSON value"),
        (nested(65), "a value that is nested at most 64 levels deep"),
        (nested(50_000), "a value that is nested at most 64 levels deep"),
    ],
    ids=range(11),
)
def test_what_the_strict_parse_would_not_have_let_in_is_no_value_at_all(value: Any, expected: str) -> None:
    assert wants({"maximum": 5}, value) == [(ROOT, expected)]


def test_integers_are_compared_exactly_at_any_size_that_comes_in() -> None:
    assert wants({"const": 2**53 + 1}, 2**53) == [(ROOT, f"the value `{2**53 + 1}`")]
    assert wants({"maximum": 10}, 10**4200) == [(ROOT, "a number of at most 10")]


def test_no_violation_shows_a_value() -> None:
    schema = FILE_TOOL | {"minProperties": 9}
    found = violations(schema, {"path": [CANARY], "tail": CANARY, "mode": CANARY})
    assert len(found) == 4
    assert CANARY not in repr(found)


def test_the_schema_itself_is_left_as_it_is() -> None:
    before = json.dumps(FILE_TOOL)
    violations(FILE_TOOL, {})
    assert json.dumps(FILE_TOOL) == before


SCHEMAS = st.sampled_from([FILE_TOOL, BRANCHING, staircase(3), {"type": "array", "items": {"$ref": "#"}}, {}])
_KEYWORDS = st.sampled_from(
    ["type", "properties", "items", "anyOf", "$ref", "enum", "required", "pattern", "const", "not"]
)
ANY_SCHEMA = st.dictionaries(_KEYWORDS, ANYTHING | st.sampled_from(["string", "#", "#/properties/a"]), max_size=4)


@given(SCHEMAS | ANY_SCHEMA, ANYTHING)
def test_any_schema_and_any_value_give_violations_or_an_unenforceable_schema(
    schema: dict[str, Any], value: Any
) -> None:
    try:
        found = violations(schema, value)
    except Unenforceable:
        return
    assert all(one.path == ROOT or one.path.startswith("/") for one in found)
