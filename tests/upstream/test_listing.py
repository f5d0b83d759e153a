from collections.abc import Mapping
from typing import Any

import pytest

from gateway.model.tool import Answer, ProtocolError, ToolResult
from gateway.outbound.upstream.listing import MAX_BYTES, MAX_ITEMS, MAX_PAGES, AskPage, Listing, list_all
from gateway.outbound.upstream.negotiate import Unreachable


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def pages(*results: Mapping[str, Any]) -> AskPage:
    """Page n is at the cursor n."""

    async def ask(_: str, params: Mapping[str, Any]) -> Answer:
        return ToolResult(results[int(params.get("cursor", "0"))])

    return ask


async def test_all_pages_are_one_list_in_the_order_of_the_upstream() -> None:
    first = {"tools": [{"name": "b", "x": {"y": None}}], "nextCursor": "1", "ttlMs": 5000}
    second = {"tools": named("a"), "ttlMs": 2500.5}
    assert await list_all("tools", pages(first, second)) == Listing(
        ({"name": "b", "x": {"y": None}}, {"name": "a"}), 2.5005
    )


@pytest.mark.parametrize(("ttl_ms", "ttl_s"), [(10**400, 86_400.0), (1e300, 86_400.0), (-5, 0.0)])
async def test_no_promise_is_believed_for_longer_than_a_day_or_less_than_now(ttl_ms: float, ttl_s: float) -> None:
    assert (await list_all("tools", pages({"tools": [], "ttlMs": ttl_ms}))).ttl_s == ttl_s


async def test_a_page_that_fails_fails_the_list() -> None:
    async def no(_: str, __: Mapping[str, Any]) -> Answer:
        return ProtocolError({"code": -32603, "message": "fetch failed"})

    with pytest.raises(Unreachable, match=r"^tools/list failed: -32603 fetch failed$"):
        await list_all("tools", no)
    with pytest.raises(Unreachable, match=r"^tools/list failed: the answer has no list of tools$"):
        await list_all("tools", pages({"tools": {}}))


async def test_a_list_of_which_there_is_no_method_is_empty() -> None:
    async def no(_: str, __: Mapping[str, Any]) -> Answer:
        return ProtocolError({"code": -32601, "message": "Method not found"})

    assert await list_all("prompts", no) == Listing(absent=True)


async def test_each_kind_is_asked_for_by_its_method_and_known_by_its_key() -> None:
    asked: list[str] = []

    async def ask(method: str, _: Mapping[str, Any]) -> Answer:
        asked.append(method)
        items = [{"name": "n", "uri": "u", "uriTemplate": "t"}, {"name": "n"}]
        return ToolResult({"prompts": items, "resources": items, "resourceTemplates": items, "cacheScope": "public"})

    assert len((await list_all("prompts", ask)).items) == 2
    resources, templates = await list_all("resources", ask), await list_all("resourceTemplates", ask)
    assert (len(resources.items), resources.troubles) == (1, ("1 entries of its list have no uri",))
    assert (len(templates.items), templates.troubles) == (1, ("1 entries of its list have no uriTemplate",))
    assert templates.public
    assert asked == ["prompts/list", "resources/list", "resources/templates/list"]


async def test_a_list_is_public_only_if_every_page_says_so() -> None:
    first = {"tools": [], "nextCursor": "1", "cacheScope": "public"}
    assert not (await list_all("tools", pages(first, {"tools": []}))).public
    assert (await list_all("tools", pages(first, {"tools": [], "cacheScope": "public"}))).public


async def test_entries_without_a_name_are_left_out_and_told() -> None:
    page = {"tools": [*named("a", ""), 1, {"name": 2}], "ttlMs": True}
    assert await list_all("tools", pages(page)) == Listing(
        ({"name": "a"},), troubles=("3 entries of its list have no name",)
    )


async def test_a_list_that_is_too_large_is_cut_and_told_however_few_entries_it_has() -> None:
    large = {"tools": [{"name": "a", "description": "x" * (MAX_BYTES // 2)}], "nextCursor": "0"}

    async def ask(_: str, params: Mapping[str, Any]) -> Answer:
        return ToolResult({**large, "nextCursor": f"{params.get('cursor', '')}+"})

    listing = await list_all("tools", ask)
    assert len(listing.items) == 1
    assert listing.troubles == (f"its tools are larger than {MAX_BYTES} bytes; the rest is not offered",)


async def test_a_list_without_end_is_cut_and_told() -> None:
    circle = {"tools": named("a"), "nextCursor": "0"}
    assert (await list_all("tools", pages(circle))).troubles == ("the pages of its tools go round in a circle",)
    endless = [{"tools": named(f"t{n}"), "nextCursor": str(n + 1)} for n in range(MAX_PAGES + 1)]
    listing = await list_all("tools", pages(*endless))
    assert len(listing.items) == MAX_PAGES
    assert listing.troubles == (f"it has more than {MAX_PAGES} pages of tools; the rest is not offered",)
    wide = {"tools": named(*map(str, range(MAX_ITEMS + 1))), "nextCursor": "1"}
    listing = await list_all("tools", pages(wide))
    assert len(listing.items) == MAX_ITEMS
    assert listing.troubles == (f"it has more than {MAX_ITEMS} tools; the rest is not offered",)
