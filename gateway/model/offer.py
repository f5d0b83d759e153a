"""What upstreams offer beside the calling of tools: lists, and where a request belongs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["tools", "prompts", "resources", "resourceTemplates"]
"""What can be listed; also the member of the answer that holds the list."""

KINDS: tuple[Kind, ...] = ("tools", "prompts", "resources", "resourceTemplates")

CAPABILITY: Mapping[Kind, str] = {
    "tools": "tools",
    "prompts": "prompts",
    "resources": "resources",
    "resourceTemplates": "resources",
}
"""What a server says that has such a list."""

LIST_METHODS: Mapping[str, Kind] = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """All that the upstreams offer of one kind, on one page."""

    items: Sequence[Mapping[str, Any]]
    """As the upstreams sent them, only names of tools and prompts ours; an order that does not change by itself."""
    ttl_ms: int | None = None
    """The shortest promise of those that made one; None if none did."""
    public: bool = False
    """Whether every upstream that gave a part says `cacheScope: public`."""
    absent: bool = False
    """Whether none of those that could have such a list has that method."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request belongs, and its params as that upstream knows them."""

    upstreams: tuple[str, ...]
    """Its owner; or, for a resource that nobody listed, those who may have it, to be asked in order."""
    params: Mapping[str, Any]
    """Names are the upstream's own; `_meta` taken out."""
    name: str | None = None
    """The upstream's name for what is asked: HTTP says it in a header too (`Mcp-Name`)."""
