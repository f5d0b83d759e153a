"""Servers that others wrote, as they are installed."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.model.tool import ToolResult
from gateway.outbound.upstream.spec import DEFAULT_PATIENCE, HttpSpec, StdioSpec
from tests.upstream.callers import FakeCaller
from tests.upstream.faults import call, children, opened


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No test leaves a child of ours behind."""
    before = set(children())
    yield
    assert set(children()) <= before


def spec(name: str, argv: list[str], *more: str) -> StdioSpec:
    return StdioSpec(name, argv[0], [*argv[1:], *more])


async def structured(catalogue: Any, tool: str, arguments: dict[str, Any]) -> Any:
    answer = await call(catalogue, tool, arguments)
    assert isinstance(answer, ToolResult)
    assert not answer.result.get("isError", False)
    return answer.result.get("structuredContent")


async def test_time_tells_it_in_the_newer_era(time_server: list[str]) -> None:
    async with opened(spec("time", time_server), patience=DEFAULT_PATIENCE) as catalogue:
        health = catalogue.health()["time"]
        told = await structured(catalogue, "get_current_time", {"timezone": "UTC"})
        unknown = await call(catalogue, "convert_time", {"time": "noon"})
    assert (health["era"], health["tools"]) == ("modern", 2)
    assert told["timezone"] == "UTC"
    assert isinstance(unknown, ToolResult)
    assert unknown.result["isError"] is True


def git(place: Path, *command: str) -> str:
    return subprocess.run(["git", "-C", place, *command], check=True, capture_output=True, text=True).stdout


async def test_git_keeps_a_commit_in_the_newer_era(git_server: list[str], tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "user.email", "a@example.org")
    git(tmp_path, "config", "user.name", "a")
    (tmp_path / "note").write_text("hello")
    where = {"repo_path": str(tmp_path)}
    async with opened(spec("git", git_server, "--repository", str(tmp_path)), prefix=True) as catalogue:
        assert catalogue.health()["git"]["era"] == "modern"
        await structured(catalogue, "git__git_add", {**where, "files": ["note"]})
        await structured(catalogue, "git__git_commit", {**where, "message": "one"})
    assert git(tmp_path, "log", "--format=%s") == "one\n"


async def test_filesystem_writes_and_answers_with_sixteen_megabytes(
    filesystem_server: list[str], tmp_path: Path
) -> None:
    place = tmp_path.resolve()
    async with opened(spec("fs", filesystem_server, str(place)), patience=DEFAULT_PATIENCE) as catalogue:
        assert catalogue.health()["fs"]["protocol_version"] == "2025-11-25"
        await structured(catalogue, "write_file", {"path": str(place / "note"), "content": "hello"})
        assert (place / "note").read_text() == "hello"
        (place / "big").write_text("x" * 8 * 2**20)
        read = await structured(catalogue, "read_text_file", {"path": str(place / "big")})
        assert len(read["content"]) == 8 * 2**20


async def test_everything_is_offered_as_it_was_sent(everything_server: list[str]) -> None:
    caller = FakeCaller()
    async with opened(spec("everything", everything_server), patience=DEFAULT_PATIENCE) as catalogue:
        assert catalogue.health()["everything"]["era"] == "legacy"
        names = {tool["name"] for tool in catalogue.tools()}
        answer = await call(catalogue, "echo", {"message": "hello"})
        long = {"duration": 0.2, "steps": 2}
        await call(catalogue, "trigger-long-running-operation", long, meta={"progressToken": "p"}, caller=caller)
    assert {"echo", "trigger-long-running-operation"} <= names
    assert answer == ToolResult({"content": [{"type": "text", "text": "Echo: hello"}]})
    assert len(caller.heard("notifications/progress")) == 2


@contextmanager
def sdk(*options: str) -> Iterator[HttpSpec]:
    server = Path(__file__).parent / "sdk_server.py"
    with subprocess.Popen([sys.executable, server, *options], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield HttpSpec("sdk", f"http://127.0.0.1:{int(process.stdout.readline())}/mcp")
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("options", "version", "names"), [([], "2026-07-28", ["écho"]), (["--legacy"], "2025-11-25", ["écho", "wrong"])]
)
async def test_the_sdk_over_http_is_spoken_to_in_both_eras(options: list[str], version: str, names: list[str]) -> None:
    caller = FakeCaller(modern=version == "2026-07-28")
    arguments = {"region": "Köln", "where": {"floor": 3}, "text": "é"}
    with sdk(*options) as there:
        async with opened(there) as catalogue:
            health = catalogue.health()["sdk"]
            answer = await call(catalogue, "écho", arguments, meta={"progressToken": "p"}, caller=caller)
            wrong = await catalogue.tool("wrong")
            assert catalogue.instructions(caller.party) == "mind the gap"
    assert (health["protocol_version"], health["server"]["name"]) == (version, "sdk")
    assert [tool["name"] for tool in catalogue.tools()] == names
    assert isinstance(answer, ToolResult)
    assert answer.result["structuredContent"] == arguments
    assert answer.result["content"] == [{"type": "text", "text": version}]
    assert [params["progress"] for params in caller.heard("notifications/progress")] == [0, 1, 2]
    assert (wrong is None) is (version == "2026-07-28")
    if wrong is None:
        why = "x-mcp-header is only permitted on integer/string/boolean properties (got 'number')"
        assert health["troubles"] == [f"`wrong` cannot be called: property 'a': {why}"]
