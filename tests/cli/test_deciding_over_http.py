"""A real gateway asks people: one decides by the API, one from their own assistant, and it ends while they watch."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from aiohttp import web
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as otlp

from tests.cli.agents import LIMIT_S, counterfoil, post, run

pytestmark = pytest.mark.anyio

API = "/console/api/v1"
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

    figures: dict[str, Any] = {}
    async with (
        metrics_taken(figures) as endpoint,
        counterfoil("serve", "--config", str(config), OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=endpoint) as gateway,
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
                asked = (await transfer(amount))["structuredContent"]["approval"]["id"]
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
    assert {name: count(figure) for name, figure in figures.items()} == {
        "counterfoil.approvals": 2,
        "counterfoil.approval.wait.duration": 2,
        "counterfoil.approval.first_look.duration": 2,
        "counterfoil.approval.active.duration": 1,
    }


@asynccontextmanager
async def metrics_taken(figures: dict[str, Any]) -> AsyncIterator[str]:
    """The address of a receiver of OTLP metrics; the last of each is kept, by its name."""

    async def take(request: web.Request) -> web.Response:
        told = otlp.ExportMetricsServiceRequest.FromString(await request.read())
        scopes = [scope for resource in told.resource_metrics for scope in resource.scope_metrics]
        figures.update({metric.name: metric for scope in scopes for metric in scope.metrics})
        return web.Response(content_type="application/x-protobuf")

    receiver = web.Application()
    receiver.router.add_post("/v1/metrics", take)
    runner = web.AppRunner(receiver)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1/metrics"
    await runner.cleanup()


def count(figure: Any) -> int:
    """How often it was measured."""
    if figure.HasField("sum"):
        return sum(int(point.as_int) for point in figure.sum.data_points)
    return sum(int(point.count) for point in figure.histogram.data_points)


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
