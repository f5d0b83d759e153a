"""(document, model) -> value or problems. What pydantic found, in the words of the person who wrote the file."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gateway.model.flaws import Flaw, Place
from gateway.outbound.yaml_files import Document, Problem

M = TypeVar("M", bound=BaseModel)

KEY = "[key]"
"""How pydantic marks that it speaks of a key."""

MAX_SHOWN = 64
LISTED = 8
"""Keys that are named where one is unknown and none is near: more are a wall that nobody reads."""


class FilePart(BaseModel):
    """A part of a configuration file: every key known, nothing converted."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def read_as(document: Document, model: type[M], patterns: Mapping[str, str]) -> tuple[M | None, list[Problem]]:
    """The document as a value of the model, and what keeps it from being one; a `Flaw` is left to `flaws`.

    Nothing is converted: a number in quotes is a text. `patterns` says in words what a regular expression wants.
    """
    try:
        return model.model_validate_json(json.dumps(document.value), strict=True), []
    except ValidationError as error:
        found = error.errors(include_url=False)
    schema = model.model_json_schema(by_alias=True)
    told = {problem.path for problem in document.problems}
    asked = [one for one in found if not _is_flaw(one) and not _is_echo(one)]
    judged = [(one["input"], _problem(document, one, schema, patterns)) for one in asked]
    # What is no value as YAML stands here as None; that it is none has been told.
    return None, [problem for given, problem in judged if given is not None or problem.path not in told]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint at the nearest right spelling; empty where nothing is near."""
    names = list(known)
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    return f" (did you mean `{folded[near[0]]}`?)" if near else ""


def _there_are(known: Sequence[str]) -> str:
    """The keys, where they are few enough to be read."""
    return f"; there are {', '.join(f'`{name}`' for name in known)}" if 0 < len(known) <= LISTED else ""


def _is_flaw(error: Mapping[str, Any]) -> bool:
    return isinstance(error.get("ctx", {}).get("error"), Flaw)


def _is_echo(error: Mapping[str, Any]) -> bool:
    """A list is also called too short when its items are wrong, each of which is told."""
    return error["type"] == "too_short" and len(error["input"]) >= int(error["ctx"]["min_length"])


def _problem(
    document: Document, error: Mapping[str, Any], schema: Mapping[str, Any], patterns: Mapping[str, str]
) -> Problem:
    place: Place = tuple(step for step in error["loc"] if step != KEY)
    match error["type"]:
        case "missing":
            return document.problem(place[:-1], f"the key `{place[-1]}` is missing", at_key=True)
        case "extra_forbidden":
            known = _keys_at(schema, place[:-1])
            hint = did_you_mean(str(place[-1]), known) or _there_are(known)
            return document.problem(place, f"no key `{place[-1]}` is known here{hint}", at_key=True)
        case _:
            return document.problem(place, _words(error, patterns), at_key=KEY in error["loc"])


def _words(error: Mapping[str, Any], patterns: Mapping[str, str]) -> str:
    kind, given, limits = error["type"], error["input"], error.get("ctx", {})
    match kind:
        case "enum" | "literal_error":
            known = re.findall(r"'([^']*)'", str(limits["expected"]))
            listed = ", ".join(f"`{name}`" for name in known)
            return f"one of {listed} is wanted, not {_shown(given)}{did_you_mean(str(given), known)}"
        case "string_pattern_mismatch":
            wanted = patterns.get(limits["pattern"], f"a text that matches `{limits['pattern']}`")
            return f"{wanted} is wanted, not {_shown(given)}"
        case "value_error":
            return str(limits["error"])
        case "string_type":
            quoted = "; write it in quotes" if isinstance(given, bool | int | float) else ""
            return f"a text is wanted, not {_shown(given)}{quoted}"
        case _ if kind.startswith(("datetime", "timezone")):
            return f"a time with its zone is wanted, such as `2027-01-15T09:30:00Z`, not {_shown(given)}"
        case _ if kind in _TYPES:
            return f"{_TYPES[kind]} is wanted, not {'the text ' if isinstance(given, str) else ''}{_shown(given)}"
        case _:
            return _LIMITS.get(kind, "this is not valid here").format(**limits)


_TYPES: Mapping[str, str] = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "`true` or `false`",
    "bool_parsing": "`true` or `false`",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
}

_LIMITS: Mapping[str, str] = {
    "greater_than": "a number above {gt:.12g} is wanted",
    "greater_than_equal": "a number of at least {ge:.12g} is wanted",
    "less_than": "a number below {lt:.12g} is wanted",
    "less_than_equal": "a number of at most {le:.12g} is wanted",
    "string_too_short": "a longer text is wanted: no fewer characters than {min_length}",
    "string_too_long": "a shorter text is wanted: no more characters than {max_length}",
    "too_short": "more entries are wanted: no fewer than {min_length}",
}


def _shown(given: Any) -> str:
    match given:
        case str():
            return f"`{given[:MAX_SHOWN]}`" if given else "``"
        case bool():
            return f"`{str(given).lower()}`"
        case int() | float():
            return f"the number `{given}`"
        case None:
            return "nothing"
        case list():
            return "a list"
        case _:
            return "a mapping of keys to values"


def _keys_at(schema: Mapping[str, Any], place: Place) -> list[str]:
    """The keys that the JSON Schema knows at a place."""
    at: Any = schema
    for step in place:
        at = _resolved(schema, at)
        if isinstance(step, int):
            at = at.get("items", {})
        else:
            others = [*at.get("patternProperties", {}).values(), at.get("additionalProperties", {})]
            at = at.get("properties", {}).get(step, others[0])
    return list(_resolved(schema, at).get("properties", {}))


def _resolved(schema: Mapping[str, Any], at: Any) -> Mapping[str, Any]:
    """What a reference, or an optional value, stands for."""
    while isinstance(at, Mapping) and ("$ref" in at or "anyOf" in at):
        at = schema["$defs"][at["$ref"].rpartition("/")[2]] if "$ref" in at else at["anyOf"][0]
    return at if isinstance(at, Mapping) else {}
