"""The servers that other tests stand on: what each does, and that it starts."""

import asyncio
import json
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from tests import real_servers
from tests.conftest import EXAMPLES
from tests.real_clients import compare, drive, raw
from tests.servers import effects_server as effects


def shipped(path: Path) -> ModuleType:
    """A module of the examples, whose folders are no packages."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


runner = shipped(EXAMPLES / "repo-repair" / "runner_server.py")


async def call(server: list[str] | MCPServer[Any], tool: str, arguments: dict[str, Any]) -> tuple[bool, Any]:
    """Whether it is an error, and its structured content, or its text where it has none."""
    there = StdioServerParameters(command=server[0], args=server[1:]) if isinstance(server, list) else server
    with anyio.fail_after(30):
        async with Client(there) as client:
            result = await client.call_tool(tool, arguments)
    texts = [block.text for block in result.content if block.type == "text"]
    return bool(result.is_error), result.structured_content or texts


class TestEffectsServer:
    @pytest.fixture
    def log(self, tmp_path: Path) -> Path:
        return tmp_path / "log"

    @pytest.fixture
    def bank(self, log: Path) -> MCPServer[Any]:
        return effects.effects_server(effects.EffectLog(log))

    async def test_a_transfer_is_in_the_log_when_it_is_answered(self, bank: MCPServer[Any], log: Path) -> None:
        answer = await call(bank, "transfer", {"amount": 5, "to": "ann"})
        assert answer == (False, {"amount": 5, "to": "ann"})
        assert json.loads(log.read_text()) == {"effect": "transfer", "amount": 5, "to": "ann"}

    async def test_a_lost_response_is_a_real_effect(self, effects_server: list[str], log: Path) -> None:
        there = StdioServerParameters(command=effects_server[0], args=[*effects_server[1:], str(log)])
        with anyio.fail_after(30):
            async with Client(there) as client, anyio.create_task_group() as calls:
                calls.start_soon(client.call_tool, "slow_transfer", {"amount": 7, "to": "bob"})
                while not log.exists():
                    await anyio.sleep(0.01)
                balance = await client.call_tool("balance", {})
                calls.cancel_scope.cancel()
        assert balance.structured_content == {"count": 1, "total": 7}

    async def test_a_lie_is_told_like_the_truth_and_leaves_no_trace(self, bank: MCPServer[Any]) -> None:
        honest = await call(bank, "transfer", {"amount": 5, "to": "ann"})
        assert await call(bank, "transfer_lies", {"amount": 5, "to": "ann"}) == honest
        assert await call(bank, "balance", {}) == (False, {"count": 1, "total": 5})

    async def test_a_failure_is_an_error_result_and_no_effect(self, bank: MCPServer[Any], log: Path) -> None:
        answer = await call(bank, "fail", {"reason": "closed"})
        assert answer == (True, ["Error executing tool fail: closed"])
        assert not log.exists()

    async def test_its_hints_are_those_of_a_bank(self, bank: MCPServer[Any]) -> None:
        async with Client(bank) as client:
            tools = (await client.list_tools()).tools
        hints = {tool.name: tool.annotations and tool.annotations.model_dump(exclude_none=True) for tool in tools}
        assert hints == {
            "transfer": None,
            "slow_transfer": None,
            "transfer_lies": None,
            "balance": {"read_only_hint": True},
            "delete_account": {"destructive_hint": True},
            "fail": None,
        }


PASSING = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n"
FAILING = PASSING.replace("pass", "self.fail('no')")
ENDLESS = PASSING.replace("pass", "import subprocess; subprocess.run(['sleep', '600'])")


class TestRunnerServer:
    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        (tmp_path / "test_good.py").write_text(PASSING)
        (tmp_path / "test_bad.py").write_text(FAILING)
        return tmp_path

    async def test_it_tells_what_the_tests_did(self, runner_server: list[str], project: Path) -> None:
        is_error, report = await call([*runner_server, str(project)], "run_tests", {})
        assert not is_error
        assert (report["exit_code"], report["tests"], report["failures"]) == (1, 2, 1)
        assert "AssertionError: no" in report["output"]
        assert 0 < report["duration_s"] < 30

    def test_it_runs_only_what_it_is_asked_for_and_leaves_nothing_behind(self, project: Path) -> None:
        report = runner.run_tests(project, ["test_good.py"], 30)
        assert (report["exit_code"], report["tests"], report["failures"]) == (0, 1, 0)
        assert {path.name for path in project.iterdir()} == {"test_good.py", "test_bad.py"}

    def test_tests_that_never_end_are_ended_with_all_their_children(self, tmp_path: Path) -> None:
        (tmp_path / "test_endless.py").write_text(ENDLESS)
        with pytest.raises(ToolError, match=r"^the tests did not end within 0\.5 s$"):
            runner.run_tests(tmp_path, [], 0.5)

    @pytest.mark.parametrize("path", ["--help", "../test_elsewhere.py", "/etc/passwd"])
    def test_it_stays_in_its_directory(self, tmp_path: Path, path: str) -> None:
        with pytest.raises(ToolError, match=rf"^`{path}` is no path below the directory$"):
            runner.run_tests(tmp_path, [path], 30)


class TestRealServers:
    async def test_filesystem_writes_a_file(self, filesystem_server: list[str], tmp_path: Path) -> None:
        note = tmp_path.resolve() / "note.txt"
        arguments = {"path": str(note), "content": "hello"}
        is_error, _ = await call([*filesystem_server, str(tmp_path)], "write_file", arguments)
        assert not is_error
        assert note.read_text() == "hello"

    async def test_everything_echoes(self, everything_server: list[str]) -> None:
        assert await call(everything_server, "echo", {"message": "hello"}) == (False, ["Echo: hello"])

    async def test_git_names_what_is_no_repository(self, git_server: list[str], tmp_path: Path) -> None:
        is_error, texts = await call(git_server, "git_status", {"repo_path": str(tmp_path)})
        assert is_error
        assert str(tmp_path) in texts[0]

    async def test_time_tells_it(self, time_server: list[str]) -> None:
        is_error, told = await call(time_server, "get_current_time", {"timezone": "UTC"})
        assert not is_error
        assert told["timezone"] == "UTC"


def command_of(name: str, place: Path) -> list[str]:
    """The command line of a real server, whose files are in that folder.

    Raises: CannotInstall.
    """
    match name:
        case "filesystem":
            return [*real_servers.npm_server(real_servers.FILESYSTEM), str(place)]
        case "everything":
            return [*real_servers.npm_server(real_servers.EVERYTHING), "stdio"]
        case "memory":
            return real_servers.npm_server(real_servers.MEMORY)
        case "sequential-thinking":
            return real_servers.npm_server(real_servers.SEQUENTIAL_THINKING)
        case "git" | "time":
            return [sys.executable, "-m", f"mcp_server_{name}"]
        case "fetch":
            return real_servers.python_server(real_servers.FETCH, "mcp-server-fetch")
        case "sqlite":
            database = str(place / "data.db")
            return [*real_servers.python_server(real_servers.SQLITE, "mcp-server-sqlite"), "--db-path", database]
        case _:
            raise ValueError(name)


REAL = ["filesystem", "memory", "everything", "sequential-thinking", "git", "time", "fetch", "sqlite"]


@pytest.mark.slow
@pytest.mark.parametrize("era", [pytest.param(raw.LEGACY, marks=pytest.mark.long), raw.MODERN])
@pytest.mark.parametrize("name", REAL)
async def test_what_a_real_server_offers_is_offered_through_the_gateway(name: str, era: str, tmp_path: Path) -> None:
    """Lists, capabilities and instructions, asked for as raw JSON-RPC; an older server is offered in both eras."""
    try:
        command = command_of(name, tmp_path)
    except real_servers.CannotInstall as error:
        if os.environ.get("CI"):
            pytest.fail(f"no `{name}` to test against: {error}")
        pytest.skip(f"NOT TESTED AGAINST `{name}`: {error}")
    direct, through = await asyncio.gather(
        raw.offered(command, era), raw.offered(drive.wrapped(command, tmp_path), era)
    )
    direct = direct or await raw.offered(command, raw.LEGACY)
    assert direct is not None
    assert through is not None
    assert direct["steps"]["tools/list"]
    assert compare.compared(direct, through) == []
