"""What servers offer, looked at once: with no gateway before them, no agent and no ledger."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from gateway.model.party import Party
from gateway.model.tool import Tool
from gateway.outbound.upstream.catalogue import Catalogue
from gateway.outbound.upstream.spec import Spec

ABLE = Party(
    "look",
    {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}},
    {"name": "counterfoil", "version": version("counterfoil")},
)
"""A client that can be asked anything: some servers offer tools to such a one alone."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What servers offer at one moment."""

    tools: Sequence[Tool]
    health: Mapping[str, Mapping[str, Any]]
    """As `Catalogue.health`."""
    owners: Mapping[str, str | None]
    """Of the names that were asked about: the server that each belongs to, or would belong to."""


async def seen(specs: Sequence[Spec], *, prefix: bool, known: Iterable[str] = ()) -> Seen:
    """The servers started or reached, listed once, and left; none is waited for longer than its configuration says.

    Raises: ValueError for servers that cannot be meant.
    """
    catalogue = await Catalogue.open(specs, prefix=prefix)
    try:
        await catalogue.reach(ABLE)
        asked: list[tuple[str, Party | None]] = [
            (str(item["name"]), ABLE) for item in (await catalogue.listed("tools", ABLE)).items
        ]
        # A server of which there can be but one has none for a second client.
        asked += [(str(item["name"]), None) for item in catalogue.tools()]
        tools: dict[str, Tool] = {}
        for name, party in asked:
            tool = await catalogue.tool(name, party) if name not in tools else None
            if tool is not None:
                tools[name] = tool
        return Seen([*tools.values()], catalogue.health(), {name: catalogue.owner_of(name) for name in known})
    finally:
        await catalogue.close()
