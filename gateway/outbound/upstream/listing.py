"""(ask) -> Listing. All pages of an upstream's tools, bounded; and the names under which we offer them."""

import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from gateway.model.canonical import JsonObject
from gateway.model.tool import Answer, Tool, ToolResult
from gateway.outbound.upstream.negotiate import Unreachable, why

MAX_TOOLS = 10_000
MAX_PAGES = 100

_PREFIXED = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every client accepts as the name of a tool."""

OURS = "gateway"
"""The prefix of the gateway's own tools; no upstream may offer one that looks like them."""

AskPage: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Answer]]
"""`tools/list` with these params."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of one upstream, as it sent them, in its order."""

    tools: tuple[JsonObject, ...]
    ttl_s: float | None = None
    """For how long the upstream promised that they stay; None if it said nothing."""
    troubles: tuple[str, ...] = ()
    """What of its list we could not take."""


async def list_tools(ask: AskPage) -> Listing:
    """The whole list, or nothing: a page that fails fails all.

    Raises: Unreachable.
    """
    tools: list[JsonObject] = []
    troubles: list[str] = []
    ttls: list[float] = []
    cursors: set[str] = set()
    params: dict[str, Any] = {}
    for _ in range(MAX_PAGES):
        page = await _page(ask, params)
        tools += _tools(page, troubles)
        if (ttl_s := _ttl_s(page)) is not None:
            ttls.append(ttl_s)
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or len(tools) > MAX_TOOLS:
            break
        if cursor in cursors:
            troubles.append("the pages of its tools go round in a circle")
            break
        cursors.add(cursor)
        params = {"cursor": cursor}
    else:
        troubles.append(f"it has more than {MAX_PAGES} pages of tools; the rest is not offered")
    if len(tools) > MAX_TOOLS:
        troubles.append(f"it has more than {MAX_TOOLS} tools; the rest is not offered")
    return Listing(tuple(tools[:MAX_TOOLS]), min(ttls, default=None), tuple(troubles))


async def _page(ask: AskPage, params: Mapping[str, Any]) -> Mapping[str, Any]:
    answer = await ask(params)
    if not isinstance(answer, ToolResult):
        raise Unreachable(f"tools/list failed: {why(answer)}")
    return answer.result


def _tools(page: Mapping[str, Any], troubles: list[str]) -> list[JsonObject]:
    offered = page.get("tools")
    if not isinstance(offered, list):
        raise Unreachable("tools/list failed: the answer has no list of tools")
    good = [tool for tool in offered if isinstance(tool, dict) and isinstance(tool.get("name"), str) and tool["name"]]
    if len(good) < len(offered):
        troubles.append(f"{len(offered) - len(good)} entries of its list have no name")
    return good


def _ttl_s(page: Mapping[str, Any]) -> float | None:
    ttl_ms = page.get("ttlMs")
    return ttl_ms / 1000 if isinstance(ttl_ms, int | float) and not isinstance(ttl_ms, bool) else None


@dataclass(frozen=True, slots=True)
class Names:
    """What all upstreams offer together: one name, one tool."""

    tools: Mapping[str, Tool]
    """By the name that agents use, in order: that of the configuration, then the upstream's."""
    withheld: Mapping[str, tuple[str, ...]]
    """By upstream, why some of its tools are not offered."""


def name_all(offers: Sequence[tuple[str, Sequence[JsonObject]]], *, prefix: bool) -> Names:
    """The tools of each upstream, in order, under names that are told apart by every client.

    Of two that are not, neither is offered: whichever came first could be the impostor. Case, width and other
    spellings of one character do not tell names apart; look-ups are exact.
    """
    candidates: dict[str, list[Tool]] = {}
    withheld: dict[str, list[str]] = {}
    for upstream, definitions in offers:
        for definition in definitions:
            own = definition["name"]
            name = f"{upstream}__{own}" if prefix else own
            if prefix and not _PREFIXED.fullmatch(name):
                withheld.setdefault(upstream, []).append(f"`{_short(name)}` is not 1 to 64 of A-Z a-z 0-9 _ -")
                continue
            if _likeness(name).startswith(f"{OURS}__"):
                withheld.setdefault(upstream, []).append(f"`{_short(name)}` is a name of the gateway's own")
                continue
            candidates.setdefault(_likeness(name), []).append(Tool(name, upstream, own, definition))
    for alike in candidates.values():
        for tool in alike if len(alike) > 1 else ():
            origins = " and ".join(f"`{_short(other.own_name)}` of `{other.upstream}`" for other in alike)
            withheld.setdefault(tool.upstream, []).append(f"`{_short(tool.name)}` could be {origins}")
    tools = {alike[0].name: alike[0] for alike in candidates.values() if len(alike) == 1}
    return Names(tools, {upstream: tuple(reasons) for upstream, reasons in withheld.items()})


def _likeness(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _short(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name[:80])
