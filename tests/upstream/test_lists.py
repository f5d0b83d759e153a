"""The four lists of one link, against an upstream that is asked in this process."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.model.offer import LIST_METHODS, Kind
from gateway.model.tool import Answer, ProtocolError, Silence, ToolResult
from gateway.outbound.upstream import lists as listing
from gateway.outbound.upstream.lists import Lists
from gateway.outbound.upstream.negotiate import Unreachable
from gateway.outbound.upstream.spec import Patience
from tests.upstream.links import until

ALL: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}}
ITEMS: dict[Kind, list[dict[str, Any]]] = {
    "tools": [{"name": "t", "x": 1.0}],
    "prompts": [{"name": "p"}],
    "resources": [{"uri": "r"}],
    "resourceTemplates": [{"uriTemplate": "{r}"}],
}


@dataclass
class Upstream:
    """What it answers, and what it was asked."""

    answers: dict[str, Answer] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)
    hints: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    changed: list[Kind] = field(default_factory=list)
    up: bool = True

    def __post_init__(self) -> None:
        patience = Patience(debounce_s=0.01, least_ttl_s=0.05)
        self.lists = Lists(
            "r",
            patience,
            self.ask,
            unfit=lambda tool: "it is odd" if tool["name"] == "odd" else None,
            on_change=self.changed.append,
            is_up=lambda: self.up,
        )

    async def ask(self, method: str, _: Mapping[str, Any]) -> Answer:
        self.asked.append(method)
        await asyncio.sleep(self.slow.get(method, 0))
        kind = LIST_METHODS[method]
        return self.answers.get(method, ToolResult({kind: ITEMS[kind], **self.hints}))


async def test_only_what_the_capabilities_name_is_asked_for_all_at_once() -> None:
    up = Upstream(slow=dict.fromkeys(LIST_METHODS, 0.1))
    begun = asyncio.get_running_loop().time()
    assert await up.lists.load(ALL) == ["tools", "prompts", "resources", "resourceTemplates"]
    assert asyncio.get_running_loop().time() - begun < 0.3
    assert {kind: list(up.lists.listing(kind).items) for kind in ITEMS} == ITEMS
    few = Upstream()
    assert await few.lists.load({"resources": {}}) == ["tools", "resources", "resourceTemplates"]
    assert few.asked == ["resources/list", "resources/templates/list"]


async def test_one_kind_that_fails_fails_no_other_and_keeps_what_it_was() -> None:
    up = Upstream()
    await up.lists.load(ALL)
    up.answers["prompts/list"] = ProtocolError({"code": -32603, "message": "no"})
    up.answers["resources/list"] = ToolResult({"resources": [{"uri": "r"}, {"uri": "s"}]})
    assert await up.lists.load(ALL) == ["resources"]
    prompts = up.lists.listing("prompts")
    assert (list(prompts.items), prompts.troubles) == (ITEMS["prompts"], ("prompts/list failed: -32603 no",))
    up.answers["tools/list"] = Silence("it is gone")
    with pytest.raises(Unreachable, match=r"^tools/list failed: it is gone$"):
        await up.lists.load(ALL)


async def test_a_kind_that_is_slow_is_waited_for_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "OTHERS_S", 0.05)
    up = Upstream(slow={"prompts/list": 0.2})
    assert "prompts" not in await up.lists.load(ALL)
    await until(lambda: up.changed == ["prompts"])
    assert list(up.lists.listing("prompts").items) == ITEMS["prompts"]


async def test_what_did_not_change_stays_the_same_object_and_is_not_told() -> None:
    up = Upstream()
    await up.lists.load(ALL)
    before = up.lists.listing("tools").items[0]
    up.answers["tools/list"] = ToolResult({"tools": [{"name": "odd"}, {"name": "t", "x": 1.0}]})
    assert await up.lists.load(ALL) == []
    after = up.lists.listing("tools")
    assert after.items[0] is before
    assert after.troubles == ("`odd` cannot be called: it is odd",)
    up.answers["tools/list"] = ToolResult({"tools": [{"name": "t", "x": 1}]})
    assert await up.lists.load(ALL) == ["tools"]


async def test_what_the_upstream_promises_is_kept() -> None:
    up = Upstream(hints={"ttlMs": 250, "cacheScope": "public"})
    await up.lists.load(ALL)
    for kind in ITEMS:
        assert (up.lists.listing(kind).ttl_s, up.lists.listing(kind).public) == (0.25, True)
    up.lists.look("prompts")
    await asyncio.sleep(0.05)
    assert up.asked.count("prompts/list") == 1
    await asyncio.sleep(0.25)
    up.lists.look("prompts")
    await until(lambda: up.asked.count("prompts/list") == 2)
    assert up.asked.count("tools/list") == 1
    up.up = False
    await asyncio.sleep(0.3)
    up.lists.look("prompts")
    await asyncio.sleep(0.02)
    assert up.asked.count("prompts/list") == 2
    up.lists.close()


async def test_a_change_that_is_said_is_passed_on_once_for_resources_and_their_templates() -> None:
    up = Upstream()
    await up.lists.load(ALL)
    for _ in range(50):
        up.lists.changed("resources")
        up.lists.changed("resourceTemplates")
    await until(lambda: up.changed)
    await asyncio.sleep(0.05)
    assert up.changed == ["resources"]
    assert up.asked.count("resources/list") == up.asked.count("resources/templates/list") == 2
