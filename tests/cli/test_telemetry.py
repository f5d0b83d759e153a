"""What a gateway tells as a real OTLP receiver gets it, over both protocols and for all three signals."""

import re
import sys
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from ruamel.yaml import YAML

from tests.cli.agents import META_2026, Process, counterfoil, ledger_of, post, run
from tests.emitted import violations
from tests.otlp import PROTOCOLS, Faults, Protocol, Receiver, receiver

pytestmark = pytest.mark.anyio
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UTC = {"timezone": "UTC"}


async def ended(window: Process) -> None:
    """The gateway has stopped, and sent what it had."""
    window.process.terminate()
    with anyio.fail_after(10):
        assert await window.process.wait() == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_each_call_is_told_in_all_three_signals_by_registered_names_alone(
    protocol: Protocol, time_server: list[str], tmp_path: Path
) -> None:
    async with receiver(protocol) as made:
        async with counterfoil("wrap", *ledger_of(tmp_path), "--", *time_server, **made.env) as window:
            await window.call("get_current_time", UTC, traceparent=PARENT, baggage="user=ann")
            await window.call("no_such_tool", {})
            await window.request("tools/list")
            await ended(window)
        assert sorted((span.name, span.kind) for span in made.spans) == [
            ("tools/call _OTHER", "server"),
            ("tools/call get_current_time", "client"),
            ("tools/call get_current_time", "server"),
            ("tools/list", "server"),
        ]
        served = made.span("tools/call get_current_time", "server")
        assert f"00-{served.trace_id}-{served.parent_id}-01" == PARENT
        assert made.span("tools/call get_current_time", "client").parent_id == served.span_id
        assert [log.event for log in made.logs] == [
            "counterfoil.run.opened",
            "counterfoil.intent.recorded",
            "counterfoil.receipt.recorded",
            "counterfoil.proposal.denied",
        ]
        decisions = made.metric("counterfoil.decisions").points
        assert sorted(point.attributes["gen_ai.tool.name"] for point in decisions) == ["_OTHER", "get_current_time"]
        assert made.metric("mcp.server.operation.duration").points
        assert violations(made, offered=["get_current_time", "convert_time"]) == []


async def test_a_backend_that_hangs_costs_a_call_nothing_and_the_end_seconds_and_what_is_lost_is_said(
    time_server: list[str], tmp_path: Path
) -> None:
    async with receiver(faults=Faults(hangs=True)) as made:
        small = {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1", "OTEL_EXPORTER_OTLP_TIMEOUT": "60"}
        async with counterfoil("wrap", *ledger_of(tmp_path), "--", *time_server, **made.env, **small) as window:
            for _ in range(3):
                assert (await window.call("get_current_time", UTC)).get("isError") is not True
            await made.until(lambda: bool(made.asked))
            window.process.terminate()
            with anyio.fail_after(5):
                assert await window.process.wait() == 0
        (lost,) = [line for line in window.said if "which is dropped" in line]
        assert "6 spans, 7 log events, the last figures" in lost


@pytest.mark.slow
async def test_a_backend_that_takes_traces_alone_gets_them_and_what_it_refuses_is_said_once(
    time_server: list[str], tmp_path: Path
) -> None:
    async with receiver(faults=Faults(without=frozenset({"logs", "metrics"}))) as made:
        soon = {"OTEL_BLRP_SCHEDULE_DELAY": "50", "OTEL_BSP_SCHEDULE_DELAY": "50"}
        async with counterfoil("wrap", *ledger_of(tmp_path), "--", *time_server, **made.env, **soon) as window:
            for number in range(3):
                await window.call("get_current_time", UTC)
                await made.until(lambda number=number: len(made.spans) == 2 * number + 2)  # type: ignore[misc]
            await ended(window)
        refused = [line for line in window.said if "Failed to export" in line]
        assert len(refused) == 2
        (lost,) = [line for line in window.said if "which is dropped" in line]
        assert "log events" in lost
        assert "spans" not in lost


CANARY = "canary-7731"
SERVER = '''
import os
from mcp.server.mcpserver import MCPServer
server = MCPServer("talks")

@server.tool()
def says(what: str) -> str:
    """canary-7731 in its description"""
    if what.endswith("breaks"):
        raise ValueError("it broke: canary-7731 " + os.environ["TOKEN"])
    return "canary-7731 " + what + os.environ["TOKEN"]

server.run()
'''
POLICY = """
workflow: w
tools: { "*": { effect: write } }
transitions: [{ name: any, tools: ["*"] }]
"""


async def served(folder: Path, **more: Any) -> tuple[str, ...]:
    """A gateway over HTTP before a server that repeats whatever it knows."""
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "server.py").write_text(SERVER)
    told = {
        "listen": {"port": 0},
        "ledger": f"sqlite:///{folder / 'ledger.db'}",
        "policies": "policy.yaml",
        "mcpServers": {
            "talks": {"command": sys.executable, "args": [str(folder / "server.py")], "env": {"TOKEN": f"{CANARY}-env"}}
        },
        **more,
    }
    with (folder / "gateway.yaml").open("w") as file:
        YAML(typ="safe").dump(told, file)
    return ("serve", "--config", str(folder / "gateway.yaml"))


