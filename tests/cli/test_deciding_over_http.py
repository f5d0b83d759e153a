"""A real gateway asks people: one decides by the API, one from their own assistant, and it ends while they watch."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from tests.cli.agents import LIMIT_S, counterfoil, post, run
from tests.otlp import receiver
from tests.telemetry.received import Metric

pytestmark = pytest.mark.anyio

API = "/console/api/v1"
MEASURED = {
    "counterfoil.approvals": 2,
    "counterfoil.approval.wait.duration": 2,
    "counterfoil.approval.first_look.duration": 2,
    "counterfoil.approval.active.duration": 1,
}
"""How often, of two approvals; only the program said how long it had looked."""
ACCEPT = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


def configured(folder: Path, server: list[str]) -> Path:
    """A gateway whose transfers want a person."""
    (folder / "policies").mkdir()
    (folder / "policies" / "p.yaml").write_text(
        "workflow: w\ntools: {bank__transfer: {effect: write}}\n"
        "transitions: [{name: pay, tools: [bank__transfer], approval: {role: finance, hold_s: 0}}]\n"
    )
    config = folder / "gateway.yaml"
    told = {
        "listen": {"port": 0},
        "ledger": f"sqlite:///{folder / 'ledger.db'}",
        "policies": "policies",
        "run_tokens": {"key": "k" * 40},
        "mcpServers": {"bank": {"command": server[0], "args": [*server[1:], str(folder / "effects.log")]}},
    }
    config.write_text(json.dumps(told))
    return config


@pytest.mark.slow
async def test_people_decide_by_the_api_and_from_their_assistants(effects_server: list[str], tmp_path: Path) -> None:
    config = configured(tmp_path, effects_server)
    named = ("--config", str(config), "--id", "ann", "--role", "finance")
    token = (await run("reviewer", "token", *named))[0].strip()
    assistants = (await run("reviewer", "token", *named, "--for-assistant"))[0].strip()
    agent = {"Counterfoil-Run": (await run("run", "open", "--config", str(config), "--workflow", "w"))[0].strip()}
    log = tmp_path / "effects.log"

    async with (
        receiver() as figures,
        counterfoil("serve", "--config", str(config), **figures.env) as gateway,
    ):
        url = await gateway.hear(r"listening at (http://\S+)/mcp")

        async def transfer(amount: int) -> dict[str, Any]:
            call = {"name": "bank__transfer", "arguments": {"amount": amount, "to": "anna"}}
            told: dict[str, Any] = (await post(f"{url}/mcp", "tools/call", call, headers=agent))[1]["result"]
            return told

        def holding(shown: str) -> httpx2.AsyncClient:
            return httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {shown}"}, timeout=LIMIT_S)

        async with holding(token) as program, holding(assistants) as assistant:
            for amount, decide in ((1, by_the_api), (2, by_an_assistant)):
                handle = (await transfer(amount))["structuredContent"]["approval"]
                asked = handle["id"]
                assert handle["page"] == f"{url}/console/approvals/{asked}"
                await decide(program, assistant, asked)
                assert (await transfer(amount)).get("isError", False) is False
            opened = await assistant.post("/console/mcp", json=INITIALIZE, headers=ACCEPT)
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], **ACCEPT}
            async with (
                program.stream("GET", f"{API}/events") as changes,
                assistant.stream("GET", "/console/mcp", headers=session) as listening,
            ):
                assert (changes.status_code, listening.status_code) == (200, 200)
                gateway.process.send_signal(signal.SIGTERM)
                with anyio.fail_after(LIMIT_S):
                    await gateway.process.wait()
    assert [json.loads(line)["amount"] for line in log.read_text().splitlines()] == [1, 2]
    assert not [line for line in gateway.said if "Traceback" in line], "\n".join(gateway.said)
    assert {name: count(figures.metric(name)) for name in MEASURED} == MEASURED


def count(figure: Metric) -> int:
    """How often it was measured."""
    return sum(int(point.value) if figure.instrument == "counter" else point.count for point in figure.points)


async def by_the_api(program: httpx2.AsyncClient, _: httpx2.AsyncClient, asked: str) -> None:
    shown = await _until_shown(program, asked)
    body = {"action": shown["packet"]["action"], "decision": "approved", "reason": "due", "active_s": 12}
    assert (await program.post(f"{API}/approvals/{asked}/decision", json=body)).status_code == 200


async def by_an_assistant(program: httpx2.AsyncClient, assistant: httpx2.AsyncClient, asked: str) -> None:
    shown = await _until_shown(program, asked)

    async def elicit(context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG001
        return types.ElicitResult(action="accept", content={"agree": True})

    there = streamable_http_client(str(assistant.base_url.join("/console/mcp")), http_client=assistant)
    async with Client(there, elicitation_callback=elicit) as client:
        said = await client.call_tool("approve", {"approval": asked, "action": shown["packet"]["action"]})
    assert said.structured_content is not None
    assert said.structured_content["recorded"] is True


async def _until_shown(program: httpx2.AsyncClient, asked: str) -> dict[str, Any]:
    with anyio.fail_after(LIMIT_S):
        while True:
            answer = await program.get(f"{API}/approvals/{asked}")
            if answer.status_code == 200:
                shown: dict[str, Any] = answer.json()
                return shown
            await asyncio.sleep(0.05)
