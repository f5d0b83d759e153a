import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from gateway.inbound.mcp.door import Guard
from tests.inbound.fake_relay import Held
from tests.inbound.served import BOUND_S, ENVELOPE, Served, door, modern_headers, parsed, request

pytestmark = pytest.mark.anyio

PING = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo", "_meta": ENVELOPE}}
CALL_HEADERS = modern_headers("tools/call", "echo")


@pytest.fixture(scope="module")
async def open_door() -> AsyncIterator[Served]:
    """One door for all cases that leave nothing behind."""
    async with door(hosts=("gw.example",), origins=("https://app.example",)) as served:
        yield served


@pytest.fixture
def served(open_door: Served) -> Served:
    open_door.relay.begun.clear()
    return open_door


async def asked(
    served: Served, body: Any = CALL, headers: dict[str, str | None] | None = None
) -> tuple[int, int | None, Any]:
    """Status, error code and id of the answer; what is refused never reaches the relay."""
    answer = await served.post(body, {**CALL_HEADERS, **(headers or {})})
    said = answer.json if answer.body else {}
    assert answer.status == 200 or served.relay.begun == []
    return answer.status, said.get("error", {}).get("code"), said.get("id")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "localhost."}, 421),
        ({"Host": "0.0.0.0:80"}, 421),
        ({"Host": "localhost:80@evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "http://evil.example/localhost"}, 403),
        ({"Origin": "https://app.example:444"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/jsonp"}, 415),
        ({"Content-Type": "application/json; charset=utf-16"}, 415),
        ({"Content-Type": None}, 415),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Encoding": "identity, gzip"}, 415),
        ({"Content-Encoding": "identity", "content-encoding": "gzip"}, 415),
        ({"content-type": "text/plain"}, 415),
        ({"X-A": "a" * 33_000}, 431),
    ],
)
async def test_a_request_that_no_client_of_ours_sends_is_turned_away(
    served: Served, headers: dict[str, str | None], status: int
) -> None:
    assert await asked(served, headers=headers) == (status, -32600, None)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost"},
        {"Host": "LOCALHOST:1234"},
        {"Host": "[::1]:80"},
        {"Host": "gw.example:8443"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://[::1]"},
        {"Origin": "https://app.example"},
        {"Content-Type": 'application/json; charset="UTF-8"'},
        {"Content-Encoding": "identity"},
    ],
)
async def test_loopback_and_what_is_configured_may_come_in(served: Served, headers: dict[str, str | None]) -> None:
    assert await asked(served, headers=headers) == (200, None, 7)


@pytest.mark.parametrize(
    ("body", "code", "echoed"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/call"}', -32700, 7),
        (json.dumps(CALL).encode("utf-16"), -32700, None),
        ([CALL], -32600, None),
        ({**CALL, "id": None}, -32600, None),
        ({**CALL, "result": {}}, -32600, 7),
        ({"jsonrpc": "2.0", "method": "tools/call"}, -32600, None),
        ({**CALL, "method": "tools/list"}, -32020, 7),
    ],
)
async def test_a_message_that_is_refused_says_so_under_its_own_id(
    served: Served, body: Any, code: int, echoed: Any
) -> None:
    assert await asked(served, body) == (400, code, echoed)


@pytest.mark.parametrize(
    "version", [None, "2025-11-25"], ids=["no version header", "the version header of another era"]
)
async def test_a_modern_body_under_no_modern_header_is_a_mismatch(served: Served, version: str | None) -> None:
    assert await asked(served, headers={"MCP-Protocol-Version": version}) == (400, -32020, 7)


async def test_parameter_headers_are_the_relays_to_judge_unless_one_stands_there_twice(served: Served) -> None:
    assert await asked(served, headers={"Mcp-Param-Region": "eu"}) == (200, None, 7)
    assert served.relay.begun[0].headers["mcp-param-region"] == "eu"
    served.relay.begun.clear()
    assert await asked(served, headers={"Mcp-Param-Region": "eu", "mcp-param-region": "us"}) == (400, -32020, 7)


async def test_a_body_that_is_too_long_is_read_and_then_refused(served: Served) -> None:
    answer = await served.post(b" " * (10 * 1024 * 1024), CALL_HEADERS)
    assert (answer.status, answer.code) == (413, -32600)


async def test_a_body_at_the_limit_comes_in(served: Served) -> None:
    body = json.dumps(CALL).encode()
    assert await asked(served, body + b" " * (4 * 1024 * 1024 - len(body))) == (200, None, 7)


async def test_half_a_body_is_not_waited_for_for_ever() -> None:
    async with door(body_timeout_s=0.1) as served:
        answer = await served.post(b"{", {**CALL_HEADERS, "Content-Length": "500", "Connection": None})
    assert (answer.status, answer.code, answer.headers["connection"]) == (408, -32600, "close")


async def test_a_client_that_leaves_in_the_middle_of_its_body_costs_nothing(served: Served) -> None:
    async with await served.connect() as stream:
        await stream.send(request(b"{", {**CALL_HEADERS, "Content-Length": "500"}, port=served.port))
        await stream.aclose()
        assert (await served.post(CALL, CALL_HEADERS)).status == 200


SMUGGLED = b"0\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        (b"Content-Length: 6\r\nTransfer-Encoding: chunked", SMUGGLED, 400),
        (b"Content-Length: 3\r\nContent-Length: 5", b"{}", 400),
        (b"Content-Length: +5", b"{}", 400),
        (b"Transfer-Encoding: xchunked", b"{}", 400),
        (b"Content-Length: 2\r\nX-A : b", b"{}", 400),
    ],
)
async def test_framing_that_two_servers_could_read_in_two_ways_ends_the_connection(
    served: Served, head: bytes, body: bytes, status: int
) -> None:
    host = f"Host: 127.0.0.1:{served.port}".encode()
    lines = [b"POST /mcp HTTP/1.1", host, b"Content-Type: application/json", head, b"", body]
    said = await served.raw(b"\r\n".join(lines))
    assert said.count(b"HTTP/1.1 ") == 1
    assert parsed(said).status == status