@pytest.mark.slow
async def test_nothing_that_anybody_wrote_goes_out_and_figures_can_be_scraped(tmp_path: Path) -> None:
    async with receiver() as made:
        command = await served(tmp_path, telemetry={"prometheus": True})
        async with counterfoil(*command, **made.env) as gateway:
            url = await gateway.hear(r"listening at (http://\S+)/mcp")
            await gateway.hear(r"upstream (talks): 1 tool")
            headers = {"Authorization": f"Basic {CANARY}", "Cookie": CANARY, "X-Secret": CANARY}
            for what in ("all", "breaks"):
                arguments = {"name": "talks__says", "arguments": {"what": f"{CANARY} {what}"}}
                status, _ = await post(f"{url}/mcp", "tools/call", arguments, baggage=f"k={CANARY}")
                assert status == 200
            await post(f"{url}/mcp", "tools/call", {"name": "talks__says", "arguments": {"who": CANARY}})
            await post(f"{url}/mcp", "prompts/get", {"name": "none", "arguments": {"a": CANARY}}, headers=headers)
            await post(f"{url}/mcp", "resources/read", {"uri": "file:///none"})
            async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
                figures = await answer.text()
                assert answer.headers["content-type"].startswith("text/plain")
            await ended(gateway)
        assert re.search(r'counterfoil_decisions_total\{.*counterfoil_decision_outcome="allow".*\} 2\.0', figures)
        assert "mcp_server_operation_duration_seconds_bucket" in figures
        assert CANARY not in figures
        assert CANARY not in repr((made.spans, made.logs, made.metrics))
        assert violations(made, offered=["talks__says", "says"]) == []


@pytest.mark.slow
async def test_content_that_is_turned_on_is_told_without_its_secrets(tmp_path: Path) -> None:
    async with receiver() as made:
        command = await served(tmp_path, telemetry={"content": "both", "content_bytes": 256})
        async with counterfoil(*command, **made.env) as gateway:
            url = await gateway.hear(r"listening at (http://\S+)/mcp")
            await gateway.hear(r"upstream (talks): 1 tool")
            secret = "ghp_" + "a1B2" * 9
            await post(
                f"{url}/mcp", "tools/call", {"name": "talks__says", "arguments": {"what": f"{secret} " + "x" * 600}}
            )
            await ended(gateway)
        server = made.span("tools/call talks__says", "server")
        assert server.attributes["gen_ai.tool.call.arguments"].startswith('{"what":"[redacted github_')
        assert len(server.attributes["gen_ai.tool.call.arguments"].encode()) <= 256
        assert "xxx" in server.attributes["gen_ai.tool.call.result"]
        assert secret not in repr((made.spans, made.logs, made.metrics))
        assert violations(made, content=True) == []


@pytest.mark.slow
async def test_series_stay_bounded_whatever_tools_callers_make_up(time_server: list[str], tmp_path: Path) -> None:
    async with receiver() as made:
        only = {"OTEL_TRACES_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
        async with counterfoil("wrap", *ledger_of(tmp_path), "--", *time_server, **{**made.env, **only}) as window:
            await window.call("get_current_time", UTC)
            assert window.process.stdout is not None
            for many in range(100):
                for number in range(100):
                    made_up = {"name": f"made_up_{many}_{number}", "arguments": {}, "_meta": META_2026}
                    named = {"jsonrpc": "2.0", "id": f"{many}.{number}", "method": "tools/call", "params": made_up}
                    await window.write(named)
                for _ in range(100):
                    assert b"denied" in await window.process.stdout.readline()
            await ended(window)
        assert sum(int(point.value) for point in made.metric("counterfoil.decisions").points) == 10_001
        series = {metric.name: len(metric.points) for metric in made.metrics}
        assert max(series.values()) <= 4, series
        assert violations(made, offered=["get_current_time", "convert_time"]) == []


async def asked(server: list[str], folder: Path, made: Receiver) -> str:
    """The id of what waits for a person; the window of the agent that called is closed."""
    policy = folder / "policy.yaml"
    policy.write_text(POLICY.replace('tools: ["*"] }]', 'tools: ["*"], approval: { self_review: true } }]'))
    command = ("wrap", "--policy", str(policy), *ledger_of(folder), "--", *server)
    async with counterfoil(*command, **made.env) as window:
        told = await window.call("get_current_time", UTC)
        await ended(window)
    return str(told["structuredContent"]["approval"]["id"])


@pytest.mark.slow
async def test_what_a_person_says_in_a_terminal_is_told_as_well(time_server: list[str], tmp_path: Path) -> None:
    async with receiver() as made:
        approval = await asked(time_server, tmp_path, made)
        (requested,) = made.events("counterfoil.approval.requested")
        await run("approvals", "approve", approval, "--yes", *ledger_of(tmp_path), expect=0, **made.env)
        (decided,) = made.events("counterfoil.approval.decided")
        assert decided.attributes["counterfoil.approval.id"] == requested.attributes["counterfoil.approval.id"]
        assert decided.attributes["counterfoil.approval.state"] == "approved"
        assert violations(made) == []
