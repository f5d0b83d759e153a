"""What one link watches: counted in both eras, and one standing stream in the newer."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.model.tool import Answer, ProtocolError, Silence, ToolResult
from gateway.outbound.upstream.negotiate import Agreement, Client
from gateway.outbound.upstream.spec import Patience
from gateway.outbound.upstream.subscriptions import Subscriptions
from gateway.outbound.upstream.wire import Hear
from tests.upstream.links import until

FAST = Patience(first_pause_s=0.01, last_pause_s=0.05)
NO = ProtocolError({"code": -32602, "message": "no such resource"})


def agreed(version: str, **capabilities: Any) -> Agreement:
    return Agreement(Client("us", "1"), version, {}, capabilities, "")


MODERN = agreed("2026-07-28", tools={"listChanged": True}, prompts={}, resources={"listChanged": True})
LEGACY = agreed("2025-11-25", resources={"subscribe": True})


@dataclass
class Upstream:
    """Notes what it is asked, and holds the streams that it was asked for."""

    refuses: dict[str, Answer] = field(default_factory=dict)
    """By uri; `listen` stands for every stream."""
    honors: bool = True
    silent: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)
    streams: list[Mapping[str, Any]] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    hears: list[Hear] = field(default_factory=list)
    ends: "list[asyncio.Future[Answer]]" = field(default_factory=list)
    told: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    refetched: int = 0

    def __post_init__(self) -> None:
        self.watches = Subscriptions(
            "r", FAST, self.ask, self.listen, told=lambda *what: self.told.append(what), refetch=self.refetch
        )

    def refetch(self) -> None:
        self.refetched += 1

    async def ask(self, method: str, params: Mapping[str, Any]) -> Answer:
        self.asked.append((method, params["uri"]))
        await asyncio.sleep(0)
        return self.refuses.get(params["uri"], ToolResult({"_meta": {}}))

    async def listen(self, params: Mapping[str, Any], hear: Hear) -> Answer:
        number = len(self.streams)
        self.streams.append(params["notifications"])
        if "listen" in self.refuses:
            return self.refuses["listen"]
        self.hears.append(hear)
        self.ends.append(asyncio.get_running_loop().create_future())
        self.open.append(number)
        try:
            if not self.silent:
                honored = params["notifications"] if self.honors else {}
                hear("notifications/subscriptions/acknowledged", {"notifications": honored})
            return await self.ends[-1]
        finally:
            self.open.remove(number)


async def test_in_the_older_era_the_first_subscribes_and_the_last_unsubscribes() -> None:
    up = Upstream({"bad": NO})
    up.watches.up(LEGACY)
    assert await asyncio.gather(*(up.watches.subscribe("a") for _ in range(3))) == [ToolResult({})] * 3
    assert await up.watches.subscribe("bad") == NO
    for _ in range(3):
        assert up.watches.any
        assert isinstance(await up.watches.unsubscribe("a"), ToolResult)
    assert not up.watches.any
    assert up.asked == [("resources/subscribe", "a"), ("resources/subscribe", "bad"), ("resources/unsubscribe", "a")]


async def test_a_new_connection_is_told_of_all_that_is_watched() -> None:
    up = Upstream()
    up.watches.up(LEGACY)
    await up.watches.subscribe("a")
    await up.watches.subscribe("b")
    up.asked.clear()
    up.watches.down()
    up.watches.up(LEGACY)
    await until(lambda: len(up.asked) == 2)
    assert up.asked == [("resources/subscribe", "a"), ("resources/subscribe", "b")]
    up.watches.down()


async def test_one_stream_has_what_the_server_promises_and_all_that_is_watched() -> None:
    up = Upstream()
    up.watches.up(MODERN)
    await until(lambda: up.open == [0])
    assert await up.watches.subscribe("a") == ToolResult({})
    assert await up.watches.subscribe("a") == ToolResult({})
    assert await up.watches.subscribe("b") == ToolResult({})
    await up.watches.unsubscribe("a")
    assert up.open == [2]
    await up.watches.unsubscribe("a")
    await until(lambda: up.open == [3])
    lists = {"toolsListChanged": True, "resourcesListChanged": True}
    wanted = [stream.get("resourceSubscriptions") for stream in up.streams]
    assert wanted == [None, ["a"], ["a", "b"], ["b"]]
    assert all({**stream, **lists} == stream for stream in up.streams)
    up.hears[-1]("notifications/resources/updated", {"uri": "b", "_meta": {SUBSCRIPTION: 4, "v": 1}})
    up.hears[-1]("notifications/resources/updated", {"uri": "b", "_meta": {SUBSCRIPTION: 4}})
    assert up.told == [
        ("notifications/resources/updated", {"uri": "b", "_meta": {"v": 1}}),
        ("notifications/resources/updated", {"uri": "b"}),
    ]
    assert up.refetched == 0
    up.watches.down()
    await until(lambda: up.open == [])


async def test_while_one_stream_follows_another_what_both_carry_is_heard_once() -> None:
    up = Upstream()
    up.watches.up(MODERN)
    await until(lambda: up.open == [0])
    up.hears[0]("notifications/resources/list_changed", {"from": 0})
    up.silent = True
    watching = asyncio.get_running_loop().create_task(up.watches.subscribe("a"))
    await until(lambda: up.open == [0, 1])
    up.hears[0]("notifications/resources/list_changed", {"from": 0})
    up.hears[1]("notifications/subscriptions/acknowledged", {"notifications": up.streams[1]})
    up.hears[0]("notifications/resources/list_changed", {"from": 0})
    up.hears[1]("notifications/resources/list_changed", {"from": 1})
    assert await watching == ToolResult({})
    assert [params["from"] for _, params in up.told] == [0, 0, 1]
    up.watches.down()


SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


async def test_a_stream_that_was_lost_is_opened_again_and_the_lists_are_read_again() -> None:
    up = Upstream()
    up.watches.up(MODERN)
    await up.watches.subscribe("a")
    for _ in range(3):
        number = up.open[-1]
        up.ends[-1].set_result(Silence("it was cut off"))
        await until(lambda number=number: up.open and up.open[-1] > number)
    await until(lambda: up.refetched == 3)
    assert up.streams[-1]["resourceSubscriptions"] == ["a"]
    up.watches.down()


async def test_what_is_not_honored_is_told_and_not_kept() -> None:
    up = Upstream(honors=False)
    up.watches.up(MODERN)
    said = await up.watches.subscribe("a")
    assert isinstance(said, ProtocolError)
    assert said.error["message"] == "the upstream does not let it be watched"
    assert not up.watches.any
    up.watches.down()


async def test_who_knows_no_streams_is_asked_only_when_there_is_something_new_to_ask() -> None:
    gone = ProtocolError({"code": -32601, "message": "Method not found"})
    up = Upstream({"listen": gone})
    up.watches.up(MODERN)
    await until(lambda: len(up.streams) == 1)
    await asyncio.sleep(0.1)
    assert len(up.streams) == 1
    assert await up.watches.subscribe("a") == gone
    up.watches.down()


async def test_who_promises_nothing_is_asked_for_no_stream() -> None:
    up = Upstream()
    up.watches.up(agreed("2026-07-28", tools={}))
    await asyncio.sleep(0.05)
    assert up.streams == []
    assert await up.watches.subscribe("a") == ToolResult({})
    await up.watches.unsubscribe("a")
    await until(lambda: up.open == [])
    up.watches.down()


async def test_whoever_waits_when_the_connection_is_lost_is_told_so() -> None:
    up = Upstream(silent=True)
    up.watches.up(MODERN)
    task = asyncio.get_running_loop().create_task(up.watches.subscribe("a"))
    await until(lambda: up.open)
    await asyncio.sleep(0.01)
    up.watches.down()
    assert await task == Silence("the connection was lost")
