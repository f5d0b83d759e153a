"""What several upstreams offer together: one name, one thing; and who owns a resource."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.model.canonical import JsonObject
from gateway.model.lookalikes import likeness, spelled, unseen
from gateway.model.tool import Tool

_PREFIXED = re.compile(r"[A-Za-z0-9_-]+")
"""What every client accepts in a name."""

MAX_NAME = 64 - len("mcp__counterfoil__")
"""Characters of a name of ours: models' interfaces take 64, and clients put a prefix of their own before it."""

_DIGEST = 6
"""Digits that tell apart names which are cut; were two of them alike, neither would be offered."""

OURS = "gateway"
"""The prefix of the gateway's own tools; no upstream may offer one that looks like them."""

MAX_REASONS = 100
"""Told of one upstream; of more, how many."""
MAX_ORIGINS = 8
"""Named of those that cannot be told apart; an upstream may list its 10,000 tools under one name."""


@dataclass(frozen=True, slots=True)
class Named:
    """One thing of an upstream's, under the name that agents use."""

    name: str
    upstream: str
    own_name: str
    item: JsonObject
    """As the upstream sent it."""

    @property
    def shown(self) -> JsonObject:
        """As agents see it: only the name is ours."""
        return self.item if self.name == self.own_name else {**self.item, "name": self.name}

    @property
    def tool(self) -> Tool:
        """If it is a tool: as the house knows it."""
        return Tool(self.name, self.upstream, self.own_name, self.item)


@dataclass(frozen=True, slots=True)
class Names:
    """All of one kind that upstreams offer together."""

    by_name: Mapping[str, Named]
    """By the name that agents use, in order: that of the configuration, then the upstream's."""
    troubles: Mapping[str, tuple[str, ...]]
    """By upstream, why some of its are not offered, or under which shorter name they are."""
    withheld: Mapping[str, Tool]
    """What is not offered because of its name alone, by that name, with the reason as its trouble."""


def name_all(
    offers: Sequence[tuple[str, Sequence[JsonObject]]], *, prefix: bool, vouched: AbstractSet[str] = frozenset()
) -> Names:
    """The tools or prompts of each upstream, in order, under names that are told apart by every client and person.

    Of two that are not, neither is offered: whichever came first could be the impostor. Only a name that the operator
    vouches for stays, exactly as it is spelled there. Look-ups are exact.
    """
    naming = _Naming(prefix=prefix)
    for upstream, items in offers:
        for item in items:
            naming.take(upstream, item)
    return naming.done(vouched)


@dataclass(slots=True)
class _Naming:
    """Names as they come in, and what is wrong with them."""

    prefix: bool
    named: dict[str, list[Named]] = field(default_factory=dict)
    alike: tuple[dict[str, list[str]], dict[str, list[str]]] = field(default_factory=lambda: ({}, {}))
    """The names of which a part of the likeness is the same, by that part."""
    withheld: dict[str, Tool] = field(default_factory=dict)
    troubles: dict[str, list[str]] = field(default_factory=dict)

    def take(self, upstream: str, item: JsonObject) -> None:
        own = item["name"]
        full = f"{upstream}__{own}" if self.prefix else own
        if self.prefix and not _PREFIXED.fullmatch(full):
            self._tell(upstream, f"`{short(full)}` has other characters than A-Z a-z 0-9 _ -")
            return
        name = _cut(full) if self.prefix else full
        if name != full:
            self._tell(upstream, f"`{short(full)}` is too long, and offered as `{name}`")
        likenesses = likeness(name)
        one = Named(name, upstream, own, item)
        if any(part.startswith(f"{OURS}__") for part in likenesses):
            self._tell(upstream, f"`{short(name)}` is a name of the gateway's own")
        elif unseen(name):
            self._withhold(one, "has characters that cannot be seen")
        elif name in self.named:
            self.named[name].append(one)
        else:
            self.named[name] = [one]
            for names, part in zip(self.alike, likenesses, strict=True):
                names.setdefault(part, []).append(name)

    def done(self, vouched: AbstractSet[str]) -> Names:
        by_name: dict[str, Named] = {}
        doubtful = {name for names in self.alike for group in names.values() if len(group) > 1 for name in group}
        doubtful -= vouched
        for name, same in self.named.items():
            twins = list(self._twins(name)) if name in doubtful else []
            if len(same) > 1:
                origins = _origins(same)
                for one in same:
                    self._tell(one.upstream, f"`{short(name)}` could be {origins}")
            elif twins:
                self._withhold(same[0], f"looks like {_listed(twins)}")
            else:
                by_name[name] = same[0]
        return Names(by_name, {upstream: _some(reasons) for upstream, reasons in self.troubles.items()}, self.withheld)

    def _twins(self, name: str) -> Iterator[str]:
        """Each other name that this one could be taken for, once, with where it comes from."""
        groups = [names[part] for names, part in zip(self.alike, likeness(name), strict=True)]
        for other in dict.fromkeys(other for group in groups for other in group[: MAX_ORIGINS + 2]):
            if other != name:
                first = self.named[other][0]
                yield f"`{spelled(first.own_name)}` of `{first.upstream}`"

    def _withhold(self, one: Named, why: str) -> None:
        self._tell(one.upstream, f"`{spelled(one.name)}` is not offered: its name {why}")
        self.withheld.setdefault(one.name, replace(one.tool, healthy=False, trouble=f"its name {why}", withheld=True))

    def _tell(self, upstream: str, reason: str) -> None:
        self.troubles.setdefault(upstream, []).append(reason)


