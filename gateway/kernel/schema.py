"""(schema, value) -> what breaks it. No network, no file, linear regular expressions, bounded work.

Schemas come from upstreams and values from models; both are hostile until shown otherwise. So nothing is
fetched, lookaround is refused rather than run, and work is counted before it is done (`schema_work`).
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema_rs

from gateway.kernel.schema_words import pointer, uncompiled, wanted
from gateway.kernel.schema_work import Graph, Hostile
from gateway.model.canonical import MAX_DEPTH, NotStrictJson, canonical, parse

MAX_SCHEMA_BYTES = 512 * 1024
"""The largest of 493 real tools has 20 kB."""

MAX_PATTERNS = 100
"""Regular expressions in one schema; a compiled one may take 1 MiB and 5 ms."""

MAX_WORK = 2_000_000
"""Evaluations of one value, 12 to 50 ns each."""

MAX_LISTED = 5_000
"""Evaluations up to which errors are listed where there are alternatives: an error holds those of every alternative,
and costs up to 100 µs. Beyond, only whether the value fits is found out."""

MAX_INT_BITS = 14_000
"""Beyond 4,300 digits the validator takes an integer for something else, and lets it pass `maximum`."""

ROOT = "(root)"

_REGEXES = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)


class Unenforceable(ValueError):
    """The schema cannot be checked against; the message says why, as the end of "it cannot be enforced: ..."."""


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One thing about a value that breaks its schema. Shows nothing of the value but the names of its properties."""

    path: str
    """JSON pointer of the place; `(root)` for the whole."""
    expected: str
    """What is wanted there, as half a sentence: "a string", "the property `path` is required"."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema that can be checked against."""

    validator: jsonschema_rs.Validator
    graph: Graph

    def violations(self, value: Any, *, limit: int = 20) -> tuple[Violation, ...]:
        """What of the value breaks the schema, by path, at most `limit` of it; empty if nothing does. Never raises."""
        size = _size(value)
        if isinstance(size, str):
            return (Violation(ROOT, size),)
        graph, bound = self.graph, self.graph.unfolded * size
        if bound > MAX_WORK and graph.work(value, MAX_WORK) > MAX_WORK:
            return (Violation(ROOT, "a value that is small enough to be checked against this schema"),)
        if self.validator.is_valid(value):
            return ()
        if graph.branches and bound > MAX_LISTED and graph.work(value, MAX_LISTED) > MAX_LISTED:
            return (Violation(ROOT, "a value that fits the schema; this one is too large to list what does not"),)
        found = (one for error in self.validator.iter_errors(value) for one in _violations(error))
        return tuple(sorted(set(islice(found, 1000)))[:limit])


def enforceable(schema: Mapping[str, Any]) -> Schema:
    """The schema, ready to judge, in the dialect that its `$schema` names, 2020-12 by default.

    Raises: Unenforceable.
    """
    compiled = _compiled(_spelled(schema))
    if isinstance(compiled, str):
        raise Unenforceable(compiled)
    return compiled


def violations(schema: Mapping[str, Any], value: Any, *, limit: int = 20) -> tuple[Violation, ...]:
    """As `Schema.violations`, for who has only the schema's text.

    Raises: Unenforceable for the schema's own sake.
    """
    return enforceable(schema).violations(value, limit=limit)


def _spelled(schema: Mapping[str, Any]) -> bytes:
    try:
        return canonical(schema)
    except NotStrictJson:
        raise Unenforceable("it is no plain JSON") from None


@lru_cache(maxsize=256)
def _compiled(spelled: bytes) -> Schema | str:
    """The schema, ready to judge, or why it cannot be enforced; both are remembered."""
    if len(spelled) > MAX_SCHEMA_BYTES:
        return f"it is larger than {MAX_SCHEMA_BYTES // 1024} kB"
    try:
        schema = parse(spelled, max_depth=MAX_DEPTH)
        if _patterns(schema) > MAX_PATTERNS:
            return f"it has more than {MAX_PATTERNS} patterns"
        graph = Graph.of(schema)
        return Schema(jsonschema_rs.validator_for(schema, offline=True, pattern_options=_REGEXES), graph)
    except (NotStrictJson, Hostile) as error:
        return str(error)
    except jsonschema_rs.ValidationError as error:
        return uncompiled(error)
    except (ValueError, jsonschema_rs.ReferencingError):
        return "it is no valid JSON Schema"


def _patterns(schema: Any) -> int:
    """How many regular expressions the schema holds."""
    count = 0
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            count += isinstance(part.get("pattern"), str)
            by_pattern = part.get("patternProperties")
            count += len(by_pattern) if isinstance(by_pattern, dict) else 0
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return count


def _size(value: Any) -> int | str:
    """How many values there are in the value, long strings counted as several; or why it is no plain JSON."""
    count, layer = 0, [value]
    for _ in range(MAX_DEPTH + 1):
        parts: list[Any] = []
        for part in layer:
            if (odd := _odd(part)) is not None:
                return odd
            if isinstance(part, str):
                count += len(part) // 64
            elif isinstance(part, dict):
                parts += part.values()
            elif isinstance(part, list):
                parts += part
        count += len(layer)
        layer = parts
        if not layer:
            return count
    return f"a value that is nested at most {MAX_DEPTH} levels deep"


def _odd(part: Any) -> str | None:
    """What is wanted instead, if the value is none that the strict parse would have given."""
    match part:
        case str():
            return None if _is_text(part) else "text in UTF-8, without half a surrogate pair"
        case dict():
            return None if _have_text(part) else "property names in UTF-8"
        case float():
            return None if math.isfinite(part) else "finite numbers"
        case int():
            return None if part.bit_length() <= MAX_INT_BITS else "integers of at most 4200 digits"
        case None | list():
            return None
        case _:
            return "a JSON value"


def _have_text(names: Iterable[Any]) -> bool:
    for name in names:  # noqa: SIM110 - walked for every object of every call; a generator costs more
        if not (isinstance(name, str) and _is_text(name)):
            return False
    return True


def _is_text(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def _violations(error: jsonschema_rs.ValidationError) -> Iterator[Violation]:
    path = pointer(error.instance_path)
    for expected in wanted(error):
        yield Violation(path or ROOT, expected)
