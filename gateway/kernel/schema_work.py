"""schema -> how much work it makes of a value. What is hostile about a schema is found by counting, not by running.

A schema of 1 kB can ask for 2^30 evaluations: by a staircase of `$ref`s at one place of the value, or by a
recursion that branches at every level of it. Validators hold the interpreter while they follow, so the count
comes first: of the schema alone when it is compiled (`Graph.of`), and, where it can repeat itself, of the
schema over the value (`Graph.work`). Keywords are over-counted, never missed.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin

MAX_PATHS = 10_000
"""Ways from one subschema to others at the same place of the value; real tools have fewer than 100."""

MAX_CHAIN = 64
"""Subschemas within subschemas at the same place of the value."""

_SEVERAL_IN_PLACE = ("allOf", "anyOf", "oneOf")
_ONE_IN_PLACE = ("not", "if", "then", "else")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_EVERY_KEY = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_EVERY_ITEM = ("additionalItems", "contains", "unevaluatedItems")
_COMPARED = ("const", "dependentRequired", "enum", "pattern", "required")
"""Keywords that cost more the longer they are."""
_DATA = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose value is no schema, whatever it looks like."""

Multiset = Mapping["Node", int]


class Hostile(ValueError):
    """The schema asks for more than can be given; the message says why."""


@dataclass(eq=False, slots=True)
class Node:
    """One subschema, and the subschemas that it applies."""

    weight: int
    here: list["Node"] = field(default_factory=list)
    """To the same value."""
    by_key: Mapping[str, "Node"] = field(default_factory=dict)
    every_key: list["Node"] = field(default_factory=list)
    by_place: list["Node"] = field(default_factory=list)
    every_item: list["Node"] = field(default_factory=list)
    closure: Multiset | None = None
    """All that is applied to the same value in the end, and how often."""

    def to(self, step: str | int | None) -> Iterator["Node"]:
        """All that it applies to the part under this key, at this place, or at any place beyond those it names."""
        if isinstance(step, str):
            yield from self.every_key
            if step in self.by_key:
                yield self.by_key[step]
        else:
            yield from self.every_item
            if step is not None and step < len(self.by_place):
                yield self.by_place[step]

    def below(self) -> Iterator["Node"]:
        """All that it applies to parts of the value."""
        for part in (self.by_key.values(), self.every_key, self.by_place, self.every_item):
            yield from part


@dataclass(frozen=True, slots=True)
class Graph:
    """A schema as what it applies to what."""

    root: Node
    unfolded: float
    """Evaluations at most for one place of a value; infinite if the schema is recursive."""
    branches: bool
    """Whether an error may come with the errors of every alternative."""

    @staticmethod
    def of(schema: Mapping[str, Any]) -> "Graph":
        """The graph of a schema that refers to nothing but itself.

        Raises: Hostile for references that lead out, lead back to themselves, or multiply without bound.
        """
        builder = _Builder(schema)
        root = builder.node(schema)
        builder.finish()
        for node in builder.nodes.values():
            _close(node, 0, set())
        return Graph(root, _unfold(root, {}, set()), builder.branches)

    def work(self, value: Any, limit: int) -> int:
        """Evaluations that the value costs, exactly as far as `limit`; more than `limit` if there are more."""
        return _Walk(limit).visit(value, _Load.of({self.root: 1}))


class _Builder:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self.nodes: dict[int, Node] = {}
        self.branches = False
        self._names = _Names(document)
        self._waiting: list[tuple[Node, Mapping[str, Any]]] = []

    def node(self, schema: Any) -> Node:
        """The node of a subschema; its own parts follow in `finish`, so that depth is no danger."""
        known = self.nodes.get(id(schema)) if isinstance(schema, Mapping) else None
        if known is not None:
            return known
        node = Node(1)
        if isinstance(schema, Mapping):
            self.nodes[id(schema)] = node
            self._waiting.append((node, schema))
        return node

    def finish(self) -> None:
        while self._waiting:
            node, schema = self._waiting.pop()
            node.weight = 1 + len(json.dumps([schema.get(key) for key in _COMPARED])) // 64
            node.here = self._all(self._in_place(schema))
            self._keys(node, schema)
            self._items(node, schema)

    def _in_place(self, schema: Mapping[str, Any]) -> list[Any]:
        found = [part for key in _SEVERAL_IN_PLACE if isinstance(schema.get(key), list) for part in schema[key]]
        self.branches = self.branches or "anyOf" in schema or "oneOf" in schema
        found += [schema[key] for key in _ONE_IN_PLACE if key in schema]
        for key in ("dependentSchemas", "dependencies"):
            found += _values(schema.get(key))
        for key in _REFERENCES:
            if isinstance(schema.get(key), str):
                found += self._names.targets(schema, key)
        # What is unevaluated is found by evaluating all the rest once more.
        return found * 2 if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else found

    def _keys(self, node: Node, schema: Mapping[str, Any]) -> None:
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            node.by_key = {key: self.node(part) for key, part in properties.items()}
        node.every_key = self._all([schema[key] for key in _EVERY_KEY if key in schema])
        node.every_key += self._all(_values(schema.get("patternProperties")))

    def _items(self, node: Node, schema: Mapping[str, Any]) -> None:
        items, prefix = schema.get("items"), schema.get("prefixItems")
        node.every_item = self._all([schema[key] for key in _EVERY_ITEM if key in schema])
        if isinstance(items, Mapping):
            node.every_item.append(self.node(items))
        for placed in (items, prefix):
            if isinstance(placed, list):
                node.by_place = self._all(placed)

    def _all(self, schemas: Iterable[Any]) -> list[Node]:
        return [self.node(schema) for schema in schemas if isinstance(schema, Mapping | bool)]