@dataclass(frozen=True, slots=True)
class Addresses:
    """All resources, or all templates, that upstreams offer together."""

    items: tuple[JsonObject, ...]
    owners: Mapping[str, str]
    """Address to upstream: the first of the configuration that lists it."""
    doubles: Mapping[str, tuple[str, ...]]
    """By upstream, addresses that an earlier one lists too: those are read from the earlier one."""


def address_all(offers: Sequence[tuple[str, Sequence[JsonObject]]], key: str) -> Addresses:
    """Resources by `uri`, or templates by `uriTemplate`, as they are: an address is never changed."""
    owners: dict[str, str] = {}
    items: list[JsonObject] = []
    doubles: dict[str, list[str]] = {}
    for upstream, offered in offers:
        for item in offered:
            address = item.get(key)
            if not isinstance(address, str):
                continue
            if address in owners and owners[address] != upstream:
                first = owners[address]
                doubles.setdefault(upstream, []).append(
                    f"`{short(address)}` is listed by `{first}` too, which is asked for it"
                )
                continue
            owners[address] = upstream
            items.append(item)
    return Addresses(tuple(items), owners, {upstream: _some(said) for upstream, said in doubles.items()})


class Template:
    """Tells whether an address can have come from a URI template; an expression matches anything [RFC 6570]."""

    def __init__(self, template: str) -> None:
        self._first, *middle = re.split(r"\{[^{}]*\}", template)
        self._last = middle.pop() if middle else None
        self._middle = middle

    def matches(self, address: str) -> bool:
        """Linear in the address, whatever the template."""
        if self._last is None:
            return address == self._first
        end = len(address) - len(self._last)
        if not (address.startswith(self._first) and address.endswith(self._last)):
            return False
        place = len(self._first)
        for literal in self._middle:
            found = address.find(literal, place, end)
            if found < 0:
                return False
            place = found + len(literal)
        return place <= end


def app_addresses(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """The `ui://` resources that tools name, listed or not [io.modelcontextprotocol/ui]. No others: else a tool could
    name what another server has.
    """
    found = []
    for tool in tools:
        meta = tool.get("_meta")
        ui = meta.get("ui") if isinstance(meta, Mapping) else None
        uris = [ui.get("resourceUri") if isinstance(ui, Mapping) else None]
        if isinstance(meta, Mapping):
            uris += [meta.get("ui/resourceUri"), meta.get("openai/outputTemplate")]
        found += [uri for uri in uris if isinstance(uri, str) and uri.startswith("ui://")]
    return found


def _some(reasons: Sequence[str]) -> tuple[str, ...]:
    more = len(reasons) - MAX_REASONS
    return (*reasons[:MAX_REASONS], *([f"{more} more are like these"] if more > 0 else []))


def _origins(alike: Sequence[Named]) -> str:
    """Where the names come from; of very many, where the first do: each of them is told this."""
    origins = [f"`{short(other.own_name)}` of `{other.upstream}`" for other in alike[:MAX_ORIGINS]]
    more = [f"{len(alike) - MAX_ORIGINS} more"] if len(alike) > MAX_ORIGINS else []
    return " and ".join([*origins, *more])


def _listed(twins: Sequence[str]) -> str:
    more = ["more"] if len(twins) > MAX_ORIGINS else []
    return " and ".join([*twins[:MAX_ORIGINS], *more])


def _cut(name: str) -> str:
    """The name, or if it is too long its head and a digest: the same at each start, whatever else is listed."""
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - _DIGEST - 1]}_{hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]}"


def short(name: str) -> str:
    """The head of a name of an upstream's, fit for a message."""
    return "".join(char if char.isprintable() else "?" for char in name[:80])