async def test_a_websocket_is_closed_before_it_opens() -> None:
    said: list[Any] = []

    async def never() -> Any:
        raise AssertionError

    async def send(message: Any) -> None:
        said.append(message)

    await Guard(never)({"type": "websocket"}, never, send)  # type: ignore[arg-type]
    assert said == [{"type": "websocket.close", "code": 1008}]


async def test_no_websocket_is_opened(served: Served) -> None:
    upgrade = {"Connection": "Upgrade, close", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    answer = await served.post(b"", {**upgrade, "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}, method="GET")
    assert answer.status >= 400


async def test_other_methods_and_paths_are_not_served(served: Served) -> None:
    put = await served.post(CALL, CALL_HEADERS, method="PUT")
    get = await served.post(b"", CALL_HEADERS, method="GET")
    elsewhere = await served.post(CALL, CALL_HEADERS, path="/elsewhere")
    assert [answer.status for answer in (put, get, elsewhere)] == [405, 405, 404]


async def test_removed_methods_are_unknown_to_a_modern_client(served: Served) -> None:
    for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "vendor/thing"):
        answer = await served.modern(method, {})
        assert (answer.status, answer.code, answer.json["id"]) == (404, -32601, 1)


async def test_an_answer_that_nobody_asked_for_goes_nowhere(served: Served) -> None:
    result = {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert (await served.post(result, dict(await served.session()))).status == 202
    assert (await served.post(result, {"MCP-Protocol-Version": "2026-07-28"})).code == -32600


async def test_a_legacy_client_need_not_name_its_version(served: Served) -> None:
    headers = await served.session()
    del headers["MCP-Protocol-Version"]  # as Gemini CLI 0.61 does
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}
    assert (await served.post(body, dict(headers))).json["result"]["structuredContent"] == {}


async def test_two_requests_of_one_session_cannot_have_one_id(served: Served) -> None:
    headers = await served.session()
    held = hold(served)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "slow"}}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(served.post, body, headers)
        with anyio.fail_after(BOUND_S):
            await served.relay.until(lambda: len(served.relay.calls) == 1)
        again = [await served.post({**body, "id": spelt}, headers) for spelt in (1, "1")]
        held.set()
    after = await served.post(body, headers)
    assert [(answer.status, answer.code) for answer in again] == [(400, -32600)] * 2
    assert (after.status, len(served.relay.calls)) == (200, 2)


async def test_modern_requests_may_share_an_id(served: Served) -> None:
    held = hold(served)
    answers = []

    async def ask(number: int) -> None:
        answers.append(await served.modern("tools/call", {"name": "slow", "arguments": {"n": number}}))

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(ask, number)
        with anyio.fail_after(BOUND_S):
            await served.relay.until(lambda: len(served.relay.calls) == 10)
        held.set()
    assert sorted(answer.json["result"]["structuredContent"]["n"] for answer in answers) == list(range(10))


def hold(served: Served) -> asyncio.Event:
    """Calls of `slow` are answered once the event is set."""
    held = Held()
    served.relay.tools["slow"] = held
    return held.gate
