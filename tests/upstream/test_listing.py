from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from gateway.model.tool import Answer, ProtocolError, Tool, ToolResult
from gateway.outbound.upstream.listing import MAX_PAGES, MAX_TOOLS, Listing, list_tools, name_all
from gateway.outbound.upstream.negotiate import Unreachable


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def pages(*results: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Awaitable[Answer]]:
    """Page n is at the cursor n."""

    async def ask(params: Mapping[str, Any]) -> Answer:
        return ToolResult(results[int(params.get("cursor", "0"))])

    return ask


async def test_all_pages_are_one_list_in_the_order_of_the_upstream() -> None:
    first = {"tools": [{"name": "b", "x": {"y": None}}], "nextCursor": "1", "ttlMs": 5000}
    second = {"tools": named("a"), "ttlMs": 2500.5}
    assert await list_tools(pages(first, second)) == Listing(({"name": "b", "x": {"y": None}}, {"name": "a"}), 2.5005)


async def test_a_page_that_fails_fails_the_list() -> None:
    async def no(_: Mapping[str, Any]) -> Answer:
        return ProtocolError({"code": -32603, "message": "fetch failed"})

    with pytest.raises(Unreachable, match=r"^tools/list failed: -32603 fetch failed$"):
        await list_tools(no)
    with pytest.raises(Unreachable, match=r"^tools/list failed: the answer has no list of tools$"):
        await list_tools(pages({"tools": {}}))


async def test_entries_without_a_name_are_left_out_and_told() -> None:
    page = {"tools": [*named("a", ""), 1, {"name": 2}], "ttlMs": True}
    assert await list_tools(pages(page)) == Listing(({"name": "a"},), None, ("3 entries of its list have no name",))


async def test_a_list_without_end_is_cut_and_told() -> None:
    circle = {"tools": named("a"), "nextCursor": "0"}
    assert (await list_tools(pages(circle))).troubles == ("the pages of its tools go round in a circle",)
    endless = [{"tools": named(f"t{n}"), "nextCursor": str(n + 1)} for n in range(MAX_PAGES + 1)]
    listing = await list_tools(pages(*endless))
    assert len(listing.tools) == MAX_PAGES
    assert listing.troubles == (f"it has more than {MAX_PAGES} pages of tools; the rest is not offered",)
    wide = {"tools": named(*map(str, range(MAX_TOOLS + 1))), "nextCursor": "1"}
    listing = await list_tools(pages(wide))
    assert len(listing.tools) == MAX_TOOLS
    assert listing.troubles == (f"it has more than {MAX_TOOLS} tools; the rest is not offered",)


def test_a_single_upstream_keeps_its_names_whatever_they_are() -> None:
    names = name_all([("u", named("b", "a tool / with é"))], prefix=False)
    assert names.tools == {
        "b": Tool("b", "u", "b", {"name": "b"}),
        "a tool / with é": Tool("a tool / with é", "u", "a tool / with é", {"name": "a tool / with é"}),
    }


def test_federated_names_stand_in_the_order_of_the_configuration() -> None:
    names = name_all([("z", named("b", "a")), ("y", named("b"))], prefix=True)
    assert list(names.tools) == ["z__b", "z__a", "y__b"]
    assert names.tools["z__a"] == Tool("z__a", "z", "a", {"name": "a"})


@pytest.mark.parametrize(
    ("offers", "prefix", "withheld"),
    [
        ([("u", named("ok", "no way"))], True, {"u": ("`u__no way` is not 1 to 64 of A-Z a-z 0-9 _ -",)}),
        ([("u", named("ok", "x" * 62))], True, {"u": (f"`u__{'x' * 62}` is not 1 to 64 of A-Z a-z 0-9 _ -",)}),
        (
            [("a__b", named("c")), ("a", named("b__c")), ("u", named("ok"))],
            True,
            {
                "a__b": ("`a__b__c` could be `c` of `a__b` and `b__c` of `a`",),
                "a": ("`a__b__c` could be `c` of `a__b` and `b__c` of `a`",),
            },
        ),
        (
            [("u", named("ok", "Delete", "\uff44elete"))],
            False,
            {
                "u": (
                    "`Delete` could be `Delete` of `u` and `\uff44elete` of `u`",
                    "`\uff44elete` could be `Delete` of `u` and `\uff44elete` of `u`",
                )
            },
        ),
        (
            [("u", named("ok", "Gateway__x\u202e"))],
            False,
            {"u": ("`Gateway__x?` is a name of the gateway's own",)},
        ),
    ],
)
def test_what_could_be_taken_for_another_is_not_offered_and_both_are_named(
    offers: list[tuple[str, list[dict[str, Any]]]],
    prefix: bool,  # noqa: FBT001 - a row of the table
    withheld: dict[str, tuple[str, ...]],
) -> None:
    names = name_all(offers, prefix=prefix)
    assert names.withheld == withheld
    assert list(names.tools) == ["u__ok" if prefix else "ok"]
