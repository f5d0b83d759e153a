import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from mcp import Client, MCPError

from gateway.inbound.mcp.server import INSTRUCTIONS, Relay, RequestInfo, Tell, build_server
from gateway.model.answer import RECORD_KEY
from gateway.model.canonical import digest
from gateway.model.proposal import Key, KeySource, Proposal
from gateway.ports import LedgerUnavailable, NoSuchRun
from tests.inbound.fake_gate import RECORD, REFUSAL, TOOLS, answering
from tests.inbound.served import ENVELOPE, Answer, Served, door

pytestmark = pytest.mark.anyio

FIXTURES = Path(__file__).parent / "fixtures"
SERVER_INFO = {"name": "counterfoil", "title": "Counterfoil", "version": "9.9"}
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


def fixture(name: str) -> tuple[Any, dict[str, Any]]:
    recorded = json.loads((FIXTURES / f"{name}.json").read_text())
    return recorded["body"], recorded["headers"]


@pytest.fixture(scope="module")
async def open_door() -> AsyncIterator[Served]:
    async with door() as served:
        yield served


@pytest.fixture
def served(open_door: Served) -> Served:
    """A door whose gate has forgotten everything."""
    gate = open_door.gate
    for memory in (gate.proposals, gate.finished, gate.deliveries, gate.opened, gate.answers):
        memory.clear()
    gate.open_error = None
    open_door.clock.tell(3600)  # so that what comes next is in a run of its own
    return open_door


async def call(served: Served, era: str, params: str, *, request_id: str = "5") -> Answer:
    """The answer to a `tools/call` whose parameters are spelled out in JSON."""
    tool = json.loads(params)["name"]
    if era == "modern":
        body = f'{{"jsonrpc":"2.0","id":{request_id},"method":"tools/call","params":{params}}}'
        meta = f'"_meta":{json.dumps(ENVELOPE)},'
        headers: dict[str, str | None] = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
        return await served.post(
            body.replace('"params":{', '"params":{' + meta, 1).encode(), headers | {"Mcp-Name": tool}
        )
    body = f'{{"jsonrpc":"2.0","id":{request_id},"method":"tools/call","params":{params}}}'
    return await served.post(body.encode(), dict(await served.session()))


ARGUMENTS = (
    '{"big":123456789012345678901234567890,"min":-9223372036854775809,"float":1.0,"int":1,"exp":1e22,'
    '"zero":-0.0,"null":null,"astral":"\\ud83d\\ude00","line":"\\u2028","nul":"\\u0000","":{"__proto__":[null]}}'
)


@ERAS
async def test_the_gate_sees_exactly_the_arguments_that_were_sent(served: Served, era: str) -> None:
    await call(served, era, f'{{"name":"echo","arguments":{ARGUMENTS}}}')
    [proposal] = served.gate.proposals
    assert repr(proposal.arguments) == repr(json.loads(ARGUMENTS))
    assert proposal.arguments_digest == digest(json.loads(ARGUMENTS), served.gate.salt)


@ERAS
@pytest.mark.parametrize("arguments", ["", ',"arguments":null', ',"arguments":{}'])
async def test_no_arguments_are_an_empty_object(served: Served, era: str, arguments: str) -> None:
    await call(served, era, f'{{"name":"echo"{arguments}}}')
    assert served.gate.proposals[0].arguments == {}


@ERAS
@pytest.mark.parametrize("params", ['{"name":"","arguments":{}}', '{"name":"echo","arguments":[]}'])
async def test_a_call_that_names_no_tool_or_no_arguments_opens_no_run(served: Served, era: str, params: str) -> None:
    answer = await call(served, era, params)
    assert answer.code == -32602
    assert (served.gate.proposals, served.gate.opened) == ([], [])


RESULT: dict[str, Any] = {
    "content": [
        {"type": "text", "text": "\u2028\U0001f600", "x-vendor": None, "annotations": {"priority": 1.0}},
        {"type": "hologram", "cells": [[None]]},
    ],
    "structuredContent": {"n": 2**70, "f": 1.0, "gone": None},
    "isError": False,
    "vendor": {"kept": None},
    "nothing": None,
    "_meta": {"upstream/key": None},
}


