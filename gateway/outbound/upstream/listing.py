"""(ask) -> Listing. All pages of an upstream's list, bounded."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from gateway.model.canonical import JsonObject, dump_bytes
from gateway.model.limits import DEFAULT
from gateway.model.offer import LIST_METHODS, Kind
from gateway.model.tool import Answer, ProtocolError, ToolResult
from gateway.outbound.upstream.negotiate import Unreachable, why
from gateway.outbound.upstream.wire import METHOD_NOT_FOUND

MAX_ITEMS = DEFAULT.listed
MAX_PAGES = 100
MAX_BYTES = 16 * 1024 * 1024
"""Of all of one list, as JSON: a client gets it on one page, and each client of an older server has one of its own."""
MAX_TTL_MS = 24 * 3600 * 1000
"""Nobody is told that a list stays as it is for longer than a day."""

METHODS: Mapping[Kind, str] = {kind: method for method, kind in LIST_METHODS.items()}

_KEYS: Mapping[Kind, str] = {
    "tools": "name",
    "prompts": "name",
    "resources": "uri",
    "resourceTemplates": "uriTemplate",
}
"""What an entry must have to be asked for."""

_WORDS: Mapping[Kind, str] = {"resourceTemplates": "resource templates"}

AskPage: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[Answer]]
"""A list's method with these params."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What one upstream offers of one kind, as it sent it, in its order."""

    items: tuple[JsonObject, ...] = ()
    ttl_s: float | None = None
    """For how long the upstream promised that it stays so; None if it said nothing."""
    public: bool = False
    """Whether each page says `cacheScope: public`."""
    troubles: tuple[str, ...] = ()
    """What of its list we could not take."""
    absent: bool = False
    """It has no such method."""


async def list_all(kind: Kind, ask: AskPage, most: int = MAX_ITEMS) -> Listing:
    """The whole list, or nothing: a page that fails fails all. A method that is not there is an empty list.

    Raises: Unreachable.
    """
    items: list[JsonObject] = []
    troubles: list[str] = []
    pages: list[Mapping[str, Any]] = []
    cursors: set[str] = set()
    params: dict[str, Any] = {}
    words, room = _WORDS.get(kind, kind), MAX_BYTES
    for _ in range(MAX_PAGES):
        page = await _page(kind, ask, params)
        if page is None:
            return Listing(absent=True)
        pages.append(page)
        for item in _items(kind, page, troubles):
            if (room := room - len(dump_bytes(item))) < 0:
                break
            items.append(item)
        if room < 0:
            troubles.append(f"its {words} are larger than {MAX_BYTES} bytes; the rest is not offered")
            break
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or len(items) > most:
            break
        if cursor in cursors:
            troubles.append(f"the pages of its {words} go round in a circle")
            break
        cursors.add(cursor)
        params = {"cursor": cursor}
    else:
        troubles.append(f"it has more than {MAX_PAGES} pages of {words}; the rest is not offered")
    if len(items) > most:
        troubles.append(f"it has more than {most} {words}; the rest is not offered")
    ttls = [ttl_s for page in pages if (ttl_s := _ttl_s(page)) is not None]
    public = all(page.get("cacheScope") == "public" for page in pages)
    return Listing(tuple(items[:most]), min(ttls, default=None), public, tuple(troubles))


async def _page(kind: Kind, ask: AskPage, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
    answer = await ask(METHODS[kind], params)
    match answer:
        case ToolResult(result):
            return result
        case ProtocolError(error) if error["code"] == METHOD_NOT_FOUND and not params:
            return None
        case _:
            raise Unreachable(f"{METHODS[kind]} failed: {why(answer)}", answer)


def _items(kind: Kind, page: Mapping[str, Any], troubles: list[str]) -> list[JsonObject]:
    offered, key = page.get(kind), _KEYS[kind]
    if not isinstance(offered, list):
        raise Unreachable(f"{METHODS[kind]} failed: the answer has no list of {_WORDS.get(kind, kind)}")
    good = [item for item in offered if isinstance(item, dict) and isinstance(item.get(key), str) and item[key]]
    if len(good) < len(offered):
        troubles.append(f"{len(offered) - len(good)} entries of its list have no {key}")
    return good


def _ttl_s(page: Mapping[str, Any]) -> float | None:
    ttl_ms = page.get("ttlMs")
    if not isinstance(ttl_ms, int | float) or isinstance(ttl_ms, bool):
        return None
    return min(max(ttl_ms, 0), MAX_TTL_MS) / 1000  # an integer may be too large to be divided
