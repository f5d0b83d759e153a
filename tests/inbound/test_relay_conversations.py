"""What legacy clients say beside their requests, what they hear, and what observers see."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from gateway.inbound.mcp.observing import RequestInfo, Tell
from tests.inbound.asked import Asked, until
from tests.inbound.fake_gate import REFUSAL, answering

# --- what a legacy client says ----------------------------------------------------------------------------------------


async def test_log_levels_are_kept_and_passed_on() -> None:
    it = Asked()
    conversation = await it.session()
    assert (await conversation.ask("logging/setLevel", {"level": "info"}))["error"]["code"] == -32601
    it.offers.said["logging"] = {}
    assert (await conversation.ask("logging/setLevel", {"level": "loud"}))["error"]["code"] == -32602
    assert (await conversation.ask("logging/setLevel", {"level": "error"}))["result"] == {}
    assert conversation.session.log_level == "error"
    assert it.offers.log[-1] == ("level", "http:s1", "error")


async def test_subscriptions_are_the_owners_to_grant() -> None:
    conversation = await (it := Asked()).session()
    assert (await conversation.ask("resources/subscribe", {"uri": "file:///a"}))["result"] == {}
    assert (await conversation.ask("resources/subscribe", {"uri": "x:///a"}))["error"]["code"] == -32602
    assert (await conversation.ask("resources/unsubscribe", {"uri": "file:///a"}))["result"] == {}
    assert (await conversation.ask("resources/unsubscribe", {}))["error"]["code"] == -32602
    assert it.offers.log[-1] == ("unsubscribe", "http:s1", "file:///a")


async def test_nothing_is_watched_for_whom_a_person_has_stopped() -> None:
    it = Asked()
    it.offers.owners["resources/read"] = "up"
    chat = await it.session()
    it.gate.stopped = "`boss` has stopped everything (switch 1): it pays twice"
    refused = {"code": -32600, "message": it.gate.stopped}
    assert (await chat.ask("resources/subscribe", {"uri": "file:///a"}))["error"] == refused
    wanted = {"notifications": {"resourceSubscriptions": ["file:///a"]}}
    assert (await it.modern("subscriptions/listen", wanted))["error"] == refused
    assert [one for one in it.offers.log if one[0] == "subscribe"] == []
    assert it.offers.listeners == [it.relay._listeners["http:s1"]]


async def test_a_notification_of_the_clients_own_reaches_its_servers() -> None:
    conversation = await (it := Asked()).session()
    conversation.say("notifications/initialized")
    conversation.say("notifications/roots/list_changed", {"x": 1})
    assert [entry for entry in it.offers.log if entry[0] == "notify"] == [
        ("notify", "http:s1", "notifications/roots/list_changed", {"x": 1})
    ]


async def test_what_changes_is_told_on_the_clients_own_connection_until_it_leaves() -> None:
    conversation = await (it := Asked()).session()
    [listener] = it.offers.listeners
    listener.changed("prompts")
    listener.told("up", "notifications/vendor", {"x": None})
    assert conversation.session.line.sent == [  # type: ignore[attr-defined]
        {"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"},
        {"jsonrpc": "2.0", "method": "notifications/vendor", "params": {"x": None}},
    ]
    it.relay.closed(conversation.session)
    assert it.offers.listeners == []
    assert ("leave", "http:s1") in it.offers.log


async def test_a_cancelled_request_is_withdrawn_and_gets_no_answer() -> None:
    conversation = await (it := Asked()).session()
    exchange, work = conversation.begin("tools/call", {"name": "t"}, request_id="7")
    conversation.say("notifications/cancelled", {"requestId": 7})
    assert await work is None
    assert (exchange.withdrawal.said, exchange.withdrawal.gone) == (True, True)
    assert it.gate.callers[0].withdrawal is exchange.withdrawal


# --- observers --------------------------------------------------------------------------------------------------------


async def test_each_request_is_observed_with_its_trace_and_its_result() -> None:
    seen: list[Any] = []

    @contextmanager
    def observe(info: RequestInfo) -> Iterator[Tell]:
        try:
            yield lambda result: seen.append((asdict(info), result.get("isError", False)))
        except Exception as error:
            seen.append((asdict(info), str(error)))
            raise

    it = Asked(observe=observe)
    it.gate.answers["pay"] = answering(refusal=REFUSAL)
    headers = {"traceparent": "00-h", "baggage": "b=1"}
    await it.modern("tools/call", {"name": "pay"}, headers=headers)
    await it.modern("tools/list", headers=headers, meta={"traceparent": "00-m", "tracestate": "s"})
    await it.modern("nothing/known")
    shared: dict[str, Any] = {
        "era": "modern",
        "protocol_version": "2026-07-28",
        "transport": "http",
        "session": None,
        "request_id": 1,
    }
    shared |= {"prompt": None, "resource": None, "meta": {}, "headers": {}}
    assert seen == [
        (
            {**shared, "method": "tools/call", "tool": "pay", "headers": {"traceparent": "00-h"}},
            True,
        ),
        (
            {
                **shared,
                "method": "tools/list",
                "tool": None,
                "meta": {"traceparent": "00-m", "tracestate": "s"},
                "headers": {"traceparent": "00-h"},
            },
            False,
        ),
        ({**shared, "method": "nothing/known", "tool": None}, "Method not found"),
    ]


async def test_streams_end_with_a_result_when_the_relay_closes() -> None:
    it = Asked()
    exchange = it.modern_exchange("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    work = asyncio.ensure_future(it.relay.request(exchange))
    await until(lambda: exchange.line.sent)  # type: ignore[attr-defined]
    it.relay.close()
    answer = await work
    assert answer is not None
    assert answer["result"]["resultType"] == "complete"