@ERAS
async def test_a_result_is_relayed_as_it_is(served: Served, era: str) -> None:
    served.gate.answers["t"] = answering(result=RESULT, record=RECORD)
    result = (await call(served, era, '{"name":"t"}')).json["result"]
    modern = {"io.modelcontextprotocol/serverInfo": SERVER_INFO} if era == "modern" else {}
    expected = {**RESULT, "_meta": {**modern, "upstream/key": None, RECORD_KEY: RECORD}}
    assert repr(dict(sorted(result.items()))) == repr(
        dict(sorted((expected | ({"resultType": "complete"} if era == "modern" else {})).items()))
    )


@ERAS
async def test_an_error_of_the_upstream_is_relayed_as_it_is(served: Served, era: str) -> None:
    error = {"code": -31001, "message": "out of paper", "data": {"tray": None, "n": 2**70}}
    served.gate.answers["t"] = answering(error=error)
    answer = await call(served, era, '{"name":"t"}')
    assert (answer.status, answer.json["error"]) == (200, error)


@ERAS
async def test_a_refusal_is_told_twice_in_one_result(served: Served, era: str) -> None:
    served.gate.answers["pay"] = answering(refusal=REFUSAL)
    result = (await call(served, era, '{"name":"pay"}')).json["result"]
    told = REFUSAL.model_dump(mode="json", exclude_none=True)
    assert (result["isError"], result["structuredContent"], len(result["content"])) == (True, told, 1)
    assert json.loads(result["content"][0]["text"]) == told


@ERAS
async def test_a_fault_of_ours_says_nothing_of_itself(
    served: Served, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_: Proposal) -> Any:
        raise RuntimeError("the password is hunter2")

    served.gate.answers["t"] = broken
    with caplog.at_level(logging.ERROR, "counterfoil.inbound"):
        answer = await call(served, era, '{"name":"t"}')
    assert answer.json["error"] == {"code": -32603, "message": "internal error"}
    assert "hunter2" in caplog.text
    assert served.gate.deliveries == []


@ERAS
async def test_a_ledger_that_cannot_open_the_run_is_a_typed_refusal(served: Served, era: str) -> None:
    served.gate.open_error = LedgerUnavailable("disk full")
    refused = (await call(served, era, '{"name":"t"}')).json["result"]["structuredContent"]
    assert (refused["outcome"], refused["executed"], refused["tool"]) == ("ledger_unavailable", False, "t")
    assert served.gate.proposals == []


@ERAS
async def test_a_run_that_belongs_to_somebody_else_is_a_typed_refusal(served: Served, era: str) -> None:
    served.gate.open_error = NoSuchRun("run `run_1` belongs to another principal")
    refused = (await call(served, era, '{"name":"t"}')).json["result"]["structuredContent"]
    assert (refused["outcome"], refused["reason"]) == ("denied", "run `run_1` belongs to another principal")
    assert served.gate.proposals == []


@ERAS
async def test_definitions_are_listed_unchanged(served: Served, era: str) -> None:
    if era == "modern":
        listed = (await served.modern("tools/list", {})).json["result"]
        assert listed.pop("_meta") == {"io.modelcontextprotocol/serverInfo": SERVER_INFO}
        assert listed == {
            "resultType": "complete",
            "tools": list(TOOLS),
            "ttlMs": 10_000,
            "cacheScope": "private",
        }
        return
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    listed = (await served.post(asked, dict(await served.session()))).json["result"]
    # An output schema that is no object has no legacy form; nor have results under it.
    numbers = {key: value for key, value in TOOLS[1].items() if key != "outputSchema"}
    assert listed == {"tools": [TOOLS[0], numbers, TOOLS[2]]}


async def test_a_cursor_that_was_never_given_out_is_refused(served: Served) -> None:
    answer = await served.modern("tools/list", {"cursor": "page2"})
    assert (answer.status, answer.code) == (400, -32602)


async def test_a_modern_client_is_introduced_to_tools_and_nothing_else(served: Served) -> None:
    result = (await served.modern("server/discover", {})).json["result"]
    assert result.pop("instructions") == f"{INSTRUCTIONS}\n\nThe upstream says hello."
    assert result == snapshot(
        {
            "_meta": {
                "io.modelcontextprotocol/serverInfo": {"name": "counterfoil", "version": "9.9", "title": "Counterfoil"}
            },
            "ttlMs": 0,
            "cacheScope": "private",
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": False}},
        }
    )


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_legacy_client_is_introduced_in_its_own_version(served: Served, version: str) -> None:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "old", "version": "2"}}
    answer = await served.post({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params})
    result = answer.json["result"]
    assert result.pop("instructions") == f"{INSTRUCTIONS}\n\nThe upstream says hello."
    assert result == {
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": SERVER_INFO,
    }


