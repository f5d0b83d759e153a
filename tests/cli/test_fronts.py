"""`wrap` and `serve` in front of real servers, driven by requests in the shapes of Claude Code and Codex."""

import json
import shlex
import signal
import time
from pathlib import Path

import anyio
import pytest

from gateway.inbound.mcp.own_tools import OWN_TOOLS
from tests.cli.agents import counterfoil, ledger_of, post, run

pytestmark = pytest.mark.anyio


def dumped(result: dict[str, object]) -> dict[str, object]:
    """The result without what is ours or the upstream's era's: the written differences."""
    return {key: value for key, value in result.items() if key not in {"_meta", "resultType"}}


async def test_a_claude_code_shaped_client_reaches_the_real_filesystem_server(
    filesystem_server: list[str], tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.txt").write_text("αβγ\n")
    async with counterfoil("wrap", *ledger_of(tmp_path), "--", *filesystem_server, str(files)) as window:
        listed = (await window.request("tools/list"))["result"]["tools"]
        assert {"read_text_file", "write_file"} <= {tool["name"] for tool in listed}
        read = await window.call("read_text_file", {"path": str(files / "a.txt")}, **{"claudecode/toolUseId": "tu_1"})
        assert read["structuredContent"] == {"content": "αβγ\n"}
        assert read["_meta"]["counterfoil/record"]["phase"] == "open"
        asked = await window.call("write_file", {"path": str(files / "b.txt"), "content": "b"})
        told = json.loads(asked["content"][0]["text"])
        assert asked["isError"] is True
        assert asked["structuredContent"] == told
        assert told["outcome"] == "needs_approval"
        assert not (files / "b.txt").exists()
        command = [*shlex.split(told["approval"]["approve_at"]), "--yes"]
        assert command[0] == "counterfoil"
        await run(*command[1:], "-m", "fine")
        assert not (files / "b.txt").exists()
        done = await window.call("write_file", {"path": str(files / "b.txt"), "content": "b"})
        assert done.get("isError") is not True
        assert (files / "b.txt").read_text() == "b"
        again = await window.call("write_file", {"path": str(files / "b.txt"), "content": "c"})
        assert again["structuredContent"]["outcome"] == "needs_approval"
    shown, _ = await run("show", "last", "--json", *ledger_of(tmp_path))
    kinds = [record["event"]["kind"] for record in json.loads(shown)]
    assert kinds.count("intent.recorded") == kinds.count("receipt.recorded") == 2
    assert kinds.count("approval.requested") == 2


@pytest.mark.slow
@pytest.mark.long
async def test_a_codex_shaped_client_gets_the_same_tools_and_the_same_results(
    filesystem_server: list[str], tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.txt").write_text("a")
    async with (
        counterfoil("wrap", *ledger_of(tmp_path), "--", *filesystem_server, str(files)) as modern,
        counterfoil("wrap", *ledger_of(tmp_path), "--", *filesystem_server, str(files)) as legacy,
    ):
        await legacy.codex()
        lists = [(await one.request("tools/list"))["result"]["tools"] for one in (modern, legacy)]
        assert lists[0] == lists[1]
        arguments = {"path": str(files / "a.txt")}
        ids = {"callId": "call_1", "threadId": "th_1"}
        results = [
            await modern.call("read_text_file", arguments),
            await legacy.call("read_text_file", arguments, **ids),
        ]
        assert dumped(results[0]) == dumped(results[1])
        assert "resultType" not in results[1]


async def test_a_window_that_is_killed_mid_call_leaves_a_hold_that_binds_every_other(
    effects_server: list[str], tmp_path: Path
) -> None:
    log = tmp_path / "effects.log"
    call = {"amount": 5, "to": "anna"}
    server = ("wrap", *ledger_of(tmp_path), "--", *effects_server, str(log))
    async with counterfoil(*server) as window:
        await window.request("tools/list")
        await window.write(
            {"jsonrpc": "2.0", "id": 99, "method": "tools/call",
             "params": window._params({"name": "slow_transfer", "arguments": call}, {})}
        )  # fmt: skip
        with anyio.fail_after(20):
            while not (log.exists() and log.read_text()):
                await anyio.sleep(0.02)
        window.process.send_signal(signal.SIGKILL)
        await window.process.wait()
    assert len(log.read_text().splitlines()) == 1
    async with counterfoil(*server) as other:
        held = await other.call("slow_transfer", call)
        assert held["structuredContent"]["outcome"] == "held"
        assert held["structuredContent"]["executed"] == "unknown"
        attempt = held["structuredContent"]["attempt"]
        assert (await other.call("transfer", {"amount": 1, "to": "bob"})).get("isError") is not True
    assert len(log.read_text().splitlines()) == 2
    shown, _ = await run("show", attempt.rpartition(".")[0], "--json", *ledger_of(tmp_path))
    assert json.loads(shown)[-1]["event"]["kind"] in {"intent.recorded", "attempt.unknown"}


async def test_a_lost_response_times_out_is_held_and_a_person_settles_it(
    effects_server: list[str], tmp_path: Path
) -> None:
    log, policy = tmp_path / "effects.log", tmp_path / "policy.yaml"
    policy.write_text(
        "workflow: short\ntools: {slow_transfer: {effect: write, timeout_s: 1, grace_s: 0}}\n"
        "transitions: [{name: any, tools: ['*']}]\n"
    )
    call = {"amount": 5, "to": "anna"}
    options = ("--policy", str(policy), *ledger_of(tmp_path))
    async with counterfoil("wrap", *options, "--", *effects_server, str(log)) as window:
        lost = (await window.call("slow_transfer", call))["structuredContent"]
        assert (lost["outcome"], lost["executed"]) == ("timeout_unknown", "unknown")
        assert (await window.call("slow_transfer", call))["structuredContent"]["outcome"] == "held"
        await run("resolve", lost["attempt"], "--happened", "-m", "it is in the log", *ledger_of(tmp_path))
        settled = (await window.call("slow_transfer", call))["structuredContent"]
        assert (settled["outcome"], settled["executed"]) == ("held", True)
    assert len(log.read_text().splitlines()) == 1


async def test_serve_federates_over_http_judges_by_run_token_and_says_how_it_is(
    git_server: list[str], time_server: list[str], tmp_path: Path
) -> None:
    config = tmp_path / "gateway.yaml"
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "p.yaml").write_text(
        "workflow: w\nannotations: trust\nbudgets: {calls: 2}\n"
        "transitions: [{name: read, tools: ['*'], effect: [read]}]\n"
    )
    config.write_text(
        json.dumps(
            {
                "listen": {"port": 0},
                "ledger": f"sqlite:///{tmp_path / 'ledger.db'}",
                "policies": "policies",
                "run_tokens": {"key": "k" * 40},
                "mcpServers": {
                    "git": {"command": git_server[0], "args": git_server[1:]},
                    "time": {"command": time_server[0], "args": time_server[1:]},
                    "dead": {"command": "no-such-program"},
                },
            }
        )
    )
    token, _ = await run("run", "open", "--config", str(config), "--workflow", "w", "--principal", "agent-7")
    async with counterfoil("serve", "--config", str(config)) as gateway:
        url = await gateway.hear(r"listening at (http://\S+)/mcp")
        await gateway.hear(r"upstream (time): 2 tools")
        status, answer = await post(f"{url}/mcp", "tools/list")
        names = [tool["name"] for tool in answer["result"]["tools"]]
        assert status == 200
        assert {"git__git_status", "time__get_current_time"} <= set(names)
        now = {"name": "time__get_current_time", "arguments": {"timezone": "UTC"}}
        for _ in range(2):
            _, answer = await post(f"{url}/runs/{token.strip()}/mcp", "tools/call", now)
            assert answer["result"]["structuredContent"]["timezone"] == "UTC"
        over = [
            (await post(f"{url}/mcp", "tools/call", now, headers={"Counterfoil-Run": token.strip()}))[1]["result"]
            for _ in range(2)
        ]
        assert over[0]["structuredContent"]["outcome"] == "budget_exhausted"
        assert over[0]["structuredContent"]["terminal"] is True
        assert over[0]["structuredContent"] == over[1]["structuredContent"]
        status, answer = await post(f"{url}/runs/run_42/mcp", "tools/call", now)
        assert status in {401, 403}
        assert "counterfoil run open" in json.dumps(answer)
        dead = {"name": "dead__anything", "arguments": {}}
        _, answer = await post(f"{url}/mcp", "tools/call", dead)
        assert answer["result"]["structuredContent"]["outcome"] == "upstream_unavailable"
        begun = time.monotonic()
        gateway.process.send_signal(signal.SIGTERM)
        await gateway.process.wait()
        assert time.monotonic() - begun < 5


async def test_wrap_offers_http_and_takes_a_url(time_server: list[str], tmp_path: Path) -> None:
    own = ("wrap", *ledger_of(tmp_path), "--listen", "127.0.0.1:0")
    async with counterfoil(*own, "--", *time_server) as inner:
        address = await inner.hear(r"listening at (http://\S+)")
        await inner.hear(r"(2) tools")
        async with counterfoil("wrap", *ledger_of(tmp_path), address) as outer:
            zone = {"timezone": "Asia/Tokyo"}
            told = await outer.call("get_current_time", zone)
            assert told["structuredContent"]["timezone"] == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("wrap", "--listen", "0.0.0.0:80", "--", "x"), "`0.0.0.0` is not a loopback address"),
        (("wrap", "--listen", "nonsense", "--", "x"), "`nonsense` is no HOST:PORT"),
        (("wrap", "ftp://x"), "`ftp://x` is no address of an MCP server"),
        (("wrap", "--policy", "no-such.yaml", "--", "x"), "no-such.yaml"),
        (("wrap", "--ledger", "mysql://db/x", "--", "x"), "mysql"),
        (("serve", "--config", "no-such.yaml"), "no-such.yaml"),
        (("show", "last", "--ledger", "no-such.db"), "there is no ledger at `no-such.db` yet"),
        (("check", "no-such-folder.yaml"), "no-such-folder.yaml"),
    ],
)
async def test_bad_input_gets_one_clear_line_and_nothing_starts(
    args: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    expect = 2 if args[0] in {"serve", "check"} or "--listen" in args or "--policy" in args or "ftp" in args[1] else 1
    _, said = await run(*args, expect=expect, HOME=str(tmp_path), XDG_STATE_HOME=str(tmp_path))
    assert message in said
    assert "Traceback" not in said
    assert not (tmp_path / "counterfoil").exists()


async def test_a_server_that_will_not_start_is_said_and_calls_to_it_are_typed(tmp_path: Path) -> None:
    async with counterfoil("wrap", *ledger_of(tmp_path), "--", "no-such-program") as window:
        listed = (await window.request("tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in listed] == [*OWN_TOOLS]
        told = (await window.call("anything", {}))["structuredContent"]
        assert (told["outcome"], told["executed"]) == ("upstream_unavailable", False)
        assert await window.hear(r"(cannot be used)")
