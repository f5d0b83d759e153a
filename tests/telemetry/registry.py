"""The registry of names, read: each group of attributes put in the place of its name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from gateway.model.telemetry import kinds

FILE = Path(kinds.__file__).with_name("registry.yaml")

Levels = Mapping[str, str]
"""Attribute to `required`, `recommended`, `opt_in`, or the condition under which it is required, after an `if `."""


@dataclass(frozen=True, slots=True)
class Attribute:
    key: str
    type: str
    """`string`, `int`, `double`, `boolean`, `string[]`, or `enum`."""
    brief: str
    stability: str
    members: Mapping[str, str]
    """Of an enum, value to what it means."""
    low: bool
    """Few values: it may be a label."""
    origin: str
    source: str
    content: bool
    mirrors: str
    open: bool


@dataclass(frozen=True, slots=True)
class Group:
    """A kind of span, a metric or a log event."""

    name: str
    """Of a span its type."""
    brief: str
    said: Mapping[str, Any]
    """All that the registry says."""
    levels: Levels

    @property
    def notes(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.said["annotations"]
        return found


@dataclass(frozen=True, slots=True)
class Registry:
    scope: str
    schema_url: str
    attributes: Mapping[str, Attribute]
    service: Group
    spans: Mapping[str, Group]
    metrics: Mapping[str, Group]
    events: Mapping[str, Group]


@cache
def registry() -> Registry:
    said = YAML(typ="safe").load(FILE)
    groups = {group["id"]: group["attributes"] for group in said["attribute_groups"]}

    def levels(listed: list[Any]) -> Iterator[tuple[str, str]]:
        for one in listed:
            if "ref_group" in one:
                yield from levels(groups[one["ref_group"]])
            else:
                yield one["ref"], _level(one["requirement_level"])

    def read(listed: list[Any], name: str) -> dict[str, Group]:
        return {one[name]: Group(one[name], one["brief"], one, dict(levels(one["attributes"]))) for one in listed}

    return Registry(
        said["annotations"]["scope"],
        said["annotations"]["schema_url"],
        {one["key"]: _attribute(one) for one in said["attributes"]},
        read(said["entities"], "type")["service"],
        read(said["spans"], "type"),
        read(said["metrics"], "name"),
        read(said["events"], "name"),
    )


def _level(said: Any) -> str:
    return said if isinstance(said, str) else f"if {said['conditionally_required']}"


def _attribute(said: Mapping[str, Any]) -> Attribute:
    notes, of = said["annotations"], said["type"]
    members = {} if isinstance(of, str) else {one["value"]: one.get("brief", "") for one in of["members"]}
    return Attribute(
        said["key"],
        of if isinstance(of, str) else "enum",
        said["brief"],
        said["stability"],
        members,
        notes["cardinality"] == "low",
        notes["origin"],
        notes.get("source", ""),
        notes.get("content", False),
        notes.get("mirrors", ""),
        notes.get("open", False),
    )