async def test_what_does_not_fit_initialize_is_the_clients_fault(served: Served) -> None:
    answer = await served.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})
    assert answer.code == -32602


async def test_a_legacy_client_can_ping(served: Served) -> None:
    headers = await served.session()
    assert (await served.post({"jsonrpc": "2.0", "id": 9, "method": "ping"}, dict(headers))).json == {
        "jsonrpc": "2.0",
        "id": 9,
        "result": {},
    }


async def test_claude_code_makes_a_call(served: Served) -> None:
    body, headers = fixture("claude_code_call")
    answer = await served.post(body, headers)
    assert answer.json["result"]["structuredContent"] == {"path": "README.md", "limit": None}
    [proposal] = served.gate.proposals
    assert proposal.key == Key(KeySource.CALL_ID, "toolu_01A09q90qw90lq917835lq9")
    sent = body["params"]["_meta"]
    assert proposal.meta == {key: value for key, value in sent.items() if key != "progressToken"}
    assert proposal.attribution == snapshot(
        {
            "client_name": "claude-code",
            "client_version": "2.1.332",
            "user_agent": "claude-code/2.1.332 (cli)",
        }
    )
    assert [opened["origin"] for opened in served.gate.opened] == ["default"]


async def test_codex_makes_a_call(served: Served) -> None:
    opening, headers = fixture("codex_initialize")
    session = (await served.post(opening, headers)).headers["mcp-session-id"]
    body, headers = fixture("codex_call")
    answer = await served.post(body, {**headers, "Mcp-Session-Id": session})
    assert repr(answer.json["result"]["structuredContent"]) == repr({"n": 1.0})
    [proposal] = served.gate.proposals
    assert proposal.key == Key(KeySource.CALL_ID, "call_eSqK9Pz2")
    assert proposal.attribution == {
        "client_name": "codex-mcp-client",
        "client_version": "0.171.0",
        "user_agent": "codex_cli_rs/0.171.0",
        "mcp_session": session,
        "threadId": "0199a213-81c0-7800-8aa1-bbab2a035a53",
        "sessionId": "0199a213-81c0-7800-8aa1-bbab2a035a53",
        "itemId": "call_eSqK9Pz2",
        "windowId": "w-1",
    }
    assert [opened["origin"] for opened in served.gate.opened] == ["session"]


async def test_each_request_is_observed_with_its_trace_and_its_result() -> None:
    seen: list[Any] = []

    @contextmanager
    def observe(info: RequestInfo) -> Iterator[Tell]:
        try:
            yield lambda result: seen.append((asdict(info), result.get("isError", False)))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is seen
            seen.append((asdict(info), str(error)))

    async with door(observe=observe) as served:
        served.gate.answers["pay"] = answering(refusal=REFUSAL)
        await served.modern("tools/call", {"name": "pay"}, traceparent="00-h", baggage="b=1")
        meta = {**ENVELOPE, "traceparent": "00-m", "tracestate": "s"}
        await served.modern("tools/list", {"_meta": meta}, traceparent="00-h", baggage="b=1")
        await served.post({"jsonrpc": "2.0", "id": "p", "method": "ping"}, dict(session := await served.session()))
    shared = {"era": "modern", "protocol_version": "2026-07-28", "transport": "http", "session": None}
    assert seen[:2] == [
        (
            {**shared, "method": "tools/call", "tool": "pay", "request_id": 1}
            | {"trace": {"traceparent": "00-h", "baggage": "b=1"}},
            True,
        ),
        (
            {**shared, "method": "tools/list", "tool": None, "request_id": 1}
            | {"trace": {"traceparent": "00-m", "tracestate": "s"}},
            False,
        ),
    ]
    assert [info["method"] for info, _ in seen[2:]] == ["initialize", "ping"]
    assert seen[-1][0]["session"] == session["Mcp-Session-Id"]
    assert seen[-1][0]["era"] == "legacy"


def test_the_sdk_opens_no_spans_of_its_own(served: Served) -> None:
    server = build_server(gate=served.gate, tools=served.tools, runs=None, version="1")  # type: ignore[arg-type]
    assert [type(middleware) for middleware in server.middleware] == [Relay]


async def test_what_came_around_the_door_is_not_served(served: Served) -> None:
    server = build_server(gate=served.gate, tools=served.tools, runs=None, version="1")  # type: ignore[arg-type]
    async with Client(server, mode="2026-07-28") as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("echo", {})
    assert refused.value.code == -32603
    assert served.gate.proposals == []