class _Names:
    """What the references of one document lead to."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._resources: dict[str, Any] = {"": document}
        self._anchors: dict[tuple[str, str], Any] = {}
        self._dynamic: dict[str, list[Any]] = {}
        self._base: dict[int, str] = {}
        waiting: list[tuple[Any, str]] = [(document, "")]
        while waiting:
            part, base = waiting.pop()
            if isinstance(part, Mapping):
                base = self._note(part, base)
                waiting += [(value, base) for key, value in part.items() if key not in _DATA]
            elif isinstance(part, list):
                waiting += [(value, base) for value in part]

    def _note(self, part: Mapping[str, Any], base: str) -> str:
        own = part.get("$id", part.get("id"))
        if isinstance(own, str):
            base, _, fragment = urljoin(base, own).partition("#")
            self._resources.setdefault(base, part)
            self._anchors.setdefault((base, fragment), part)
        self._base[id(part)] = base
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(part.get(key), str):
                self._anchors[base, part[key]] = part
        if isinstance(part.get("$dynamicAnchor"), str):
            self._dynamic.setdefault(part["$dynamicAnchor"], []).append(part)
        return base

    def targets(self, schema: Mapping[str, Any], key: str) -> list[Any]:
        """What the reference may lead to: one subschema, or each of a dynamic name."""
        reference: str = schema[key]
        uri, _, fragment = urljoin(self._base.get(id(schema), ""), reference).partition("#")
        found = self._at(uri, unquote(fragment))
        if found is None:
            raise Hostile(f"its reference `{reference[:128]}` leads out of the schema")
        others = self._dynamic.get(fragment, []) if key == "$dynamicRef" else []
        return [found, *(other for other in others if other is not found)]

    def _at(self, uri: str, fragment: str) -> Any:
        if fragment and not fragment.startswith("/"):
            return self._anchors.get((uri, fragment))
        at = self._resources.get(uri)
        for step in fragment.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(at, list):
                at = at[int(name)] if name.isdecimal() and int(name) < len(at) else None
            else:
                at = at.get(name) if isinstance(at, Mapping) else None
        return at if isinstance(at, Mapping | bool) else None


def _values(part: Any) -> list[Any]:
    return list(part.values()) if isinstance(part, Mapping) else []


def _close(node: Node, depth: int, above: set[Node]) -> Multiset:
    if node.closure is not None:
        return node.closure
    if node in above:
        raise Hostile("one of its references leads back to itself")
    if depth > MAX_CHAIN:
        raise Hostile(f"its references follow each other for more than {MAX_CHAIN} steps")
    closure = Counter({node: 1})
    for part in node.here:
        closure.update(_close(part, depth + 1, above | {node}))
        if closure.total() > MAX_PATHS:
            raise Hostile(f"its references multiply to more than {MAX_PATHS} checks of one value")
    node.closure = closure
    return closure


def _unfold(node: Node, known: dict[Node, float], above: set[Node]) -> float:
    """The node's evaluations with all that it applies, to the value and below; infinite if it comes back to itself."""
    if node in known:
        return known[node]
    if node in above or len(above) > MAX_CHAIN * 2:
        return float("inf")
    deeper = above | {node}
    total = node.weight + sum(_unfold(part, known, deeper) for part in (*node.here, *node.below()))
    known[node] = total
    return total


class _Walk:
    """One value beside one graph. Equal loads are worked out once, so that a long list costs little for each item."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._below: dict[tuple[int, str | int | None], _Load] = {}

    def visit(self, value: Any, load: "_Load") -> int:
        """What the value and its parts cost; the walk ends where the limit is passed."""
        long = len(value) // 64 if isinstance(value, str) else 0
        spent = load.cost * (1 + long)
        self._left -= spent
        if isinstance(value, dict):
            parts = ((key, part) for key, part in value.items())
        elif isinstance(value, list):
            parts = ((place if place < load.placed else None, part) for place, part in enumerate(value))
        else:
            return spent
        for step, part in parts:
            if self._left < 0:
                break
            spent += self.visit(part, self._to(load, step))
        return spent

    def _to(self, load: "_Load", step: str | int | None) -> "_Load":
        known = self._below.get((id(load), step))
        if known is None:
            applied: Counter[Node] = Counter()
            for node, times in load.nodes.items():
                for part in node.to(step):
                    applied[part] += times
            known = self._below[id(load), step] = _Load.of(applied)
        return known


@dataclass(frozen=True, slots=True)
class _Load:
    """All that is applied to one value, how often, and what it costs."""

    nodes: Multiset
    cost: int
    placed: int
    """How many places of a list have subschemas of their own."""

    @staticmethod
    def of(applied: Multiset) -> "_Load":
        nodes: Counter[Node] = Counter()
        for node, times in applied.items():
            for part, often in (node.closure or {}).items():
                nodes[part] += times * often
        cost = sum(times * node.weight for node, times in nodes.items())
        return _Load(nodes, cost, max((len(node.by_place) for node in nodes), default=0))
