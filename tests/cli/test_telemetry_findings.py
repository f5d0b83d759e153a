"""Ways in which telemetry once broke its promises, seen from outside."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from ruamel.yaml import YAML

from tests.cli.agents import LIMIT_S, counterfoil, ledger_of, post, run
from tests.cli.test_telemetry import POLICY, asked, ended
from tests.otlp import receiver

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FULL = ",".join(f"k{number:02}={'v' * 252}" for number in range(32))[:8192]
"""A trace state as long as OpenTelemetry takes one."""


@asynccontextmanager
async def a_server() -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """An upstream over HTTP whose lines of headers are bounded by 8,190 bytes, as aiohttp's are; and the `_meta` of
    each call that came.
    """
    came: list[dict[str, Any]] = []
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "x", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "done"}]},
    }

    async def answer(request: web.Request) -> web.Response:
        message = await request.json()
        if "id" not in message:
            return web.Response(status=202)
        if message["method"] == "tools/call":
            came.append(message["params"].get("_meta", {}))
        said: dict[str, Any] = {"error": {"code": -32601, "message": "Method not found"}}
        if message["method"] in results:
            said = {"result": results[message["method"]]}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **said})

    app = web.Application()
    app.router.add_post("/mcp", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        yield f"http://{host}:{port}/mcp", came
    finally:
        await runner.cleanup()


async def called(folder: Path, telemetry: dict[str, Any], **meta: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The answer to one call of a write, and the `_meta` that its server got."""
    async with a_server() as (url, came), receiver() as made:
        (folder / "policy.yaml").write_text(POLICY)
        told = {"listen": {"port": 0}, "ledger": f"sqlite:///{folder / 'ledger.db'}", "policies": "policy.yaml"}
        with (folder / "gateway.yaml").open("w") as file:
            YAML(typ="safe").dump({**told, "mcpServers": {"far": {"url": url}}, "telemetry": telemetry}, file)
        async with counterfoil("serve", "--config", str(folder / "gateway.yaml"), **made.env) as gateway:
            front = await gateway.hear(r"listening at (http://\S+)/mcp")
            await gateway.hear(r"upstream (far): 1 tool")
            _, answer = await post(f"{front}/mcp", "tools/call", {"name": "far__act", "arguments": {}}, **meta)
            await ended(gateway)
    return answer["result"], came


async def test_a_call_with_a_long_trace_state_happens_as_it_does_without_telemetry(tmp_path: Path) -> None:
    result, came = await called(tmp_path, {}, traceparent=PARENT, tracestate=FULL)
    assert (result.get("structuredContent") or {}).get("outcome") is None  # `timeout_unknown`: its effect is held
    assert len(came) == 1


@pytest.mark.parametrize("baggage", ["user=" + "x" * 9_000, "user=é", "user=ann\r\nX-Evil: 1"])
async def test_baggage_that_cannot_be_a_header_does_not_end_its_call(tmp_path: Path, baggage: str) -> None:
    result, came = await called(tmp_path, {"baggage": ["user"]}, baggage=baggage)
    assert (result.get("structuredContent") or {}).get("outcome") is None
    assert len(came) == 1


@pytest.mark.parametrize("remote", ["link", "ignore"])
async def test_a_trace_state_of_another_trace_than_ours_is_not_passed_on(tmp_path: Path, remote: str) -> None:
    _, (meta,) = await called(tmp_path, {"remote_context": remote}, traceparent=PARENT, tracestate="vendor=secret")
    assert meta["traceparent"] != PARENT
    assert "tracestate" not in meta


async def test_what_is_seen_and_approved_at_a_terminal_is_all_told(time_server: list[str], tmp_path: Path) -> None:
    async with receiver() as made:
        approval = await asked(time_server, tmp_path, made)
        ours, theirs = os.openpty()
        command = ("-m", "gateway", "approvals", "approve", approval)
        person = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            *ledger_of(tmp_path),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, **made.env},
        )
        os.close(theirs)
        shown = b""
        while b"[y/N]" not in shown:
            shown += await asyncio.to_thread(os.read, ours, 65_536)
        os.write(ours, b"y\n")
        assert await asyncio.wait_for(person.wait(), LIMIT_S) == 0
        os.close(ours)
        stored, _ = await run("show", "last", "--json", *ledger_of(tmp_path))
        ids = [f"{one['run']}#{one['seq']}" for one in json.loads(stored)]
        assert [log.attributes["counterfoil.record.id"] for log in made.logs] == ids
