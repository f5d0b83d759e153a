"""What one party is offered by all upstreams together: a snapshot, made anew when a list or a connection is another."""

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gateway.model.canonical import JsonObject, dump
from gateway.model.offer import CAPABILITY, KINDS, Kind, Listed
from gateway.model.tool import Tool
from gateway.outbound.upstream.link import Link
from gateway.outbound.upstream.naming import Addresses, Names, Template, address_all, app_addresses, name_all
from gateway.outbound.upstream.sdk import x_mcp_header_map

_LOG = logging.getLogger("counterfoil.upstream")

MAX_KEPT = 20_000
"""Definitions that are one object for all parties; more than all upstreams together should have."""

MAX_TOLD = 300
"""Troubles of one upstream that are logged."""

_RELAYED = ("prompts", "resources", "completions", "logging")
_FLAGS = {"prompts": ("listChanged",), "resources": ("subscribe", "listChanged")}
_OWN_EXTENSIONS = frozenset({"io.modelcontextprotocol/tasks"})
"""Said by the relay where it holds, not by an upstream through it."""


class Interned:
    """Equal definitions as one object: whoever cites them does so once, however many parties see them."""

    def __init__(self) -> None:
        self._kept: dict[str, JsonObject] = {}
        self._known: OrderedDict[int, tuple[JsonObject, JsonObject]] = OrderedDict()

    def __call__(self, item: JsonObject) -> JsonObject:
        """The one object for this item; compared as text, for to Python 1, 1.0 and True are equal."""
        known = self._known.get(id(item))
        if known is not None and known[0] is item:
            return known[1]
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        one = self._kept.setdefault(dump(item), item)
        self._known[id(item)] = (item, one)
        while len(self._known) > MAX_KEPT:
            self._known.popitem(last=False)
        return one


class Troubles:
    """What of the upstreams' lists is not offered goes to the log, each once, and not without end."""

    def __init__(self) -> None:
        self._told: dict[str, set[str]] = {}

    def tell(self, troubles: Mapping[str, Sequence[str]]) -> None:
        """By upstream. One that has ever new ones, as may be with each list that it sends, is soon said to have."""
        for upstream, reasons in troubles.items():
            told = self._told.setdefault(upstream, set())
            for reason in reasons:
                if reason in told or len(told) > MAX_TOLD:
                    continue
                told.add(reason)
                what = reason if len(told) <= MAX_TOLD else "it has more troubles than are said here"
                _LOG.warning("%s: %s", upstream, what)


