"""Requests of real clients, as they were recorded, through the real front and the real relay."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.model.canonical import digest, parse
from gateway.model.proposal import Key, KeySource
from tests.inbound.asked import asked_over_http

pytestmark = pytest.mark.anyio

FIXTURES = Path(__file__).parent / "fixtures"


def fixture(name: str) -> tuple[Any, dict[str, Any]]:
    recorded = json.loads((FIXTURES / f"{name}.json").read_text())
    return recorded["body"], recorded["headers"]


async def test_claude_code_makes_a_call() -> None:
    body, headers = fixture("claude_code_call")
    async with asked_over_http() as (it, served):
        answer = await served.post(body, headers)
    assert answer.json["result"]["structuredContent"] == {"path": "README.md", "limit": None}
    [proposal] = it.gate.proposals
    assert proposal.key == Key(KeySource.CALL_ID, "toolu_01A09q90qw90lq917835lq9")
    assert proposal.meta == body["params"]["_meta"]
    assert proposal.attribution == {
        "client_name": "claude-code",
        "client_version": "2.1.332",
        "user_agent": "claude-code/2.1.332 (cli)",
    }
    assert [opened["origin"] for opened in it.gate.opened] == ["default"]


async def test_codex_makes_a_call() -> None:
    async with asked_over_http() as (it, served):
        opening, headers = fixture("codex_initialize")
        session = (await served.post(opening, headers)).headers["mcp-session-id"]
        body, headers = fixture("codex_call")
        answer = await served.post(body, {**headers, "Mcp-Session-Id": session})
    assert repr(answer.json["result"]["structuredContent"]) == repr({"n": 1.0})
    [proposal] = it.gate.proposals
    assert proposal.key == Key(KeySource.CALL_ID, "call_eSqK9Pz2")
    assert proposal.attribution == {
        "client_name": "codex-mcp-client",
        "client_version": "0.171.0",
        "user_agent": "codex_cli_rs/0.171.0",
        "mcp_session": f"sha256:{hashlib.sha256(session.encode()).hexdigest()[:32]}",
        "threadId": "0199a213-81c0-7800-8aa1-bbab2a035a53",
        "sessionId": "0199a213-81c0-7800-8aa1-bbab2a035a53",
        "itemId": "call_eSqK9Pz2",
        "windowId": "w-1",
    }
    assert [opened["origin"] for opened in it.gate.opened] == ["session"]


ARGUMENTS = (
    '{"big":123456789012345678901234567890,"min":-9223372036854775809,"float":1.0,"int":1,"exp":1e22,'
    '"zero":-0.0,"null":null,"astral":"\\ud83d\\ude00","line":"\\u2028","nul":"\\u0000","":{"__proto__":[null]}}'
)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_gate_sees_exactly_what_the_bytes_say(era: str) -> None:
    params = f'{{"name":"echo","arguments":{ARGUMENTS}}}'
    async with asked_over_http() as (it, served):
        headers: dict[str, Any] = {}
        if era == "modern":
            body, headers = fixture("claude_code_call")
            envelope = json.dumps(body["params"]["_meta"])
            params = f'{{"_meta":{envelope},"name":"echo","arguments":{ARGUMENTS}}}'
            headers |= {"Mcp-Name": "echo"}
        else:
            headers = dict(await served.session())
        message = f'{{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{params}}}'
        answer = await served.post(message.encode(), headers)
    [proposal] = it.gate.proposals
    expected = json.loads(ARGUMENTS)
    assert repr(proposal.arguments) == repr(expected)
    assert proposal.arguments_digest == digest(expected, it.gate.salt)
    body = answer.body if era == "modern" else answer.body.partition(b"data: {")[2].join([b"{", b""])
    assert repr(parse(body)["result"]["structuredContent"]) == repr(expected)