@dataclass(frozen=True)
class Offering:
    """All that the links of one party list, under one roof."""

    links: Mapping[str, Link]
    """By upstream, in the order of the configuration."""
    prefix: bool
    interned: Interned = field(repr=False)
    vouched: frozenset[str] = frozenset()
    """Names of tools that are offered whatever they look like."""

    def _lists(self, kind: Kind) -> Sequence[tuple[str, Sequence[JsonObject]]]:
        return [
            (upstream, [self.interned(item) for item in link.listing(kind).items])
            for upstream, link in self.links.items()
        ]

    @cached_property
    def tools(self) -> Names:
        """Tools by name."""
        return name_all(self._lists("tools"), prefix=self.prefix, vouched=self.vouched)

    @cached_property
    def callable(self) -> Mapping[str, Tool]:
        """Tools as the house knows them, by name: the same objects as long as this is."""
        return {
            name: replace(known.tool, headers=self.links[known.upstream].headers)
            for name, known in self.tools.by_name.items()
        }

    @property
    def all_tools(self) -> tuple[Sequence[Tool], bool]:
        """As `Upstreams.offered`."""
        there = all(link.health.state == "healthy" for link in self.links.values())
        return (*self.callable.values(), *self.tools.withheld.values()), there

    @cached_property
    def prompts(self) -> Names:
        """Prompts by name."""
        return name_all(self._lists("prompts"), prefix=self.prefix)

    @cached_property
    def resources(self) -> Addresses:
        """Resources by address."""
        return address_all(self._lists("resources"), "uri")

    @cached_property
    def templates(self) -> Addresses:
        """Resource templates by template."""
        return address_all(self._lists("resourceTemplates"), "uriTemplate")

    @cached_property
    def mirrored(self) -> Mapping[str, Mapping[str, Any]]:
        """Input schemas of the tools that name arguments which HTTP says in headers too, by tool."""
        found = {name: tool.item.get("inputSchema") for name, tool in self.tools.by_name.items()}
        return {
            name: schema for name, schema in found.items() if isinstance(schema, Mapping) and x_mcp_header_map(schema)
        }

    @cached_property
    def _apps(self) -> Mapping[str, str]:
        return {
            address: upstream for upstream, tools in reversed(self._lists("tools")) for address in app_addresses(tools)
        }

    @cached_property
    def _templates(self) -> Sequence[tuple[Template, str]]:
        return [(Template(template), upstream) for template, upstream in self.templates.owners.items()]

    @cached_property
    def _shown(self) -> Mapping[Kind, Listed]:
        return {
            "tools": self._listed("tools", [tool.shown for tool in self.tools.by_name.values()]),
            "prompts": self._listed("prompts", [prompt.shown for prompt in self.prompts.by_name.values()]),
            "resources": self._listed("resources", self.resources.items),
            "resourceTemplates": self._listed("resourceTemplates", self.templates.items),
        }

    def _listed(self, kind: Kind, items: Sequence[JsonObject]) -> Listed:
        parts = [link.listing(kind) for link in self.links.values()]
        promised = [part.ttl_s for part in parts if part.ttl_s is not None]
        ttl_ms = int(min(promised) * 1000) if promised else None
        able = [link.listing(kind) for upstream, link in self.links.items() if CAPABILITY[kind] in self.of(upstream)]
        absent = bool(able) and all(part.absent for part in able)
        return Listed(items, ttl_ms, public=bool(parts) and all(part.public for part in parts), absent=absent)

    def listed(self, kind: Kind) -> Listed:
        """All of one kind."""
        return self._shown[kind]

    def owners_of(self, address: str) -> tuple[str, ...]:
        """Who has the resource: its one owner if that is known, else all who may, in order."""
        listed = self.resources.owners.get(address) or self._apps.get(address)
        if listed is not None:
            return (listed,)
        for template, upstream in self._templates:
            if template.matches(address):
                return (upstream,)
        return tuple(upstream for upstream in self.links if "resources" in self.of(upstream))

    def of(self, upstream: str) -> Mapping[str, Any]:
        """The capabilities of one upstream, as of its last agreement."""
        agreement = self.links[upstream].health.agreement
        return agreement.capabilities if agreement is not None else {}

    @cached_property
    def capabilities(self) -> Mapping[str, Any]:
        """What a server says that is all of them."""
        together: dict[str, Any] = {}
        said = [self.of(upstream) for upstream in self.links]
        for name in _RELAYED:
            offering = [one[name] for one in said if isinstance(one.get(name), Mapping)]
            if offering:
                together[name] = {
                    flag: any(one.get(flag) is True for one in offering)
                    for flag in _FLAGS.get(name, ())
                    if any(flag in one for one in offering)
                }
        for name in ("extensions", "experimental"):
            merged: dict[str, Any] = {}
            for one in reversed(said):  # the first of the configuration has the last word
                part = one.get(name)
                merged |= part if isinstance(part, Mapping) else {}
            kept = {key: value for key, value in merged.items() if key not in _OWN_EXTENSIONS}
            if kept:
                together[name] = kept
        return together

    @property
    def troubles(self) -> Mapping[str, Sequence[str]]:
        """By upstream, what of its lists is not offered, and why."""
        return {
            upstream: [
                *(trouble for kind in KINDS for trouble in link.listing(kind).troubles),
                *self.tools.troubles.get(upstream, ()),
                *self.prompts.troubles.get(upstream, ()),
                *self.resources.doubles.get(upstream, ()),
                *self.templates.doubles.get(upstream, ()),
            ]
            for upstream, link in self.links.items()
        }
